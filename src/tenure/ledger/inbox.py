"""Commands: what people ask for is on the disk before anything is done about it, each once, in one order.

Putting one command on the disk takes a few milliseconds, whoever waits for it; putting a hundred takes
hardly more. So those who ask at the same time are written together: the first of them writes for all, and
wakes the first of those who came meanwhile to write for them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, select, tuple_

from tenure.ledger.database import Database, count_on
from tenure.ledger.records import Answer, Asked, Command, KeyReused
from tenure.ledger.tables import COMMANDS, holdable
from tenure.ledger.text_form import read, told

POLL_S = 0.5  #: how often an answer written by another process is looked for
REMEMBERED = 2048  #: newest answers kept in memory for those who wait
MOST_FRESH = 100_000  #: commands known to be unanswered; of more the database is asked
ROW = COMMANDS.c

NO_BODY = "{}"  #: of what was compacted

Line = dict[str, Any]
Who = tuple[str, str]  #: user, key


class _Ticket:
    """What one caller asks, and what became of it."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines = lines
        self.numbers: list[int] | None = None
        self.error: BaseException | None = None
        self.called = threading.Event()  #: it is settled, or its caller is to write for all that wait

    @property
    def settled(self) -> bool:
        return self.numbers is not None or self.error is not None


class Inbox:
    """The commands of one record. Safe to use from many threads."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._lock = threading.Lock()
        self._waiting: list[_Ticket] = []
        self._writing = False
        self._answered = threading.Condition()
        self._turns_told = 0
        self._newest: dict[int, Answer] = {}
        self._fresh: set[int] = set()  #: written here, and not answered here: nothing to be looked up yet

    def ask(self, asked: Sequence[Asked]) -> list[int]:
        """Write commands down; their numbers, in the order given.

        A command of the same user with the same key is there once, and has one number.
        Raises LedgerUnavailable: none of these was written. Raises ValueError where a body is not JSON.
        Raises KeyReused where a key was used for something else: that is not written, and the others are.
        """
        ticket = _Ticket([_line(one) for one in asked])
        with self._lock:
            self._waiting.append(ticket)
            first = not self._writing
            self._writing = True
        if not first:
            ticket.called.wait()
        if not ticket.settled:
            with self._lock:
                batch, self._waiting = self._waiting, []
            self._write(batch)
        if ticket.error is not None:
            raise ticket.error
        numbers = ticket.numbers or []
        if 0 in numbers:
            key = ticket.lines[numbers.index(0)]["key"]
            raise KeyReused(f"the key {key!r} was used already, for something else: give each its own")
        return numbers

    def _write(self, batch: Sequence[_Ticket]) -> None:
        """Write for all of these, tell them, and let the first of those who came meanwhile go on."""
        error: BaseException | None = None
        numbers: list[int] = []
        try:
            numbers, fresh = _written(self._db, [line for ticket in batch for line in ticket.lines])
            with self._answered:
                if len(self._fresh) > MOST_FRESH:
                    self._fresh.clear()
                self._fresh.update(fresh)
        except BaseException as wrong:  # every caller must hear of it, whatever it is
            error = wrong
        at = 0
        for ticket in batch:
            ticket.error = error
            ticket.numbers = numbers[at : at + len(ticket.lines)]
            at += len(ticket.lines)
            ticket.called.set()
        with self._lock:
            self._writing = bool(self._waiting)
            if self._writing:
                self._waiting[0].called.set()

    def unanswered(self, limit: int) -> list[Command]:
        """The oldest commands without an answer, in order."""
        wanted = select(COMMANDS).where(ROW.turn.is_(None)).order_by(ROW.number).limit(limit)
        with self._db.reading() as connection:
            return [_command(row) for row in connection.execute(wanted)]

    def answer(self, number: int) -> Answer | None:
        """What became of a command; None while it is unanswered. Raises KeyError for a number never given."""
        wanted = select(ROW.ok, ROW.answer).where(ROW.number == number)
        with self._db.reading() as connection:
            row = connection.execute(wanted).one_or_none()
        if row is None:
            raise KeyError(number)
        return None if row.ok is None else Answer(number, row.ok, read(row.answer))

    def wait_answer(self, number: int, timeout_s: float) -> Answer | None:
        """As `answer`, waiting for it; None where it is still unanswered after `timeout_s`."""
        until = time.monotonic() + timeout_s
        with self._answered:
            look = number not in self._fresh
        while True:
            with self._answered:
                seen, found = self._turns_told, self._newest.get(number)
            if found is None and look:  # answered before, or by another server
                found = self.answer(number)  # not under the lock: it may take long, and `tell` must not
            left = until - time.monotonic()
            if found is not None or left <= 0:
                return found
            with self._answered:
                silent = self._turns_told == seen and not self._answered.wait(min(left, POLL_S))
                look = silent or number not in self._fresh

    def tell(self, answers: Sequence[Answer]) -> None:
        """These answers were recorded just now: who waits for one need not ask the database."""
        with self._answered:
            self._newest.update((one.number, one) for one in answers)
            self._fresh.difference_update(one.number for one in answers)
            for number in list(self._newest)[: max(0, len(self._newest) - REMEMBERED)]:
                del self._newest[number]
            self._turns_told += 1
            self._answered.notify_all()


def _line(asked: Asked) -> Line:
    return {
        "by": holdable(asked.by),
        "key": holdable(asked.key) or None,
        "verb": holdable(asked.verb),
        "subject": holdable(asked.subject),
        "body": told(asked.body),
        "at": asked.at,
    }


def _written(db: Database, lines: Sequence[Line]) -> tuple[list[int], range]:
    """Write all that is new, in one transaction; the number of each line, 0 where its key was another's.

    And the numbers given now.
    """
    if not lines:
        return [], range(0)
    with db.writing() as connection:
        # the counter is locked first: whoever asks with the same key at the same time waits here
        last = number = count_on(connection, "commands", 0)
        known = _known(connection, [(line["by"], line["key"]) for line in lines if line["key"]])
        numbers, new = [], []
        for line in lines:
            who = (line["by"], line["key"])
            if line["key"] and who in known:
                earlier, what = known[who]
                numbers.append(earlier if _same(what, line) else 0)
                continue
            number += 1
            numbers.append(number)
            new.append({"number": number, **line})
            known[who] = number, line
        db.insert(connection, COMMANDS, new)
        count_on(connection, "commands", len(new))
    return numbers, range(last + 1, number + 1)


def _known(connection: Connection, keys: Sequence[Who]) -> dict[Who, tuple[int, Line]]:
    """Commands asked with these keys before: number and what was asked."""
    found: dict[Who, tuple[int, Line]] = {}
    for at in range(0, len(keys), 200):  # SQLite takes no endless lists
        wanted = select(COMMANDS).where(tuple_(ROW.by, ROW.key).in_(keys[at : at + 200]))
        for row in connection.execute(wanted):
            found[row.by, row.key] = row.number, {"verb": row.verb, "subject": row.subject, "body": row.body}
    return found


def _same(earlier: Line, line: Line) -> bool:
    """Whether the same was asked; of what was compacted nobody knows the body."""
    if (earlier["verb"], earlier["subject"]) != (line["verb"], line["subject"]):
        return False
    return earlier["body"] == NO_BODY or read(earlier["body"]) == read(line["body"])


def _command(row: Any) -> Command:
    asked = Asked(row.by, row.verb, row.subject, read(row.body), row.at, row.key or "")
    return Command(row.number, asked)
