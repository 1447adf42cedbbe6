"""What a record promises, in both databases alike."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import event as sqlalchemy_event
from sqlalchemy import select

from tenure.ledger.ledger import Ledger, open_ledger
from tenure.ledger.records import (
    Answer,
    Asked,
    Identity,
    KeyReused,
    Lease,
    NodeEntry,
    NotTheLeader,
    OrderRow,
    TurnTaken,
    WrongLab,
)
from tenure.ledger.tables import COUNTERS, LEADERSHIP, METADATA
from turn_rows import attempt_row, bare_turn, event, job_row, order_row, turn_row

TTL_S = 10.0


def rows(ledger: Ledger) -> dict[str, list[Any]]:
    """All rows of all tables but the two that only count and lead."""
    with ledger._db.reading() as connection:
        return {
            table.name: sorted(map(repr, connection.execute(select(table)).all()))
            for table in METADATA.sorted_tables
            if table not in (COUNTERS, LEADERSHIP)
        }


def asked(verb: str = "submit", *, by: str = "ann", key: str = "", **body: Any) -> Asked:
    return Asked(by=by, verb=verb, subject="", body=body, at=1.5, key=key)


def refuses(ledger: Ledger, write: Callable[[], None], error: type[Exception], match: str) -> None:
    """The write is refused, and nothing of it is there."""
    before = rows(ledger)
    with pytest.raises(error, match=match):
        write()
    assert rows(ledger) == before


# --- which record ---------------------------------------------------------------------------------


def test_a_new_record_has_nothing_in_it(ledger: Ledger) -> None:
    assert ledger.last_turn() == 0
    assert ledger.newest_keyframe() is None
    assert ledger.turn(1) is None
    assert ledger.identity() is None
    assert ledger.meta("lab") is None
    assert list(ledger.patches_after(0)) == []
    assert ledger.unanswered() == ledger.open_orders() == ledger.jobs() == ledger.events() == []
    assert ledger.tokens() == ledger.outbox() == ledger.share_history() == ledger.node_log() == []
    with pytest.raises(ValueError, match="no story yet"):
        next(ledger.story_lines())


def test_a_record_keeps_the_start_it_was_given_first(ledger: Ledger) -> None:
    assert ledger.begin("jupiter", 1000.0) == Identity("jupiter", 1000.0)
    assert ledger.begin("jupiter", 2000.0) == Identity("jupiter", 1000.0) == ledger.identity()
    with pytest.raises(WrongLab, match="'jupiter', not of 'saturn'"):
        ledger.begin("saturn", 1000.0)
    with pytest.raises(ValueError, match="whole second"):
        ledger.begin("jupiter", 1000.5)


def test_what_is_kept_beside_the_record_is_there_again(ledger: Ledger, record_url: str) -> None:
    ledger.set_meta("lab", {"text": "lab: über\n", "digest": "ab"})
    ledger.set_meta("lab", {"text": "lab: ünder\n", "digest": "cd"})
    with pytest.raises(ValueError, match="does not change"):
        ledger.set_meta("identity", {})
    again = open_ledger(record_url, create=False)
    assert again.meta("lab") == {"text": "lab: ünder\n", "digest": "cd"}
    again.close()


# --- who leads ------------------------------------------------------------------------------------


def test_one_leads_until_its_time_is_over_and_each_new_leader_has_a_new_epoch(ledger: Ledger) -> None:
    first = ledger.lead("one", 100.0, TTL_S)
    assert first == Lease("one", 1, 110.0)
    assert ledger.lead("two", 109.9, TTL_S) is None
    first = ledger.renew(first, 109.0, TTL_S)
    assert first == Lease("one", 1, 119.0)
    assert ledger.lead("two", 118.9, TTL_S) is None
    assert ledger.lead("two", 119.0, TTL_S) == Lease("two", 2, 129.0)
    with pytest.raises(NotTheLeader, match="two leads now"):
        ledger.renew(first, 119.5, TTL_S)


def test_a_leader_that_lets_go_is_followed_at_once(ledger: Ledger) -> None:
    first = ledger.lead("one", 100.0, TTL_S)
    assert first is not None
    ledger.yield_lease(first)
    second = ledger.lead("two", 100.0, TTL_S)
    assert second is not None
    ledger.yield_lease(first)  # too late: it is another's now
    assert ledger.lead("three", 101.0, TTL_S) is None


def test_a_leader_started_anew_under_its_name_shuts_out_what_it_was(ledger: Ledger, lease: Lease) -> None:
    new = ledger.lead("one", 1.0, TTL_S)
    assert new is not None
    refuses(ledger, lambda: ledger.record(turn_row(1), lease), NotTheLeader, "ours was 1")
    ledger.record(turn_row(1), new)


def test_of_many_that_want_to_lead_at_once_one_does(ledger: Ledger, record_url: str) -> None:
    won: list[Lease] = []

    def want(number: int) -> None:
        mine = open_ledger(record_url)
        start.wait()
        lease = mine.lead(f"server {number}", 50.0, TTL_S)
        if lease is not None:
            won.append(lease)
        mine.close()

    start = threading.Barrier(6)
    in_threads(want, 6)
    assert [lease.epoch for lease in won] == [1]


def in_threads(work: Callable[[int], None], n: int) -> None:
    """Do it n times at once; what one raises is raised here."""
    wrong: list[BaseException] = []

    def safely(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=safely, args=(number,)) for number in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise wrong[0]


# --- commands -------------------------------------------------------------------------------------


def test_commands_have_numbers_in_the_order_in_which_they_were_asked(ledger: Ledger) -> None:
    assert ledger.ask([asked(gpus=1), asked("cancel"), asked(gpus=3)]) == [1, 2, 3]
    assert ledger.ask([]) == []
    assert ledger.ask([asked("hold")]) == [4]
    found = ledger.unanswered(3)
    assert [command.number for command in found] == [1, 2, 3]
    assert found[0].asked == asked(gpus=1)


def test_a_command_asked_twice_with_one_key_is_asked_once(ledger: Ledger) -> None:
    assert ledger.ask([asked(key="k", gpus=1)]) == [1]
    assert ledger.ask([asked(key="k", gpus=1), asked(key="l"), asked(key="l")]) == [1, 2, 2]
    assert ledger.ask([asked(key="k", by="bo")]) == [3]  # somebody else's key
    assert len(ledger.unanswered()) == 3


def test_a_key_that_was_used_for_something_else_is_refused(ledger: Ledger) -> None:
    assert ledger.ask([asked(key="k", gpus=1)]) == [1]
    for other in (asked(key="k", gpus=2), asked(key="k", verb="cancel", gpus=1)):
        with pytest.raises(KeyReused, match="'k'"):
            ledger.ask([other])
    assert ledger.ask([asked(key="k", gpus=1)]) == [1]
    assert [command.asked.body for command in ledger.unanswered()] == [{"gpus": 1}]


def test_one_key_asked_from_many_threads_and_servers_is_one_command(ledger: Ledger, record_url: str) -> None:
    other = open_ledger(record_url)
    numbers: list[list[int]] = []
    start = threading.Barrier(8)

    def ask(number: int) -> None:
        start.wait()
        for nth in range(5):
            numbers.append((ledger, other)[number % 2].ask([asked(key=f"k{nth}", number=nth)]))

    in_threads(ask, 8)
    other.close()
    assert sorted(n for (n,) in numbers) == sorted(list(range(1, 6)) * 8)
    assert [command.number for command in ledger.unanswered()] == [1, 2, 3, 4, 5]


def test_many_who_ask_at_once_are_written_together(ledger: Ledger) -> None:
    commits: list[int] = []
    sqlalchemy_event.listen(ledger._db.engine, "commit", lambda connection: commits.append(1))
    in_threads(lambda number: [ledger.ask([asked(number=number)]) for _ in range(60)] and None, 8)
    assert [command.number for command in ledger.unanswered()] == list(range(1, 481))
    assert len(commits) < 480 / 2


def test_what_is_no_json_is_refused_alone(ledger: Ledger) -> None:
    with pytest.raises(ValueError, match="not JSON"):
        ledger.ask([asked(what=object())])
    with pytest.raises(ValueError, match="Out of range float"):
        ledger.ask([asked(gpus=float("nan"))])
    assert ledger.ask([asked()]) == [1]


def test_hostile_text_is_kept_as_well_as_a_database_can(ledger: Ledger, lease: Lease) -> None:
    """NUL and halves of surrogate pairs have no place in a database's text; JSON escapes them."""
    body = {"command": ["\0", "\ud800", "é😀", "'; DROP TABLE jobs; --", "x" * 5_000_000]}
    hostile = Asked("ann\0", "submit", "a\ud800b😀", body, 1.0, "k\0")
    ledger.ask([hostile])
    (command,) = ledger.unanswered()
    assert command.asked == Asked("ann�", "submit", "a?b😀", body, 1.0, "k�")
    assert ledger.ask([hostile]) == [command.number], "asked again, it is the same"
    with pytest.raises(KeyReused):
        ledger.ask([hostile._replace(subject="")])
    ledger.record(bare_turn(1, jobs=[job_row("j", detail="log: \0\udcff")]), lease)
    found = ledger.job("j")
    assert found is not None
    assert found.detail == "log: �?"


