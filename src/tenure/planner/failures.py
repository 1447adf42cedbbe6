"""How often things fail, from counts and logs: rates with credible intervals, causes, lives, lemon nodes.

Rates are events per 1,000 node-days; a node is 8 GPUs where GPUs are counted. Intervals are those of a Gamma
posterior with Jeffreys' prior, so that no failures seen is not a rate of 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]
JEFFREYS = 0.5
CONFIDENCE = 0.95
GPUS_A_NODE = 8
FARTHEST = 2.0  #: times a size that a rate measured at it is carried to without a word
LEMON_CHANCE = 0.01  #: that any node of a fleet without lemons is called one


class Measured(NamedTuple):
    """A rate per 1,000 node-days: `low` to `high` holds it with 95 %."""

    events: float
    node_days: float
    rate: float
    low: float
    high: float


def rate_of(events: float, node_days: float, confidence: float = CONFIDENCE) -> Measured:
    """The rate that so many events in so many node-days tell of."""
    tail = (1.0 - confidence) / 2.0
    low, high = (
        float(special.gammaincinv(events + JEFFREYS, p)) / node_days * 1000.0 for p in (tail, 1.0 - tail)
    )
    return Measured(events, node_days, events / node_days * 1000.0, low if events else 0.0, high)


def mttf_h(rate: float, nodes: float) -> float:
    """Mean hours between failures of a job on `nodes`, at `rate` per 1,000 node-days."""
    return 24.0 * 1000.0 / (rate * nodes)


def gpu_days_per_event(rate: float) -> float:
    """GPU-days between failures, nodes of 8."""
    return GPUS_A_NODE * 1000.0 / rate


class Cause(NamedTuple):
    """One cause's part of all events, from counts, and its rate."""

    name: str
    share: float
    measured: Measured


def by_cause(counts: Mapping[str, float], node_days: float) -> list[Cause]:
    """Causes, the commonest first. Shares are computed from counts and sum to 1."""
    total = sum(counts.values())
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [Cause(name, count / total, rate_of(count, node_days)) for name, count in ordered]


# --- the published record of one run ------------------------------------------------------------------

#: Llama 3 405B, arXiv:2407.21783, Table 5: unexpected interruptions in 54 days on 16,384 H100.
LLAMA_3: Mapping[str, int] = {
    "faulty GPU": 148,
    "GPU HBM3 memory": 72,
    "software bug": 54,
    "network switch/cable": 35,
    "host maintenance": 32,
    "GPU SRAM memory": 19,
    "GPU system processor": 17,
    "NIC": 7,
    "NCCL watchdog timeouts": 7,
    "silent data corruption": 6,
    "GPU thermal interface + sensor": 6,
    "SSD": 3,
    "power supply": 3,
    "server chassis": 2,
    "IO expansion board": 2,
    "dependency": 2,
    "CPU": 2,
    "system memory": 2,
}
LLAMA_3_DAYS, LLAMA_3_GPUS, LLAMA_3_PLANNED = 54.0, 16_384, 47
LLAMA_3_OF_GPU = frozenset(
    (
        "faulty GPU",
        "GPU HBM3 memory",
        "GPU SRAM memory",
        "GPU system processor",
        "silent data corruption",
        "GPU thermal interface + sensor",
    )
)
LLAMA_3_NOT_HARDWARE = frozenset(("software bug", "dependency", "NCCL watchdog timeouts", "host maintenance"))


# --- lives ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Weibull:
    """Lives of parts: `shape` below 1 is infant mortality, above 1 ageing; `scale` in the lives' unit.

    `low`, `high`: the shape's 95 % interval, from the curvature of the likelihood.
    """

    shape: float
    scale: float
    low: float
    high: float
    events: int

    @property
    def verdict(self) -> str:
        """What the shape says, where its interval lets it."""
        if self.high < 1.0:
            return "infant mortality"
        return "ageing" if self.low > 1.0 else "no sign of either"


