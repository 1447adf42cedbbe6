"""What the doors ask of a record: jobs, events, shares, messages, nodes, tokens. In both databases alike."""

from __future__ import annotations

import json
import sqlite3

import pytest

from tenure.ledger.ledger import Ledger, open_ledger
from tenure.ledger.records import Lease, NodeEntry, Note, TokenRow
from tenure.ledger.tokens import HOLDS_S, Bearers
from turn_rows import bare_turn, event, job_row

# --- jobs -----------------------------------------------------------------------------------------


@pytest.fixture
def queue(ledger: Ledger, lease: Lease) -> Ledger:
    jobs = [
        job_row("a", account="language", user="ann", phase="ended", end="finished", ended_t=50),
        job_row("b", account="language/olmo", user="bo", phase="running"),
        job_row("c", account="language/olmo/ann", user="ann", phase="waiting", array="x"),
        job_row("d", account="languages", user="ann", phase="waiting", array="x"),
        job_row("e", account="vision", user="cy", phase="stopping"),
    ]
    ledger.record(bare_turn(1, jobs=jobs[:2]), lease)
    ledger.record(bare_turn(2, jobs=jobs[2:]), lease)
    return ledger


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, "abcde"),
        ({"phase": "waiting"}, "cd"),
        ({"phase": ["running", "stopping"]}, "be"),
        ({"phase": []}, ""),
        ({"account": "language"}, "abc"),
        ({"account": "language/olmo"}, "bc"),
        ({"account": ""}, "abcde"),
        ({"account": "lang"}, ""),
        ({"account": "language", "phase": "waiting"}, "c"),
        ({"user": "ann"}, "acd"),
        ({"user": "ANN"}, ""),
        ({"array": "x"}, "cd"),
        ({"since_t": 50}, "abcde"),
        ({"since_t": 51}, "bcde"),
        ({"limit": 2}, "ab"),
        ({"limit": 2, "offset": 1}, "bc"),
        ({"limit": 2, "newest": True}, "ed"),
        ({"user": "ann", "limit": 1, "offset": 2}, "d"),
    ],
)
def test_jobs_are_found_by_what_is_asked(queue: Ledger, wanted: dict[str, object], found: str) -> None:
    assert "".join(job.job for job in queue.jobs(**wanted)) == found  # type: ignore[arg-type]


def test_a_job_nobody_submitted_is_none(queue: Ledger) -> None:
    assert queue.job("z") is None
    assert queue.attempts("z") == []


# --- events ---------------------------------------------------------------------------------------


@pytest.fixture
def happened(ledger: Ledger, lease: Lease) -> Ledger:
    for turn, t in enumerate((10, 10, 20, 40), start=1):
        ledger.record(bare_turn(turn, t=t, events=[event(t, "a"), event(t, f"b{turn}")]), lease)
    return ledger


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        ({}, [2, 3, 4, 5, 6, 7, 8, 9]),
        ({"job": "a"}, [2, 4, 6, 8]),
        ({"job": "b2"}, [5]),
        ({"job": "z"}, []),
        ({"since_t": 10}, [2, 3, 4, 5, 6, 7, 8, 9]),
        ({"since_t": 11}, [6, 7, 8, 9]),
        ({"since_t": 41}, []),
        ({"until_t": 10}, []),
        ({"until_t": 20}, [2, 3, 4, 5]),
        ({"until_t": 99}, [2, 3, 4, 5, 6, 7, 8, 9]),
        ({"since_t": 11, "until_t": 40, "job": "a"}, [6]),
        ({"after_number": 7}, [8, 9]),
        ({"limit": 3}, [2, 3, 4]),
        ({"limit": 3, "newest": True}, [7, 8, 9]),
        ({"job": "a", "limit": 1, "newest": True}, [8]),
        ({"after_number": 2, "limit": 2}, [3, 4]),
    ],
)
def test_events_are_found_by_what_is_asked(
    happened: Ledger, wanted: dict[str, object], numbers: list[int]
) -> None:
    found = [json.loads(line) for line in happened.events(**wanted)]  # type: ignore[arg-type]
    assert [line["n"] for line in found] == numbers


# --- messages, shares, nodes ----------------------------------------------------------------------


def test_messages_wait_until_they_are_sent(ledger: Ledger, lease: Lease) -> None:
    notes = [{"user": "ann", "job": f"j{n}", "kind": "stop", "text": f"über {n}"} for n in range(3)]
    ledger.record(bare_turn(1, notes=notes[:2]), lease)
    ledger.record(bare_turn(2, notes=notes[2:]), lease)
    found = ledger.outbox()
    assert found[2] == Note(3, 2, 1002.5, "ann", notes[2], "open", "")
    assert [note.body for note in found] == notes
    ledger.settle_notes([(1, "sent", ""), (2, "failed", "no such mailbox")])
    assert [note.number for note in ledger.outbox(limit=5)] == [3]