def test_an_answer_is_given_in_a_turn_and_ends_the_wait_for_it(ledger: Ledger, lease: Lease) -> None:
    first, second = ledger.ask([asked(), asked("cancel")])
    assert ledger.answer(first) is None
    assert ledger.wait_answer(first, 0.01) is None
    told: list[Answer | None] = []
    waiting = threading.Thread(target=lambda: told.append(ledger.wait_answer(second, 300.0)))
    waiting.start()
    answer = Answer(second, False, {"error": "no job of that name"})
    ledger.record(bare_turn(1, answers=[answer]), lease)
    waiting.join()
    assert told == [answer] == [ledger.answer(second)]
    assert [command.number for command in ledger.unanswered()] == [first]
    with pytest.raises(KeyError):
        ledger.answer(77)


def test_who_has_just_asked_costs_the_database_nothing_until_the_answer_is_told(
    ledger: Ledger, lease: Lease
) -> None:
    (number,) = ledger.ask([asked(key="k")])
    statements: list[str] = []
    sqlalchemy_event.listen(
        ledger._db.engine, "before_cursor_execute", lambda *told: statements.append(str(told[2]))
    )
    answer = Answer(number, True, {"job": "1"})
    told: list[Answer | None] = []
    waiting = threading.Thread(target=lambda: told.append(ledger.wait_answer(number, 300.0)))
    waiting.start()
    time.sleep(0.05)
    assert statements == []
    ledger.record(bare_turn(1, answers=[answer]), lease)
    waiting.join()
    assert told == [answer]
    assert not [one for one in statements if one.startswith("SELECT") and "answer" in one.split("FROM")[0]]
    assert ledger.wait_answer(number, 0.0) == answer


