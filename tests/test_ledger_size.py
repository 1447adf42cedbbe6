"""A record of a month (a million events, a hundred thousand jobs) answers as quickly as a new one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event as sqlalchemy_event
from sqlalchemy import text

from tenure.ledger.compaction import CHUNK
from tenure.ledger.ledger import Ledger, open_ledger
from tenure.ledger.records import Answer, Asked
from turn_rows import attempt_row, event, job_row, order_row, turn_row

OF_FEW_ROWS = ("leadership", "counters", "meta")
JOBS, EVENTS, WAITING, TURNS = 100_000, 1_000_000, 10_000, 50_000

LINE = (
    '{"event":"started","t":0,"job":"j","account":"vision","attempt":1,"cluster":"jupiter",'
    '"nodes":{"jupiter-0001":8},"protected_until_s":3600,"reason":"owed"}'
)


def upto(n: int) -> str:
    """A table of the numbers to n, in either database."""
    return (
        "(WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i "
        f"WHERE n < {n}) SELECT n FROM i) AS i"
    )


FILL = [
    f"""INSERT INTO events (n, t, event, job, line)
        SELECT n + 1, n, CASE n % 10 WHEN 3 THEN 'waiting' ELSE 'started' END, 'j' || (n % {JOBS}), '{LINE}'
        FROM {upto(EVENTS)}""",
    f"""INSERT INTO jobs (job, seq, account, "user", phase, "end", submitted_t, ended_t, gpus, min_runtime_s,
                          spec, detail, "array")
        SELECT 'j' || n, n, 'vision/team' || (n % 20), 'user' || (n % 100),
               CASE WHEN n > {JOBS - WAITING} THEN 'waiting' ELSE 'ended' END, '', n,
               CASE WHEN n > {JOBS - WAITING} THEN NULL ELSE n + 100 END, 8, 3600,
               '{{"gpus":8,"command":["python","train.py"]}}', '',
               CASE n % 50 WHEN 7 THEN 'a' || (n / 500) ELSE '' END
        FROM {upto(JOBS)}""",
    f"""INSERT INTO attempts (job, attempt, nodes, started_t, protected_until_t, "end", reason, detail)
        SELECT 'j' || n, 1, '{{}}', n, n, '', 'owed', '' FROM {upto(JOBS)}""",
    f"""INSERT INTO orders (id, turn, place, kind, job, body, state, detail)
        SELECT 'o' || n, n, 0, 'start', 'j' || n, '{{}}',
               CASE WHEN n > {TURNS - 20} THEN 'open' ELSE 'done' END, ''
        FROM {upto(TURNS)}""",
    f"""INSERT INTO commands (number, "by", "key", verb, subject, body, at, turn, ok, answer)
        SELECT n, 'user' || (n % 100), 'k' || n, 'submit', '', '{{}}', n, n, TRUE, '{{}}'
        FROM {upto(TURNS)}""",
    f"""INSERT INTO turns (turn, t, at, epoch, digest, code, events_after, n_events, patch, news)
        SELECT n, n * 20, n, 1, 'd', 'c', n * 20 - 19, 20, NULL, NULL FROM {upto(TURNS)}""",
    f"""UPDATE counters SET last =
        CASE name WHEN 'events' THEN {EVENTS + 1} WHEN 'jobs' THEN {JOBS} ELSE {TURNS} END""",
]


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def month(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    if request.param == "sqlite":
        url = str(tmp_path_factory.mktemp("month") / "record.db")
    else:
        url = request.getfixturevalue("postgresql").new_record()
    ledger = open_ledger(url)
    with ledger._db.engine.begin() as connection:
        for statement in FILL:
            connection.execute(text(statement.replace(":", "\\:")))
    if request.param == "postgresql":
        with ledger._db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM ANALYZE"))
    yield ledger
    ledger.close()


QUESTIONS: dict[str, Callable[[Ledger], Any]] = {
    "jobs that wait, a page": lambda ledger: ledger.jobs(phase="waiting", limit=100),
    "jobs that wait, a later page": lambda ledger: ledger.jobs(phase="waiting", limit=100, offset=5000),
    "jobs of an account that wait": lambda ledger: ledger.jobs(
        phase="waiting", account="vision/team3", limit=100
    ),
    "jobs of an account": lambda ledger: ledger.jobs(account="vision/team3", limit=100),
    "jobs of a user, newest first": lambda ledger: ledger.jobs(user="user7", limit=100, newest=True),
    "jobs of an array": lambda ledger: ledger.jobs(array="a3"),
    "jobs not over yet": lambda ledger: ledger.jobs(since_t=JOBS - 1000, limit=100),
    "newest jobs": lambda ledger: ledger.jobs(limit=100, newest=True),
    "a job": lambda ledger: [ledger.job("j500"), *ledger.attempts("j500")],
    "newest events": lambda ledger: ledger.events(limit=100, newest=True),
    "events after a number": lambda ledger: ledger.events(after_number=EVENTS - 50),
    "events of a job": lambda ledger: ledger.events(job="j77"),
    "events since an instant": lambda ledger: ledger.events(since_t=EVENTS - 100),
    "events of a job in a stretch": lambda ledger: ledger.events(job="j77", since_t=1000, until_t=500_000),
    "open orders": lambda ledger: ledger.open_orders(),
    "an answer": lambda ledger: [ledger.answer(30_000)],
    "the last turn": lambda ledger: [ledger.last_turn(), ledger.turn(40_000)],
}


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS)
def test_every_question_is_answered_by_an_index(month: Ledger, question: str) -> None:
    """No table is read through; how quick it is, docs/decisions/0008 records."""
    with explained(month) as plans:
        assert QUESTIONS[question](month)
    reads_no_table_through(plans)
    print(f"{question}: {seconds(lambda: QUESTIONS[question](month)) * 1000:.1f} ms")


@contextmanager
def explained(ledger: Ledger) -> Iterator[list[str]]:
    """How the database finds the rows of every statement meanwhile."""
    plans: list[str] = []
    busy: list[bool] = []

    def explain(
        connection: Any, _cursor: object, statement: str, values: Any, _context: object, many: bool
    ) -> None:
        if busy or not statement.startswith(("SELECT", "UPDATE", "DELETE")):
            return
        busy.append(True)
        how = "EXPLAIN QUERY PLAN " if connection.dialect.name == "sqlite" else "EXPLAIN "
        first = values[0] if many else values
        plans.append(
            statement
            + "\n"
            + "\n".join(str(row) for row in connection.exec_driver_sql(how + statement, first))
        )
        busy.pop()

    sqlalchemy_event.listen(ledger._db.engine, "before_cursor_execute", explain)
    yield plans
    sqlalchemy_event.remove(ledger._db.engine, "before_cursor_execute", explain)


def reads_no_table_through(plans: list[str]) -> None:
    """But those of few rows; who wants the newest by its number stops at the first."""
    assert plans
    for plan in plans:
        first = "\nLIMIT" in plan.replace("\n ", "\n") and "TEMP B-TREE" not in plan and "WHERE" not in plan
        for line in plan.splitlines():
            through = "Seq Scan" in line or ("SCAN" in line and "USING" not in line and not first)
            assert not through or any(few in line for few in OF_FEW_ROWS), plan


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


@pytest.mark.slow
def test_to_write_commands_and_turns_no_table_is_read_through(month: Ledger) -> None:
    lease = month.lead("one", 0.0, 10.0)
    assert lease is not None
    took_s = []
    for nth in range(20):
        (number,) = month.ask([Asked("ann", "submit", "", {"gpus": 8}, 1.0, f"new {nth}-{time.time()}")])
        assert [command.number for command in month.unanswered()] == [number]
        turn, t = month.last_turn() + 1, 2 * EVENTS
        row = turn_row(
            turn,
            t=t,
            keyframe=None,
            events=[event(t, f"j{n}") for n in range(20)],
            jobs=[job_row(f"j{n}") for n in range(10)],
            attempts=[attempt_row(f"j{n}", 2) for n in range(5)],
            orders=[order_row(f"{turn}-{n}", turn) for n in range(5)],
            answers=[Answer(number, True, {"job": "j1"})],
        )
        if nth == 0:
            with explained(month) as plans:
                month.record(row, lease)
                month.settle_orders([(order.id, "done", "") for order in row.orders])
            reads_no_table_through(plans)
        else:
            took_s.append(seconds(lambda row=row: month.record(row, lease)))
            month.settle_orders([(order.id, "done", "") for order in row.orders])
    print(f"a turn: {sorted(took_s)[len(took_s) // 2] * 1000:.1f} ms")


@pytest.mark.slow
def test_a_month_is_compacted_beside_the_turns(month: Ledger) -> None:
    """No single step of it holds up a turn for long: none changes more rows than a chunk has."""
    changed = [0]
    sqlalchemy_event.listen(month._db.engine, "begin", lambda connection: changed.append(0))

    def count(_connection: object, cursor: Any, *_: object) -> None:
        changed[-1] += max(0, cursor.rowcount)

    sqlalchemy_event.listen(month._db.engine, "after_cursor_execute", count)
    took_s = seconds(lambda: month.compact(EVENTS // 2))
    sqlalchemy_event.remove(month._db.engine, "after_cursor_execute", count)
    print(f"compaction: {took_s:.1f} s in {len(changed)} steps, the largest of {max(changed)} rows")
    assert max(changed) <= CHUNK
    assert sum(changed) > 10 * CHUNK
    left = month.events(job="j13", until_t=EVENTS // 2)  # all of them reasons for waiting
    assert len(left) == 1
