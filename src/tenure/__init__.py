"""Tenure shares, plans and audits the GPU time of a lab's clusters."""

__version__ = "0.1.0"