def test_many_who_ask_at_once_are_written_in_few_transactions(ledger: Ledger) -> None:
    begun: list[object] = []
    sqlalchemy_event.listen(ledger._db.engine, "commit", begun.append)
    numbers: list[int] = []
    gate = threading.Barrier(40)

    def one(nth: int) -> None:
        gate.wait()
        numbers.extend(ledger.ask([asked(key=f"many {nth}", nth=nth)]))

    threads = [threading.Thread(target=one, args=(nth,)) for nth in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(1, 41))
    assert len(begun) <= 20
    assert sorted(command.asked.body["nth"] for command in ledger.unanswered(100)) == list(range(40))


@pytest.mark.slow
def test_an_answer_given_by_another_server_is_found(ledger: Ledger, lease: Lease, record_url: str) -> None:
    (number,) = ledger.ask([asked()])
    other = open_ledger(record_url)
    late = threading.Timer(0.1, lambda: other.record(bare_turn(1, answers=[Answer(number, True, {})]), lease))
    late.start()
    assert ledger.wait_answer(number, 300.0) == Answer(number, True, {})
    late.join()
    other.close()


# --- turns ----------------------------------------------------------------------------------------


def test_all_of_a_turn_can_be_read_again(ledger: Ledger, lease: Lease) -> None:
    (number,) = ledger.ask([asked()])
    share = {"account": "vision", "cluster": 0, "old": 1, "new": 2, "by": "pia", "reason": "review"}
    note = {"user": "ann", "job": "j1", "kind": "stop", "text": "your job …"}
    entry = NodeEntry("n1", "drained", "health", "ECC", 1001.0)
    turn = turn_row(
        1,
        keyframe=b"\0\1\2",
        answers=[Answer(number, True, {"job": "j1"})],
        shares=[share],
        notes=[note],
        node_log=[entry],
    )
    ledger.record(turn, lease)
    found = ledger.turn(1)
    assert found is not None
    assert found[:7] == (1, 1, 1001.5, turn.news, turn.patch, turn.digest, turn.code)
    lines = [{"n": n, **told} for n, told in enumerate(map(read, turn.events), start=2)]
    assert [read(line) for line in found.events] == lines == [read(line) for line in ledger.events()]
    assert ledger.newest_keyframe() == (1, b"\0\1\2")
    assert ledger.jobs() == list(turn.jobs)
    assert ledger.attempts("j1") == list(turn.attempts)
    assert ledger.open_orders() == list(turn.orders)
    assert ledger.share_history("vision") == [{"t": 1, "at": 1001.5, "turn": 1, **share}]
    assert ledger.share_history("language") == []
    assert [n.body for n in ledger.outbox()] == [note]
    assert ledger.node_states() == {"n1": entry}


def read(line: str) -> dict[str, Any]:
    import json

    return json.loads(line)


