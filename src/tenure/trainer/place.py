"""Which rank of how many is this process, in which attempt? Read from torchrun, Slurm or Tenure itself."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import NamedTuple

from tenure.trainer import words

#: (rank, world size, rank on its node) as each launcher names them; the innermost launcher first.
LAUNCHERS = (
    ("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
)


class Place(NamedTuple):
    """Where a process stands in its gang."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    attempt: int = 0
    by: str = "alone"  #: who told: torchrun, slurm, tenure or nobody
    host: str = ""


def place_of(env: Mapping[str, str]) -> Place:
    """The place that an environment names. ValueError where it contradicts itself."""
    attempt = next((whole(env, key) for key in words.ATTEMPT if env.get(key)), 0)
    host = socket.gethostname()
    for by, rank, world, local in LAUNCHERS:
        # an sbatch script has SLURM_PROCID too; without srun it is one process of one
        if env.get(rank) and (by != "slurm" or "SLURM_STEP_ID" in env):
            found = Place(whole(env, rank), whole(env, world, 1), whole(env, local, 0), attempt, by, host)
            if not 0 <= found.rank < found.world:
                raise ValueError(f"{rank}={found.rank}, but {world}={found.world}: which rank is this?")
            return found
    return Place(attempt=attempt, by="tenure" if "TENURE_JOB" in env else "alone", host=host)


def whole(env: Mapping[str, str], key: str, default: int = 0) -> int:
    """A whole number of the environment. ValueError names the variable."""
    text = env.get(key, "")
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{key}={text[:40]!r} is no whole number") from None
