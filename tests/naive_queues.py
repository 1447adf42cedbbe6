"""First come, first served and EASY backfill a second time: plain lists, no tables, as the papers say it.

For what has no nodes, one node of all GPUs. Slow and obvious; it shares no line with the scheduler.
(EASY: Lifka, "The ANL/IBM SP scheduling system", 1995; Mu'alem and Feitelson, 2001.)
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

FOREVER = 1 << 60


class Ask(NamedTuple):
    """A job of a record: `limit_s` is what its owner asked for, `runtime_s` what it needs."""

    submit_s: int
    gpus: int
    runtime_s: int
    limit_s: int = FOREVER

    @property
    def held_s(self) -> int:
        return min(self.runtime_s, self.limit_s)


class Running(NamedTuple):
    ends_s: int  #: when it will end
    latest_s: int  #: by when it must end, as far as a scheduler can know
    nodes: dict[int, int]


def place(free: Sequence[int], size: int, gpus: int) -> dict[int, int] | None:
    """The fullest node that holds it, or the first empty ones for a gang; None if there is no room."""
    if gpus <= size:
        fitting = [(left, node) for node, left in enumerate(free) if left >= gpus]
        return {min(fitting)[1]: gpus} if fitting else None
    whole = [node for node, left in enumerate(free) if left == size][: gpus // size]
    return dict.fromkeys(whole, size) if len(whole) == gpus // size else None


def first_come(asks: Sequence[Ask], nodes: int, size: int) -> list[int]:
    """Start of each job where nobody passes the head. `asks` are in order of submission."""
    free, ends, starts = [size] * nodes, list[tuple[int, int, dict[int, int]]](), list[int]()
    now_s = 0
    for row, ask in enumerate(asks):
        now_s = max(now_s, ask.submit_s)
        while True:
            while ends and ends[0][0] <= now_s:
                for node, gpus in heapq.heappop(ends)[2].items():
                    free[node] += gpus
            taken = place(free, size, ask.gpus)
            if taken is not None:
                break
            now_s = ends[0][0]
        for node, gpus in taken.items():
            free[node] -= gpus
        heapq.heappush(ends, (now_s + ask.held_s, row, taken))
        starts.append(now_s)
    return starts


def easy(asks: Sequence[Ask], nodes: int, size: int) -> list[int]:
    """Start of each job where who waits behind the head may start if the head's reservation stands."""
    starts = [FOREVER] * len(asks)
    waiting: list[int] = []
    running: list[Running] = []
    come = 0
    while come < len(asks) or running:
        coming = [asks[come].submit_s] if come < len(asks) else []
        now_s = min(coming + [one.ends_s for one in running])
        running = [one for one in running if one.ends_s > now_s]
        while come < len(asks) and asks[come].submit_s <= now_s:
            waiting.append(come)
            come += 1
        for row in easy_turn(asks, waiting, running, now_s, (nodes, size)):
            starts[row] = now_s
            waiting.remove(row)
    assert not waiting
    return starts


def easy_turn(
    asks: Sequence[Ask], waiting: Sequence[int], running: list[Running], now_s: int, shape: tuple[int, int]
) -> list[int]:
    """Who starts now. Adds them to `running`."""
    nodes, size = shape
    started: list[int] = []

    def left_by(at_s: int) -> list[int]:
        """GPUs free on each node at `at_s` if all run as long as they may."""
        left = [size] * nodes
        for one in running:
            for node, gpus in one.nodes.items():
                left[node] -= gpus if one.latest_s > at_s or at_s == now_s else 0
        return left

    def begin(row: int, taken: dict[int, int]) -> None:
        running.append(Running(now_s + asks[row].held_s, now_s + asks[row].limit_s, taken))
        started.append(row)

    queue = list(waiting)
    while queue and (taken := place(left_by(now_s), size, asks[queue[0]].gpus)) is not None:
        begin(queue.pop(0), taken)
    if not queue:
        return started
    head = asks[queue[0]].gpus
    each, need = (head, 1) if head <= size else (size, head // size)
    clear: list[tuple[int, int]] = []
    for node in range(nodes):
        instants = [now_s] + sorted(one.latest_s for one in running if node in one.nodes)
        clear.append((next((t for t in instants if left_by(t)[node] >= each), FOREVER), node))
    chosen = sorted(clear)[:need]
    shadow_s = chosen[-1][0]
    spare = {node: left_by(shadow_s)[node] - each for _, node in chosen}
    for row in queue[1:]:
        ask, now_free = asks[row], left_by(now_s)
        over_by_then = now_s + ask.limit_s <= shadow_s
        room = now_free if over_by_then else [min(f, spare.get(n, f)) for n, f in enumerate(now_free)]
        if over_by_then:
            taken = place(now_free, size, ask.gpus)
        else:
            taken = place_beside(now_free, room, size, ask.gpus)
        if taken is not None:
            begin(row, taken)
            for node, gpus in taken.items():
                if not over_by_then and node in spare:
                    spare[node] -= gpus
    return started


def place_beside(free: Sequence[int], room: Sequence[int], size: int, gpus: int) -> dict[int, int] | None:
    """As `place`, on nodes where `room` allows it too."""
    if gpus <= size:
        fitting = [(left, node) for node, left in enumerate(free) if room[node] >= gpus]
        return {min(fitting)[1]: gpus} if fitting else None
    whole = [node for node, left in enumerate(free) if left == room[node] == size][: gpus // size]
    return dict.fromkeys(whole, size) if len(whole) == gpus // size else None
