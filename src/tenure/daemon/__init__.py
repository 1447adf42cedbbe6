"""The live loop: observe, reconcile, decide, record, then carry out."""
