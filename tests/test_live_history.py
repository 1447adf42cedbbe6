"""A month behind it costs the running scheduler nothing: the same statements, and no more rows read by them.

The database's own steps are counted: they tell what a clock on a busy machine cannot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import event as sqlalchemy_event
from sqlalchemy import text

from live_lab import LAB, Small
from live_world import START
from tenure.service.live.acting import nodes
from tenure.service.live.desk import Desk
from tenure.service.live.people import Who
from tenure.service.live.queueing import Wanted, queue
from tenure.service.live.showing import events, show, why
from tenure.service.live.standings import accounts
from tenure.service.live.submitting import why_if

ANN = Who("ann")
JOBS, EVENTS_A_JOB, DAYS = 20_000, 5, 30
EVERY = 10  #: steps of the database between two counts
LINE = (
    '{"event":"started","t":0,"job":"h","account":"a","attempt":1,"cluster":"mars","nodes":{"mars-0000":8}}'
)
N = "(WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < {}) SELECT n FROM i) AS i"
HISTORY = [
    f"""INSERT INTO events (n, t, event, job, line)
        SELECT n + 1000, n * {DAYS * 86400 // (JOBS * EVENTS_A_JOB)}, 'started', 'h' || (n % {JOBS}), '{LINE}'
        FROM {N.format(JOBS * EVENTS_A_JOB)}""",
    f"""INSERT INTO jobs (job, seq, account, "user", phase, "end", submitted_t, ended_t, gpus, min_runtime_s,
                          spec, detail, "array")
        SELECT 'h' || n, n + 1000, 'a', 'ann', 'ended', 'finished', n * {DAYS * 86400 // JOBS},
               n * {DAYS * 86400 // JOBS} + 90, 8, 1800, '{{}}', '', ''
        FROM {N.format(JOBS)}""",
    f"""INSERT INTO attempts (job, attempt, nodes, started_t, stopped_t, protected_until_t, "end",
                              reason, detail)
        SELECT 'h' || n, 1, '{{}}', n, n + 90, n, 'finished', 'owed', '' FROM {N.format(JOBS)}""",
    f"""INSERT INTO orders (id, turn, place, kind, job, body, state, detail)
        SELECT 'h' || n, -n, 0, 'start', 'h' || n, '{{}}', 'done', '' FROM {N.format(JOBS)}""",
    f"""INSERT INTO commands (number, "by", "key", verb, subject, body, at, turn, ok, answer)
        SELECT -n, 'ann', 'h' || n, 'submit', '', '{{}}', n, 1, TRUE, '{{}}' FROM {N.format(JOBS)}""",
    f"UPDATE counters SET last = {JOBS * EVENTS_A_JOB + 1000} WHERE name = 'events'",
    f"UPDATE counters SET last = {JOBS + 1000} WHERE name = 'jobs'",
]


class Cost(NamedTuple):
    """Of one act: its statements, and what the database did for them."""

    statements: Counter[str]
    steps: int


class Meter:
    """Counts what one record is asked."""

    def __init__(self, small: Small) -> None:
        self.statements: Counter[str] = Counter()
        self.steps = 0
        engine = small.ledger._db.engine
        sqlalchemy_event.listen(engine, "checkout", self._attend)
        sqlalchemy_event.listen(engine, "before_cursor_execute", self._note)

    def _attend(self, connection: Any, *_: object) -> None:
        connection.set_progress_handler(self._step, EVERY)

    def _step(self) -> int:
        self.steps += 1
        return 0

    def _note(self, _connection: object, _cursor: object, statement: str, *_: object) -> None:
        self.statements[statement] += 1

    def cost(self, act: Callable[[], object]) -> Cost:
        self.statements.clear()
        self.steps = 0
        act()
        return Cost(Counter(self.statements), self.steps * EVERY)


def lab_after(folder: Path, history: bool) -> Small:
    """A lab on its thirtieth day, with jobs that run and wait; with a month behind it or not."""
    folder.mkdir()
    small = Small(folder, {**LAB, "live": {"limits": {"max_jobs": 500}}})
    if history:
        with small.ledger._db.engine.begin() as connection:
            for statement in HISTORY:
                connection.execute(text(statement.replace(":", "\\:")))
    small.daemon.stop()
    small.clock.set(START + DAYS * 86400)
    small.wake_up()
    small.settle()
    for n in range(12):
        small.submit("a" if n % 2 else "b/x", 8, min_runtime=600)
    return small


@contextmanager
def acts(small: Small) -> Iterator[dict[str, Callable[[], object]]]:
    """What people ask of a lab all day, and what it does itself."""
    desk = Desk(small.lab, small.ledger, small.daemon, small.engine, now=small.clock.now)
    asked: dict[str, Any] = {"account": "a", "gpus": 8, "min_runtime": 600, "command": ["true"]}
    jobs = [row.job for row in queue(desk, ANN, Wanted()).jobs]
    yield {
        "submit": lambda: small.submit("a", 8, min_runtime=600),
        "submit many": lambda: (
            [small.tell("submit", spec=small.spec("a", 8)) for _ in range(30)] and small.settle()
        ),
        "a turn in which jobs end": lambda: small.to(small.t + 3700),
        "cancel": lambda: small.ask("cancel", jobs[-1]),
        "hold": lambda: small.ask("hold", jobs[-2]),
        "queue": lambda: queue(desk, ANN, Wanted()),
        "those that have ended": lambda: queue(desk, ANN, Wanted(state="ended", limit=1)),
        "show": lambda: show(desk, ANN, jobs[-3]),
        "why": lambda: why(desk, ANN, jobs[-3]),
        "why not": lambda: why_if(desk, ANN, asked),
        "events of a job": lambda: events(desk, ANN, jobs[-3]),
        "accounts": lambda: accounts(desk, ANN),
        "nodes": lambda: nodes(desk, ANN),
        "a restart": lambda: (small.daemon.stop(), small.wake_up(), small.settle()),
    }


@pytest.mark.slow
def test_a_month_of_history_adds_nothing_to_what_a_turn_or_a_question_reads(tmp_path: Path) -> None:
    new, old = (lab_after(tmp_path / name, name == "old") for name in ("new", "old"))
    meters = Meter(new), Meter(old)
    more = {}
    with acts(new) as fresh, acts(old) as late:
        for act in fresh:
            young, aged = meters[0].cost(fresh[act]), meters[1].cost(late[act])
            assert young.statements == aged.statements, act
            print(f"{act}: {sum(young.statements.values())} statements, {young.steps} and {aged.steps} steps")
            if aged.steps > 1.1 * young.steps + 100:
                more[act] = (young.steps, aged.steps)
    new.ledger.close()
    old.ledger.close()
    assert more == {}
