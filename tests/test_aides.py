"""What goes on beside the loop, with the real loop and record: checks, repairs counted, messages, counts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tenure.daemon.run import Daemon
from tenure.engines.fake import ChosenClock, FakeCluster
from tenure.ledger.ledger import open_ledger
from tenure.ledger.records import Asked
from tenure.service.live.aides import Aides
from tenure.service.live.desk import Desk
from tenure.settings.lab import lab_of
from tenure.web.metrics import Metrics
from test_messages import Web, listening

CHECK = """#!/bin/sh
if test -e "$(dirname "$0")/sick-$1"
then echo '{"ok": false, "reason": "ECC errors"}'; exit 1
else echo '{"ok": true}'
fi
"""


class Site:
    """Two nodes with a health check, and a chat service; the clock is moved by hand."""

    def __init__(self, folder: Path, web: Web) -> None:
        self.folder = folder
        script = folder / "check"
        script.write_text(CHECK)
        script.chmod(0o755)
        lab = lab_of(
            {
                "lab": "two",
                "clusters": {"c": {"nodes": [{"name": "n0"}, {"name": "n1"}], "gpus_per_node": 8}},
                "accounts": {"a": {"share": "50%"}, "b": {"share": "50%"}},
                "policy": {"grace": {"budgeted": "1s", "unbudgeted": "1s"}},
                "live": {
                    "health_check": {"command": [str(script)], "every": "10s", "most_drained": "50%"},
                    "messages": {"webhook": web.address, "every": "0s"},
                },
            }
        )
        self.clock = ChosenClock(1_767_571_200.0)
        self.ledger = open_ledger(folder / "record.db")
        self.engine = FakeCluster({"n0": 8, "n1": 8}, self.clock)
        self.daemon = Daemon(lab, self.ledger, self.engine, self.clock, lease_s=1e9)
        self.desk = Desk(lab, self.ledger, self.daemon, self.engine, now=self.clock.now)
        self.daemon.turn_now()
        self.aides = Aides(self.desk)
        self.aides.start()
        self.until(lambda: self.aides._after is not None, "counting to begin")

    def until(self, true: Callable[[], Any], what: str) -> None:
        deadline = time.monotonic() + 300
        while not true():
            assert time.monotonic() < deadline, f"waited too long for {what}"
            self.clock.wait(1.0)
            self.daemon.turn_now()
            time.sleep(0.05)

    def states(self) -> list[str]:
        said = self.ledger.node_states()
        return [said[name].state if name in said else "up" for name in ("n0", "n1")]

    def ask(self, verb: str, subject: str, by: str, **body: Any) -> int:
        (number,) = self.ledger.ask([Asked(by, verb, subject, body, self.clock.now())])
        self.daemon.turn_now()
        answer = self.ledger.answer(number)
        assert answer is not None
        assert answer.ok, answer.body
        return number

    def submit(self, by: str, account: str, minimum: int, name: str) -> str:
        spec = {
            "account": account,
            "gpus": 8,
            "min_runtime": minimum,
            "command": ["sleep", "10d"],
            "name": name,
        }
        number = self.ask("submit", "", by, spec=spec)
        answer = self.ledger.answer(number)
        assert answer is not None
        return str(answer.body["job"])

    def metrics(self) -> dict[str, float]:
        page = Metrics(self.desk, self.aides).page().decode()
        found = {}
        for family in text_string_to_metric_families(page):
            for one in family.samples:
                labels = ",".join(f"{key}={value}" for key, value in sorted(one.labels.items()))
                found[f"{one.name}{{{labels}}}"] = one.value
        return found


@pytest.fixture
def web() -> Iterator[Web]:
    with listening(Web()) as server:
        yield server


@pytest.fixture
def site(tmp_path: Path, web: Web) -> Iterator[Site]:
    one = Site(tmp_path, web)
    yield one
    one.aides.close()
    one.daemon.stop()
    one.ledger.close()


@pytest.mark.slow
def test_a_sick_node_leaves_by_contract_waits_for_a_person_and_comes_back_through_its_test(
    site: Site,
) -> None:
    job = site.submit("ann", "a", 60, "train")
    (node,) = site.ledger.attempts(job)[0].nodes
    (site.folder / f"sick-{node}").touch()
    other = "n1" if node == "n0" else "n0"
    (site.folder / f"sick-{other}").touch()  # both are sick, and only one may be taken out
    site.until(lambda: "repairing" in site.states(), "a node to wait for a person")
    idle = other  # a busy node is not checked
    trail = [(one.state, one.by) for one in site.ledger.node_log(idle)][::-1]
    assert trail == [
        (state, "health-check") for state in ("draining", "drained", "testing", "repairing")
    ] or trail == [(state, "health-check") for state in ("drained", "testing", "repairing")]
    assert site.ledger.repairs_by_people(0, 1e12) == 1
    (site.folder / f"sick-{idle}").unlink()
    site.ask("node", idle, "pia", state="testing", reason="changed the card")
    site.until(lambda: site.states()[int(idle[1])] == "up", "the node to come back")
    newest = site.ledger.node_log(idle, 1)[0]
    assert (newest.by, newest.reason) == ("pia", "its health check passed")
    assert site.ledger.repairs_by_people(0, 1e12) == 1
    found = site.metrics()
    assert found["tenure_repairs_by_person_total{}"] == 1
    assert found["tenure_node_steps_total{state=repairing}"] == 1


@pytest.mark.slow
def test_a_node_that_died_and_is_seen_again_is_tested_before_it_takes_work(site: Site) -> None:
    (site.folder / "sick-n1").touch()
    site.engine.happen("node_down", "n1", 5.0)
    site.until(lambda: site.states()[1] == "down", "the node to be down")
    site.until(lambda: site.states()[1] == "repairing", "the node to fail its test")
    assert [one.state for one in site.ledger.node_log("n1")][::-1] == ["down", "testing", "repairing"]


@pytest.mark.slow
def test_the_owner_of_a_stopped_job_is_told_for_whom_and_by_which_rule(site: Site, web: Web) -> None:
    first, second = site.submit("bo", "b", 0, "sweep"), site.submit("bo", "b", 0, "sweep")
    site.until(lambda: len(site.engine.running()) == 2, "both to run")
    taker = site.submit("ann", "a", 3600, "train")
    site.until(lambda: web.posted, "a message")
    text = web.posted[0]["text"]
    assert web.posted[0]["user"] == "bo"
    assert text.startswith(("bo: Job 1 (sweep) is being stopped", "bo: Job 2 (sweep) is being stopped"))
    assert f"unbudgeted: stopped for job {taker} of a" in text
    site.until(lambda: not site.ledger.outbox(), "the note to be settled")
    site.until(lambda: site.aides.tallies.stops, "the stop to be counted")
    assert site.metrics()["tenure_stops_total{cause=preempted,rule=free_work}"] == 1
    assert {first, second} == {"1", "2"}


@pytest.mark.slow
def test_counts_begin_where_the_process_begins_and_know_who_waited_before(site: Site) -> None:
    for _ in range(3):
        site.submit("ann", "a", 3600, "train")
    site.until(lambda: len(site.engine.running()) == 2, "two to run")
    again = Aides(site.desk)
    again.count()  # knows what is there, counts nothing of it
    assert sum(values.n for values in again.tallies.wait_s.values()) == 0
    site.ask("cancel", "1", "ann", reason="")
    site.until(lambda: len(site.engine.running()) == 2 and site.ledger.attempts("3"), "the third to run")
    again.count()
    waited = json.loads(site.ledger.events(job="3")[0])["t"]
    assert again.tallies.wait_s["budgeted"].n == 1
    assert again.tallies.wait_s["budgeted"].total == site.ledger.attempts("3")[0].started_t - waited
