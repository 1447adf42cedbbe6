"""A lived record is audited as a played story is, whatever was compacted; and any turn can be found again."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from played import Played
from stories import random_story
from tenure.audit.examine import Examination, examine
from tenure.ledger.events import STORY_HEAD
from tenure.ledger.ledger import Ledger, open_ledger
from tenure.ledger.records import Answer, Asked, Lease
from tenure.report.waiting import waited_by_reason
from tenure.story.columns import Story
from tenure.story.jsonl import read_story, write_story
from turn_rows import bare_turn, event, job_row, order_row

HOUR_S = 3600
REASONS = ("no_room", "behind_others", "limit")


def live_through(ledger: Ledger, lease: Lease, lines: list[dict[str, Any]], *, every: int = 20) -> None:
    """Record a story as a daemon would: a turn for each instant, a keyframe now and then."""
    head, *rest = lines
    ledger.set_meta(STORY_HEAD, head)
    by_t: dict[int, list[str]] = {}
    for line in rest:
        by_t.setdefault(line["t"], []).append(json.dumps({k: v for k, v in line.items() if k != "n"}))
    for turn, (t, told) in enumerate(by_t.items(), start=ledger.last_turn() + 1):
        keyframe = b"state" if turn % every == 0 else None
        orders = [order_row(f"o{turn}", turn)]
        ledger.record(bare_turn(turn, t=t, events=told, keyframe=keyframe, orders=orders), lease)


def audited(ledger: Ledger, since_t: int | None = None, until_t: int | None = None) -> Examination:
    return examine(read_story(io.StringIO("".join(ledger.story_lines(since_t, until_t)))))


def figures(found: Examination) -> str:
    """Every number that a page about a story shows, bit for bit."""
    waited = waited_by_reason(found.record.story, found.record.span)
    told = (found.measures.to_dict(), found.shortfall, found.ledger, found.signals, found.series, waited)
    return repr(told)


def lines_of(story: Story) -> list[dict[str, Any]]:
    text = io.StringIO()
    write_story(story, text)
    return [json.loads(line) for line in text.getvalue().splitlines()]


def with_waits(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The story with a reason for waiting after each submission and requeue, and another a while later."""
    told, waiting = [], {}
    for line in lines:
        for job, t in list(waiting.items()):
            if t <= line["t"]:
                told.append(reason(job, t, len(told)))
                del waiting[job]
        told.append(line)
        if line["event"] in ("submitted", "requeued"):
            told.append(reason(line["job"], line["t"], len(told)))
            waiting[line["job"]] = line["t"] + 60
        elif line["event"] in ("started", "cancelled"):
            waiting.pop(line["job"], None)
    return sorted(told, key=lambda line: line["t"])


def reason(job: str, t: int, nth: int) -> dict[str, Any]:
    from tenure.core.words import Reason

    word = list(Reason)[1 + nth % 5].name.lower()
    return {"event": "waiting", "t": t, "job": job, "account": "p/x", "reason": word, "need": 8, "have": nth}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_lived_record_is_audited_as_the_story_is(ledger: Ledger, lease: Lease, seed: int) -> None:
    story = random_story(seed, turns=50)
    live_through(ledger, lease, lines_of(story))
    assert figures(audited(ledger)) == figures(examine(read_story(io.StringIO(text_of(story)))))
    since_t = HOUR_S + 7
    assert figures(audited(ledger, since_t)) == figures(examine(story_again(story), since_s=since_t))


def text_of(story: Story) -> str:
    text = io.StringIO()
    write_story(story, text)
    return text.getvalue()


def story_again(story: Story) -> Story:
    return read_story(io.StringIO(text_of(story)))


