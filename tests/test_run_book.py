"""A run's book: numbered events, keys written once, one carrier at a time; in both databases."""

from __future__ import annotations

import threading

import pytest

from tenure.engines.clock import ChosenClock
from tenure.ledger.opening import open_database
from tenure.runs.book import RunBook, runs_in
from tenure.runs.words import AlreadyRecorded, Fenced


def test_a_key_is_written_once_and_the_first_one_stands(database_url: str) -> None:
    db = open_database(database_url)
    clock = ChosenClock(1000.0)
    book = RunBook(db, "example", clock.now)
    assert book.claim("a", 60.0)
    first = book.record("buying_intended", {"offer": "cb-1", "fee": "53760.00"}, key="buy/1")
    with pytest.raises(AlreadyRecorded) as refused:
        book.record("buying_intended", {"offer": "cb-2"}, key="buy/1")
    assert refused.value.event == first
    book.record("noted", {})
    book.record("noted", {})
    assert [event.number for event in book.events()] == [1, 2, 3]
    assert RunBook(db, "example", clock.now).events("buying_intended") == [first]
    assert runs_in(db) == ["example"]
    db.engine.dispose()


def test_one_controller_carries_a_run_and_the_one_before_can_write_nothing_more(database_url: str) -> None:
    db = open_database(database_url)
    clock = ChosenClock(1000.0)
    one, two = RunBook(db, "example", clock.now), RunBook(db, "example", clock.now)
    assert one.claim("one", 60.0)
    assert not two.claim("two", 60.0)
    assert two.holder() == "one"
    clock.wait(61.0)  # the first one is stuck
    assert two.claim("two", 60.0)
    for late in (lambda: one.record("noted", {}), lambda: one.renew(60.0)):
        with pytest.raises(Fenced, match="two carries 'example'"):
            late()
    one.let_go()  # of what it does not hold: nothing happens
    two.record("noted", {})
    asked = one.ask("drain_asked", {"by": "ann"})  # a person needs no lease
    assert [event.number for event in two.events()] == [1, asked.number]
    two.let_go()
    assert two.holder() == ""
    db.engine.dispose()


def test_two_writers_at_once_write_one_event_of_a_key(database_url: str) -> None:
    db = open_database(database_url)
    books = [RunBook(db, "example", lambda: 0.0) for _ in range(8)]
    outcomes: list[str] = []

    def write(book: RunBook) -> None:
        try:
            book.ask("approved", {"by": "ann"}, key="approve/1")
            outcomes.append("written")
        except AlreadyRecorded:
            outcomes.append("there")

    threads = [threading.Thread(target=write, args=(book,)) for book in books]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["there"] * 7 + ["written"]
    db.engine.dispose()
