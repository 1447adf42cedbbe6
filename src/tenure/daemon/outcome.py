"""What a turn leaves behind: rows of jobs and attempts, orders for the engine, answers with receipts.

Reads the events that the core has said and keeps up what only the book knows of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tenure.core.contract import protection_s as protection_kernel
from tenure.core.words import NEVER_S, NONE, Cause, End, Happened, NodeState, Phase, Rule
from tenure.daemon.book import Book, NodeWord
from tenure.daemon.commands import Desk, command_line
from tenure.daemon.reconcile import Ended, Found, Key
from tenure.daemon.tell import Said, said
from tenure.engines.protocol import Forget, Notice, Order, SetNode, Start, Stop, Withdraw
from tenure.ledger.records import Answer, AttemptRow, JobRow, NodeEntry, OrderRow

protection_s = getattr(protection_kernel, "py_func", protection_kernel)
CLOSING = "reservation"  #: who drains a node whose announced instant has come
PHASES = {
    Phase.RUNNING: "running",
    Phase.STOPPING: "stopping",
    Phase.ENDED: "ended",
}  #: all others wait


class Written(NamedTuple):
    """Rows of one turn."""

    jobs: Sequence[JobRow]
    attempts: Sequence[AttemptRow]
    orders: Sequence[OrderRow]
    node_log: Sequence[NodeEntry]
    ended: frozenset[int]
    ghosts: frozenset[str]


class _Writer:
    """Goes through what was said, once."""

    def __init__(self, before: Book, book: Book, desk: Desk, ended: Mapping[Key, Ended]) -> None:
        self.before = before
        self.book = book
        self.events = list(said(book))
        self.desk = desk
        self.seen_end = ended
        self.changed = set(desk.changed)
        self.ends: dict[int, str] = {}
        self.attempts: dict[Key, AttemptRow] = {}
        self.orders: list[Order] = []
        self.stops: dict[Key, Said] = {}
        self.node_log: list[NodeEntry] = []
        self.ghosts: set[str] = set()
        self.order_n = 0

    def id(self) -> str:
        self.order_n += 1
        return f"{self.book.turn}-{self.order_n}"

    def take(self, one: Said) -> None:
        """One event."""
        book, row = self.book, one.job
        if row != NONE and one.event != Happened.NOTICE:
            self.changed.add(row)
        if one.event == Happened.STARTED:
            self._start(one)
        elif one.event == Happened.CLAIMED:
            book.claims.pop(row, None)
            book.claims[row] = one.nodes
        elif one.event == Happened.UNCLAIMED:
            del book.claims[row]
        elif one.event == Happened.PLANNED:
            book.calls.append((one.x, row))
        elif one.event == Happened.STOPPING:
            book.mark(row, "stopped_n")
            self.stops[book.cards[row].job, one.attempt] = one
        elif one.event == Happened.STOPPED:
            self._stopped(one)
        elif one.event == Happened.CANCELLED:
            self.ends[row] = "cancelled"
            if self.desk.keeps_queue and book.cards[row].job not in self.desk.left:
                self.orders.append(Withdraw(self.id(), book.cards[row].job))
        elif one.event == Happened.NODE:
            self._node(one)

    def _start(self, one: Said) -> None:
        book, row = self.book, one.job
        book.claims.pop(row, None)
        book.mark(row, "started_n")
        book.marks["start_rule"][row] = one.rule
        book.places[row] = one.nodes
        card = book.cards[row]
        if card.detail:
            book.cards[row] = card._replace(detail="")
        nodes = {book.lab.nodes[node].name: gpus for node, gpus in one.nodes}
        rule = Rule(one.rule).name.lower()
        key = (card.job, one.attempt)
        self.attempts[key] = AttemptRow(*key, nodes, one.t, one.x, None, "", rule)
        env = {str(name): str(value) for name, value in (card.spec.get("env") or {}).items()}
        limit = int(book.core.jobs["max_runtime_s"][row])
        self.orders.append(
            Start(
                id=self.id(),
                job=card.job,
                attempt=one.attempt,
                account=card.account,
                user=card.user,
                nodes=nodes,
                command=command_line(card.spec),
                env=env | _told(card.job, card.array, one.attempt, card.account),
                workdir=str(card.spec.get("workdir") or ""),
                max_runtime_s=None if limit >= NEVER_S else limit,
                name=str(card.spec.get("name") or ""),
            )
        )

    def _stopped(self, one: Said) -> None:
        book, row = self.book, one.job
        card = book.cards[row]
        key = (card.job, one.attempt)
        place = book.places.pop(row)
        end = End(one.code).name.lower()
        seen = self.seen_end.get(key)
        begun = self.attempts.get(key)
        nodes = {book.lab.nodes[node].name: gpus for node, gpus in place}
        if begun is None:  # it began in an earlier turn; its row may hold the next attempt by now
            stay = self.before.board.stays[row]
            begun = AttemptRow(
                *key,
                nodes,
                int(stay["started_s"]),
                int(stay["protected_until_s"]),
                None,
                "",
                Rule(int(book.marks["start_rule"][row])).name.lower(),
            )
        detail = "" if seen is None else seen.detail
        self.attempts[key] = begun._replace(
            stopped_t=one.t,
            end=end,
            held_gpu_s=one.x,
            lost_gpu_s=one.y,
            exit_code=None if seen is None else seen.exit_code,
            detail=detail,
        )
        if detail:
            book.cards[row] = card._replace(detail=detail)
        if book.phase(row) == Phase.ENDED:
            self.ends[row] = end
        if seen is not None:
            self.orders.append(Forget(self.id(), *key))
        else:  # given up by somebody's word, not by the engine's: it may run on
            self.orders.append(Stop(self.id(), *key, 0.0, False, "its node was given up"))
            self.ghosts.add(card.job)

    def _node(self, one: Said) -> None:
        book, name, state = self.book, self.book.lab.nodes[one.by].name, NodeState(one.code)
        note = self.desk.news.notes[one.y] if one.y != NONE else {}
        if one.x:  # only announced: it is going to close
            return
        if state == NodeState.DRAINING and one.by not in self.desk.asked_nodes:  # its announced instant came
            why = self.desk.closings.get(one.by, "it was announced to close")
            book.words[one.by] = NodeWord(CLOSING, why)
        word = book.words.get(one.by, NodeWord())
        if not note:  # by itself: it has become empty, or closes as announced
            note = {"by": word.by, "reason": word.reason}
        by, reason = str(note.get("by", "")), str(note.get("reason", ""))
        person = one.by in self.desk.repairs
        self.node_log.append(NodeEntry(name, state.name.lower(), by, reason, book.start + one.t, person))

    def settle(self, found: Found | None) -> None:
        """Orders that follow from all of it."""
        book = self.book
        told = set()
        for key, one in self.stops.items():
            row = one.job
            if book.phase(row) != Phase.STOPPING or int(book.board.stays["attempt"][row]) != one.attempt:
                continue
            cause = Cause(one.code)
            told.add(key)
            requeue = bool(book.core.jobs["resumable"][row]) and cause != Cause.CANCELLED
            why = cause.name.lower()
            self.orders.append(Stop(self.id(), *key, float(max(0, one.x - one.t)), requeue, why))
        for one in self.events:
            key = (book.cards[one.job].job, one.attempt) if one.job != NONE else ("", 0)
            if one.event == Happened.NOTICE and key not in self.stops:
                self.orders.append(Notice(self.id(), *key, book.start + one.x))
        if found is not None:
            for key in found.stops:
                self.orders.append(Stop(self.id(), *key, 0.0, False, "its end is recorded already"))
            self.orders += [Forget(self.id(), *key) for key in found.forgets]
        for node, (out, reason) in self.desk.told_nodes.items():
            self.orders.append(SetNode(self.id(), node, out, reason))
        for job, why in self.desk.withdrawn:
            self.orders.append(Withdraw(self.id(), job, why))

    def job_rows(self) -> Iterator[JobRow]:
        book = self.book
        for row in sorted(self.changed):
            card, phase = book.cards[row], book.phase(row)
            ended = phase == Phase.ENDED
            if ended and row not in self.ends:
                continue  # it had ended before
            yield JobRow(
                job=card.job,
                account=card.account,
                user=card.user,
                phase=PHASES.get(phase, "waiting"),
                end=self.ends.get(row, "") if ended else "",
                submitted_t=card.submitted_t,
                ended_t=book.t if ended else None,
                gpus=int(book.core.jobs["gpus"][row]),
                min_runtime_s=int(book.core.jobs["min_runtime_s"][row]),
                spec=card.spec,
                detail=card.detail,
                array=card.array,
            )


def _told(job: str, array: str, attempt: int, account: str) -> dict[str, str]:
    """What an attempt's environment says of it."""
    told = {"TENURE_JOB": job, "TENURE_ATTEMPT": str(attempt), "TENURE_ACCOUNT": account}
    if array:
        told |= {"TENURE_ARRAY": array, "TENURE_ARRAY_TASK": job.rpartition("_")[2]}
    return told


