"""One turn of the live loop: from what is seen and asked to what is to be recorded, and ordered after that.

Nothing outside is touched here: the book given stays as it was, and the outcome is a new one with the row
that records it. Whoever called writes the row, keeps the book, and carries out the orders.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from tenure.core.board import as_kernels_want
from tenure.core.kernel import sources_digest
from tenure.core.live import News, live_turn_entry, next_instant_entry
from tenure.core.policy import Policy
from tenure.core.tables import Table, columns
from tenure.core.words import NEVER_S, NONE, Cause, End, NodeState, Phase
from tenure.daemon.asked import AFTER, ARRAY, HELD_THERE, THROTTLED
from tenure.daemon.book import Book, make_room, new_book
from tenure.daemon.commands import Desk, EndOf, Refused
from tenure.daemon.gather import Gathered, plain
from tenure.daemon.notes import notes_of_turn
from tenure.daemon.outcome import write_up
from tenure.daemon.patch import digest_of, patch_of
from tenure.daemon.reconcile import (
    ENGINE,
    Ended,
    Found,
    Key,
    Known,
    KnownNode,
    NodeNews,
    Records,
    reconcile,
)
from tenure.daemon.tell import Teller
from tenure.engines.protocol import Seen, SeenArrival
from tenure.ledger.records import Answer, Command, TurnRow
from tenure.settings.errors import BadInput
from tenure.settings.lab import Lab
from tenure.settings.live_job import submission

STATE = list(NodeState)  #: by number
SKEW_S = 2.0  #: clocks further apart than this are brought together


@dataclass(frozen=True)
class Inputs:
    """What a turn looks at beside the book."""

    now: float  #: epoch, by our clock, when the engine was asked
    seen: Seen | None  #: None: the engine is silent, and nothing is decided
    commands: Sequence[Command] = ()
    unstarted: frozenset[Key] = frozenset()
    refused: Mapping[Key, tuple[str, bool]] = field(default_factory=dict)
    ordered: frozenset[tuple[str, str, int]] = frozenset()  #: (kind, job, attempt) of orders still open
    unset: frozenset[str] = frozenset()  #: nodes that an open order speaks of
    missing: Mapping[str, float] = field(default_factory=dict)
    unenrolled: Mapping[str, str] = field(default_factory=dict)  #: why, by order: submissions refused there
    poison: frozenset[int] = frozenset()  #: numbers of commands on which turns broke
    end_of: EndOf = lambda job: None
    keeps_queue: bool = False


class Look(NamedTuple):
    """What there is to say of an instant before anything is done."""

    t: int
    at: float  #: epoch, by our clock
    skew: float  #: by how much the engine's clock is ahead
    found: Found | None

    @property
    def missing(self) -> Mapping[str, float]:
        return {} if self.found is None else self.found.missing

    @property
    def remarks(self) -> Sequence[str]:
        return () if self.found is None else self.found.remarks

    @property
    def ghosts(self) -> frozenset[str]:
        """Jobs of which an attempt runs though its end is recorded."""
        return frozenset() if self.found is None else self.found.ghosts

    @property
    def has_news(self) -> bool:
        """Whether the engine shows anything that is to be recorded."""
        found = self.found
        return found is not None and any(
            (
                found.ended, found.nodes, found.stops, found.forgets, found.arrivals, found.left, found.held,
                found.released,
            )
        )  # fmt: skip


class Outcome(NamedTuple):
    """What a turn made."""

    book: Book
    row: TurnRow
    again: bool  #: something that ended may let go what waited for it: another turn is due at once
    ghosts: frozenset[str]  #: jobs with an attempt that was given up and may run on


def look(book: Book, inputs: Inputs) -> Look:
    """Compare the book with what is seen."""
    seen = inputs.seen
    skew = 0.0 if seen is None else seen.at - inputs.now
    skew = skew if abs(skew) >= SKEW_S else 0.0
    at = inputs.now if seen is None else seen.at - skew
    t = max(book.t, math.floor(at - book.start))
    if seen is None:
        return Look(t, at, skew, None)
    found = reconcile(records_of(book, inputs, skew), seen, keeps_queue=inputs.keeps_queue)
    stops = [key for key in found.stops if ("stop", *key) not in inputs.ordered]
    forgets = [key for key in found.forgets if ("forget", *key) not in inputs.ordered]
    arrivals = [
        one for one in map(partial(_arriving, book, inputs.end_of), found.arrivals) if one is not None
    ]
    return Look(t, at, skew, found._replace(stops=stops, forgets=forgets, arrivals=arrivals))


def _arriving(book: Book, end_of: EndOf, arrival: SeenArrival) -> SeenArrival | None:
    """None for a job under way: an engine that queues a job again by itself shows it waiting in the very
    answer that tells of its end. One that has ended by the record does not come again."""
    row = book.row_of(arrival.job)
    if row != NONE and book.phase(row) != Phase.ENDED:
        return None
    if row != NONE or end_of(arrival.job) is not None:
        return arrival._replace(refused="this job has ended by the record: submit it anew")
    return arrival


def take_turn(before: Book, teller: Teller, inputs: Inputs, seen: Look) -> Outcome:
    """See the module."""
    book, t, found = before.copy(), seen.t, seen.found
    book.turn += 1
    book.calls = [(when, row) for when, row in book.calls if when > t]
    news = Gathered()
    haunted = frozenset() if found is None else found.haunted
    desk = Desk(book, news, t, inputs.end_of, haunted, keeps_queue=inputs.keeps_queue)
    desk.settle_dependencies()
    for order, why in inputs.unenrolled.items():
        desk.not_enrolled(order, why)
    desk.take(inputs.commands, inputs.poison)
    ended: dict[Key, Ended] = {}
    if found is not None:
        clock = _Clock(before.t, t, book.start + seen.skew)
        _hear_nodes(book, desk, found, clock)
        ended = _hear_ends(book, desk, found, clock)
        _hear_queue(book, desk, found)
    n_news = len(news)
    make_room(book, 0, n_news)
    table = news.table()
    apply_news(book, table, n_news, t, deciding=found is not None)
    written = write_up(before, book, desk, found, ended)
    lines = teller.lines(book, news.notes)
    row = TurnRow(
        turn=book.turn,
        t=t,
        at=seen.at,
        news=plain(table, n_news, news.notes, deciding=found is not None),
        patch=patch_of(before, book),
        digest=digest_of(before),
        code=code_digest(),
        keyframe=None,
        events=lines,
        jobs=written.jobs,
        attempts=written.attempts,
        orders=written.orders,
        answers=[desk.answers[number] for number in sorted(desk.answers)],
        shares=desk.shares,
        notes=notes_of_turn(book, lines),
        node_log=written.node_log,
    )
    return Outcome(book, row, bool(written.ended) and waits_for_others(book), written.ghosts)


@cache
def code_digest() -> str:
    """Of the deciding code of this process."""
    return sources_digest()


def apply_news(book: Book, table: Table, n_news: int, t: int, *, deciding: bool) -> None:
    """Let the core take the news and decide; what it says is on the book's board then."""
    book.board.counts["n_out"] = book.board.counts["n_placed"] = 0
    lab, board = as_kernels_want(book.core), as_kernels_want(book.board)
    live_turn_entry(lab, board, book.policy, columns(table), n_news, int(deciding), t)
    book.t = t


