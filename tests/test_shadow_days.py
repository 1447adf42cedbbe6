"""Shadow mode's comparison: what they did and what Tenure would have done, with figures by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from live_server import LAB as SERVED
from live_server import serving
from live_world import START
from stories import random_story
from tenure.audit.measures import measure
from tenure.core.words import Phase
from tenure.engines.protocol import SeenArrival, SeenAttempt
from tenure.engines.theirs import _leave_out_the_older_half, facts_of, kept_from
from tenure.service.live.desk import Desk
from tenure.service.live.errors import NotNow
from tenure.service.live.shadows import Daily, compared
from tenure.service.live.their_story import their_story
from tenure.service.side_by_side import text_of, write_page
from tenure.settings.errors import BadInput
from tenure.story.jsonl import read_story, write_story
from test_engine_shadow import Queue, Watched

DAY_S = 86400


class Cluster(Queue):
    """Another scheduler's cluster of two nodes of eight GPUs, and what its jobs ask for."""

    def __init__(self, clock: Any) -> None:
        super().__init__(clock)
        self.specs: dict[str, SeenArrival] = {}

    def known(self) -> dict[str, SeenArrival]:
        return self.specs

    def submit(self, job: str, **spec: Any) -> None:
        super().submit(job, **spec)
        self.specs[job] = self.waiting[job]

    def begin(self, job: str, *nodes: str) -> None:
        del self.waiting[job]
        attempt = self.ran[job].attempt + 1 if job in self.ran else 1
        self.ran[job] = SeenAttempt(job, attempt, dict.fromkeys(nodes, 8), started=self.clock.now())

    def requeue(self, job: str) -> None:
        self.ran[job] = self.ran[job]._replace(ended=self.clock.now(), cancelled=True)
        self.waiting[job] = self.specs[job]


class Compared(Watched):
    """A lab that watches such a cluster."""

    queue: Cluster

    def wake_up(self, name: str = "tested") -> Any:
        if not isinstance(self.queue, Cluster):
            self.queue = Cluster(self.clock)
        return super().wake_up(name)

    @property
    def desk(self) -> Desk:
        return Desk(
            self.lab,
            self.ledger,
            self.daemon,
            self.daemon.engine,
            self.clock.now,
            shadow=True,
            data=self.folder,
        )

    def facts(self) -> list[dict[str, Any]]:
        return list(facts_of(self.folder / "theirs.jsonl"))


@pytest.fixture
def there(tmp_path: Path) -> Compared:
    return Compared(tmp_path)


def history(there: Compared) -> None:
    """First in, first out there: `a` has both nodes for two hours before `b` gets what it is owed."""
    queue = there.queue
    for job in ("1", "2", "3", "4"):
        queue.submit(job, account="a")
    queue.submit("5", account="b/x")
    there.at(10)
    queue.begin("1", "mars-0000")
    queue.begin("2", "mars-0001")
    there.at(11)
    there.at(3610)
    queue.end("1")
    queue.end("2")
    queue.begin("3", "mars-0000")
    queue.begin("4", "mars-0001")
    there.at(3611)
    there.at(7210)
    queue.end("3")
    queue.end("4")
    queue.begin("5", "mars-0000")
    there.at(7211)
    there.at(10810)
    queue.end("5")
    there.at(10811)
    there.at(14411)
    there.at(14500)


def test_where_older_facts_were_left_out_the_comparison_begins_after_them(there: Compared) -> None:
    history(there)
    whole = compared(there.desk, None, None)
    file = there.folder / "theirs.jsonl"
    _leave_out_the_older_half(file, set())
    kept = kept_from(file)
    assert kept is not None
    kept_t = round(kept - there.desk.start)
    assert 0 < kept_t < 14500
    told = compared(there.desk, None, None)
    assert (whole["from"], told["from"]) == (there.desk.date(0), there.desk.date(kept_t))
    held = whole["runs"][0]["delivered"]["accounts"]["b"]["delivered_gpu_h"]
    assert told["runs"][0]["delivered"]["accounts"]["b"]["delivered_gpu_h"] == pytest.approx(held)


