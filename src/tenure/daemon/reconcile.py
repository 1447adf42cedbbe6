"""What is recorded and what the engine shows: what has happened, then, and what is to be ordered?

Pure, and by level: it compares two pictures, so an answer that was lost, doubled or late needs no code of its
own. From silence it concludes nothing: what is missing from an answer is over only after a grace.

| recorded | seen | then |
| --- | --- | --- |
| runs | ended | it has ended, in its own way |
| runs | nothing | missing; after the grace `node_failed`: no fault of the job's |
| runs, start not carried out | nothing | nothing |
| ended, or never heard of though the job is ours | runs | it is told to stop; its nodes take nothing new |
| ended | ended | the engine may forget it |
| nothing | runs | a stranger: reported, never touched |
| node up | down | the node is down |
| node up | draining | somebody drains it at the engine |
| node down, draining or drained by the engine's word | up | up, unless work of ours haunts it |
| node out of service by a person's word | anything | nothing |
| node up | nothing | missing; after the grace down, or draining while work is still seen on it |
| a gang's other nodes, one of which died | the gang runs | they take nothing new until it is gone |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tenure.core.words import Cause, End, NodeState, Phase
from tenure.engines.protocol import Seen, SeenArrival, SeenAttempt, SeenNode

GRACE_S = 90.0  #: how long something may be missing from the engine's answers
LEFT_S = 15.0  #: … and a job from the engine's own queue, on its way from one state to another
MISSING = "missing from the engine's answers"
ENGINE = "engine"  #: who says so, where the engine does

Key = tuple[str, int]  #: (job, attempt)


class Known(NamedTuple):
    """An attempt that the record has on nodes."""

    phase: Phase  #: RUNNING or STOPPING
    cause: Cause
    started: float  #: epoch
    started_n: int  #: its place among all starts
    stopped_n: int  #: … and among all stops
    nodes: tuple[str, ...]


class KnownNode(NamedTuple):
    """A node of the lab."""

    state: NodeState
    by: str  #: who put it there; "" = nobody, it is simply up
    gpus: int


class Records(NamedTuple):
    """What is recorded, as far as the engine can know of it."""

    attempts: Mapping[Key, Known]
    nodes: Mapping[str, KnownNode]
    is_ours: Callable[[str, int], bool]  #: whether this attempt of this job was ever started by us
    unstarted: frozenset[Key] = frozenset()  #: their start is ordered and not carried out yet
    refused: Mapping[Key, tuple[str, bool]] = {}  #: (why, the node is bad) of starts that will never be
    missing: Mapping[str, float] = {}  #: since when, epoch, by `JOB.ATTEMPT` or the node's name
    waiting: Mapping[str, bool] = {}  #: jobs that wait, for engines that keep the queue: held by the engine?
    unset: frozenset[str] = frozenset()  #: nodes of which the engine is still to be told how they are
    grace_s: float = GRACE_S


class Ended(NamedTuple):
    """An attempt has ended."""

    job: str
    attempt: int
    at: float  #: epoch
    end: End
    saved: float | None
    exit_code: int | None
    detail: str
    place: tuple[float, int, int]  #: sorts those of one instant
    nodes: tuple[str, ...] = ()


class NodeNews(NamedTuple):
    """The engine says how a node is."""

    node: str
    state: NodeState
    reason: str


class Found(NamedTuple):
    """What follows."""

    ended: Sequence[Ended]
    nodes: Sequence[NodeNews]
    stops: Sequence[Key]  #: attempts of ours that should not run any more
    forgets: Sequence[Key]  #: attempts whose end is recorded
    arrivals: Sequence[SeenArrival]  #: jobs that wait at the engine and are not recorded
    left: Sequence[str]  #: jobs recorded as waiting that are gone from an engine that keeps the queue
    held: Sequence[SeenArrival]  #: waiting jobs that may not begin there
    released: Sequence[str]
    missing: Mapping[str, float]
    remarks: Sequence[str]
    haunted: frozenset[str]  #: nodes where something of ours runs that should not
    ghosts: frozenset[str]  #: … and the jobs it is of


def reconcile(records: Records, seen: Seen, *, keeps_queue: bool = False) -> Found:
    """See the module. Instants are epoch seconds by the engine's clock."""
    ended: list[Ended] = []
    stops: list[Key] = []
    forgets: list[Key] = []
    remarks: list[str] = []
    missing: dict[str, float] = {}
    haunted: set[str] = set()
    there: set[Key] = set()
    for attempt in seen.attempts:
        key = (attempt.job, attempt.attempt)
        if key in there:
            continue
        there.add(key)
        if key in records.attempts:
            if attempt.ended is not None:
                ended.append(_ended(attempt, records.attempts[key]))
        elif not records.is_ours(*key):
            if attempt.ended is None:
                where = ", ".join(sorted(attempt.nodes)) or "an unknown node"
                remarks.append(f"{attempt.job} runs on {where}, and was not started by Tenure")
        elif attempt.ended is None:
            stops.append(key)
            haunted.update(attempt.nodes)
            where = ", ".join(sorted(attempt.nodes)) or "an unknown node"
            remarks.append(f"attempt {key[1]} of job {key[0]} is over by the record and runs on {where}")
        else:
            forgets.append(key)
    for key in records.attempts:
        if key not in there:
            over = _missing(records, key, records.attempts[key], seen.at, missing)
            if over is not None:
                ended.append(over)
    alive = [one for one in seen.attempts if one.ended is None]
    nodes = _nodes(records, seen, haunted, missing, remarks)
    nodes = [told for one in nodes if (told := _while_seen(records, one, alive)) is not None]
    nodes += _left_by_gangs(records, nodes, alive, haunted)
    arrivals, left, held, released = _queue(records, seen, missing) if keeps_queue else ([], [], [], [])
    ended.sort(key=lambda one: one.place)
    return Found(
        ended=ended,
        nodes=nodes,
        stops=stops,
        forgets=forgets,
        arrivals=arrivals,
        left=left,
        held=held,
        released=released,
        missing=missing,
        remarks=remarks,
        haunted=frozenset(haunted),
        ghosts=frozenset(job for job, _ in stops),
    )