def warm_up(lab: Lab, policy: Policy) -> None:
    """Let what decides be compiled, where it is not, before anybody waits for it."""
    book = new_book(lab, policy, 0.0)
    apply_news(book, Gathered().table(), 0, 0, deciding=True)
    next_turn(book)


def waits_for_others(book: Book) -> bool:
    """Whether a job is held back until others have ended."""
    return any(book.cards[row].held_by in (AFTER, ARRAY) for row in book.held_after)


def next_turn(book: Book) -> int:
    """The second at which a turn is due though nothing happens; NEVER_S = none."""
    lab, board = as_kernels_want(book.core), as_kernels_want(book.board)
    due = int(next_instant_entry(lab, board, book.policy, book.t))
    plan = book.board.stays["plan"]
    calls = [when for when, row in book.calls if plan[row] != NONE]
    return max(book.t, min(due, min(calls, default=NEVER_S)))


class _Clock(NamedTuple):
    """Instants of the engine as seconds of the record: between the last turn's and this one's."""

    last_t: int
    t: int
    zero: float  #: what the engine's clock showed at t = 0

    def second(self, at: float) -> int:
        return min(self.t, max(self.last_t, math.floor(at - self.zero)))


def records_of(book: Book, inputs: Inputs, skew: float) -> Records:
    """What is recorded, as far as the engine can know of it; instants by the engine's clock."""
    board, zero, nodes = book.board, book.start + skew, book.lab.nodes
    return Records(
        attempts=_OnNodes(book, zero),
        nodes={
            node.name: KnownNode(STATE[state], book.words[row].by if row in book.words else "", node.gpus)
            for row, (node, state) in enumerate(zip(nodes, board.posts["state"].tolist(), strict=True))
        },
        is_ours=_ours(book, inputs.end_of),
        unstarted=inputs.unstarted,
        refused=inputs.refused,
        missing=inputs.missing,
        unset=inputs.unset,
        waiting=_waiting(book) if inputs.keeps_queue else {},
    )


