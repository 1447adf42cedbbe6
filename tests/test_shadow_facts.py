"""What is kept of the real scheduler's doings: bounded, and of what stays nothing is half there."""

from __future__ import annotations

from pathlib import Path

from tenure.engines.protocol import Seen, SeenAttempt
from tenure.engines.theirs import Theirs, facts_of, kept_from


def seen(at: float, *attempts: SeenAttempt) -> Seen:
    return Seen(at, [], attempts)


def look(theirs: Theirs, told: Seen) -> None:
    theirs.write(theirs.news(told), told)


def test_the_file_of_what_they_did_stays_bounded_and_keeps_what_goes_on_whole(tmp_path: Path) -> None:
    file = tmp_path / "theirs.jsonl"
    most = 20_000
    theirs = Theirs(file, most)
    old = SeenAttempt("old", 1, {"n1": 8}, started=5.0)
    look(theirs, seen(10.0, old))
    assert kept_from(file) is None
    sizes = []
    for n in range(1000):
        at = 20.0 + 10 * n
        one = SeenAttempt(f"j{n}", 1, {"n2": 8}, started=at, ended=at + 9, exit_code=0)
        look(theirs, seen(at + 9, old, one))
        sizes.append(file.stat().st_size)
    assert max(sizes) <= most + 500
    facts = list(facts_of(file))
    kept = kept_from(file)
    assert kept is not None
    assert facts[0] == {"event": "looked", "at": 10.0, "kept": kept}
    started = [fact["job"] for fact in facts if fact["event"] == "started"]
    stopped = [fact["job"] for fact in facts if fact["event"] == "stopped"]
    assert started[0] == "old"
    assert started[1:] == stopped
    assert stopped[-1] == "j999"
    assert stopped == [f"j{n}" for n in range(1000 - len(stopped), 1000)]
    assert all(fact["at"] >= kept for fact in facts if fact["event"] == "stopped")
    # whoever comes back goes on as if nothing had been left out
    again = Theirs(file, most)
    assert again.since == 10.0
    assert again.open() == {("old", 1): {"n1": 8}}
    assert again.news(seen(20_000.0, old)) == []
    (end,) = again.news(seen(20_000.0, old._replace(ended=19_999.0, exit_code=0)))
    assert (end["event"], end["job"], end["end"]) == ("stopped", "old", "finished")