def _ended(seen: SeenAttempt, known: Known) -> Ended:
    """In which way it ended. Told to stop, it counts as stopped by us, unless its work was done (S15)."""
    assert seen.ended is not None
    stopping = known.phase == Phase.STOPPING
    well = seen.exit_code == 0 or (seen.exit_code is None and seen.done)  # what nobody knows is no success
    own = End.FINISHED if well and seen.signal is None else End.FAILED
    if seen.node_failed:
        end = End.NODE_FAILED
    elif stopping and (seen.told or seen.signal is not None or seen.cancelled or seen.timed_out):
        end = own if seen.done else End.CANCELLED if known.cause == Cause.CANCELLED else End.PREEMPTED
    elif seen.timed_out:
        end = End.TIMED_OUT
    elif seen.cancelled:
        end = End.CANCELLED
    else:
        end = own
    # as a simulated clock has it: first what ends by itself, by start; then what ends by its grace, by stop
    by_grace = end in (End.PREEMPTED, End.CANCELLED) and stopping
    place = (seen.ended, int(by_grace), known.stopped_n if by_grace else known.started_n)
    detail = seen.detail or _signal(seen)
    return Ended(
        seen.job, seen.attempt, seen.ended, end, seen.saved, seen.exit_code, detail, place, known.nodes
    )


def _signal(seen: SeenAttempt) -> str:
    return "" if seen.signal is None else f"ended by signal {seen.signal}"


def _missing(records: Records, key: Key, known: Known, at: float, missing: dict[str, float]) -> Ended | None:
    """The engine does not speak of an attempt: refused, not begun yet, or gone for longer than the grace."""
    place = (at, 0, known.started_n)
    if key in records.refused:
        why, node_is_bad = records.refused[key]
        end = End.NODE_FAILED if node_is_bad else End.FAILED
        return Ended(*key, at, end, None, None, why, place)
    if key in records.unstarted:
        return None
    name = f"{key[0]}.{key[1]}"
    since = records.missing.get(name, at)
    if at - since < records.grace_s or at - known.started < records.grace_s:
        missing[name] = since
        return None
    why = "the engine no longer knows this attempt"
    if known.phase == Phase.STOPPING:
        end = End.CANCELLED if known.cause == Cause.CANCELLED else End.PREEMPTED
        return Ended(*key, at, end, None, None, why, place)
    return Ended(*key, at, End.NODE_FAILED, None, None, why, place)


