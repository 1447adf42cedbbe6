"""A small controller that caps jobs under a tree of breakers, played reading by reading.

Above `high` of any breaker's limit the jobs that lose least are capped at once, so that every breaker comes
to `low`; below `low` everywhere limits rise again, slowly and after a rest, so that nothing swings. When
readings stay away too long every job goes to its floor: what cannot be seen must be safe. Draw follows a
limit with a delay; a breaker that carries too much for too long trips.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tenure.planner.capping import CannotShed
from tenure.planner.capping_tree import Tree, least_caps, lost_racks
from tenure.planner.power_curves import Curve

Array = NDArray[np.float64]
MARGIN_W = 1.0  #: a limit lower than this below the last is worth setting


@dataclass(frozen=True)
class Settings:
    """Thresholds are parts of a breaker's limit; times in seconds."""

    base_w: float
    floor_w: float
    high: float = 0.98
    low: float = 0.94
    every_s: float = 1.0
    settle_s: float = 2.0
    rise_w: float = 5.0
    hold_s: float = 30.0
    patience: int = 3
    trip_s: float = 60.0


class CappingPlayed(NamedTuple):
    """By reading: `caps_w` (× jobs), `drawn` (the fullest breaker, in parts of its limit), `blind`.

    `lost_racks`: mean work lost, in racks; `over_s`: longest any breaker was passed; `tripped`: its name.
    """

    at_s: Array
    caps_w: Array
    drawn: Array
    blind: NDArray[np.bool_]
    lost_racks: float
    over_s: float
    tripped: str | None


def play_capping(
    tree: Tree,
    curve: Curve,
    settings: Settings,
    wanted: Array,
    seen: NDArray[np.bool_],
    *,
    even: bool = False,
) -> CappingPlayed:
    """Play it. `wanted`: readings × jobs, what each uses of its limit, 0 … 1; `seen`: readings that come.

    `even`: all jobs get one limit, as a breaker that knows nothing of jobs would do.
    """
    jobs, below, limits_w = len(tree.jobs), tree.below(), tree.limits_w
    caps_w, really_w = np.full(jobs, settings.base_w), np.full(jobs, settings.base_w)
    follows = -np.expm1(-settings.every_s / settings.settle_s)
    told_caps, told_drawn = np.empty((len(wanted), jobs)), np.empty(len(wanted))
    missed, calm_s, lost = 0, 0.0, 0.0
    over_s, longest_s, tripped = np.zeros(len(limits_w)), 0.0, None
    for step in range(len(wanted)):
        really_w += follows * (caps_w - really_w)
        load = below @ tree.rack_w(wanted[step] * really_w)
        told_caps[step], told_drawn[step] = caps_w, float((load / limits_w).max())
        lost += lost_racks(tree, curve, settings.base_w, np.clip(really_w, curve.low_w, settings.base_w))
        over_s = np.where(load > limits_w, over_s + settings.every_s, 0.0)
        longest_s = max(longest_s, float(over_s.max()))
        if tripped is None and longest_s > settings.trip_s:
            tripped = tree.breakers[int(over_s.argmax())].name
        if not seen[step]:
            missed += 1
            if missed >= settings.patience:
                caps_w, calm_s = np.full(jobs, settings.floor_w), 0.0
            continue
        missed = 0
        if (load > settings.high * limits_w).any():
            lower = _fitting(tree, curve, settings, wanted[step], even)
            if (lower < caps_w - MARGIN_W).any():
                caps_w = np.minimum(caps_w, lower)
            calm_s = 0.0
        elif (load < settings.low * limits_w).all():
            calm_s += settings.every_s
            if calm_s >= settings.hold_s:
                caps_w, calm_s = np.minimum(settings.base_w, caps_w + settings.rise_w), 0.0
        else:
            calm_s = 0.0
    at_s = settings.every_s * np.arange(len(wanted), dtype=float)
    return CappingPlayed(at_s, told_caps, told_drawn, ~seen, lost / len(wanted), longest_s, tripped)


def _fitting(tree: Tree, curve: Curve, settings: Settings, wanted: Array, even: bool) -> Array:
    """Limits with which every breaker comes to `low`, as the jobs draw now; else to `high`; else floors."""
    share = float(np.clip(wanted.max(), 1e-6, 1.0))  # the busiest job's: no breaker is passed by the others'
    a_rack_w = tree.gpus * tree.multiplier
    fixed_w = tree.below().sum(axis=1) * a_rack_w * tree.overhead_w
    racks = np.maximum(tree.below().sum(axis=1), 1)
    for part in (settings.low, settings.high):  # where the low one cannot be reached, the high one may
        # watts that follow the limits, as if every limit were used up
        limits_w = fixed_w + (part * tree.limits_w - fixed_w) / share
        fits = float(np.min((limits_w - fixed_w) / (racks * a_rack_w)))
        if even and fits >= settings.floor_w:
            return np.full(len(tree.jobs), min(settings.base_w, fits))
        if not even:
            with contextlib.suppress(CannotShed):
                return least_caps(tree, curve, settings.base_w, settings.floor_w, limits_w)
    return np.full(len(tree.jobs), settings.floor_w)


def drawn_use(
    rng: np.random.Generator, jobs: int, readings: int, every_s: float, busy: float, swing: float
) -> Array:
    """What jobs use of their limit, reading by reading: around `busy`, straying by `swing` over minutes."""
    memory = np.exp(-every_s / 60.0)
    noise = rng.normal(0.0, swing * np.sqrt(1.0 - memory**2), (readings, jobs))
    use = np.empty((readings, jobs))
    stray = rng.normal(0.0, swing, jobs)
    for step in range(readings):
        stray = memory * stray + noise[step]
        use[step] = busy + stray
    return np.clip(use, 0.05, 1.0)
