"""A fleet of racks played failure by failure through a mission: what the closed forms are held against.

Trays and racks fail by chance while they are up and are repaired in times of their own; a rack is of use
while enough of its trays are up and nothing takes it as a whole. A job on `active` racks stops with each
failure of a tray or rack it uses and with causes of its own (software), recovers, and stands still while
racks are short. What it has worked since its last save is lost with it. All that a draw needs is drawn at
once, over columns: no event loop, so that 100,000 GPUs for a year are hundredths of a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
WARM_UP = 10.0  #: mean repairs played before the mission, so that it begins in the steady state
APART = 1.001  #: spans between two racks in the one key that events are sorted by
PASSES = 50  #: of taking out failures of what was down already


@dataclass(frozen=True)
class Part:
    """Something that fails: mean time between failures while up, and to repair. `cv`: of repair times.

    0: all alike; 1: exponential; else lognormal.
    """

    mtbf: float
    mttr: float
    cv: float = 1.0

    def repairs(self, rng: np.random.Generator, n: int) -> Array:
        """`n` repair times."""
        if self.cv == 0.0:
            return np.full(n, self.mttr)
        if self.cv == 1.0:
            return rng.exponential(self.mttr, n)
        spread = np.log1p(self.cv**2)
        return rng.lognormal(np.log(self.mttr) - spread / 2.0, np.sqrt(spread), n)


@dataclass(frozen=True)
class PlayedFleet:
    """`racks` in all, `active` of them needed, each of `trays` of which `needed`; one unit of time.

    `common`: events that take `common_racks` racks at once, with their own mtbf (of the fleet) and mttr.
    """

    racks: int
    active: int
    trays: int
    needed: int
    tray: Part
    rack: Part
    common: Part | None = None
    common_racks: int = 0


@dataclass(frozen=True)
class PlayedJob:
    """The job on it: useful work `every` between saves that block `blocking`, `recovery` after each stop.

    Both 0: nothing is ever lost.

    `other_mtbf`: of causes that stop the job and break nothing; infinite for none.
    """

    recovery: float
    every: float
    blocking: float = 0.0
    other_mtbf: float = np.inf


class Played(NamedTuple):
    """One draw. Parts of `span` sum to 1: productive, saving, rework, recovery, short."""

    short: float  #: part of time with fewer than `active` racks up
    shortages: int  #: how often one began
    stops: int
    productive: float
    saving: float
    rework: float
    recovery: float
    racks_down: float  #: mean number


def play_fleet(rng: np.random.Generator, fleet: PlayedFleet, job: PlayedJob | None, span: float) -> Played:
    """One draw of a mission of `span`, begun in the steady state."""
    warm = WARM_UP * max(fleet.tray.mttr, fleet.rack.mttr)
    down, failures = _racks_down(rng, fleet, span + warm)
    starts, ends = _short(down, fleet.racks - fleet.active, span + warm)
    within = ends > warm
    starts, ends = np.maximum(starts[within], warm) - warm, ends[within] - warm
    short = float((ends - starts).sum()) / span
    began = int((starts > 0).sum())
    mean_down = _area(down, warm, span + warm) / span
    # a shortage stops the job, whatever rack began it
    stops = np.union1d(failures[failures > warm] - warm, starts[starts > 0])
    if job is None:
        return Played(short, began, 0, 1.0 - short, 0.0, 0.0, 0.0, mean_down)
    if np.isfinite(job.other_mtbf):
        stops = np.union1d(stops, rng.random(rng.poisson(span / job.other_mtbf)) * span)
    return Played(short, began, len(stops), *worked(job, stops, (starts, ends), span), mean_down)


def draws(seed: int, fleet: PlayedFleet, job: PlayedJob | None, span: float, n: int) -> Iterator[Played]:
    """`n` draws, each with chance of its own."""
    for draw in range(n):
        yield play_fleet(np.random.default_rng([seed, draw]), fleet, job, span)


def _windows(
    rng: np.random.Generator, part: Part, items: int, span: float
) -> tuple[NDArray[np.int64], Array, Array]:
    """(item, from, until) of every time one of `items` is down, by item and time.

    Failures come at 1/mtbf whatever happens; those of what is down already are taken out, which leaves times
    between failures that count from the end of a repair.
    """
    n = rng.poisson(items * span / part.mtbf)
    place = np.sort(rng.random(n)) * items
    item = np.minimum(place.astype(np.int64), items - 1)
    begin, wait = (place - item) * span, part.repairs(rng, n)
    for _ in range(PASSES):
        again = (item[1:] == item[:-1]) & (begin[1:] < begin[:-1] + wait[:-1])
        if not again.any():
            break
        again &= ~np.concatenate([[False], again[:-1]])  # one that falls itself takes no other with it
        keep = np.concatenate([[True], ~again])
        item, begin, wait = item[keep], begin[keep], wait[keep]
    return item, begin, np.minimum(begin + wait, span)


def _racks_down(
    rng: np.random.Generator, fleet: PlayedFleet, span: float
) -> tuple[tuple[Array, Array], Array]:
    """((instants, +1 or -1 rack down), in order; instants at which a running job is struck)."""
    tray, tray_from, tray_until = _windows(rng, fleet.tray, fleet.racks * fleet.trays, span)
    rack, rack_from, rack_until = _windows(rng, fleet.rack, fleet.racks, span)
    of = [tray // fleet.trays, rack]
    begins, ends = [tray_from, rack_from], [tray_until, rack_until]
    weights = [np.ones(len(tray)), np.full(len(rack), fleet.trays + 1.0)]
    struck = [
        tray_from[rng.random(len(tray)) < _used(fleet)],
        rack_from[rng.random(len(rack)) < _busy(fleet)],
    ]
    if fleet.common is not None:
        n = rng.poisson(span / fleet.common.mtbf)
        at, wait = rng.random(n) * span, fleet.common.repairs(rng, n)
        none = np.empty(0, np.int64)
        hit = np.concatenate([none, *(rng.permutation(fleet.racks)[: fleet.common_racks] for _ in range(n))])
        of.append(hit)
        begins.append(np.repeat(at, fleet.common_racks))
        ends.append(np.repeat(np.minimum(at + wait, span), fleet.common_racks))
        weights.append(np.full(len(hit), fleet.trays + 1.0))
        struck.append(at)
    weight = np.concatenate(weights)
    racks = np.concatenate(of)
    times = np.concatenate([*begins, *ends])
    order = np.argsort(np.concatenate([racks, racks]) * (APART * span) + times)
    # over each rack the steps sum to 0, so that one running sum over all of them counts each rack by itself
    count = np.concatenate([weight, -weight])[order].cumsum()
    lost = (count > fleet.trays - fleet.needed + 0.5).astype(np.int8)
    turns = np.diff(lost, prepend=np.int8(0))
    at = turns != 0
    instants, steps = times[order][at], turns[at].astype(float)
    in_time = np.argsort(instants, kind="stable")
    return (instants[in_time], steps[in_time]), np.sort(np.concatenate(struck))


def _busy(fleet: PlayedFleet) -> float:
    return fleet.active / fleet.racks


def _used(fleet: PlayedFleet) -> float:
    return _busy(fleet) * fleet.needed / fleet.trays


def _short(down: tuple[Array, Array], spare: int, span: float) -> tuple[Array, Array]:
    """(from, until) of every shortage."""
    instants, steps = down
    lacking = (steps.cumsum() > spare + 0.5).astype(np.int8)
    turns = np.diff(lacking, prepend=np.int8(0))
    starts, ends = instants[turns > 0], instants[turns < 0]
    return starts, np.concatenate([ends, [span]]) if len(starts) > len(ends) else ends


def _area(down: tuple[Array, Array], low: float, high: float) -> float:
    """Rack-time down between two instants."""
    instants, steps = down
    return float(-(steps * np.clip(instants, low, high)).sum() + steps.sum() * high)


def worked(
    job: PlayedJob, stops: Array, short: tuple[Array, Array], span: float
) -> tuple[float, float, float, float]:
    """(productive, saving, rework, recovery), parts of the span; `stops` in order, `short` from and until."""
    starts, ends = short
    after = np.concatenate([[0.0], stops])  # work begins anew after each stop, and at the start
    until = np.concatenate([stops, [span]])
    if len(starts):
        last = np.searchsorted(starts, after, side="right") - 1
        inside = (last >= 0) & (after < ends[last])
        begun = np.where(inside, ends[last], after)
    else:
        begun = after
    gone = np.maximum(0.0, until - begun)  # the time a stretch has, waiting for racks left out
    waits = np.minimum(gone, job.recovery)
    waits[0] = 0.0  # the first start recovers from nothing
    ran = gone - waits
    if job.every + job.blocking > 0.0:
        saves = np.floor(ran / (job.every + job.blocking))
        kept, saving = float(saves.sum()) * job.every, float(saves.sum()) * job.blocking
    else:  # saved all the time, for nothing
        kept, saving = float(ran.sum()), 0.0
    rework = float(ran.sum()) - kept - saving
    return kept / span, saving / span, rework / span, float(waits.sum()) / span