def test_a_turn_that_does_not_follow_the_last_is_refused(ledger: Ledger, lease: Lease) -> None:
    ledger.record(turn_row(1), lease)
    refuses(ledger, lambda: ledger.record(turn_row(1), lease), TurnTaken, "the newest is 1")
    refuses(ledger, lambda: ledger.record(turn_row(3), lease), ValueError, "cannot follow turn 1")
    ledger.record(turn_row(2), lease)
    assert ledger.last_turn() == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"answers": [Answer(9, True, {})]}, "waiting for an answer"),
        ({"events": ['{"event":"node","t":0}']}, "time runs backwards"),
        ({"events": [event(2, "j"), event(1, "j")]}, "time runs backwards"),
        ({"events": ['{"event":"node","t":2,"n":5}']}, "not a line of a story"),
        ({"events": ['{"event":"node","t":2.5}']}, "not a line of a story"),
        ({"events": ["[]"]}, "not a line of a story"),
        ({"events": ['{"event":']}, "not a line of a story"),
        ({"patch": {"x": float("inf")}}, "Out of range float"),
        ({"jobs": [job_row("j", gpus=1 << 70)]}, "too large|out of range"),
        ({"attempts": [attempt_row("j", 1, protected_until_t=1 << 63)]}, "too large|out of range"),
    ],
)
def test_of_a_turn_with_one_thing_wrong_nothing_is_written(
    ledger: Ledger, lease: Lease, wrong: dict[str, Any], match: str
) -> None:
    ledger.record(turn_row(1), lease)
    refuses(ledger, lambda: ledger.record(turn_row(2, **wrong), lease), ValueError, match)
    ledger.record(turn_row(2), lease)


def test_a_command_is_answered_once(ledger: Ledger, lease: Lease) -> None:
    (number,) = ledger.ask([asked()])
    ledger.record(bare_turn(1, answers=[Answer(number, True, {})]), lease)
    twice = bare_turn(2, answers=[Answer(number, False, {})])
    refuses(ledger, lambda: ledger.record(twice, lease), ValueError, "waiting for an answer")
    assert ledger.answer(number) == Answer(number, True, {})


def test_a_job_written_anew_keeps_its_place(ledger: Ledger, lease: Lease) -> None:
    ledger.record(bare_turn(1, jobs=[job_row("b"), job_row("a")]), lease)
    ended = job_row("b", phase="ended", end="finished", ended_t=9, detail="done", gpus=16)
    stopped = attempt_row("b", 1, stopped_t=9, end="finished", held_gpu_s=72, lost_gpu_s=0, exit_code=0)
    ledger.record(bare_turn(2, jobs=[job_row("c"), ended], attempts=[attempt_row("b", 1)]), lease)
    ledger.record(bare_turn(3, attempts=[stopped, attempt_row("b", 2)]), lease)
    assert ledger.jobs() == [ended, job_row("a"), job_row("c")]
    assert ledger.attempts("b") == [stopped, attempt_row("b", 2)]


def test_orders_stay_open_until_they_are_settled(ledger: Ledger, lease: Lease) -> None:
    made = [order_row(f"z{n}", 1) for n in range(3, 0, -1)]
    ledger.record(bare_turn(1, orders=made), lease)
    ledger.record(bare_turn(2, orders=[order_row("a", 2, kind="stop")]), lease)
    assert ledger.open_orders() == [*made, order_row("a", 2, kind="stop")]
    ledger.settle_orders([("z2", "done", ""), ("z3", "refused", "no such node")])
    ledger.settle_orders([])
    assert [order.id for order in ledger.open_orders()] == ["z1", "a"]
    assert ledger.open_orders(limit=1) == [OrderRow("z1", 1, "start", "j", {"nodes": {"n0": 8}})]


@pytest.mark.slow
def test_a_server_that_starts_anew_reads_the_newest_keyframe_and_what_came_after(
    ledger: Ledger, lease: Lease, record_url: str
) -> None:
    for turn in range(1, 229):  # more than one chunk of patches
        ledger.record(bare_turn(turn, keyframe=b"%d" % turn if turn in (3, 20) else None), lease)
    ledger.close()
    again = open_ledger(record_url, create=False)
    assert again.last_turn() == 228
    assert again.newest_keyframe() == (20, b"20")
    assert again.keyframe_before(20) == (3, b"3")
    assert again.keyframe_before(3) is None
    found = list(again.patches_after(20))
    assert [patch[0] for patch in found] == list(range(21, 229))
    assert found[0] == (21, 21, turn_row(21).patch, turn_row(21).news)
    assert [patch[0] for patch in again.patches_after(3, upto=6)] == [4, 5, 6]
    again.close()