def test_both_sides_are_measured_alike_and_differ_where_they_decide_otherwise(there: Compared) -> None:
    history(there)
    told = compared(there.desk, None, None)
    theirs, ours = told["runs"]
    assert (theirs["policy"], ours["policy"]) == ("theirs", "tenure")
    # `5` begins here at once, and goes on until it ends there, for three hours instead of one
    for side, b_gpu_h in ((theirs, 8), (ours, 24)):
        accounts = side["delivered"]["accounts"]
        assert side["jobs"]["submitted"] == side["jobs"]["finished"] == 5
        assert side["preemptions"]["count"] == 0
        assert accounts["a"]["delivered_gpu_h"] == pytest.approx(32)
        assert accounts["b"]["delivered_gpu_h"] == pytest.approx(b_gpu_h)
        assert side["occupancy"] == pytest.approx((32 + b_gpu_h) * 3600 / (16 * 14500))
    # 0 s, 0 s, one hour, one hour, two hours: each seen at second 10
    assert (theirs["wait_s"]["all"]["p50"], theirs["wait_s"]["all"]["p90"]) == (3600, 7200)
    # `5` and one of `a` at once, the other three an hour (and a look, at the last) after each other
    assert (ours["wait_s"]["all"]["p50"], ours["wait_s"]["all"]["p90"]) == (3601, 10801)
    assert told["too_long_gpu_h"] == pytest.approx(16)
    (first,) = told["jobs"]["sooner"]
    assert (first["job"], first["account"], first["gpus"]) == ("5", "b/x", 8)
    assert first["sooner_s"] == 7200
    later = [(one["job"], one["sooner_s"]) for one in told["jobs"]["later"]]
    assert later == [("4", -7201), ("2", -3601), ("3", -3601)]
    assert told["left_out"] == {"jobs": 0, "gpu_h": 0}
    assert any("run time" in one for one in told["limits"])
    text = text_of(told)
    assert "b/x" in text
    assert "Bear in mind" in text


def test_the_day_before_is_written_once(there: Compared, tmp_path: Path) -> None:
    history(there)
    midnight_t = int(DAY_S - START % DAY_S)
    daily = Daily(there.desk)
    daily.look()
    assert not (tmp_path / "shadow").exists()
    there.at(max(midnight_t, 14500) + 60)
    daily.look()
    (text,) = (tmp_path / "shadow").glob("*.txt")
    (numbers,) = (tmp_path / "shadow").glob("*.json")
    assert text.stem == numbers.stem
    assert "Tenure would have done" in text.read_text()
    assert json.loads(numbers.read_text())["runs"][0]["jobs"]["finished"] == 5
    text.write_text("kept")
    Daily(there.desk).look()
    assert text.read_text() == "kept"


def test_a_day_that_contradicts_itself_is_given_up(there: Compared, tmp_path: Path) -> None:
    jobs = ("1", "2", "3")
    for job in jobs:
        there.queue.submit(job)
    there.at(10)
    for job in jobs:
        there.queue.begin(job, "mars-0000")  # 24 GPUs of 16
    there.at(5000)
    with pytest.raises(BadInput, match="more GPUs were held"):
        compared(there.desk, None, None)
    there.at(int(DAY_S - START % DAY_S) + 5000)
    daily = Daily(there.desk)
    daily.look()
    daily.look()
    assert not (tmp_path / "shadow").exists()


def test_the_comparison_is_a_page_too(there: Compared, tmp_path: Path) -> None:
    history(there)
    write_page(compared(there.desk, None, None), tmp_path / "days.html")
    assert "theirs" in (tmp_path / "days.html").read_text()


def test_what_happened_there_is_on_the_disk_once_however_often_the_server_dies(there: Compared) -> None:
    queue = there.queue
    queue.submit("1")
    there.at(10)
    queue.begin("1", "mars-0000")
    there.at(20)
    with (there.folder / "theirs.jsonl").open("a") as out:
        out.write('{"event":"stopped","at":17')  # it was killed as it wrote
    there.wake_up()
    there.at(30)
    queue.end("1")
    there.at(40)
    there.wake_up()
    there.at(50)
    assert [(fact["event"], fact["at"] - START) for fact in there.facts()] == [
        ("looked", 0),
        ("started", 10),
        ("stopped", 30),
    ]