def write_up(
    before: Book,
    book: Book,
    desk: Desk,
    found: Found | None,
    ended: Mapping[Key, Ended],
) -> Written:
    """Rows of the turn just taken; brings the book's own lists up to date, and finishes answers."""
    writer = _Writer(before, book, desk, ended)
    for one in writer.events:
        writer.take(one)
    writer.settle(found)
    orders = [
        OrderRow(order.id, book.turn, type(order).__name__.lower(), getattr(order, "job", ""), _body(order))
        for order in [*writer.orders, *desk.enrols]
    ]
    victims: dict[int, list[str]] = {}
    for one in writer.stops.values():
        victims.setdefault(one.by, []).append(book.cards[one.job].job)
    for number, answer in desk.answers.items():
        if answer.ok and "job" in answer.body:
            desk.answers[number] = _finished(book, desk, answer, victims)
    return Written(
        jobs=list(writer.job_rows()),
        attempts=list(writer.attempts.values()),
        orders=orders,
        node_log=writer.node_log,
        ended=frozenset(writer.ends),
        ghosts=frozenset(writer.ghosts),
    )


def _body(order: Order) -> dict[str, Any]:
    return {name: value for name, value in order._asdict().items() if name != "id"}


def _finished(book: Book, desk: Desk, answer: Answer, victims: Mapping[int, list[str]]) -> Answer:
    """The answer with what became of it in the same turn."""
    body = dict(answer.body)
    rows = desk.submitted.get(answer.number)
    if rows:
        receipt = _receipt(book, rows[0], body.pop("remarks", []))
        body["receipt"] = receipt | {"stops": victims.get(rows[0], [])}
    else:
        row = book.row_of(str(body["job"]))
        if row != NONE:
            body["phase"] = PHASES.get(book.phase(row), "waiting")
    return answer._replace(body=body)


def _receipt(book: Book, row: int, remarks: Sequence[str]) -> dict[str, Any]:
    """S22: what a submission came to."""
    minimum_s = int(book.core.jobs["min_runtime_s"][row])
    card = book.cards[row]
    return {
        "phase": PHASES.get(book.phase(row), "waiting"),
        "budgeted": minimum_s > 0,
        "min_runtime_s": minimum_s,
        "protected_s": int(protection_s(book.policy, minimum_s)),
        "remarks": list(remarks),
        "nodes": {book.lab.nodes[node].name: gpus for node, gpus in book.places.get(row, ())},
        "detail": card.detail,
    }


__all__ = ["PHASES", "Written", "write_up"]
