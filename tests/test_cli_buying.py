"""`tenure run offers|sign|approve|buy|purchases|void` against a cloud on this machine, over HTTP."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from buying_world import KIND
from run_world import PLAN
from tenure.cli.main import app
from tenure.engines.clock import RealClock
from tenure.providers.fake_ec2 import Behaviour, Faults, Server, World, Zone
from tenure.service import buying, people


class Desk:
    """A run's file, a cloud, and people at a terminal."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder, self.world = folder, server.world
        self.file = folder / "run.yaml"
        zones = server.world.zones.values()
        self.raw: dict[str, Any] = {
            "run": "example",
            "plan": {**PLAN, "nodes": 4},
            "provider": {
                "name": "aws",
                "region": "us-east-1",
                "instance_type": KIND,
                "subnets": {zone.name: zone.subnet_id for zone in zones},
                "endpoint": server.url,
                "read_timeout": 1,
            },
            "store": "checkpoints",
            "hook": "hook",
            "launch": {"command": ["true"]},
            "approval": {"budget": 60000},
        }
        self.write()

    def write(self, **keys: Any) -> None:
        self.file.write_text(yaml.safe_dump({**self.raw, **keys}), encoding="utf-8")

    def ask(self, command: str, *words: str, as_: str = "ann", status: int = 0) -> Any:
        asked = ["run", command, str(self.file), *words, "--data", str(self.folder / "data")]
        if command != "void":
            asked += ["--json", "-"]
        with pytest.MonkeyPatch.context() as there:
            there.setattr(people, "logged_in", lambda: as_)
            ran = CliRunner().invoke(app, asked, env={"TENURE_PLAIN": "1"})
        assert ran.exit_code == status, ran.output
        if status:
            return ran.stderr
        return ran.stdout if command == "void" else json.loads(ran.stdout)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    zones = (Zone("a", block_nodes=128), Zone("b", block_nodes=128))
    with Server(World(Behaviour(zones=zones), RealClock()), hang_s=1.0) as server:
        yield Desk(tmp_path, server)