def _nodes(
    records: Records, seen: Seen, haunted: set[str], missing: dict[str, float], remarks: list[str]
) -> list[NodeNews]:
    found: list[NodeNews] = []
    shown = {node.name: node for node in seen.nodes}
    for name, known in records.nodes.items():
        node = shown.get(name)
        if node is None:
            since = records.missing.get(name, seen.at)
            if known.state == NodeState.DOWN:
                continue
            missing[name] = since
            remarks.append(f"{name} is not seen by the engine")
            if seen.at - since >= records.grace_s:
                found.append(NodeNews(name, NodeState.DOWN, MISSING))
            continue
        if node.gpus != known.gpus and node.up:
            remarks.append(f"node {name} has {node.gpus} GPUs, the lab says {known.gpus}")
        told = _node(known, node, name in haunted)
        if told is not None and not (name in records.unset and node.up):
            found.append(NodeNews(name, told, node.reason))
    for name in shown.keys() - records.nodes.keys():
        remarks.append(f"the engine has a node {name} that the lab does not name")
    return found


def _while_seen(records: Records, told: NodeNews, alive: Sequence[SeenAttempt]) -> NodeNews | None:
    """A node of which the engine does not speak is not dead while it shows work there: it drains, once."""
    if told.reason != MISSING or not any(told.node in attempt.nodes for attempt in alive):
        return told
    takes_work = records.nodes[told.node].state == NodeState.UP
    return told._replace(state=NodeState.DRAINING) if takes_work else None


def _left_by_gangs(
    records: Records, nodes: Sequence[NodeNews], alive: Sequence[SeenAttempt], haunted: set[str]
) -> list[NodeNews]:
    """The other nodes of a gang that a dead node takes along, where the engine shows the gang yet.

    A gang has its nodes to itself, so nobody else is touched.
    """
    dead = {told.node for told in nodes if told.state == NodeState.DOWN}
    left: set[str] = set()
    for attempt in alive:
        if len(attempt.nodes) > 1 and not dead.isdisjoint(attempt.nodes):
            left.update(attempt.nodes.keys() - dead)
    haunted.update(left)
    told_of = {told.node for told in nodes}
    works = [name for name in sorted(left - told_of) if records.nodes[name].state == NodeState.UP]
    return [NodeNews(name, NodeState.DRAINING, "a gang of a dead node is still seen here") for name in works]


def _node(known: KnownNode, node: SeenNode, haunted: bool) -> NodeState | None:
    """The state that the engine's word puts a node into; None = it stays as it is."""
    engines_own = known.by in ("", ENGINE)
    if not node.up:
        works = known.state in (NodeState.UP, NodeState.DRAINING)
        dies = works or (engines_own and known.state == NodeState.DRAINED)
        return NodeState.DOWN if dies else None
    if node.draining:
        return NodeState.DRAINING if known.state == NodeState.UP else None
    if engines_own and known.state in (NodeState.DOWN, NodeState.DRAINING, NodeState.DRAINED):
        return None if haunted else NodeState.UP
    return None


def _queue(
    records: Records, seen: Seen, missing: dict[str, float]
) -> tuple[list[SeenArrival], list[str], list[SeenArrival], list[str]]:
    """(arrivals nobody recorded, waiting jobs that left, those put on hold there, those released there)."""
    new, held, released = [], [], []
    there = set()
    for arrival in seen.arrivals:
        there.add(arrival.job)
        if arrival.job not in records.waiting:
            new.append(arrival)
        elif arrival.held and not records.waiting[arrival.job]:
            held.append(arrival)
        elif not arrival.held and records.waiting[arrival.job]:
            released.append(arrival.job)
    left = []
    for job in records.waiting.keys() - there:
        missing[job] = records.missing.get(job, seen.at)
        if seen.at - missing[job] >= LEFT_S:
            left.append(job)
    return new, sorted(left), held, released


__all__ = ["ENGINE", "Ended", "Found", "Known", "KnownNode", "NodeNews", "Records", "reconcile"]