def test_what_runs_when_the_server_first_looks_is_in_both(tmp_path: Path) -> None:
    class Busy(Compared):
        def wake_up(self, name: str = "tested") -> Any:
            if not isinstance(self.queue, Cluster):
                self.queue = Cluster(self.clock)
                for job in ("8", "9"):
                    self.queue.submit(job, account="b/y")
                for job in ("1", "2"):
                    self.queue.submit(job, account="a")
                    self.queue.begin(job, f"mars-000{int(job) - 1}")
                    self.queue.ran[job] = self.queue.ran[job]._replace(started=START - 1000)
            return super().wake_up(name)

    there = Busy(tmp_path)
    there.at(10)
    assert [there.phase(job) for job in ("1", "2", "8")] == [Phase.RUNNING, Phase.RUNNING, Phase.WAITING]
    there.at(600)
    there.queue.end("1")
    there.at(601)
    there.at(700)
    assert there.end("1") == "finished"
    ends = {line["job"]: line["t"] for line in there.lines("stopped")}
    assert 600 <= ends["1"] <= 605
    theirs = compared(there.desk, None, None)["runs"][0]
    assert theirs["delivered"]["accounts"]["a"]["delivered_gpu_h"] == pytest.approx(
        (600 + 700) * 8 / 3600, abs=0.03
    )


def test_a_job_that_was_never_seen_waiting_is_taken_in(there: Compared) -> None:
    there.queue.submit("1")
    there.clock.set(START + 100)
    there.queue.begin("1", "mars-0000")
    there.at(101)
    assert there.phase("1") == Phase.RUNNING
    there.at(200)
    there.queue.end("1")
    there.at(201)
    there.at(300)
    assert there.end("1") == "finished"
    there.at(400)
    assert len(there.lines("submitted")) == 1


def test_a_job_queued_again_there_runs_here_as_long_as_all_its_runs(there: Compared) -> None:
    queue = there.queue
    queue.submit("1", gpus=16)
    queue.submit("2", gpus=16)
    there.at(10)
    second = next(job for job in ("1", "2") if there.phase(job) == Phase.WAITING)
    first = "1" if second == "2" else "2"
    queue.begin(second, "mars-0000", "mars-0001")
    there.at(100)
    queue.requeue(second)
    there.at(110)
    queue.begin(second, "mars-0000", "mars-0001")
    there.at(150)
    queue.end(second)  # it ran for 90 s and for 40 s
    there.at(160)
    queue.begin(first, "mars-0000", "mars-0001")
    there.at(200)
    queue.end(first)
    there.at(201)
    assert there.phase(second) == Phase.RUNNING
    begun = next(line["t"] for line in there.lines("started") if line["job"] == second)
    there.at(400)
    assert next(line["t"] for line in there.lines("stopped") if line["job"] == second) == begun + 130
    theirs = compared(there.desk, None, None)["runs"][0]
    assert theirs["preemptions"]["count"] == 1


def test_a_job_taken_back_there_before_it_ran_leaves_where_it_runs_here(there: Compared) -> None:
    there.queue.submit("1")
    there.at(10)
    assert there.phase("1") == Phase.RUNNING
    del there.queue.waiting["1"]
    there.at(20)
    there.at(30)
    assert there.end("1") == "cancelled"
    theirs = compared(there.desk, None, None)["runs"][0]
    assert theirs["jobs"]["cancelled"] == 1


def test_what_tenure_cannot_place_is_counted(there: Compared) -> None:
    there.at(10)
    strange = SeenAttempt("77", 1, {"mars-0000": 8}, started=START + 10.0)
    there.queue.ran["77"] = strange
    there.at(1810)
    told = compared(there.desk, None, None)
    assert told["left_out"] == {"jobs": 1, "gpu_h": pytest.approx(4)}
    assert "cannot place" in text_of(told)