@pytest.mark.slow
def test_what_is_for_sale_is_judged_by_the_runs_own_plan_signed_by_two_and_bought_once(desk: Desk) -> None:
    told = desk.ask("offers", "--days", "2,3")["offers"]
    assert [one["cost"] for one in told] == sorted(one["cost"] for one in told)
    assert {round(one["days"]) for one in told} == {2, 3}
    best = told[0]
    signed = desk.ask("sign", best["id"], "--days", "2,3")
    assert (signed["state"], signed["signed_by"], signed["needs"]) == (
        "waits for a second person",
        ["ann"],
        2,
    )
    refused = desk.ask("buy", signed["plan"], status=1)
    assert "second person" in refused
    assert "Traceback" not in refused
    assert desk.ask("approve", signed["plan"], as_="ben")["state"] == "signed"
    bought = desk.ask("buy", signed["plan"], as_="ben")
    assert (bought["state"], bought["window"]) == ("bought", next(iter(desk.world.blocks)))
    assert desk.ask("buy", signed["plan"])["window"] == bought["window"]
    (plan,) = desk.ask("purchases")["plans"]
    assert plan == bought
    assert desk.world.sends["PurchaseCapacityBlock"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("day", [5000, None])
def test_without_days_lengths_near_the_plans_best_are_asked_for(day: int | None, desk: Desk) -> None:
    prices = {"on_demand_per_day": 8000, **({} if day is None else {"reserved_per_day": day})}
    desk.write(plan={**PLAN, "nodes": 4, "prices": prices, "windows": {"days": 3}} | _offers(day))
    days = sorted({round(one["days"]) for one in desk.ask("offers")["offers"]})
    assert days[0] == 1
    assert 2 <= len(days) <= 13


def _offers(day: int | None) -> dict[str, Any]:
    """Where a day has no price, a plan has offers with fees."""
    if day is not None:
        return {}
    one = {"id": "x", "start": "2027-01-01T00:00:00Z", "end": "2027-01-04T00:00:00Z", "fee": 15000}
    return {"windows": None, "offers": [one]}


@pytest.mark.slow
def test_a_gang_larger_than_a_block_is_bought_in_parts_of_one_zone(desk: Desk) -> None:
    desk.write(plan={**PLAN, "nodes": 80}, approval={"budget": 10000000, "above": 10000000})
    asked = ("--days", "2", "--nodes")
    assert desk.ask("offers", "--days", "2")["offers"] == []
    first = desk.ask("offers", *asked, "64")["offers"][0]
    desk.ask("buy", desk.ask("sign", first["id"], *asked, "64")["plan"])
    parts = [one for one in desk.ask("offers", *asked, "16")["offers"] if one["start"] == first["start"]]
    here, there = sorted(parts, key=lambda one: one["zone"] != first["zone"])
    assert "a part of the gang is in" in desk.ask("sign", there["id"], *asked, "16", status=1)
    desk.ask("buy", desk.ask("sign", here["id"], *asked, "16")["plan"])
    bought = [(block.nodes, block.offering.zone) for block in desk.world.blocks.values()]
    assert bought == [(64, first["zone"]), (16, first["zone"])]


@pytest.mark.slow
def test_a_budget_that_is_spent_refuses_the_next(desk: Desk) -> None:
    desk.write(approval={"budget": 20000, "above": 1000000})
    best = desk.ask("offers", "--days", "2")["offers"][0]
    desk.ask("buy", desk.ask("sign", best["id"], "--days", "2")["plan"])
    other = desk.ask("offers", "--days", "2")["offers"][1]
    second = desk.ask("sign", other["id"], "--days", "2")["plan"]
    assert "over the budget of 20000" in desk.ask("buy", second, status=1)
    assert desk.world.purchases() == 1


@pytest.mark.slow
def test_a_purchase_whose_answer_is_lost_is_found_by_reading(desk: Desk) -> None:
    desk.write(approval={"budget": 60000, "above": 1000000})
    best = desk.ask("offers", "--days", "2")["offers"][0]
    plan = desk.ask("sign", best["id"], "--days", "2")["plan"]
    desk.world.faults = Faults({("PurchaseCapacityBlock", 1): "drop_after"})
    assert desk.ask("buy", plan)["state"] == "bought"
    assert desk.world.sends["PurchaseCapacityBlock"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "words", "status", "said"),
    [
        ("sign", ("cbo-nonsense", "--days", "2"), 2, "cbo-nonsense"),
        ("approve", ("nonsense",), 1, "no plan nonsense"),
        ("buy", ("nonsense",), 1, "no plan nonsense"),
        ("void", ("nonsense",), 1, "not looked for to the end"),
        ("offers", ("--days", "two"), 2, "no list of days"),
        ("offers", ("--days", "0.5"), 1, "InvalidParameterValue"),
    ],
)
def test_what_cannot_be_is_one_message(
    command: str, words: tuple[str, ...], status: int, said: str, desk: Desk
) -> None:
    told = desk.ask(command, *words, status=status)
    assert said in told
    assert "should not happen" not in told


@pytest.mark.slow
def test_a_cloud_that_is_not_there_is_one_message(desk: Desk) -> None:
    desk.raw["provider"]["endpoint"] = "http://127.0.0.1:9"
    desk.raw["provider"]["connect_timeout"] = 1
    desk.write()
    assert "Could not connect" in desk.ask("offers", "--days", "2", status=1)


@pytest.mark.slow
def test_the_key_of_signatures_is_the_owners_alone(desk: Desk) -> None:
    desk.ask("purchases")
    key = desk.folder / "data" / "approval.key"
    assert key.stat().st_mode & 0o777 == 0o600
    before = key.read_bytes()
    desk.ask("purchases")
    assert key.read_bytes() == before
    assert len(before) == 32


@pytest.mark.slow
def test_tables_fit_a_terminal(desk: Desk) -> None:
    desk.write(approval={"budget": 60000, "above": 1000000})
    data = ["--data", str(desk.folder / "data")]
    shown = CliRunner().invoke(app, ["run", "offers", str(desk.file), "--days", "2", *data])
    assert "For sale for example" in shown.output
    assert all(len(line) <= 120 for line in shown.output.splitlines())
    empty = CliRunner().invoke(app, ["run", "purchases", str(desk.file), *data])
    assert "Nothing was signed" in empty.output


@pytest.mark.parametrize("name", ["LOGNAME", "USER", "LNAME", "USERNAME"])
def test_nobody_is_somebody_else_by_a_variable(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = buying.Place().person
    monkeypatch.setenv(name, "ben")
    assert buying.Place().person == before != "ben"


def test_who_logged_in_signs_and_not_whom_they_became(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people, "LOGIN", tmp_path / "loginuid")
    mine = pwd.getpwuid(os.getuid()).pw_name
    assert people.logged_in() == mine
    for told, who in ((str(people.NOBODY), mine), ("0", "root"), ("987654", "987654")):
        people.LOGIN.write_text(told)
        assert people.logged_in() == who
