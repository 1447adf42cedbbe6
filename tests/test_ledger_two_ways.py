"""The same calls, one by one, to SQLite and to PostgreSQL: the same answers, rows and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sqlalchemy import event as sqlalchemy_event
from sqlalchemy import select

from tenure.ledger.ledger import Ledger, open_ledger
from tenure.ledger.records import Answer, Asked, Lease, NodeEntry
from tenure.ledger.tables import METADATA
from turn_rows import attempt_row, event, job_row, order_row, turn_row

WORDS = ("", "a", "b", "a/b", "A", "ä", "a-b", "zz", "ø", "'", "%", "_", "\\", "a\0b")


class Caller:
    """Makes calls drawn from a seed; every ledger that hears the same seed hears the same calls."""

    def __init__(self, ledger: Ledger, seed: int) -> None:
        self.ledger = ledger
        self.rng = np.random.default_rng([seed, 9])
        self.lease: Lease | None = None
        self.now, self.t = 0.0, 1
        self.told: list[object] = []

    def call(self, n: int) -> None:
        steps = (self.lead, self.ask, self.ask, self.turn, self.turn, self.turn, self.settle, self.ask_all)
        steps += (self.wrong, self.rest, self.compact)
        for _ in range(n):
            step = steps[self.rng.integers(len(steps))]
            try:
                self.told.append((step.__name__, step()))
            except (ValueError, KeyError) as error:
                self.told.append((step.__name__, type(error).__name__))
            except Exception as error:
                self.told.append((step.__name__, type(error).__name__, str(error)))

    def word(self) -> str:
        return WORDS[self.rng.integers(len(WORDS))]

    def number(self, below: int = 12) -> int:
        return int(self.rng.integers(below))

    def lead(self) -> object:
        self.now += self.number(8)
        found = self.ledger.lead("ab"[self.number(2)], self.now, 5.0)
        self.lease = found or self.lease
        return found

    def ask(self) -> object:
        asked = [
            Asked(self.word(), "submit", self.word(), {self.word(): self.word()}, self.now, self.word())
            for _ in range(self.number(4))
        ]
        return self.ledger.ask(asked)

    def turn(self) -> object:
        number = self.ledger.last_turn() + 1
        self.t += self.number(3)
        answers = [Answer(one.number, bool(self.number(2)), {"a": 1}) for one in self.ledger.unanswered(3)]
        ended = {"phase": "ended", "end": "finished", "ended_t": self.t}
        row = turn_row(
            number,
            t=self.t,
            keyframe=b"%d" % number if self.number(4) == 0 else None,
            events=[event(self.t, self.word(), ("waiting", "started")[self.number(2)]) for _ in range(3)],
            jobs=[
                job_row(f"j{self.number(40)}", account=self.word(), user=self.word(), array=self.word()),
                job_row(f"j{self.number(40)}k", detail=self.word(), **(ended if self.number(2) else {})),
            ],
            attempts=[attempt_row(f"j{self.number(40)}", self.number(4))],
            orders=[order_row(f"o{number}-{nth}", number) for nth in range(self.number(3))],
            answers=answers,
            shares=[{"account": self.word(), "new": self.number()}],
            notes=[{"user": self.word(), "text": self.word()}],
            node_log=[NodeEntry(self.word(), "up", self.word(), self.word(), self.now, True)],
        )
        if self.lease is None:
            return None
        return self.ledger.record(row, self.lease)

    def settle(self) -> object:
        orders, notes = self.ledger.open_orders(), self.ledger.outbox()
        some = [(order.id, "done", self.word()) for order in orders if self.number(2)]
        self.ledger.settle_orders(some)
        self.ledger.settle_notes([(note.number, "sent", self.word()) for note in notes if self.number(2)])
        return orders, notes

    def wrong(self) -> object:
        """A turn of which something is wrong."""
        row = turn_row(self.ledger.last_turn() + self.number(3), events=[event(self.number(2), "a")])
        wrong: tuple[dict[str, Any], ...] = (
            {"answers": [Answer(self.number(), True, {})]},
            {"jobs": [job_row("j", gpus=1 << 80)]},
            {"patch": {"x": float("nan")}},
            {},
        )
        row = row._replace(**wrong[self.number(len(wrong))])
        return self.lease and self.ledger.record(row, self.lease)

    def compact(self) -> object:
        return self.ledger.compact(self.t - self.number())

    def rest(self) -> object:
        self.ledger.set_meta(self.word(), {self.word(): self.number()})
        self.ledger.log_nodes([NodeEntry(self.word(), "drained", "health", self.word(), self.now)])
        return self.ledger.begin("lab", float(self.number()))

    def ask_all(self) -> object:
        """Every question with something drawn in it."""
        ledger, word, number = self.ledger, self.word, self.number
        return (
            ledger.jobs(phase=("waiting", "ended")[number(2)], account=word(), limit=1 + number()),
            ledger.jobs(user=word(), array=word(), since_t=number(60), offset=number(3), newest=True),
            ledger.jobs(account=word()),
            ledger.job(f"j{number(40)}"),
            ledger.attempts(f"j{number(40)}"),
            ledger.events(job=word(), since_t=number(60), limit=number()),
            ledger.events(until_t=number(60), after_number=number(60), newest=True, limit=1 + number()),
            ledger.share_history(word()),
            ledger.node_states(),
            ledger.node_log(word(), number()),
            ledger.repairs_by_people(float(number()), float(number(60))),
            ledger.unanswered(number()),
            ledger.answer(1 + number(30)),
            ledger.last_turn(),
            ledger.keyframe_before(number(60)),
            ledger.newest_keyframe(),
            ledger.turn(number(60)),
            list(ledger.patches_after(number(60), number(90))),
            ledger.meta(word()),
        )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_both_databases_answer_and_refuse_alike(
    sqlite_url: str, postgresql_record_url: str, seed: int
) -> None:
    callers = [Caller(open_ledger(url), seed) for url in (sqlite_url, postgresql_record_url)]
    for caller in callers:
        caller.call(150)
    for nth, (one, other) in enumerate(zip(callers[0].told, callers[1].told, strict=True)):
        assert one == other, f"call {nth}"
    names = {str(told[0]) for told in callers[0].told}  # type: ignore[index]
    assert {"turn", "wrong", "compact", "settle"} <= names
    assert callers[0].ledger.last_turn() > 20
    for table in METADATA.sorted_tables:
        rows = [sorted(map(repr, plain_rows(caller.ledger, table))) for caller in callers]
        assert rows[0] == rows[1], table.name
    for caller in callers:
        caller.ledger.close()


def plain_rows(ledger: Ledger, table: Any) -> list[tuple[object, ...]]:
    with ledger._db.reading() as connection:
        return [tuple(row) for row in connection.execute(select(table))]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_compaction_broken_off_anywhere_is_finished_by_the_next(
    record_url: str, sqlite_url: str, seed: int
) -> None:
    whole, broken = open_ledger(f"{sqlite_url}-whole"), open_ledger(record_url)
    for ledger in (whole, broken):
        caller = Caller(ledger, seed)
        caller.call(120)
    whole.compact(caller.t)
    for statements in range(1, 8):
        break_off(broken, statements, lambda: broken.compact(caller.t))
    broken.compact(caller.t)
    for table in METADATA.sorted_tables:
        rows = [sorted(map(repr, plain_rows(ledger, table))) for ledger in (whole, broken)]
        assert rows[0] == rows[1], table.name
    whole.close()
    broken.close()


class BrokenOff(Exception):
    pass


def break_off(ledger: Ledger, after: int, work: Callable[[], object]) -> None:
    """Do the work, and break it off at its n-th change."""
    left = [after]

    def count(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith(("UPDATE", "DELETE", "INSERT")):
            left[0] -= 1
            if left[0] == 0:
                raise BrokenOff

    sqlalchemy_event.listen(ledger._db.engine, "before_cursor_execute", count)
    try:
        with pytest.raises(BrokenOff):
            work()
    finally:
        sqlalchemy_event.remove(ledger._db.engine, "before_cursor_execute", count)
