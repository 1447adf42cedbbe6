"""Whole runs lived in virtual time: the real controller and boto3, a cloud on this machine, a real store."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from math import prod
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tenure.cli.main import app
from tenure.runs.goodput import FACTORS
from tenure.service import runs

pytest.importorskip("boto3")
PUBLISHED = Path(__file__).resolve().parents[1] / "examples" / "runs" / "published.yaml"


def short(folder: Path, **more: Any) -> Path:
    """Two days of 8 nodes."""
    plan = {
        "tokens": 8 * 8 * 3000.0 * 1.9 * 86400,
        "nodes": 8,
        "throughput": {"mean": 3000, "sd": 150},
        "failures": {"per_node_day": 0.1},
        "recovery": {"restart": "20m", "checkpoint_every": "2h", "stall": "2m"},
        "prices": {"reserved_per_day": 13440, "on_demand_per_day": 19200},
        "overrun": {"move": 1000, "on_demand": True, "stall_per_day": 100000, "p_fallback": 0.8},
        "windows": {"days": 2},
    }
    run = {
        "run": "short",
        "plan": plan,
        "provider": {
            "name": "aws",
            "region": "us-east-1",
            "instance_type": "p5.48xlarge",
            "endpoint": "http://127.0.0.1:9/",
        },
        "store": "store",
        "hook": "hook",
        "launch": {"command": ["true"]},
        "fallback": "on-demand",
        "approval": {"budget": 10**6},
        **more,
    }
    file = folder / "short.yaml"
    file.write_text(yaml.safe_dump(run), encoding="utf-8")
    return file


def told_of(file: Path, *options: str) -> dict[str, Any]:
    ran = CliRunner().invoke(app, ["run", "rehearse", str(file), "--json", "-", *options])
    assert ran.exit_code == 0, ran.output
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.mark.slow
def test_a_short_run_is_rehearsed_with_its_page(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    told = told_of(short(tmp_path), "--days", "2", "--speed", "3100", "--seed", "3", "--report", str(page))
    assert told["phase"] == "done"
    assert told["final"]["verified"]
    assert float(told["bill"]["total"]) == pytest.approx(told["money"]["total"], rel=0.02)
    text = page.read_text(encoding="utf-8")
    for words in ("Day by day", "Goodput, taken apart", "Deadlines", "What happened", "all or none"):
        assert words in text


@pytest.mark.slow
def test_a_run_past_its_window_drains_in_time_and_goes_on_on_demand(tmp_path: Path) -> None:
    file = short(tmp_path, extend=False)
    told = told_of(file, "--days", "2", "--speed", "2500", "--failures", "0", "--seed", "5")
    ends = [(one["end"], bool(one["windows"])) for one in told["attempts"]]
    assert ends == [("drained", True), ("finished", False)]
    assert told["attempts"][0]["ended"] <= told["deadlines"][0]["term"]
    assert told["money"]["on_demand"] > 0
    assert float(told["bill"]["on_demand"]) == pytest.approx(told["money"]["on_demand"], rel=0.05)


@pytest.mark.slow
def test_a_run_for_which_nothing_is_left_is_not_lived_on_for_weeks(tmp_path: Path) -> None:
    """It is left as it stands, and loud about it."""
    told = told_of(short(tmp_path), "--days", "2", "--speed", "2400", "--failures", "0", "--tight-from", "20")
    assert told["phase"] == "assembling"
    assert told["alarms"]
    begun = told["attempts"][0]["started"]
    newest = max(one["at"] for one in told["timeline"])
    assert datetime.fromisoformat(str(newest)) - datetime.fromisoformat(str(begun)) < timedelta(days=5)


@pytest.mark.slow
def test_the_published_run_lives_its_20_days(tmp_path: Path) -> None:
    """Gate, failures, daily goodput, an extension decided on and bought, a verified last checkpoint."""
    told = told_of(PUBLISHED, "--days", "20", "--seed", "7")
    assert told["phase"] == "done"
    assert told["final"]["tokens"] >= 1.2e12 * (1 - 1e-9)
    assert len(told["attempts"]) > 5
    assert len(told["days"]) == 20
    for day in told["days"]:
        assert prod(day[name] for name in FACTORS) == pytest.approx(day["goodput"], rel=1e-9)
    halfway = next(one for one in told["forecasts"] if str(one["due"]).startswith("50%"))
    assert halfway["extend_days"] == 1
    kinds = [one["kind"] for one in told["timeline"]]
    assert kinds.count("purchase_made") == 2
    assert "gate_passed" in kinds
    assert not told["alarms"]


@pytest.mark.slow
def test_what_a_person_asks_is_written_beside_a_controller_and_shown(tmp_path: Path) -> None:
    file, data = short(tmp_path), str(tmp_path / "data")
    never = CliRunner().invoke(app, ["run", "status", str(file), "--data", data])
    assert never.exit_code == 1
    assert "never started" in never.stderr
    place = runs.Place(data=tmp_path / "data", person="ann")
    from tenure.runs.book import RunBook
    from tenure.service.run_place import database

    with database(place.data) as db:
        book = RunBook(db, "short", place.clock.now)
        assert book.claim("elsewhere-1", 1000.0)
        ask = ["run", "drain", str(file), "--data", data, "--reason", "wrong data"]
        asked = CliRunner().invoke(app, ask)
        assert asked.exit_code == 0, asked.output
        assert "elsewhere-1 takes it up" in asked.stdout
        refused = CliRunner().invoke(app, ["run", "start", str(file), "--data", data])
        assert refused.exit_code == 1
        assert "carried by elsewhere-1" in refused.stderr
    shown = CliRunner().invoke(app, ["run", "status", str(file), "--data", data, "--json", "-"])
    assert [one["kind"] for one in json.loads(shown.stdout)["timeline"]] == ["drain_asked"]