def test_a_record_is_audited_up_to_an_instant(ledger: Ledger, lease: Lease) -> None:
    """What happens after it makes no difference."""
    lines = lines_of(random_story(1, turns=50))
    cut_t = 2 * HOUR_S
    live_through(ledger, lease, [line for line in lines if line["t"] <= cut_t])
    expected = figures(audited(ledger, until_t=cut_t))
    live_through(ledger, lease, [lines[0], *(line for line in lines if line["t"] > cut_t)])
    assert figures(audited(ledger, until_t=cut_t)) == expected
    assert figures(audited(ledger)) != expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_compacting_changes_no_figure(ledger: Ledger, lease: Lease, seed: int) -> None:
    """Not of the whole record; and nothing of what a page shows of any time since the cut."""
    lines = with_waits(lines_of(random_story(seed, turns=80)))
    live_through(ledger, lease, lines)
    cuts = (HOUR_S // 2, HOUR_S, 2 * HOUR_S)
    spans = (None, *cuts, 2 * HOUR_S + 1234)
    before = {since_t: audited(ledger, since_t) for since_t in spans}
    events_before = len(list(ledger.story_lines()))
    gone = 0
    for cut_t in cuts:
        done = ledger.compact(cut_t)
        gone += done.events
        for since_t in spans:
            now = audited(ledger, since_t)
            assert now.measures.to_dict() == before[since_t].measures.to_dict()
            assert (now.shortfall, now.ledger, now.signals) == (
                before[since_t].shortfall,
                before[since_t].ledger,
                before[since_t].signals,
            )
            if since_t is not None and since_t >= cut_t:
                assert figures(now) == figures(before[since_t])
    assert gone > 20
    assert len(list(ledger.story_lines())) == events_before - gone
    assert ledger.compact(cuts[-1]) == (0,) * 6  # nothing is left to do


@pytest.mark.slow
def test_compacting_again_and_again_leaves_what_compacting_once_does(
    ledger: Ledger, lease: Lease, sqlite_url: str
) -> None:
    once = open_ledger(f"{sqlite_url}-once")
    first = once.lead("one", 0.0, 10.0)
    assert first is not None
    head, *lines = with_waits(lines_of(random_story(5, turns=80)))
    live_through(once, first, [head, *lines])
    for at in range(0, len(lines), 7):
        live_through(ledger, lease, [head, *lines[at : at + 7]])
        ledger.compact(lines[at]["t"])
    for compacted in (once, ledger):
        compacted.compact(lines[-1]["t"])
    assert [json.loads(line) for line in ledger.events()] == [json.loads(line) for line in once.events()]
    left = [line for line in ledger.events() if '"waiting"' in line]
    assert 0 < len(left) < 20
    once.close()


@pytest.mark.slow
def test_compacting_a_played_scenario_changes_no_figure(
    ledger: Ledger, lease: Lease, told: Callable[..., Played]
) -> None:
    lines = told("case_05").lines
    live_through(ledger, lease, lines)
    expected = audited(ledger).measures.to_dict()
    assert ledger.compact(lines[-1]["t"]).events > 0
    assert audited(ledger).measures.to_dict() == expected


def test_what_a_recovery_or_a_replay_since_the_cut_needs_stays(ledger: Ledger, lease: Lease) -> None:
    numbers = ledger.ask([Asked("ann", "submit", "", {"env": {"A": "b" * 100}}, 1.0) for _ in range(31)])
    for turn in range(1, 31):
        ledger.record(
            bare_turn(
                turn,
                keyframe=b"%d" % turn if turn % 10 == 0 else None,
                events=[event(turn, "j")],
                jobs=[job_row(f"j{turn}")],
                orders=[order_row(f"done{turn}", turn), order_row(f"open{turn}", turn)],
                answers=[Answer(numbers[turn - 1], True, {"job": f"j{turn}"})],
                notes=[{"user": "ann", "text": f"{turn}"}],
            ),
            lease,
        )
    ledger.settle_orders([(f"done{turn}", "done", "") for turn in range(1, 31)])
    ledger.settle_notes([(number, "sent", "") for number in range(1, 30)])
    done = ledger.compact(26)  # the newest keyframe before it is that of turn 20
    assert done == (20, 1, 20, 20, 25, 0)
    assert ledger.newest_keyframe() == (30, b"30")
    assert ledger.keyframe_before(27) == (20, b"20")
    assert ledger.keyframe_before(20) is None
    assert [patch[0] for patch in ledger.patches_after(20)] == list(range(21, 31))
    with pytest.raises(ValueError, match="turn 1 was compacted"):
        next(ledger.patches_after(0))
    old = ledger.turn(20)
    assert old is not None
    assert (old.patch, old.news, old.digest) == (None, None, "digest 20")
    assert len(old.events) == 1
    assert len(ledger.open_orders()) == 30
    assert ledger.answer(1) == Answer(1, True, {"job": "j1"})
    assert [command.asked.body for command in ledger.unanswered()] == [{"env": {"A": "b" * 100}}]
    assert len(ledger.jobs()) == 30
    assert [note.number for note in ledger.outbox()] == [30]
    assert ledger.compact(31) == (10, 1, 10, 10, 4, 0)


def test_a_record_without_a_keyframe_before_the_cut_keeps_all_its_patches(
    ledger: Ledger, lease: Lease
) -> None:
    for turn in range(1, 6):
        ledger.record(bare_turn(turn, keyframe=b"5" if turn == 5 else None), lease)
    assert ledger.compact(5) == (0,) * 6
    assert [patch[0] for patch in ledger.patches_after(0)] == [1, 2, 3, 4, 5]


@pytest.mark.slow
def test_a_compacted_file_shrinks(sqlite_url: str) -> None:
    ledger = open_ledger(sqlite_url)
    lease = ledger.lead("one", 0.0, 10.0)
    assert lease is not None
    noise = [hex(pow(7, n, 10**60)) for n in range(4000)]
    for turn in range(1, 61):
        patch = {"noise": noise[turn * 20 :] + noise[: turn * 20]}
        ledger.record(bare_turn(turn, patch=patch, keyframe=b"k" * 200_000), lease)

    def pages() -> int:
        with ledger._db.reading() as connection:
            return int(connection.exec_driver_sql("PRAGMA page_count").scalar_one())

    before = pages()
    ledger.compact(60)
    assert pages() < before / 5
    ledger.close()
