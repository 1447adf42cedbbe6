"""The rule's arithmetic a second time: sums over intervals, sorts and subsets, as the rule's text has it.

Slow, for small worlds; no line is the kernels'. Accounts are rows, the root is row 0; GPUs are floats.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations
from math import log
from typing import NamedTuple

NEVER = 1 << 60
DAY = 86400


class Held(NamedTuple):
    """GPUs charged to a leaf in [begin, end)."""

    leaf: int
    gpus: int
    begin_s: int
    end_s: int


@dataclass
class Knobs:
    lookback_s: int
    half_life_s: int | None = None  #: S5: age at which use counts half, instead of the lookback
    repay_s: int = 2 * DAY
    repay_part: float = 0.25
    round_part: float = 0.5
    bound_gpus: float = 8.0  #: two nodes from 512 GPUs on, else one


@dataclass
class Tree:
    """S1, S8: accounts of one cluster. `parts`: of the parent's, as fractions; `limits`: hard, in GPUs."""

    parents: Sequence[int]
    parts: Sequence[float]
    limits: Sequence[float]

    def below(self, above: int) -> list[int]:
        return [row for row, parent in enumerate(self.parents) if parent == above and row]

    def leaves(self, above: int) -> list[int]:
        children = self.below(above)
        return [leaf for child in children for leaf in self.leaves(child)] if children else [above]

    def entitled(self, healthy: float) -> list[float]:
        gpus = [healthy] * len(self.parents)
        for row in range(1, len(gpus)):
            gpus[row] = gpus[self.parents[row]] * self.parts[row]
        return gpus

    def demand(self, asked: Mapping[int, float]) -> list[float]:
        """Of every account: its own or that of all below, each capped at its hard limit."""

        def of(row: int) -> float:
            children = self.below(row)
            total = sum(of(child) for child in children) if children else asked.get(row, 0.0)
            return min(total, self.limits[row])

        return [of(row) for row in range(len(self.parents))]

    def due(self, healthy: float, asked: Mapping[int, float]) -> list[float]:
        """S8: what each account is due: at the top the less of demand and entitlement; below, what flows."""
        title, demand = self.entitled(healthy), self.demand(asked)
        due = [0.0] * len(title)
        for row in self.below(0):
            due[row] = min(title[row], demand[row])
        for row in range(1, len(title)):
            children = self.below(row)
            for child, gpus in zip(children, poured(due[row], [(demand[c], title[c]) for c in children])):
                due[child] = gpus
        return due

    def called_back(self, debts: Mapping[int, float]) -> list[float]:
        """Credit is called back as far as siblings are in debt, or the parent's own credit is called."""
        net = [sum(debts[leaf] for leaf in self.leaves(row)) for row in range(len(self.parents))]
        called = [0.0] * len(net)
        for row in range(len(net)):
            children = self.below(row)
            owed = called[row] + sum(net[c] for c in children if net[c] > 0)
            credit = -sum(net[c] for c in children if net[c] < 0)
            for child in children:
                if net[child] < 0:
                    called[child] = min(1.0, owed / credit) * -net[child]
        return called


def poured(gpus: float, cups: Sequence[tuple[float, float]]) -> list[float]:
    """`gpus` into cups (room, weight): the level at which all is poured, or every cup full.

    Cups fill up in the order of room by weight; the others share by weight what the full ones leave. What all
    that have a weight leave is poured into those without, alike.
    """
    wide = sorted(
        (row for row, (_, weight) in enumerate(cups) if weight > 0), key=lambda r: cups[r][0] / cups[r][1]
    )
    got = [0.0] * len(cups)
    for place, row in enumerate(wide):
        weights = sum(cups[other][1] for other in wide[place:])
        got[row] = min(cups[row][0], gpus * cups[row][1] / weights)
        gpus -= got[row]
    bare = sorted((row for row, (_, weight) in enumerate(cups) if weight <= 0), key=lambda r: cups[r][0])
    for place, row in enumerate(bare):
        got[row] = min(cups[row][0], gpus / (len(bare) - place))
        gpus -= got[row]
    return got


