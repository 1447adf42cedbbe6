"""What part of its time a job that fails and saves spends on work it keeps: four conventions, each named.

All arguments of one function share one unit of time:
    mtbf      M, mean time between failures that stop the whole job
    recovery  R, from the failure until work goes on: detect, wait, replace, restart, reload; no rework
    blocking  d, what one save keeps the job from working
    every     t, useful work between two saves
    persist   P, how much older than its save the newest usable save is (saves written in the background)

`exact`, `renewal` and `first_order` read M as uptime between failures; `wall` reads it as wall time,
recovery included, which at the same number gives a lower answer: 0.444 against 0.643 at M = 18, R = 10.
Sources: Daly (2006) for the exact model; Kokolis et al. (2025) for the first order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from tenure.planner import save_interval

EXACT, RENEWAL, FIRST_ORDER, WALL = CONVENTIONS = ("exact", "renewal", "first_order", "wall")
RANGE = 0.2  #: the first order is read up to so much time lost with a failure, in parts of M
APART = 0.01  #: and while it lies within so much of the exact model
CLOSE = 1e-12
HALVINGS = 200

MEANING = {
    EXACT: "failures (Poisson, M of uptime apart) may also strike saves and recovery",
    RENEWAL: "failures (M of uptime apart) strike work and saves, never recovery",
    FIRST_ORDER: "half an interval and one recovery lost with each failure, saves on top; small losses only",
    WALL: "one recovery lost every M of wall time; saves and rework left out",
}


@dataclass(frozen=True)
class Saves:
    """`every` None: the exact optimum, worked out anew for each mtbf and blocking."""

    blocking: float = 0.0
    every: float | None = None
    persist: float = 0.0


@dataclass(frozen=True)
class Run:
    """One synchronous job."""

    mtbf: float
    recovery: float
    saves: Saves = Saves()

    @property
    def every(self) -> float:
        """Useful work between saves, chosen or best."""
        if self.saves.every is not None:
            return self.saves.every
        return save_interval.exact(self.mtbf, self.saves.blocking)

    def ettr(self, convention: str = EXACT) -> float:
        """The part of time spent on work that is kept. Outside its range a formula may go below 0."""
        return _ETTR[convention](self)

    @property
    def lost_with_failure(self) -> float:
        """Recovery and mean rework, in parts of M: what the first order takes for small."""
        return (self.recovery + self.saves.persist + self.every / 2.0) / self.mtbf


def _kept_of_uptime(run: Run) -> float:
    """t / (M (e^((t+d)/M) - 1)): the part of uptime whose work is kept."""
    every, period = run.every, (run.every + run.saves.blocking) / run.mtbf
    if period == 0.0:
        return 1.0
    return every / run.mtbf * math.exp(-period) / -math.expm1(-period)


def _exact(run: Run) -> float:
    return math.exp(-(run.recovery + run.saves.persist) / run.mtbf) * _kept_of_uptime(run)


def _renewal(run: Run) -> float:
    return _kept_of_uptime(run) * run.mtbf / (run.mtbf + run.recovery + run.saves.persist)


def _first_order(run: Run) -> float:
    every = run.every
    saving = run.saves.blocking / every if every else 0.0
    return (1.0 - run.lost_with_failure) / (1.0 + saving)


def _wall(run: Run) -> float:
    return 1.0 - run.recovery / run.mtbf


_ETTR: dict[str, Callable[[Run], float]] = {
    EXACT: _exact,
    RENEWAL: _renewal,
    FIRST_ORDER: _first_order,
    WALL: _wall,
}


class Buckets(NamedTuple):
    """Where the wall time goes under the exact model, in parts that sum to 1."""

    productive: float
    saving: float  #: of saves whose work is kept
    rework: float  #: work and saves lost with failures, and work redone because the save was not yet usable
    recovery: float  #: also of recoveries that failed themselves


def buckets(run: Run) -> Buckets:
    """The exact model's time, split: an interval takes M e^((R+P)/M) (e^((t+d)/M) - 1) of wall time."""
    productive = run.ettr(EXACT)
    saving = productive * run.saves.blocking / run.every if run.every else 0.0
    recovery = -math.expm1(-run.recovery / run.mtbf)
    return Buckets(productive, saving, max(0.0, 1.0 - recovery - productive - saving), recovery)


# --- backwards ---------------------------------------------------------------------------------------


def blocking_for(run: Run, target: float, convention: str = EXACT) -> float | None:
    """The longest save that still gives `target`; None where even none does, and for `wall`."""
    if convention == WALL:
        return None
    longest = 1e3 * run.mtbf
    return _most(lambda d: replace(run, saves=replace(run.saves, blocking=d)), target, convention, longest)


def recovery_for(run: Run, target: float, convention: str = EXACT) -> float | None:
    """The longest recovery that still gives `target`; None where even none does."""
    return _most(lambda r: replace(run, recovery=r), target, convention, 1e3 * run.mtbf)


def mtbf_for(run: Run, target: float, convention: str = EXACT) -> float | None:
    """The shortest mtbf that gives `target`, saves chosen anew where they are; None where none does."""

    def at(rate: float) -> Run:
        return replace(run, mtbf=1.0 / rate)

    longest = 1e9 * (run.mtbf + run.recovery + run.saves.blocking + run.saves.persist)
    if at(1.0 / longest).ettr(convention) < target:
        return None
    low, high = math.log(1.0 / longest), math.log(1.0 / (CLOSE * run.mtbf))
    if at(math.exp(high)).ettr(convention) >= target:
        return 0.0  # nothing is lost with a failure
    return math.exp(-_halve(lambda x: at(math.exp(x)).ettr(convention) >= target, low, high))


def _most(at: Callable[[float], Run], target: float, convention: str, longest: float) -> float | None:
    if at(0.0).ettr(convention) < target:
        return None
    if at(longest).ettr(convention) >= target:
        return longest
    return _halve(lambda x: at(x).ettr(convention) >= target, 0.0, longest)


def _halve(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The last value at which `holds`, which does at `low` and not at `high`."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        if middle in (low, high):
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


# --- what is outside its range -------------------------------------------------------------------------


def out_of_range(run: Run) -> dict[str, str]:
    """Why a convention's number should not be used here, by convention."""
    found = {}
    exact, first, lost = run.ettr(EXACT), run.ettr(FIRST_ORDER), run.lost_with_failure
    if lost > RANGE or abs(first - exact) > APART:
        found[FIRST_ORDER] = (
            f"a failure costs {lost:.2f} of the time between failures, which is not small: it reads "
            f"{first:.4f} where the exact model gives {exact:.4f}"
        )
    if run.recovery >= run.mtbf:
        found[WALL] = (
            f"recovery takes {run.recovery / run.mtbf:.2f} of the wall time between failures: an mtbf that "
            "includes recovery cannot be so short, so this one must be uptime"
        )
    elif run.recovery > RANGE * run.mtbf:
        found[WALL] = (
            f"it reads mtbf as wall time with recovery in it; taken as uptime the same number gives "
            f"{run.ettr(RENEWAL):.4f} (renewal): say which was measured"
        )
    return found
