"""A record survives what kills its writers and its databases: every turn is whole or absent."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import event as sqlalchemy_event

from databases import PostgreSQL
from tenure.ledger import database, opening
from tenure.ledger.ledger import Ledger, open_ledger
from tenure.ledger.records import Answer, Asked, Lease, LedgerUnavailable, NotTheLeader
from turn_rows import bare_turn, job_row, turn_row

KILLS = 30
HERE = Path(__file__).parent


def leader(ledger: Ledger, name: str = "one") -> Lease:
    lease = ledger.lead(name, time.time(), 60.0)
    assert lease is not None
    return lease


# --- a killed writer ------------------------------------------------------------------------------


class Writers:
    """Starts writers (tests/ledger_writer.py), one after the other, and kills them."""

    def __init__(self) -> None:
        self._program = subprocess.Popen(
            [sys.executable, str(HERE / "ledger_writer.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._in, self._out = self._program.stdin, self._program.stdout

    def run(self, url: str, after_s: float) -> dict[str, int]:
        """Kill a writer so long after its first turn; the last number it told of each kind."""
        self._in.write(f"{url}\n")
        told: dict[str, int] = {}
        killer = None
        for line in self._out:
            if line == "over\n":
                break
            kind, number = line.split()
            told[kind] = int(number)
            if kind == "turn" and killer is None:
                killer = threading.Timer(after_s, os.kill, (told["pid"], signal.SIGKILL))
                killer.start()
        assert killer is not None, "the writer ended before its first turn"
        killer.join()
        return told

    def end(self) -> None:
        self._in.close()
        self._out.close()
        self._program.wait()


@pytest.fixture
def writers() -> Iterator[Writers]:
    made = Writers()
    yield made
    made.end()


@pytest.mark.slow
def test_a_writer_killed_at_any_instant_leaves_whole_turns_and_loses_none_it_told_of(
    record_url: str, writers: Writers
) -> None:
    rng = np.random.default_rng([30, 8])
    for after_s in rng.uniform(0.0, 0.12, KILLS).tolist():
        told = writers.run(record_url, after_s)
        ledger = open_ledger(record_url)
        assert ledger.last_turn() in (told["turn"], told["turn"] + 1)
        asked = newest_command(ledger)
        assert asked >= told.get("asked", 0)
        all_is_whole(ledger)
        ledger.yield_lease(Lease("writer", epoch_of(ledger), 0.0))
        ledger.close()


def newest_command(ledger: Ledger) -> int:
    with ledger._db.reading() as connection:
        return int(connection.exec_driver_sql("SELECT coalesce(max(number), 0) FROM commands").scalar_one())


def epoch_of(ledger: Ledger) -> int:
    with ledger._db.reading() as connection:
        return int(connection.exec_driver_sql("SELECT epoch FROM leadership").scalar_one())


def all_is_whole(ledger: Ledger) -> None:
    """Every turn is there with all it wrote, numbers have no gaps, and nothing belongs to no turn."""
    last = ledger.last_turn()
    with ledger._db.reading() as connection:

        def column(asked: str) -> list[object]:
            return [row[0] for row in connection.exec_driver_sql(asked)]

        turns = list(range(1, last + 1))
        assert column("SELECT turn FROM turns ORDER BY turn") == turns
        assert column("SELECT turn FROM keyframes ORDER BY turn") == [turn for turn in turns if turn % 5 == 0]
        assert column("SELECT n FROM events ORDER BY n") == list(range(2, 2 * last + 2))
        assert column("SELECT t FROM events ORDER BY n") == [turn for turn in turns for _ in range(2)]
        assert column("SELECT submitted_t FROM jobs ORDER BY seq") == turns
        assert column("SELECT started_t FROM attempts ORDER BY started_t") == turns
        assert column("SELECT turn FROM orders ORDER BY turn") == turns
        numbers = column("SELECT number FROM commands ORDER BY number")
        assert numbers == list(range(1, len(numbers) + 1))
        answered = column("SELECT turn FROM commands WHERE turn IS NOT NULL ORDER BY number")
        assert answered == sorted(answered, key=lambda turn: int(str(turn)))
        assert column("SELECT count(*) FROM commands WHERE (turn IS NULL) <> (answer IS NULL)") == [0]
        assert column("SELECT last FROM counters WHERE name = 'events'") == [2 * last + 1]
    patches = [(turn, patch["turn"]) for turn, _, patch, _ in ledger.patches_after(0)]
    assert patches == [(turn, turn) for turn in turns]


# --- no room, no answer ---------------------------------------------------------------------------


def test_a_full_disk_refuses_the_turn_and_leaves_nothing_of_it(sqlite_url: str) -> None:
    ledger = open_ledger(sqlite_url)
    lease = leader(ledger)
    ledger.record(turn_row(1, patch={"turn": 1}), lease)
    limit = {"pages": 120}

    @sqlalchemy_event.listens_for(ledger._db.engine, "connect")
    def little_room(driver: sqlite3.Connection, _: object) -> None:
        driver.execute(f"PRAGMA max_page_count={limit['pages']}").close()

    ledger._db.engine.dispose()

    def fill() -> None:
        for turn in range(2, 100):
            ledger.record(turn_row(turn, patch={"turn": turn, "bulk": os.urandom(6000).hex()}), lease)

    with pytest.raises(LedgerUnavailable, match="full"):
        fill()
    last = ledger.last_turn()
    assert last > 1
    all_is_whole(ledger)
    with pytest.raises(LedgerUnavailable, match="full"):
        ledger.ask([Asked("ann", "submit", "", {"env": "x" * 1_000_000}, 1.0)])
    assert ledger.unanswered() == []
    limit["pages"] = 1_000_000
    ledger._db.engine.dispose()
    ledger.record(turn_row(last + 1, patch={"turn": last + 1}), lease)
    assert ledger.ask([Asked("ann", "submit", "", {}, 1.0)]) == [1]
    all_is_whole(ledger)
    ledger.close()


def test_a_database_that_another_process_holds_is_unavailable_for_a_while(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "BUSY_S", 0.2)
    ledger = open_ledger(sqlite_url)
    lease = leader(ledger)
    holder = sqlite3.connect(sqlite_url, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerUnavailable, match="locked"):
        ledger.record(turn_row(1), lease)
    with pytest.raises(LedgerUnavailable, match="locked"):
        ledger.ask([Asked("ann", "submit", "", {}, 1.0)])
    assert ledger.last_turn() == 0  # reading goes on
    holder.execute("ROLLBACK")
    holder.close()
    ledger.record(turn_row(1), lease)
    ledger.close()


def test_a_write_that_never_ends_holds_nobody_up_for_ever(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "WRITE_WAIT_S", 0.1)
    ledger = open_ledger(sqlite_url)
    with ledger._db.writing(), pytest.raises(LedgerUnavailable, match="another write"):
        in_another_thread(lambda: ledger.set_meta("a", 1))
    ledger.set_meta("a", 2)
    assert ledger.meta("a") == 2
    ledger.close()


def in_another_thread(work: object) -> None:
    wrong: list[BaseException] = []

    def safely() -> None:
        try:
            work()  # type: ignore[operator]
        except BaseException as error:
            wrong.append(error)

    thread = threading.Thread(target=safely)
    thread.start()
    thread.join()
    if wrong:
        raise wrong[0]


@pytest.mark.slow
def test_a_postgresql_started_anew_is_used_again_without_opening_it_again() -> None:
    server = PostgreSQL()
    try:
        ledger = open_ledger(server.new_database())
        lease = leader(ledger)
        ledger.record(turn_row(1, patch={"turn": 1}), lease)
        for turn, mode in ((2, "fast"), (4, "immediate")):
            server.stop(mode)
            for ask in (
                ledger.last_turn,
                lambda: ledger.ask([Asked("ann", "submit", "", {}, 1.0)]),
                lambda: ledger.record(turn_row(9), lease),
                lambda: ledger.who("x", 1.0),
            ):
                with pytest.raises(LedgerUnavailable):
                    ask()
            server.start()
            ledger.record(turn_row(turn, patch={"turn": turn}), lease)
            server.stop(mode)
            server.start()  # nobody asked in between
            ledger.record(turn_row(turn + 1, patch={"turn": turn + 1}), lease)
            all_is_whole(ledger)
        ledger.close()
    finally:
        server.end()


@pytest.mark.slow
def test_a_connection_cut_in_mid_write_leaves_nothing_of_it(postgresql: PostgreSQL) -> None:
    ledger = open_ledger(postgresql.new_record())
    lease = leader(ledger)
    ledger.record(turn_row(1, patch={"turn": 1}), lease)
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tenure'"

    @sqlalchemy_event.listens_for(ledger._db.engine, "before_cursor_execute")
    def cut_it(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("INSERT INTO orders"):
            postgresql.say(cut)

    with pytest.raises(LedgerUnavailable):
        ledger.record(turn_row(2, patch={"turn": 2}), lease)
    sqlalchemy_event.remove(ledger._db.engine, "before_cursor_execute", cut_it)
    all_is_whole(ledger)
    ledger.record(turn_row(2, patch={"turn": 2}), lease)
    all_is_whole(ledger)
    ledger.close()


# --- two servers ----------------------------------------------------------------------------------


def test_a_leader_that_slept_through_its_lease_writes_nothing_more(record_url: str) -> None:
    first, second = open_ledger(record_url), open_ledger(record_url)
    old = first.lead("first", 100.0, 5.0)
    assert old is not None
    first.record(turn_row(1, patch={"turn": 1}), old)
    new = second.lead("second", 106.0, 5.0)
    assert new is not None
    with pytest.raises(NotTheLeader, match="second leads now"):
        first.record(turn_row(2, patch={"turn": 2}), old)
    with pytest.raises(NotTheLeader):
        first.renew(old, 106.0, 5.0)
    second.record(turn_row(2, patch={"turn": 2}), new)
    all_is_whole(first)
    first.close()
    second.close()


@pytest.mark.slow
def test_two_servers_that_both_believe_they_lead_write_one_row_of_turns(record_url: str) -> None:
    """Each takes the lead whenever it may and writes until it is refused; time runs differently for them."""
    wrong: list[BaseException] = []
    written: list[int] = []
    led: set[str] = set()

    def serve(name: str, speed: float) -> None:
        ledger = open_ledger(record_url)
        began = time.monotonic()
        try:
            lease = None
            while (len(written) < 150 or len(led) < 2) and time.monotonic() - began < 300:
                lease = lease or ledger.lead(name, (time.monotonic() - began) * speed, 0.05)
                if lease is None:
                    continue
                try:
                    turn = ledger.last_turn() + 1
                    ledger.record(turn_row(turn, patch={"turn": turn}), lease)
                    written.append(turn)
                    led.add(name)
                except NotTheLeader:
                    lease = None
        except BaseException as error:
            wrong.append(error)
        finally:
            ledger.close()

    servers = [threading.Thread(target=serve, args=(f"server {n}", 1.0 + 3 * n)) for n in range(2)]
    for server in servers:
        server.start()
    for server in servers:
        server.join()
    assert wrong == []
    assert sorted(written) == list(range(1, len(written) + 1))
    ledger = open_ledger(record_url)
    all_is_whole(ledger)
    assert epoch_of(ledger) > 1
    ledger.close()


@pytest.mark.slow
def test_an_answer_and_its_job_are_there_together_or_not_at_all(record_url: str) -> None:
    """Readers beside the writer never see half of a turn."""
    ledger = open_ledger(record_url)
    lease = leader(ledger)
    numbers = ledger.ask([Asked("ann", "submit", "", {}, 1.0) for _ in range(60)])
    torn: list[int] = []
    over = threading.Event()

    def look() -> None:
        mine = open_ledger(record_url)
        while not over.is_set():
            for number in numbers:
                if mine.answer(number) is not None and mine.job(f"j{number}") is None:
                    torn.append(number)
        mine.close()

    readers = [threading.Thread(target=look) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in numbers:
        answer = Answer(number, True, {"job": f"j{number}"})
        ledger.record(bare_turn(number, answers=[answer], jobs=[job_row(f"j{number}")]), lease)
    over.set()
    for reader in readers:
        reader.join()
    assert torn == []
    ledger.close()