class _OnNodes(Mapping[Key, Known]):
    """Attempts that the record has on nodes; what is known of one is put together when it is asked for."""

    def __init__(self, book: Book, zero: float) -> None:
        self._book, self._zero = book, zero
        rows = np.fromiter(book.places, np.int64, len(book.places))
        attempts = book.board.stays["attempt"][rows].tolist()
        self._rows = {
            (book.cards[row].job, attempt): row for row, attempt in zip(book.places, attempts, strict=True)
        }

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._rows)

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def __getitem__(self, key: Key) -> Known:
        row = self._rows[key]
        book, stay = self._book, self._book.board.stays[row]
        return Known(
            phase=Phase(int(stay["phase"])),
            cause=Cause(int(stay["cause"])),
            started=self._zero + int(stay["started_s"]),
            started_n=int(book.marks["started_n"][row]),
            stopped_n=int(book.marks["stopped_n"][row]),
            nodes=tuple(book.lab.nodes[node].name for node, _ in book.places[row]),
        )


def _ours(book: Book, end_of: EndOf) -> Callable[[str, int], bool]:
    def is_ours(job: str, attempt: int) -> bool:
        row = book.row_of(job)
        if row != NONE:
            return attempt <= int(book.board.stays["attempt"][row])
        return end_of(job) is not None

    return is_ours


def _waiting(book: Book) -> dict[str, bool]:
    waits = (Phase.WAITING, Phase.RESTING, Phase.CLAIMING, Phase.HELD)
    phase = book.board.stays["phase"][: book.n_jobs]
    return {
        book.cards[row].job: book.cards[row].held_by == ENGINE
        for row in np.flatnonzero(np.isin(phase, waits)).tolist()
    }


def _hear_nodes(book: Book, desk: Desk, found: Found, clock: _Clock) -> None:
    """Nodes by the engine's word, unless a person spoke of them in this turn."""
    rows = {node.name: row for row, node in enumerate(book.lab.nodes)}
    for told in found.nodes:
        row = rows[told.node]
        if row in desk.asked_nodes:
            continue
        word = book.words.get(row)
        by = word.by if word is not None and told.state == NodeState.DOWN else ENGINE
        reason = told.reason or {NodeState.UP: "it is back"}.get(told.state, "")
        state, was_down = told.state, book.board.posts["state"][row] == NodeState.DOWN
        if state == NodeState.UP and was_down and book.lab.live.health_check is not None:
            state = NodeState.TESTING  # S20: it comes back by way of its test
        desk.set_node(row, state, by, reason, _when(told, found, clock))


