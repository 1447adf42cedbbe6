"""Slurm as the machine room: it keeps the jobs and starts them where Tenure says."""

from tenure.engines.slurm.engine import SlurmEngine
from tenure.engines.slurm.settings import SlurmSettings
from tenure.engines.slurm.shadow import ShadowSlurm

__all__ = ["ShadowSlurm", "SlurmEngine", "SlurmSettings"]
