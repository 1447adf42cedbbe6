"""What goes wrong between Tenure and a cluster, and when? Drawn from a seed, or written down.

Faults of calls are drawn call by call (`Faults.of_call`); what happens to nodes, jobs and the clock is a
timetable (`Faults.timetable`), drawn beforehand, so that a failing seed fails again.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

#: Kinds of what may happen to a cluster. `value` is in seconds, and means what is said here.
NODE_DOWN = "node_down"  #: the node dies, and all attempts on it with it; back after `value`
NODE_DRAIN = "node_drain"  #: somebody told the engine to give it no new work; `value` as above
NODE_VANISHES = "node_vanishes"  #: it is missing from the answers for `value`
SILENCE = "silence"  #: no answer to anything for `value`
CANCEL = "cancel"  #: a running job is ended behind our back; subject "" picks one
SKEW = "skew"  #: the engine's clock jumps by `value`, forth or back


class Happening(NamedTuple):
    """Something that happens to the cluster at an instant (epoch seconds)."""

    at: float
    what: str
    subject: str = ""  #: node or job
    value: float = 0.0


class CallFault(NamedTuple):
    """What goes wrong with one call."""

    lost_before: bool = False  #: it never arrived: EngineUnavailable, nothing done
    lost_after: bool = False  #: the answer is lost: EngineUnavailable, though it was done
    doubled: bool = False  #: carried out twice
    delayed: int = 0  #: EngineUnavailable now, carried out so many calls later
    echoed: int = 0  #: carried out now, and once more so many calls later
    late_s: float = 0.0  #: `see` shows what was so long ago


NO_FAULT = CallFault()


@dataclass(frozen=True)
class Faults:
    """How often calls go wrong (probabilities), which ones surely do, and what happens when."""

    seed: int = 0
    lost_before: float = 0.0
    lost_after: float = 0.0
    doubled: float = 0.0
    delayed: float = 0.0
    echoed: float = 0.0
    late: float = 0.0
    latest_s: float = 60.0  #: a late answer is at most so old
    refused: float = 0.0  #: part of the starts that are refused; the same order always is, or never
    scripted: Mapping[int, CallFault] = field(default_factory=dict)  #: by number of the call, from 1
    timetable: Sequence[Happening] = ()
    calm_from: float = float("inf")  #: from this instant (epoch seconds) on no call goes wrong by chance

    def of_call(self, number: int, now: float = 0.0) -> CallFault:
        """What goes wrong with the call of this number, at this instant."""
        if number in self.scripted:
            return self.scripted[number]
        chances = (self.lost_before, self.lost_after, self.doubled, self.delayed, self.echoed, self.late)
        if now >= self.calm_from or not any(chances):
            return NO_FAULT
        chance = np.random.default_rng([self.seed, 1, number])
        lost_before, lost_after, doubled, delayed, echoed, late = chance.random(6).tolist()
        return CallFault(
            lost_before=lost_before < self.lost_before,
            lost_after=lost_after < self.lost_after,
            doubled=doubled < self.doubled,
            delayed=int(chance.integers(1, 20)) if delayed < self.delayed else 0,
            echoed=int(chance.integers(1, 20)) if echoed < self.echoed else 0,
            late_s=float(chance.random() * self.latest_s) if late < self.late else 0.0,
        )

    def refuses(self, order_id: str) -> bool:
        """Whether this start will never be carried out."""
        if not self.refused:
            return False
        word = zlib.crc32(order_id.encode("utf-8", "replace"))
        return float(np.random.default_rng([self.seed, 2, word]).random()) < self.refused

    def pick(self, number: int, names: Sequence[str]) -> str:
        """One of these, chosen by the seed and a number."""
        return names[int(np.random.default_rng([self.seed, 3, number]).integers(len(names)))]


def drawn_timetable(
    seed: int,
    nodes: Sequence[str],
    start: float,
    until: float,
    *,
    per_hour: Mapping[str, float],
    longest_s: float = 1800,
    furthest_s: float = 120,
) -> list[Happening]:
    """A timetable between two instants: each kind comes at random, so often an hour over the whole cluster.

    `longest_s`: of deaths, silences and the like; `furthest_s`: of jumps of the clock.
    """
    found = []
    for row, what in enumerate(sorted(per_hour)):
        chance = np.random.default_rng([seed, 4, row])
        at = start
        while per_hour[what] > 0:
            at += float(chance.exponential(3600 / per_hour[what]))
            if at >= until:
                break
            node = nodes[int(chance.integers(len(nodes)))] if what.startswith("node") else ""
            size = float(chance.random())
            value = round((2 * size - 1) * furthest_s if what == SKEW else size * longest_s)
            if what != SKEW:
                value = max(1, value)  # 0 would be for ever
            found.append(Happening(float(round(at)), what, node, float(value)))
    return sorted(found)