def _when(told: NodeNews, found: Found, clock: _Clock) -> int:
    """A node died when the first attempt that it took along ended, if the engine knows."""
    if told.state != NodeState.DOWN:
        return clock.t
    ends = [one.at for one in found.ended if one.end == End.NODE_FAILED and told.node in one.nodes]
    return clock.second(min(ends)) if ends else clock.t


def _hear_ends(book: Book, desk: Desk, found: Found, clock: _Clock) -> dict[Key, Ended]:
    """Attempts that ended; those that a node takes along at that very second are its own news."""
    dying = {row for row, state in desk.asked_nodes.items() if state == NodeState.DOWN}
    down_t = {book.lab.nodes[row].name: desk.node_t[row] for row in dying}
    for one in found.ended:
        row = book.row_of(one.job)
        second = max(clock.second(one.at), int(book.board.stays["started_s"][row]))
        if one.end == End.NODE_FAILED and any(down_t.get(node, NEVER_S) <= second for node in one.nodes):
            continue
        saved = NONE if one.saved is None else math.floor(one.saved - clock.zero)
        desk.news.add(
            second,
            News.ENDED,
            row,
            place=one.place[1:],
            value=int(one.end),
            attempt=one.attempt,
            saved_s=max(NONE, min(saved, second)),
        )
    return {(one.job, one.attempt): one for one in found.ended}


def _hear_queue(book: Book, desk: Desk, found: Found) -> None:
    """Where the engine keeps the queue: jobs that came, left, were held or released behind our back."""
    for arrival in found.arrivals:
        _arrive(book, desk, arrival)
    for order in {arrival.enrolled for arrival in found.arrivals}:
        book.enrolled.pop(order, None)
    desk.left = frozenset(found.left)
    for job in found.left:
        row = book.row_of(job)
        note = desk.news.note(by=ENGINE, reason="it left the engine's queue")
        desk.news.add(desk.t, News.CANCEL, row, note=note)
        desk.changed.add(row)
    for held in found.held:
        if book.phase(book.row_of(held.job)) != Phase.HELD:
            desk.hold(held.job, ENGINE, {"reason": _held_back(held)[1]})
    for job in found.released:
        if book.phase(book.row_of(job)) == Phase.HELD:
            desk.let_go(book.row_of(job), ENGINE, "released at the engine")


def _held_back(arrival: SeenArrival) -> tuple[str, str]:
    """Who holds it back there, and why."""
    if not arrival.held:
        return "", ""
    return ENGINE, THROTTLED if arrival.throttled else HELD_THERE


def _arrive(book: Book, desk: Desk, arrival: SeenArrival) -> None:
    """A job that the engine has: its own id, whoever submitted it; elements of an array come by one order."""
    pending = book.enrolled.get(arrival.enrolled) if arrival.enrolled else None
    spec = dict(arrival.spec if pending is None else pending["spec"])
    user = arrival.user if pending is None else str(pending["by"])
    number = None if pending is None else int(pending["number"])
    try:
        if arrival.refused:
            raise Refused(arrival.refused, 422)
        job = submission({"command": ["(at the engine)"]} | spec)
        cols = book.door.columns(job)
        make_room(book, 1, 2 + len(desk.news))
        array = arrival.job.rpartition("_")[0]  # elements are numbered so by every engine
        row = desk.add(arrival.job, job, spec, user, cols, array, held=_held_back(arrival))
        remarks = book.door.remarks(job)
    except (BadInput, Refused) as error:
        if number is not None:
            desk.answers[number] = Answer(number, False, {"error": str(error), "status": 422})
        desk.withdrawn.append((arrival.job, str(error)))
        return
    if number is not None:
        rows = desk.submitted.setdefault(number, [])
        rows.append(row)
        jobs = [book.cards[one].job for one in rows]
        body = {"job": array or arrival.job, "jobs": jobs, "remarks": remarks}
        desk.answers[number] = Answer(number, True, body)


__all__ = [
    "Inputs",
    "Look",
    "Outcome",
    "apply_news",
    "code_digest",
    "look",
    "next_turn",
    "records_of",
    "take_turn",
    "warm_up",
]
