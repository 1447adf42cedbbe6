"""Nodes played one by one where formulas end: few repair crews, lemon nodes, causes that take many at once.

Only the next thing that happens is drawn each time (all rates are of exponential times), from counts of
nodes alike rather than from nodes: active and spare, ordinary and lemon. What is drawn is when the job was
stopped and when it lacked nodes; its time is then laid out as in `play_fleet`.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tenure.planner.play_fleet import Part, PlayedJob, worked

Array = NDArray[np.float64]
BLOCK = 4096  #: numbers drawn at once
SETTLED = 20.0  #: mean repairs played before the mission, so that it begins in the steady state
ORDINARY, LEMON = 0, 1


@dataclass(frozen=True)
class Lemons:
    """A `part` of nodes that fails `times` as often; a repair makes one ordinary with chance `cured`."""

    part: float
    times: float
    cured: float = 0.0


@dataclass(frozen=True)
class PlayedNodes:
    """`nodes` in all, `active` of them needed; `node`: how often an ordinary one fails and its repair.

    `crews`: repairs at once, first come first served; None for no limit. `common`: events that take
    `common_nodes` at once, mended without crews. `spares_fail`: spares fail as active ones do. `safe`:
    failures come while the job works only, as the renewal formula and some simulators have it. `ready`: the
    mission begins with every node up, not in the steady state.
    """

    nodes: int
    active: int
    node: Part
    crews: int | None = None
    lemons: Lemons | None = None
    common: Part | None = None
    common_nodes: int = 0
    spares_fail: bool = True
    safe: bool = False
    ready: bool = False


class NodesPlayed(NamedTuple):
    """One draw. productive, saving, rework, recovery and short are parts of the span that sum to 1."""

    short: float
    shortages: int
    stops: int
    productive: float
    saving: float
    rework: float
    recovery: float
    down: float  #: mean number of nodes down
    queued: float  #: … of which no crew is at work on


class Lacking(NamedTuple):
    """When the job was stopped, and from when until when it lacked nodes; from the mission's start."""

    stops: Array
    starts: Array
    ends: Array
    down: float
    queued: float


def play_nodes(rng: np.random.Generator, fleet: PlayedNodes, job: PlayedJob, span: float) -> NodesPlayed:
    """One draw of a mission of `span`."""
    found = lacking(rng, fleet, span, recovery=job.recovery)
    stops = found.stops
    if np.isfinite(job.other_mtbf):
        stops = np.union1d(stops, rng.random(rng.poisson(span / job.other_mtbf)) * span)
    short = float((found.ends - found.starts).sum()) / span
    began = int((found.starts > 0).sum())
    parts = worked(job, stops, (found.starts, found.ends), span)
    return NodesPlayed(short, began, len(stops), *parts, found.down, found.queued)


def draws(seed: int, fleet: PlayedNodes, job: PlayedJob, span: float, n: int) -> Iterator[NodesPlayed]:
    """`n` draws, each with chance of its own."""
    for draw in range(n):
        yield play_nodes(np.random.default_rng([seed, draw]), fleet, job, span)


def lacking(rng: np.random.Generator, fleet: PlayedNodes, span: float, recovery: float = 0.0) -> Lacking:
    """Play the nodes. `recovery`: after a stop, how long no failure comes where they are `safe`."""
    warm = 0.0 if fleet.ready else SETTLED * fleet.node.mttr
    return _Yard(rng, fleet, recovery).play(warm, warm + span)


