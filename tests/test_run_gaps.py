"""Between two windows: a run waits and says for how long, or is carried on demand where that pays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from run_world import DAY, HOUR, PLAN, START, World, run_of
from tenure.runs import gauges
from tenure.runs.controller import Controller

GAP = 20 * HOUR
TOO_MUCH = {"tokens": 4 * 8 * 3000.0 * 5 * DAY, "failures": {"per_node_day": 1e-6}}


def world_of(folder: Path, *, stall: float = 40000.0, gap: float = GAP, **keys: Any) -> World:
    """Two windows of a day, with a gap."""
    overrun = PLAN["overrun"] | {"stall_per_day": stall}
    world = World(folder, None, run_of(folder, TOO_MUCH | {"overrun": overrun}, **keys))
    for start in (START, START + DAY + gap):
        world.provider.lend(start, start + DAY, 4)
    world.controller()
    return world


def test_between_two_windows_nothing_is_held_and_it_is_told_how_long_the_run_waits(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    world.live(START + DAY + HOUR)
    state, now = world.state, world.clock.now()
    assert (state.phase, state.attempts[-1].end) == ("waiting", "drained")
    assert world.vault.newest().tokens == state.attempts[-1].tokens > 0
    assert not world.provider.alive
    assert "until window cb-2 starts" in state.alarms["between windows"]["text"]
    told = dict(line.rsplit(" ", 1) for line in gauges.lines(world.run, 1800.0, state, now, 0.0))
    assert float(told['tenure_run_seconds_to_window{run="example"}']) == pytest.approx(GAP - HOUR, abs=1)
    world.live(START + DAY + GAP + HOUR)
    state = world.state
    assert state.phase == "running"
    assert state.attempts[-1].windows == ("cb-2",)
    assert state.attempts[-1].from_tokens == state.attempts[0].tokens
    assert "between windows" not in state.alarms
    assert not world.provider.on_demand_hours(world.clock.now())


@pytest.mark.slow
def test_a_gap_is_crossed_on_demand_where_it_pays_and_the_next_window_is_taken_up(tmp_path: Path) -> None:
    world = world_of(tmp_path, fallback="on-demand")
    world.live(START + DAY + 6 * HOUR)
    assert world.state.phase == "running"
    assert world.state.attempts[-1].windows == ()
    assert "between windows" not in world.modes()
    world.live(START + DAY + GAP + 2 * HOUR)
    assert [(one.windows, one.end) for one in world.state.attempts] == [
        (("cb-1",), "drained"),
        ((), "drained"),
        (("cb-2",), ""),
    ]
    kept = [one.from_tokens for one in world.state.attempts]
    assert kept == sorted(kept)
    assert {node.window for node in world.provider.alive.values()} == {"cb-2"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"fallback": "wait"}, "the file does not say so"),
        (
            {"fallback": "on-demand", "stall": 8500.0},
            "a day without training costs about what one there does",
        ),
        ({"fallback": "on-demand", "gap": 0.5 * HOUR}, "it is over before moving has paid"),
    ],
)
def test_a_gap_is_not_crossed_where_it_does_not_pay(tmp_path: Path, keys: dict[str, Any], why: str) -> None:
    world = world_of(tmp_path, **keys)
    world.live(START + DAY + keys.get("gap", GAP) - 60.0)
    assert world.state.phase == "waiting", why
    assert not world.provider.on_demand_hours(world.clock.now())


def test_a_gang_that_does_not_come_together_is_given_up_before_the_next_window(tmp_path: Path) -> None:
    world = world_of(tmp_path, fallback="on-demand", gang={"hold_cap": 10_000, "rounds": 1000})
    world.provider.open = lambda now: 3 - len(world.provider.alive)
    world.live(START + DAY + GAP - 600.0)
    assert world.state.phase == "waiting"
    assert not world.provider.alive
    world.live(START + DAY + GAP + HOUR)
    assert world.state.attempts[-1].windows == ("cb-2",)


def test_nodes_that_a_dead_controller_meant_to_let_go_are_let_go_and_no_gang_is_made_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(tmp_path)
    world.live(START + 5 * HOUR)
    before = set(world.provider.alive)
    with monkeypatch.context() as dies:
        dies.setattr(Controller, "_release", lambda controller, act: None)
        world.book(world.clock.now).ask("drain_asked", {"by": "ann"})
        world.live(START + 6 * HOUR)
    assert set(world.state.releasing) == before == set(world.provider.alive)
    world.kill()
    world.live(START + 9 * HOUR)  # past its lease
    world.book(world.clock.now).ask("resume_asked", {"by": "ann"})
    world.controller("two")
    world.live(START + 10 * HOUR)
    assert world.state.phase == "running"
    assert before.isdisjoint(world.state.attempts[-1].nodes)
    assert before.isdisjoint(world.provider.alive)