def test_changes_of_shares_are_kept_with_who_and_why(ledger: Ledger, lease: Lease) -> None:
    change = {"account": "vision", "cluster": 0, "old": 200_000, "new": 100_000, "by": "pia", "reason": "Q2"}
    ledger.record(bare_turn(1, shares=[change, change | {"account": "language"}]), lease)
    ledger.record(bare_turn(2, shares=[change | {"old": 100_000, "new": 50_000}]), lease)
    assert [(row["t"], row["old"], row["new"], row["by"]) for row in ledger.share_history("vision")] == [
        (1, 200_000, 100_000, "pia"),
        (2, 100_000, 50_000, "pia"),
    ]
    assert len(ledger.share_history()) == 3


def test_of_each_node_the_newest_state_is_known_and_who_said_so(ledger: Ledger, lease: Lease) -> None:
    told = [
        NodeEntry("n1", "drained", "health", "ECC errors", 10.0),
        NodeEntry("n1", "repairing", "pia", "swap the GPU", 20.0, person=True),
        NodeEntry("n2", "down", "engine", "silent", 25.0),
        NodeEntry("n1", "testing", "health", "", 30.0),
    ]
    ledger.log_nodes(told[:2])
    ledger.record(bare_turn(1, node_log=told[2:]), lease)
    ledger.log_nodes([])
    assert ledger.node_states() == {"n1": told[3], "n2": told[2]}
    assert ledger.node_log("n1") == [told[3], told[1], told[0]]
    assert ledger.node_log(limit=2) == [told[3], told[2]]
    assert [ledger.repairs_by_people(0.0, until) for until in (20.0, 20.1, 99.0)] == [0, 1, 1]
    assert ledger.repairs_by_people(21.0, 99.0) == 0


# --- tokens ---------------------------------------------------------------------------------------


def test_a_token_tells_who_bears_it_until_it_expires_or_is_revoked(ledger: Ledger) -> None:
    text = ledger.create_token("ann", expires=200.0, note="laptop", created=100.0)
    root = ledger.create_token("pia", True, created=101.0)
    first, second = ledger.tokens()
    assert first == TokenRow(first.digest, "ann", False, 100.0, 200.0, None, "laptop")
    assert ledger.who(text, 199.9) == first
    assert ledger.who(text, 200.0) is None
    assert ledger.who(root, 1e12) == second
    assert second.admin
    for wrong in ("", text[:-1], text + "x", first.digest, "\ud800", "x" * 10_000_000):
        assert ledger.who(wrong, 150.0) is None
    assert not ledger.revoke("", 160.0)
    assert not ledger.revoke("0" * 64, 160.0)
    assert ledger.revoke(second.digest[:12], 160.0)
    assert ledger.who(root, 150.0) is None
    assert ledger.revoke(second.digest, 170.0)
    assert ledger.tokens()[1].revoked == 160.0


def test_a_token_is_looked_up_once_a_second_and_one_revoked_here_opens_nothing_at_once(
    ledger: Ledger,
) -> None:
    now = [0.0]
    bearers = Bearers(ledger._db, lambda: now[0])
    text = ledger.create_token("ann", expires=200.0, created=100.0)
    (row,) = ledger.tokens()
    assert bearers.known(text, 150.0) is None
    assert bearers.who(text, 150.0) == row == bearers.known(text, 150.0)
    assert bearers.known(text, 200.0) is None  # it has expired, whatever is remembered
    assert ledger.who(text, 150.0) == row == ledger.known_bearer(text, 150.0)
    ledger.revoke(row.digest, 160.0)
    assert ledger.known_bearer(text, 161.0) is None
    assert ledger.who(text, 161.0) is None
    assert bearers.who(text, 161.0) == row  # as another server knows it …
    now[0] = HOLDS_S
    assert bearers.who(text, 161.0) is None  # … for a second


def test_of_a_token_only_a_hash_is_kept(sqlite_url: str) -> None:
    ledger = open_ledger(sqlite_url)
    texts = [ledger.create_token("ann") for _ in range(3)]
    ledger.close()
    assert len(set(texts)) == 3
    (kept,) = ["\n".join(sqlite3.connect(sqlite_url).iterdump())]
    for text in texts:
        assert len(text) >= 43 + len("tenure_")
        assert text.removeprefix("tenure_") not in kept