@dataclass
class Books:
    """What leaves held and were due, and what follows at an instant."""

    tree: Tree
    knobs: Knobs
    held: list[Held] = field(default_factory=list)
    dues: list[tuple[int, list[float], list[float]]] = field(
        default_factory=list
    )  #: from when; due; entitled

    def from_now(self, now_s: int, healthy: float, asked: Mapping[int, float]) -> None:
        self.dues.append((now_s, self.tree.due(healthy, asked), self.tree.entitled(healthy)))

    def counted_s(self, begin_s: int, end_s: int, now_s: int) -> float:
        """S3, S5: the seconds of [begin, end) that count: those in the lookback, or all, each by its age."""
        half_s = self.knobs.half_life_s
        if half_s is None:
            return overlap(begin_s, end_s, max(0, now_s - self.knobs.lookback_s), now_s)
        older, younger = (2.0 ** ((min(t, now_s) - now_s) / half_s) for t in (begin_s, end_s))
        return half_s / log(2) * (younger - older)

    def used(self, leaf: int, now_s: int) -> float:
        """GPU-seconds that count."""
        return sum(h.gpus * self.counted_s(h.begin_s, h.end_s, now_s) for h in self.held if h.leaf == leaf)

    def over_lookback(self, which: int, row: int, now_s: int) -> float:
        """GPU-seconds due (1) or entitled to (2) that count."""
        total = 0.0
        ends = [entry[0] for entry in self.dues[1:]] + [now_s]
        for entry, end_s in zip(self.dues, ends):
            total += entry[which][row] * self.counted_s(entry[0], end_s, now_s)
        return total

    def debts(self, now_s: int) -> dict[int, float]:
        return {
            leaf: self.over_lookback(1, leaf, now_s) - self.used(leaf, now_s) for leaf in self.tree.leaves(0)
        }

    def ratio(self, row: int, now_s: int) -> float:
        used = sum(self.used(leaf, now_s) for leaf in self.tree.leaves(row))
        entitled = self.over_lookback(2, row, now_s)
        return used / entitled if entitled > 0 else float("inf")

    def targets(self, now_s: int) -> dict[int, float]:
        """S8: the greater of entitlement and due, and what is owed or called back, over two days, bounded."""
        _, due, title = self.dues[-1]
        debts = self.debts(now_s)
        called = self.tree.called_back(debts)
        found = {}
        for leaf, debt in debts.items():
            most = max(self.knobs.repay_part * title[leaf], self.knobs.bound_gpus) if title[leaf] > 0 else 0.0
            repaid = (debt if debt > 0 else -called[leaf]) / self.knobs.repay_s
            found[leaf] = max(title[leaf], due[leaf]) + min(most, max(-most, repaid))
        return found

    def slack(self, leaf: int, gpus: int) -> float:
        return min(self.knobs.round_part * gpus, max(self.knobs.bound_gpus, 0.1 * self.dues[-1][2][leaf]))


def overlap(begin_s: int, end_s: int, from_s: int, to_s: int) -> int:
    return max(0, min(end_s, to_s) - max(begin_s, from_s))


# --- whom to stop -------------------------------------------------------------------------------------


class Victim(NamedTuple):
    """An attempt that may be interrupted now. `frees`: GPUs it frees on the node looked at."""

    job: int
    owner: int  #: its account, or -1 where it is unbudgeted
    gpus: int
    frees: int
    loss: float
    slack: float
    credit: bool  #: its account is in credit, and the claimant has saved up


def legal_together(chosen: Iterable[Victim], room_above: Mapping[int, float]) -> bool:
    """S12: each owner stays at or above its target after the swap, in some order of stops.

    `room_above`: what each account runs beyond its target, GPUs.
    """
    by_owner: dict[int, list[Victim]] = {}
    for victim in chosen:
        if victim.owner >= 0:
            by_owner.setdefault(victim.owner, []).append(victim)
    return all(
        any(in_this_order(order, room_above[owner]) for order in permutations(own))
        for owner, own in by_owner.items()
    )


def in_this_order(order: Sequence[Victim], above: float) -> bool:
    for victim in order:
        above -= victim.gpus
        if above < -victim.slack and not victim.credit:
            return False
    return True


def cheapest_set(
    victims: Sequence[Victim], need: int, room_above: Mapping[int, float]
) -> tuple[float, tuple[Victim, ...]] | None:
    """S13: of all legal sets that free `need` GPUs on a node the one that loses least; None if none is."""
    sets = [chosen for n in range(len(victims) + 1) for chosen in combinations(victims, n)]
    legal = [
        (sum(victim.loss for victim in chosen), chosen)
        for chosen in sets
        if sum(victim.frees for victim in chosen) >= need and legal_together(chosen, room_above)
    ]
    return min(legal, key=lambda one: one[0]) if legal else None


# --- promises -----------------------------------------------------------------------------------------


def earliest_together(
    clear_s: Sequence[tuple[int, int]],
    need: int,
    own: Sequence[tuple[int, int]],
    own_room: int | None,
    now_s: int,
) -> int:
    """S17: the first instant at which `need` nodes can be taken and the account's own work leaves room.

    `clear_s`: from when each node can be taken whole, and the last instant at which it may be, for it closes
    later. `own`: (GPUs, protected until) of its attempts.
    """

    def instants() -> Iterator[int]:
        yield now_s
        yield from (from_s for from_s, _ in clear_s)
        yield from (until_s for _, until_s in own)

    for at_s in sorted(set(instants())):
        if at_s < now_s or at_s >= NEVER or sum(first <= at_s <= last for first, last in clear_s) < need:
            continue
        if own_room is None or sum(gpus for gpus, until_s in own if until_s > at_s) <= own_room:
            return at_s
    return NEVER