def weibull_of(lives: Array, failed: NDArray[np.bool_]) -> Weibull:
    """The most likely Weibull of lives above 0, of which those not `failed` were still going (censored).

    ValueError with fewer than two failures: they have no spread.
    """
    events = int(failed.sum())
    if events < 2 or not (lives > 0).all():
        raise ValueError("at least two failures, and lives above 0")
    logs = np.log(lives / lives.max())
    mean_log = float(logs[failed].mean())

    def slope(shape: float) -> float:
        weights = np.exp(shape * logs)
        return 1.0 / shape + mean_log - float(weights @ logs / weights.sum())

    low, high = 1e-3, 1.0
    while slope(high) > 0 and high < 1e4:
        low, high = high, 2.0 * high
    for _ in range(200):
        middle = (low + high) / 2.0
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    shape, weights = low, np.exp(low * logs)
    total = float(weights.sum())
    first, second = float(weights @ logs) / total, float(weights @ logs**2) / total
    error = 1.0 / math.sqrt(events * (1.0 / shape**2 + second - first**2))
    z = 1.959964
    factor = math.exp(z * error / shape)
    scale = float(lives.max()) * (total / events) ** (1.0 / shape)
    return Weibull(shape, scale, shape / factor, shape * factor, events)


# --- lemons ----------------------------------------------------------------------------------------------


class Lemon(NamedTuple):
    """A node with more failures than chance gives any of a fleet's."""

    node: str
    events: int
    expected: float


@dataclass(frozen=True)
class Lemons:
    """`of_nodes`, `of_events`: which part of nodes they are and which part of failures they have."""

    found: tuple[Lemon, ...]
    of_nodes: float
    of_events: float
    rate_without: float  #: failures a node once they are taken out, in parts of what it was


def lemons_of(counts: Mapping[str, int], nodes: int, chance: float = LEMON_CHANCE) -> Lemons:
    """Nodes whose count no node of an even fleet would reach with more than `chance`, in all.

    What is usual is told from the others: lemons are taken out and it is told anew until none is found.
    """
    found: dict[str, Lemon] = {}
    total = sum(counts.values())
    while True:
        left = {node: count for node, count in counts.items() if node not in found}
        usual = sum(left.values()) / max(1, nodes - len(found))
        new = [
            Lemon(node, count, usual)
            for node, count in left.items()
            if usual > 0 and count > 1 and float(special.gammainc(count, usual)) < chance / nodes
        ]
        if not new or len(found) + len(new) >= nodes:
            break
        found |= {lemon.node: lemon for lemon in new}
    listed = tuple(sorted(found.values(), key=lambda lemon: (-lemon.events, lemon.node)))
    of_events = sum(lemon.events for lemon in listed) / total if total else 0.0
    of_nodes = len(listed) / nodes
    return Lemons(listed, of_nodes, of_events, (1.0 - of_events) / (1.0 - of_nodes))


# --- other sizes -------------------------------------------------------------------------------------------


class OfSize(NamedTuple):
    """Failures of jobs of one size."""

    gpus: int
    events: float
    gpu_days: float


def mttf_at(sizes: Sequence[OfSize], gpus: int) -> tuple[Measured, float, str | None]:
    """(rate, MTTF in hours, warning) of a job of `gpus`, by the nearest size measured.

    One research cluster's jobs of 1,024 GPUs failed 3.7 times as often per node as its large ones
    are projected to: what stops small jobs is not what stops large ones.
    """
    nearest = min(sizes, key=lambda size: abs(math.log(size.gpus / gpus)))
    measured = rate_of(nearest.events, nearest.gpu_days / GPUS_A_NODE)
    far = max(gpus / nearest.gpus, nearest.gpus / gpus)
    warning = None
    if far > FARTHEST:
        warning = (
            f"measured on {nearest.gpus:,} GPUs and carried to {gpus:,}, {far:.0f} times away: rates of "
            "small jobs have misled by 3.7 times; measure nearer"
        )
    hours = mttf_h(measured.rate, gpus / GPUS_A_NODE) if measured.rate else math.inf
    return measured, hours, warning
