"""The page of metrics: whole, bounded, and with all that dashboard, rules and docs speak of."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tenure.core.words import NodeState, Phase
from tenure.daemon.book import JobCard, make_room, new_book
from tenure.daemon.tallies import Tallies
from tenure.daemon.view import Counters, EngineState, Health, View, view_of
from tenure.service.live.aides import Aides
from tenure.settings.lab import Lab, lab_of
from tenure.web.metrics import MOST_ACCOUNTS, Metrics

ROOT = Path(__file__).resolve().parent.parent
DASHBOARD = ROOT / "docs" / "grafana" / "tenure.json"
RULES = ROOT / "docs" / "grafana" / "alerts.yml"
PAGE = ROOT / "docs" / "how-to" / "watch-a-lab.md"
SUFFIX = re.compile(r"_(bucket|count|sum)$")
TWO_TEAMS = {
    "lab": "two",
    "clusters": {"big": {"nodes": 4, "gpus_per_node": 8}, "small": {"nodes": 1, "gpus_per_node": 4}},
    "accounts": {"a": {"share": "60%", "researchers": ["ann", "bo"]}, "b": {"share": "40%"}},
}


class FewRepairs:
    """The one question that the page asks of the record."""

    asked = 0

    def repairs_by_people(self, since: float, until: float) -> int:
        self.asked += 1
        return 3


@dataclass
class Loop:
    """What the page reads of the live loop."""

    seen: View | None
    counters: Counters = field(default_factory=Counters)

    def view(self) -> View | None:
        return self.seen

    def health(self) -> Health:
        return Health(True, "leading", None, None, 990.0, "well")


class Desk:
    """A desk with a loop that stands still at second 1000."""

    def __init__(self, lab: Lab, seen: View | None) -> None:
        self.lab, self.daemon, self.ledger = lab, Loop(seen), FewRepairs()

    def now(self) -> float:
        return 1000.0


class Watched:
    """A health watch and a courier that have something to say."""

    def told(self) -> Any:
        class Told:
            tallies: dict[str, Any] = {}
            held_back = ("n1",)
            waiting, sent, failed = 2, 5, 1

        return Told()


def book_with(lab: Lab, *jobs: tuple[str, int, int, Phase]) -> Any:
    """(account, GPUs, min_runtime_s, phase) of each job; what runs is on the first cluster."""
    book = new_book(lab, lab.knobs(), 0.0)
    make_room(book, len(jobs), len(jobs))
    leaves = book.lab.rows()
    for k, (account, gpus, minimum_s, phase) in enumerate(jobs):
        columns = {"gpus": gpus, "min_runtime_s": minimum_s, "account": leaves[account], "clusters": 1}
        row = book.add(JobCard(f"j{k}", account, "ann", {}, 0), columns)
        stay = book.board.stays
        stay["phase"][row], stay["cluster"][row] = phase, 0
        if phase in (Phase.RUNNING, Phase.STOPPING):
            book.board.posts["free"][k % 4] -= gpus
    return book


def metrics_of(lab: Lab, book: Any | None) -> Metrics:
    seen = None if book is None else view_of(book, 990.0, EngineState("fake", False), (), 0)
    desk: Any = Desk(lab, seen)
    aides = Aides(desk)
    told: Any = Watched()
    aides.watch = aides.courier = told
    return Metrics(desk, aides)


def tallied(tallies: Tallies) -> None:
    tallies.add(
        [
            {"event": "submitted", "t": 0, "job": "1", "gpus": 1, "min_runtime_s": 60, "kind": "batch"},
            {"event": "started", "t": 3, "job": "1", "nodes": {"n": 1}},
            {"event": "stopping", "t": 4, "job": "1", "cause": "preempted", "rule": "free_work"},
            {"event": "stopped", "t": 5, "job": "1", "end": "preempted", "held_gpu_s": 2, "lost_gpu_s": 1},
            {"event": "node", "t": 6, "node": "n", "state": "down"},
        ]
    )


@pytest.fixture(scope="module")
def page() -> dict[str, float]:
    lab = lab_of(TWO_TEAMS)
    jobs = [
        ("a/ann", 8, 3600, Phase.RUNNING),
        ("b", 4, 0, Phase.RUNNING),
        ("a/bo", 8, 3600, Phase.WAITING),
        ("a/bo", 8, 3600, Phase.HELD),
        ("b", 2, 0, Phase.RESTING),
    ]
    book = book_with(lab, *jobs)
    book.board.posts["state"][3] = NodeState.DOWN
    metrics = metrics_of(lab, book)
    tallied(metrics.aides.tallies)
    metrics.desk.daemon.counters.turn_s.add(0.03)
    metrics.desk.daemon.counters.turn_cpu_s.add(0.02)
    return samples(metrics)


def samples(metrics: Metrics) -> dict[str, float]:
    found = {}
    for family in text_string_to_metric_families(metrics.page().decode()):
        for one in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(one.labels.items()))
            found[f"{one.name}{{{labels}}}" if labels else one.name] = one.value
    return found


def names_on(page: dict[str, float]) -> set[str]:
    return {SUFFIX.sub("", name.partition("{")[0]) for name in page}


def test_gpus_by_state_sum_to_all_gpus_of_the_cluster(page: dict[str, float]) -> None:
    states = {s: page[f"tenure_gpus{{cluster=big,state={s}}}"] for s in
              ("budgeted", "unbudgeted", "idle", "out_of_service")}  # fmt: skip
    assert states == {"budgeted": 8, "unbudgeted": 4, "idle": 12, "out_of_service": 8}
    assert page["tenure_nodes{cluster=big,state=down}"] == 1


def test_inner_accounts_have_all_below_them(page: dict[str, float]) -> None:
    def of(metric: str, account: str) -> float:
        return page[f"tenure_account_{metric}{{account={account},cluster=big}}"]

    assert [of("budgeted_gpus", name) for name in ("(all)", "a", "a/ann", "b")] == [8, 8, 8, 0]
    assert of("unbudgeted_gpus", "b") == 4
    assert of("waiting_gpus", "a") == of("waiting_gpus", "a/bo") == 8  # a job on hold is no demand
    assert of("waiting_unbudgeted_gpus", "b") == 2


def test_counts_and_ages_are_told(page: dict[str, float]) -> None:
    assert page["tenure_turn_age_seconds"] == 10
    assert page["tenure_jobs{phase=held}"] == 1
    assert page["tenure_stops_total{cause=preempted,rule=free_work}"] == 1
    assert page["tenure_wait_seconds_bucket{group=debug,le=5.0}"] == 1
    assert page["tenure_wait_seconds_bucket{group=debug,le=2.0}"] == 0
    assert page["tenure_turn_seconds_count"] == 1
    assert page["tenure_turn_cpu_seconds_count"] == 1
    assert page["tenure_repairs_by_person_total"] == 3
    assert page["tenure_health_nodes_held_back"] == 1
    assert page["tenure_messages_waiting"] == 2


def test_the_page_answers_before_anything_is_recovered() -> None:
    found = samples(metrics_of(lab_of(TWO_TEAMS), None))
    assert found["tenure_leader"] == 1
    assert "tenure_turn" not in found


def test_the_record_is_not_asked_at_each_scrape() -> None:
    metrics = metrics_of(lab_of(TWO_TEAMS), None)
    for _ in range(5):
        metrics.page()
    record: Any = metrics.desk.ledger
    assert record.asked == 1


def test_no_label_holds_a_job_or_a_user_and_accounts_are_bounded() -> None:
    many = {f"t{i}": {"share": "1%", "researchers": [f"p{j}" for j in range(30)]} for i in range(100)}
    lab = lab_of({**TWO_TEAMS, "accounts": many})
    book = book_with(lab, *[(f"t{i}/p{i % 30}", 1, 3600, Phase.RUNNING) for i in range(24)])
    found = samples(metrics_of(lab, book))
    ratio = [name for name in found if name.startswith("tenure_account_ratio{")]
    assert len(ratio) == 2 * (MOST_ACCOUNTS - 1)  # the root is one of those named, and has no ratio
    assert len(found) < 2 * 9 * (MOST_ACCOUNTS + 1) + 250
    held = {name: value for name, value in found.items() if name.startswith("tenure_account_budgeted_gpus")}
    others = held["tenure_account_budgeted_gpus{account=(others),cluster=big}"]
    leaves = sum(v for n, v in held.items() if "/" in n and "cluster=big" in n)
    assert others > 0
    assert others + leaves == held["tenure_account_budgeted_gpus{account=(all),cluster=big}"] == 24
    assert not any(re.search(r"=(j\d+|ann)\b", name) for name in found)


# --- whoever speaks of metrics speaks of those there are ------------------------------------------------


def expressions() -> dict[str, str]:
    board = json.loads(DASHBOARD.read_text())
    found = {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in board["panels"]
        for target in panel.get("targets", ())
    }
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        found |= {rule["alert"]: rule["expr"] for rule in group["rules"]}
    return found


@pytest.mark.parametrize("expression", expressions().values(), ids=expressions().keys())
def test_every_query_asks_for_metrics_and_labels_that_are_there(
    page: dict[str, float], expression: str
) -> None:
    for name, labels in re.findall(r"(tenure_\w+)(?:\{([^}]*)\})?", expression):
        assert SUFFIX.sub("", name) in names_on(page), name
        known = {key for full in page if full.partition("{")[0] == name
                 for key in re.findall(r"(\w+)=", full.partition("{")[2])} | {"job"}  # fmt: skip
        asked = set(re.findall(r"(\w+)\s*(?:=~|!=|=)", labels))
        assert asked <= known, f"{name} has {known}"
        for key, value in re.findall(r'(\w+)\s*=\s*"([^"$]*)"', labels):
            assert any(f"{key}={value}" in full for full in page), f"{name} has no {key}={value}"
    for clause in re.findall(r"by \(([^)]*)\)", expression):
        for label in clause.replace(" ", "").split(","):
            assert any(f"{label}=" in full for full in page), label


def test_the_dashboard_is_one_that_grafana_reads() -> None:
    board = json.loads(DASHBOARD.read_text())
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    assert {"title", "uid", "schemaVersion", "panels", "templating", "time"} <= board.keys()
    cells: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        mine = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])}  # fmt: skip
        assert not mine & cells, f"{panel['title']} lies over another panel"
        assert place["x"] + place["w"] <= 24
        cells |= mine
    variables = {one["name"] for one in board["templating"]["list"]}
    assert set(re.findall(r"\$\{?(\w+)\}?", json.dumps(board["panels"]))) - {"__all"} <= variables


def test_every_metric_is_documented_and_every_documented_one_is_there(page: dict[str, float]) -> None:
    assert set(re.findall(r"`(tenure_\w+)`", PAGE.read_text())) == names_on(page)


def test_every_alert_says_what_to_do() -> None:
    alerts = [name for name in expressions() if name.startswith("Tenure")]
    text = PAGE.read_text()
    assert [name for name in alerts if f"**{name}**" not in text] == []


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_itself_takes_the_rules_and_the_page() -> None:
    checked = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    lab = lab_of(TWO_TEAMS)
    metrics = metrics_of(lab, book_with(lab, ("b", 4, 0, Phase.RUNNING)))
    tallied(metrics.aides.tallies)
    linted = subprocess.run(["promtool", "check", "metrics"], input=metrics.page(), capture_output=True)
    assert linted.returncode == 0, linted.stderr.decode()


def test_an_account_table_without_jobs_is_all_zeros() -> None:
    lab = lab_of(TWO_TEAMS)
    found = samples(metrics_of(lab, book_with(lab)))
    held = [value for name, value in found.items() if name.startswith("tenure_account_budgeted_gpus")]
    assert np.count_nonzero(held) == 0
    assert held
