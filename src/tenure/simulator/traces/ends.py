"""How other schedulers call the end of a job, in our words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tenure.core.words import End

#: States of Slurm (`man sacct`), of traces taken from it (Helios, Acme), and words of other clusters.
ENDS: Mapping[str, End] = {
    "COMPLETED": End.FINISHED,
    "FINISHED": End.FINISHED,
    "DONE": End.FINISHED,
    "SUCCEEDED": End.FINISHED,
    "SUCCESS": End.FINISHED,
    "PASS": End.FINISHED,
    "TERMINATED": End.FINISHED,  # Alibaba PAI: only these succeeded
    "CD": End.FINISHED,
    "FAILED": End.FAILED,
    "F": End.FAILED,
    "ERROR": End.FAILED,
    "OUT_OF_MEMORY": End.FAILED,
    "OUT_OF_ME": End.FAILED,  # as cut by sacct without --parsable
    "OOM": End.FAILED,
    "BOOT_FAIL": End.NODE_FAILED,
    "BF": End.NODE_FAILED,
    "NODE_FAIL": End.NODE_FAILED,
    "NF": End.NODE_FAILED,
    "NODE_FAILED": End.NODE_FAILED,
    "LAUNCH_FAILED": End.FAILED,
    "RECONFIG_FAIL": End.FAILED,
    "PREEMPTED": End.PREEMPTED,
    "PR": End.PREEMPTED,
    "REQUEUED": End.PREEMPTED,
    "RQ": End.PREEMPTED,
    "REVOKED": End.CANCELLED,
    "RV": End.CANCELLED,
    "CANCELLED": End.CANCELLED,
    "CANCELED": End.CANCELLED,
    "CA": End.CANCELLED,
    "KILLED": End.CANCELLED,
    "TIMEOUT": End.TIMED_OUT,
    "TIMED_OUT": End.TIMED_OUT,
    "TO": End.TIMED_OUT,
    "DEADLINE": End.TIMED_OUT,
    "DL": End.TIMED_OUT,
}


def end_of(state: str) -> End:
    """The end a state tells; NOT_YET where it tells none. `CANCELLED by 1000` and `CANCELLED+` are known."""
    word = state.strip().upper().rstrip("+")
    if word not in ENDS:
        word = word.split(" ", 1)[0]
    return ENDS.get(word, End.NOT_YET)


def ends_of(states: Sequence[str]) -> NDArray[np.int8]:
    """`end_of` each state."""
    known = {state: int(end_of(state)) for state in set(states)}
    return np.fromiter((known[state] for state in states), np.int8, len(states))