class _Numbers:
    """Numbers drawn in blocks: one at a time costs more than all else here."""

    def __init__(self, rng: np.random.Generator, node: Part) -> None:
        self.rng, self.node = rng, node
        self.waits: list[float] = []
        self.uniforms: list[float] = []
        self.repairs: list[float] = []

    def wait(self) -> float:
        if not self.waits:
            self.waits = self.rng.exponential(1.0, BLOCK).tolist()
        return self.waits.pop()

    def uniform(self) -> float:
        if not self.uniforms:
            self.uniforms = self.rng.random(BLOCK).tolist()
        return self.uniforms.pop()

    def repair(self) -> float:
        if not self.repairs:
            self.repairs = self.node.repairs(self.rng, BLOCK // 4).tolist()
        return self.repairs.pop()


class _Yard:
    """Counts of nodes by where they are and what they are, and the repairs under way."""

    def __init__(self, rng: np.random.Generator, fleet: PlayedNodes, recovery: float) -> None:
        self.fleet, self.recovery = fleet, recovery
        self.of = _Numbers(rng, fleet.node)
        lemons = 0 if fleet.lemons is None else round(fleet.nodes * fleet.lemons.part)
        of_active = int(rng.hypergeometric(lemons, fleet.nodes - lemons, fleet.active)) if lemons else 0
        self.active = [fleet.active - of_active, of_active]
        self.spare = [fleet.nodes - fleet.active - (lemons - of_active), lemons - of_active]
        self.times = 1.0 if fleet.lemons is None else fleet.lemons.times
        self.cured = 0.0 if fleet.lemons is None else fleet.lemons.cured
        self.mends: list[tuple[float, int, bool]] = []  #: (when, what, whether a crew is at work on it)
        self.waiting: deque[int] = deque()
        self.at_work = 0
        self.quiet_until = 0.0
        self.short_since = -1.0

    def play(self, begin: float, end: float) -> Lacking:
        common = self.fleet.common
        t, next_common = 0.0, np.inf if common is None else self.of.wait() * common.mtbf
        stops: list[float] = []
        starts: list[float] = []
        ends: list[float] = []
        down_area = queued_area = 0.0
        while True:
            fails = self._next_failure(t)
            mends = self.mends[0][0] if self.mends else np.inf
            instant = min(fails, mends, next_common, end)
            if instant > begin:
                lasts = instant - max(t, begin)
                down_area += lasts * (len(self.mends) + len(self.waiting))
                queued_area += lasts * len(self.waiting)
            t = instant
            if t >= end:
                break
            was_short = self.short_since >= 0
            if instant == mends:
                self._mend(t)
                if was_short and self.short_since < 0:
                    starts.append(self._began)
                    ends.append(t)
                continue
            if instant == fails:
                struck = self._fail(t)
            else:
                assert common is not None
                struck = self._strike_many(t, common)
                next_common = t + self.of.wait() * common.mtbf
            if struck and not was_short:
                stops.append(t)
                self.quiet_until = t + self.recovery
        if self.short_since >= 0:
            starts.append(self.short_since)
            ends.append(end)
        return _cut(begin, end, (stops, starts, ends), down_area, queued_area)

    def _next_failure(self, t: float) -> float:
        rate = self.active[0] + self.active[1] * self.times
        if self.fleet.safe:
            if self.short_since >= 0:
                return np.inf  # nothing works, nothing fails
            t = max(t, self.quiet_until)
        if self.fleet.spares_fail:
            rate += self.spare[0] + self.spare[1] * self.times
        return t + self.of.wait() * self.fleet.node.mtbf / rate if rate > 0 else np.inf

    def _fail(self, t: float) -> bool:
        """One node fails; True where it was active."""
        ordinary, lemon = self.active[0], self.active[1] * self.times
        drawn = self.of.uniform()
        if self.fleet.spares_fail:
            drawn *= ordinary + lemon + self.spare[0] + self.spare[1] * self.times
        else:
            drawn *= ordinary + lemon
        if drawn < ordinary + lemon:
            kind = ORDINARY if drawn < ordinary else LEMON
            self.active[kind] -= 1
            self._repair(t, kind)
            self._replace(t)
            return True
        kind = ORDINARY if drawn - ordinary - lemon < self.spare[0] else LEMON
        self.spare[kind] -= 1
        self._repair(t, kind)
        return False

    def _strike_many(self, t: float, common: Part) -> bool:
        """An event takes nodes at once, whatever they do; True where an active one is among them."""
        struck, back = False, t + float(common.repairs(self.of.rng, 1)[0])
        for _ in range(self.fleet.common_nodes):
            up = [*self.active, *self.spare]
            drawn, place = self.of.uniform() * sum(up), 0
            if not any(up):
                break
            while place < 3 and drawn >= up[place]:
                drawn -= up[place]
                place += 1
            (self.active if place < 2 else self.spare)[place % 2] -= 1
            struck = struck or place < 2
            heapq.heappush(self.mends, (back, place % 2, False))
        while sum(self.active) < self.fleet.active and self._replace(t):
            pass
        return struck

    def _replace(self, t: float) -> bool:
        """A spare takes an empty place; False where there is none: then the job lacks nodes."""
        spares = self.spare[0] + self.spare[1]
        if spares == 0:
            if self.short_since < 0:
                self.short_since = t
            return False
        kind = LEMON if self.spare[1] and self.of.uniform() * spares < self.spare[1] else ORDINARY
        self.spare[kind] -= 1
        self.active[kind] += 1
        return True

    def _repair(self, t: float, kind: int) -> None:
        if self.fleet.crews is not None and self.at_work >= self.fleet.crews:
            self.waiting.append(kind)
            return
        self.at_work += 1
        heapq.heappush(self.mends, (t + self.of.repair(), kind, True))

    def _mend(self, t: float) -> None:
        _, kind, by_crew = heapq.heappop(self.mends)
        if by_crew:
            self.at_work -= 1
            if self.waiting:
                self._repair(t, self.waiting.popleft())
            if kind == LEMON and self.cured and self.of.uniform() < self.cured:
                kind = ORDINARY
        if sum(self.active) >= self.fleet.active:
            self.spare[kind] += 1
            return
        self.active[kind] += 1
        if sum(self.active) >= self.fleet.active:
            self._began, self.short_since = self.short_since, -1.0
            self.quiet_until = t + self.recovery

    _began = 0.0


def _cut(
    begin: float, end: float, found: tuple[list[float], list[float], list[float]], down: float, queued: float
) -> Lacking:
    """What lies in the mission, counted from its start."""
    stops, starts, ends = (np.asarray(values) for values in found)
    span, within = end - begin, ends > begin
    starts, ends = np.maximum(starts[within], begin) - begin, ends[within] - begin
    return Lacking(stops[stops > begin] - begin, starts, ends, down / span, queued / span)
