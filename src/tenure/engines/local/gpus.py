"""Which GPUs are there, and which of them does an attempt get?

Nodes of a lab may all stand for this one machine. Its slots are numbered through, node after node, so that no
two attempts are ever given one number; with real GPUs (as NVML counts them) a slot is a GPU.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tenure.engines.protocol import OrderRefused


class Slots(NamedTuple):
    """Slots of each node: `first` + 0 … `gpus` - 1."""

    gpus: Mapping[str, int]
    first: Mapping[str, int]
    real: int  #: GPUs that NVML counts; 0 where there are none, or no NVML
    remark: str = ""  #: what a person should know about them

    def choose(self, wanted: Mapping[str, int], taken: Iterable[int]) -> list[int]:
        """The lowest free slots of each node. OrderRefused where they are too few."""
        used = set(taken)
        chosen: list[int] = []
        for node, count in wanted.items():
            if node not in self.gpus:
                raise OrderRefused(f"there is no node {node} here")
            free = [slot for slot in self.of(node) if slot not in used]
            if count < 0 or len(free) < count:
                raise OrderRefused(f"{node} has {len(free)} GPUs free, and {count} are asked for")
            chosen += free[:count]
        return chosen

    def of(self, node: str) -> range:
        """All slots of a node."""
        return range(self.first[node], self.first[node] + self.gpus[node])


def count_gpus() -> int:
    """GPUs of this machine by NVML; 0 where it has none."""
    try:
        import pynvml
    except ImportError:
        return 0
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return 0
    try:
        return int(pynvml.nvmlDeviceGetCount())
    except pynvml.NVMLError:
        return 0
    finally:
        pynvml.nvmlShutdown()


def slots_of(nodes: Mapping[str, int] | None, real: int) -> Slots:
    """The slots of declared nodes, or, where none are declared, one node of this machine's GPUs."""
    declared = dict(nodes) if nodes is not None else {platform.node() or "localhost": real}
    first, total = {}, 0
    for name, gpus in declared.items():
        first[name] = total
        total += gpus
    remark = ""
    if real and total > real:
        remark = (
            f"{total} GPUs are declared and this machine has {real}: CUDA will not find all that are given"
        )
    elif not real and total:
        remark = "no GPU was found by NVML: slots are counted, nothing is behind them"
    return Slots(declared, first, real, remark)
