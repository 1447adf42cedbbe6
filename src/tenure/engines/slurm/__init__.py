"""Slurm as the machine room: it keeps the jobs and starts them where Tenure says."""

from tenure.engines.slurm.engine import SlurmEngine
from tenure.engines.slurm.settings import SlurmSettings

__all__ = ["SlurmEngine", "SlurmSettings"]