def test_a_job_of_no_account_is_kept_no_longer_than_it_is_there(there: Compared) -> None:
    there.queue.submit("7", account="nobody")
    there.at(10)
    there.queue.begin("7", "mars-0000")
    there.at(20)
    there.queue.end("7")
    there.at(30)
    there.at(40)
    kept = json.loads((there.folder / "shadow.json").read_text())
    assert (kept["queue"], kept["runs"], kept["ignored"]) == ({}, {}, [])


def test_a_server_that_decides_itself_has_nothing_to_compare_with(there: Compared) -> None:
    desk = there.desk
    desk.shadow = False
    with pytest.raises(NotNow, match="--shadow"):
        compared(desk, None, None)
    with pytest.raises(BadInput):
        compared(there.desk, None, "soon")


def test_within_one_second_whoever_leaves_goes_before_whoever_comes() -> None:
    head = {"event": "began", "t": 0, "nodes": [{"name": "n", "cluster": "c", "gpus": 8}]}
    asked = {"event": "submitted", "account": "a", "gpus": 8, "min_runtime_s": 0, "resumable": True}
    ours = [json.dumps(line) for line in (head, asked | {"t": 1, "job": "x"}, asked | {"t": 1, "job": "y"})]
    facts = [
        {"event": "started", "at": 102.2, "job": "x", "attempt": 1, "nodes": {"n": 8}},
        {"event": "started", "at": 105.7, "job": "y", "attempt": 1, "nodes": {"n": 8}},
        {"event": "stopped", "at": 105.6, "job": "x", "attempt": 1, "end": "failed", "again": False},
    ]
    told = [json.loads(line) for line in their_story(ours, facts, 100.0, 50).lines]
    assert [(line["event"], line["t"], line.get("job")) for line in told[3:]] == [
        ("started", 2, "x"),
        ("stopped", 5, "x"),
        ("started", 5, "y"),
    ]
    assert told[4]["held_gpu_s"] == 24


@pytest.mark.parametrize("seed", range(6))
def test_the_facts_of_a_story_give_its_measures_back(tmp_path: Path, seed: int) -> None:
    file, again = tmp_path / "story.jsonl", tmp_path / "again.jsonl"
    write_story(random_story(seed, limits=True), file)
    lines = file.read_text().splitlines()
    facts = []
    for line in map(json.loads, lines):
        fact = {"at": START + line["t"], "job": line.get("job"), "attempt": line.get("attempt")}
        if line["event"] == "started":
            facts.append(fact | {"event": "started", "nodes": line["nodes"]})
        elif line["event"] == "stopped":
            facts.append(fact | {"event": "stopped", "end": line["end"], "again": False})
        elif line["event"] == "requeued":
            facts[-1 - [one["job"] for one in reversed(facts)].index(line["job"])]["again"] = True
        elif line["event"] == "cancelled":
            facts.append(fact | {"event": "left"})
    told = their_story(lines, facts, START, 1 << 40)
    again.write_text("".join(told.lines))
    before, after = measure(read_story(file)), measure(read_story(again))
    assert told.unknown == []
    assert after.delivered == before.delivered
    assert (after.jobs, after.wait_s, after.occupancy) == (before.jobs, before.wait_s, before.occupancy)
    assert after.preemptions["count"] == before.preemptions["count"]
    assert any(fact["event"] == "stopped" for fact in facts)


@pytest.mark.slow
def test_a_server_in_shadow_mode_is_asked_by_the_command(tmp_path: Path) -> None:
    page, numbers = tmp_path / "days.html", tmp_path / "days.json"
    with serving(tmp_path, SERVED, "--shadow") as served:
        told = served.run("audit", "--shadow", "--since", "7d", "--json", str(numbers), "--report", str(page))
        assert told.returncode == 0, told.stderr
        assert "What they did, and what Tenure would have done" in told.stdout
        assert "language/olmo" in told.stdout
        assert [run["policy"] for run in json.loads(numbers.read_text())["runs"]] == ["theirs", "tenure"]
        assert page.stat().st_size > 10_000
        wrong = served.run("audit", "--shadow", "--since", "soon")
        assert (wrong.returncode, "--since" in wrong.stderr) == (2, True)
        wrong = served.run("audit", str(numbers), "--shadow")
        assert (wrong.returncode, "no STORY" in wrong.stderr) == (2, True)
