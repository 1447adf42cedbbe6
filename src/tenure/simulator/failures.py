"""Which nodes are down when, drawn before anything is played: nodes, racks, common causes, repair crews.

Each node and rack has a stream of chance of its own, so that worlds with more or fewer spares share what
happens to the nodes they share, as far as crews are not the limit.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tenure.core.tables import Table, empty
from tenure.core.words import NONE, NodeState
from tenure.settings.failures_key import FailingFile, FailingRackFile, ScenarioFailuresFile
from tenure.settings.lab import Lab, Node
from tenure.simulator.world import HAPPENING, What

STREAM_OF_FAILURES, OF_LEMONS, OF_COMMON = 0xFA11, 0x1E30, 0xC0DE
YEAR_S = 365.25 * 86400
NODE, RACK, COMMON = 0, 1, 2
CAUSES = ("node failed", "rack failed", "common cause")


class Outage(NamedTuple):
    """One thing down, from its failure to its repair."""

    from_s: float
    until_s: float
    cause: int
    nodes: Sequence[int]


class _Item(NamedTuple):
    """A node or a rack that fails by itself."""

    law: FailingFile | FailingRackFile
    cause: int
    nodes: Sequence[int]
    key: int  #: of its stream
    times: float = 1.0


def with_spares(lab: Lab, failures: ScenarioFailuresFile | None) -> tuple[Lab, tuple[int, ...]]:
    """The lab with spares behind each cluster's own nodes, in other racks; and their GPUs by cluster."""
    gpus = [0] * len(lab.clusters)
    if failures is None or failures.spares[1] == 0:
        return lab, tuple(gpus)
    kind, many = failures.spares
    nodes: list[Node] = []
    next_rack = 1 + max(node.rack for node in lab.nodes)
    for cluster, name in enumerate(lab.clusters):
        own = [node for node in lab.nodes if node.cluster == cluster]
        nodes += own
        per_rack = max(1, round(len(own) / len({node.rack for node in own})))
        count = math.ceil(many * len(own) - 1e-9) if kind == "part" else round(many)
        for place in range(count):
            rack = next_rack + place // per_rack
            nodes.append(own[-1]._replace(name=f"{name}-spare-{place + 1:04d}", rack=rack))
        next_rack += -(-count // per_rack)
        gpus[cluster] = count * own[-1].gpus
    return lab._replace(nodes=tuple(nodes)), tuple(gpus)


def outages(lab: Lab, failures: ScenarioFailuresFile, *, seed: int, until_s: int) -> Iterator[Outage]:
    """All that go down before `until_s`, in no order."""
    items = _items(lab, failures, seed)
    streams = [np.random.default_rng([seed, STREAM_OF_FAILURES, item.key]) for item in items]
    coming = [(_life(item, streams[place]), place, True) for place, item in enumerate(items)]
    heapq.heapify(coming)
    waiting: deque[tuple[float, int]] = deque()
    at_work = 0
    while coming and coming[0][0] < until_s:
        t, place, fails = heapq.heappop(coming)
        if fails:
            waiting.append((t, place))
        else:
            at_work -= 1
            heapq.heappush(coming, (t + _life(items[place], streams[place]), place, True))
        while waiting and (failures.crews is None or at_work < failures.crews):
            failed, next_place = waiting.popleft()
            item = items[next_place]
            mended = t + _repair(item.law, streams[next_place])
            at_work += 1
            yield Outage(failed, mended, item.cause, item.nodes)
            heapq.heappush(coming, (mended, next_place, False))
    for failed, place in waiting:  # no crew has come to them
        yield Outage(failed, math.inf, items[place].cause, items[place].nodes)
    yield from _common(lab, failures, seed, until_s)


def drawn_happenings(
    lab: Lab, failures: ScenarioFailuresFile, *, seed: int, until_s: int, first_note: int
) -> tuple[Table, list[dict[str, Any]]]:
    """Rows of HAPPENING, by time, and the notes they point at, numbered from `first_note` on.

    Outages of one node that overlap are one: it is down from the first failure to the last repair.
    """
    of_node: dict[int, list[tuple[int, int, int]]] = {}
    for outage in outages(lab, failures, seed=seed, until_s=until_s):
        begin = math.floor(outage.from_s)
        end = math.ceil(min(outage.until_s, until_s + 1.0))
        for node in outage.nodes:
            of_node.setdefault(node, []).append((begin, max(end, begin + 1), outage.cause))
    rows: list[tuple[int, int, int, int]] = []
    for node, spans in of_node.items():
        spans.sort()
        begin, end, cause = spans[0]
        for other in spans[1:]:
            if other[0] <= end:
                end = max(end, other[1])
                continue
            rows += _of_span(begin, end, cause, node)
            begin, end, cause = other
        rows += _of_span(begin, end, cause, node)
    rows.sort()
    table = empty(len(rows), HAPPENING, note=NONE)
    for place, (t, state, cause, node) in enumerate(rows):
        table[place] = (t, state, node, NONE, first_note + cause, What.NODE)
    return table, [{"reason": cause, "by": "chance"} for cause in CAUSES]


def _of_span(begin: int, end: int, cause: int, node: int) -> list[tuple[int, int, int, int]]:
    return [(begin, int(NodeState.DOWN), cause, node), (end, int(NodeState.UP), cause, node)]


def _items(lab: Lab, failures: ScenarioFailuresFile, seed: int) -> list[_Item]:
    items, keys = [], _keys(lab)
    if failures.node is not None:
        times = _times(lab, failures, seed)
        items += [
            _Item(failures.node, NODE, (row,), 2 * keys[row], times[row]) for row in range(len(lab.nodes))
        ]
    if failures.rack is not None:
        racks: dict[int, list[int]] = {}
        for row, node in enumerate(lab.nodes):
            racks.setdefault(node.rack, []).append(row)
        items += [_Item(failures.rack, RACK, rows, 2 * keys[rows[0]] + 1) for rows in racks.values()]
    return items


def _keys(lab: Lab) -> list[int]:
    """A number for each node that it keeps whatever spares stand beside it: own nodes first, then spares."""
    own = [row for row, node in enumerate(lab.nodes) if "-spare-" not in node.name]
    spare = [row for row, node in enumerate(lab.nodes) if "-spare-" in node.name]
    keys = [0] * len(lab.nodes)
    for key, row in enumerate([*own, *spare]):
        keys[row] = key
    return keys


def _times(lab: Lab, failures: ScenarioFailuresFile, seed: int) -> list[float]:
    """How many times as often as an ordinary one each node fails: each is a lemon by a draw of its own."""
    lemons = failures.lemons
    if lemons is None:
        return [1.0] * len(lab.nodes)
    drawn = np.random.default_rng([seed, OF_LEMONS]).random(len(lab.nodes))
    return [lemons.times if drawn[key] < lemons.part else 1.0 for key in _keys(lab)]


def _life(item: _Item, rng: np.random.Generator) -> float:
    """Time up until the next failure."""
    mean_s, shape = item.law.mtbf_s / item.times, item.law.shape
    if shape == 1.0:
        return float(rng.exponential(mean_s))
    return float(mean_s / math.gamma(1.0 + 1.0 / shape) * rng.weibull(shape))


def _repair(law: FailingFile | FailingRackFile, rng: np.random.Generator) -> float:
    if law.cv == 0.0:
        return law.repair
    if law.cv == 1.0:
        return float(rng.exponential(law.repair))
    spread = math.log1p(law.cv**2)
    return float(rng.lognormal(math.log(law.repair) - spread / 2.0, math.sqrt(spread)))


def _common(lab: Lab, failures: ScenarioFailuresFile, seed: int, until_s: int) -> Iterator[Outage]:
    common = failures.common
    if common is None:
        return
    for cluster in range(len(lab.clusters)):
        rng = np.random.default_rng([seed, OF_COMMON, cluster])
        racks: dict[int, list[int]] = {}
        for row, node in enumerate(lab.nodes):
            if node.cluster == cluster:
                racks.setdefault(node.rack, []).append(row)
        named, t = list(racks), 0.0
        while (t := t + float(rng.exponential(YEAR_S / common.per_year))) < until_s:
            hit = rng.permutation(len(named))[: common.racks]
            nodes = [row for place in hit.tolist() for row in racks[named[place]]]
            yield Outage(t, t + float(rng.exponential(common.repair)), COMMON, nodes)
