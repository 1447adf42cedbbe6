"""`tenure fleet`: what a story and a record say of a fleet, counted another way; two side by side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from live_server import serving, wait_for
from tenure.cli.main import app
from tenure.service import replay

RECORD = Path(__file__).resolve().parent.parent / "examples" / "fleet" / "llama3.yaml"
LAB = {
    "lab": "ours",
    "clusters": {"gb": {"nodes": 12, "gpus_per_node": 8, "nodes_per_rack": 4}},
    "accounts": {"a": {"share": "100%"}, "b": {"share": "0%"}},
}
SCENARIO = {
    "lab": LAB,
    "until": "20d",
    "jobs": [
        {"id": "big", "account": "a", "gpus": 96, "min_runtime": "1h", "runtime": "900d", "restart": "10m",
         "checkpoint_every": "20m"},
        {"id": "free", "account": "b", "gpus": 8, "runtime": "6h", "count": 60, "every": "1h"},
    ],
    "events": [{"at": "10d", "node": "gb-0003", "state": "draining", "for": "6h", "by": "pia"}],
    "failures": {"node": {"mtbf": "30d", "repair": "6h"}, "spares": 2},
}  # fmt: skip


@pytest.fixture(scope="module")
def story(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("fleet") / "story.jsonl"
    replay.write_log(replay.simulate(SCENARIO), path)
    return path


def ask(*words):
    return CliRunner().invoke(app, ["fleet", *map(str, words)])


def test_a_storys_figures_are_those_of_its_lines(story: Path, tmp_path: Path):
    told = ask(story, "--json", "-", "--report", tmp_path / "page.html")
    assert told.exit_code == 0, told.output
    fleet = json.loads(told.stdout)["fleets"][0]
    lines = [json.loads(line) for line in story.read_text().splitlines()]
    stopped = [line for line in lines if line["event"] == "stopped"]
    ended = [line for line in stopped if line["end"] == "node_failed"]
    assert fleet["interruptions"]["unplanned"]["total"] == len(ended) > 0
    assert fleet["interruptions"]["unplanned"]["causes"] == {"node failed": len(ended)}
    downs = [line for line in lines if line["event"] == "node" and line["state"] == "down"]
    assert fleet["node_failures"]["events"] == len(downs)
    assert fleet["node_failures"]["node_days"] == pytest.approx(14 * 20)
    assert fleet["manual"] == {"nodes": 2}
    span_s = 20 * 86400
    held, lost, open_since = 0.0, 0.0, {}
    gpus = {line["job"]: line["gpus"] for line in lines if line["event"] == "submitted"}
    for line in lines:
        if line["event"] == "started":
            open_since[line["job"]] = line["t"]
        elif line["event"] == "stopped":
            held += gpus[line["job"]] * (line["t"] - open_since.pop(line["job"]))
            lost += line["lost_gpu_s"]
    held += sum(gpus[job] * (span_s - since) for job, since in open_since.items())
    assert fleet["gpus"]["all"] == 112
    assert fleet["gpus"]["active"] == pytest.approx(held / span_s)
    parts = fleet["gpus"]
    assert parts["active"] + parts["spare"] + parts["down"] == pytest.approx(parts["all"])
    assert fleet["goodput"]["of_all"] == pytest.approx((held - lost) / (112 * span_s))
    assert fleet["goodput"]["of_healthy"] == pytest.approx(fleet["goodput"]["of_all"] / fleet["availability"])
    run = fleet["runs"][0]
    assert (run["run"], run["gpus"]) == ("big", 96)
    assert 0 < run["effective_time"] <= run["effective_time_held"] < 1
    assert "Side by side" in (tmp_path / "page.html").read_text()


def test_a_published_record_stands_beside_a_story_with_what_does_not_compare(story: Path):
    told = json.loads(ask(RECORD, story, "--json", "-").stdout)
    record = told["fleets"][0]
    assert record["interruptions"]["unplanned"]["total"] == 419
    assert record["interruptions"]["planned"]["total"] == 47
    assert record["node_failures"]["rate"] == pytest.approx(3.7887, abs=1e-4)
    assert record["goodput"]["of_all"] is None  # not published, so not told
    warned = " ".join(told["warnings"])
    assert "definitions differ" in warned
    assert "counts do not compare" in warned
    assert ask(RECORD, story).exit_code == 0


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("x.yaml", "name: a\ngpus: 8\ndays: 3\n", "causes"),
        ("x.yaml", "name: a\ngpus: 8\ndays: -3\ncauses: {x: 1}\n", "days"),
        ("x.yaml", "name: a\ngpus: 8\ndays: 3\nlog: none.csv\n", "none.csv"),
        ("x.jsonl", "{}\n", "story"),
    ],
)
def test_a_wrong_file_is_one_message_and_status_2(name: str, text: str, words: str, tmp_path: Path):
    (tmp_path / name).write_text(text)
    told = ask(tmp_path / name)
    assert told.exit_code == 2
    assert words in told.output
    assert "Traceback" not in told.output


@pytest.mark.slow
def test_without_a_file_the_servers_own_record_is_told(tmp_path: Path):
    page = tmp_path / "page.html"
    with serving(tmp_path) as server:

        def jobs() -> list[list[str]]:
            nodes = json.loads(server.run("node", "list", "--json", "-").stdout)["nodes"]
            return [[str(job) for job in node["jobs"]] for node in nodes]

        for gpus in ("8", "16"):
            words = ("submit", "-A", "vision", "-g", gpus, "--min-runtime", "1h", "--", "sleep", "36000")
            assert server.run(*words).returncode == 0
        wait_for("both run", lambda: sum(map(len, jobs())) == 3)
        struck = f"jupiter-{next(i for i, on in enumerate(jobs()) if '1' in on):04d}"
        assert server.run("node", "down", struck, "--reason", "dimm").returncode == 0
        assert server.run("node", "up", struck).returncode == 0

        def runs() -> list[object]:
            return list(json.loads(server.run("fleet", "--json", "-").stdout)["fleets"][0]["runs"])

        wait_for("the record holds a whole second of the larger job", runs)
        shown = server.run("fleet")
        asked = server.run("fleet", "--json", "-", "--report", str(page))
    assert shown.returncode == 0, shown.stderr
    assert asked.returncode == 0, asked.stderr
    (fleet,) = json.loads(asked.stdout)["fleets"]
    assert (fleet["name"], fleet["nodes"], fleet["gpus"]["all"]) == ("test", 4, 32)
    assert fleet["interruptions"]["unplanned"] == {"total": 1, "causes": {"dimm": 1}}
    assert fleet["node_failures"]["events"] == 1
    assert fleet["manual"] == {"nodes": 2}
    assert fleet["gpus"]["active"] + fleet["gpus"]["spare"] + fleet["gpus"]["down"] == pytest.approx(32)
    assert [(run["run"], run["gpus"]) for run in fleet["runs"]] == [("2", 16)]
    assert any("rates say little" in warning for warning in json.loads(asked.stdout)["warnings"])
    for text in ("unplanned: dimm", "availability", "test: 2"):
        assert text in shown.stdout
    assert "dimm" in page.read_text()
