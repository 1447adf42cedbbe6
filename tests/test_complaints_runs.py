"""Public complaints about carrying runs, each a test that the obvious way of doing it fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from run_world import DAY, HOUR, START, World, run_of
from tenure.ledger.opening import open_database
from tenure.providers.protocol import ON_DEMAND, RESERVED
from tenure.runs.drawn import Draws


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Any]:
    worlds = []

    def made(plan: dict[str, Any] | None = None, draws: Draws | None = None, **keys: Any) -> World:
        world = World(tmp_path, open_database(tmp_path / "runs.db"), run_of(tmp_path, plan, **keys), draws)
        worlds.append(world)
        return world

    yield made
    for world in worlds:
        world.db.engine.dispose()


def launched(world: World, market: str = "") -> list[Any]:
    every = [*world.provider.alive.values(), *(node for node, _ in world.provider.gone.values())]
    return [node for node in every if market in ("", node.market)]


def test_01_a_future_block_is_waited_for_and_filled_within_two_minutes_of_its_start(make: Any) -> None:
    """skypilot#4155: the docs say it waits for a future block; it doesn't."""
    world = make(fallback="on-demand", poll=60)
    world.clock.set(START - 3 * HOUR)
    world.provider.lend(START, START + 3 * DAY, 4)
    world.controller()
    world.live(START + 240.0)
    assert world.provider.sent, "nothing was launched"
    _token, at, window = world.provider.sent[0]
    assert START <= at <= START + 120
    assert window == "cb-1"
    assert {node.market for node in launched(world)} == {RESERVED}
    assert len(launched(world)) == 4


@pytest.mark.slow
def test_06_nodes_are_up_at_the_start_and_none_at_the_term(make: Any) -> None:
    """karpenter-provider-aws#9001: nothing scales at start and end."""
    world = make({"tokens": 1e15})
    window = world.provider.lend(START, START + DAY, 4)
    world.controller()
    world.live(START + 600)
    assert len(world.provider.alive) == 4
    world.live(world.provider.term(window))
    assert not world.provider.alive
    taken = [at for _, at in world.provider.gone.values()]
    assert max(taken) <= world.provider.term(window)
    assert "lost final checkpoint" not in world.modes()
    assert world.state.attempts[-1].end == "drained"


@pytest.mark.slow
def test_07_a_gang_that_does_not_come_together_bills_up_to_its_cap_and_is_let_go(make: Any) -> None:
    """karpenter#3138: three of four nodes bill while waiting for the last one."""
    world = make(
        {"overrun": {"move": 0, "on_demand": True, "stall_per_day": 10_000_000, "p_fallback": 0.5}},
        fallback="on-demand",
        gang={"hold_cap": 6, "retry": 900, "rounds": 1000, "pause": "10h"},
    )
    window = world.provider.lend(START, START + 6 * HOUR, 4)
    world.provider.open = lambda now: max(0, 3 - len(world.provider.alive))
    world.controller()
    world.live(window.end + 8 * HOUR)
    hours = world.provider.on_demand_hours(world.clock.now())
    assert 3 < hours <= 6
    assert not world.provider.alive
    assert "phantom gang" in world.modes()


@pytest.mark.slow
def test_08_nodes_held_for_the_rest_of_a_gang_are_never_idle(make: Any) -> None:
    """ray#50783: the idle time-out removes nodes of a gang that is still assembling."""
    world = make(gang={"retry": 600, "start_within": "30m"}, alarms={"stall": "5m", "silent": "10m"})
    window = world.provider.lend(START, START + 3 * DAY, 4, broken=1)
    world.controller()
    world.live(START + 5 * HOUR)
    assert sorted(node.state for node in world.provider.alive.values()) == ["running"] * 3
    assert not world.provider.gone
    window.broken = 0  # the last one is repaired
    world.live(START + 6 * HOUR)
    assert world.state.phase == "running"
    assert len(launched(world)) == 4


@pytest.mark.slow
def test_09_one_lost_node_is_replaced_alone(make: Any) -> None:
    """skypilot#3907: one preemption rebuilds all nodes."""
    world = make()
    world.provider.lend(START, START + 3 * DAY, 4)
    world.controller()
    world.live(START + 5 * HOUR)
    before = set(world.provider.alive)
    lost = sorted(before)[2]
    world.provider.end_nodes([lost], at_once=True)
    world.live(START + 6 * HOUR)
    assert world.state.phase == "running"
    assert before - set(world.provider.alive) == {lost}
    assert len(launched(world)) == 5
    assert [attempt.end for attempt in world.state.attempts] == ["failed", ""]
    assert world.state.attempts[1].from_tokens > 0


@pytest.mark.slow
def test_10_a_node_that_does_not_stop_is_kept_in_the_book_and_an_alarm(make: Any) -> None:
    """skypilot#2990: a failed terminate during failover leaks a VM."""
    world = make(fallback="on-demand")
    window = world.provider.lend(START, START + 6 * HOUR, 4)
    world.controller()
    world.live(window.end + HOUR)
    outside = [node.id for node in world.provider.alive.values()]
    assert len(outside) == 4
    world.provider.stuck = {outside[0]}
    more = world.provider.lend(world.clock.now() + HOUR, world.clock.now() + 3 * DAY, 4)
    world.controllers["one"][0]._record("window_adopted", {"window": more.id})
    world.live(more.start + 2 * HOUR)
    assert outside[0] in world.state.releasing
    assert "node not released" in world.modes()
    world.provider.stuck = set()
    world.live(more.start + 3 * HOUR)
    assert outside[0] not in world.state.releasing
    assert "node not released" not in world.state.alarms


@pytest.mark.slow
@pytest.mark.parametrize("dies_at", ["launch_intended", "launch", "launched"])
def test_11_after_any_crash_in_a_launch_there_are_as_many_nodes_as_asked(make: Any, dies_at: str) -> None:
    """skypilot#656: failover made duplicates."""
    world = make()
    world.provider.lend(START, START + 3 * DAY, 4)
    first = world.controller()
    world.live(START - 1)
    killed = _die_in(first, dies_at)
    with pytest.raises(RuntimeError, match="kill -9"):
        world.live(START + 600)
    assert killed()
    world.kill()
    world.live(START + 30 * 60)  # its lease runs out
    world.controller("two")
    world.live(START + 2 * HOUR)
    assert len(launched(world)) == 4
    assert len({node.token for node in launched(world)}) == 1
    assert world.state.phase == "running"


def _die_in(controller: Any, where: str) -> Any:
    """Let the controller die: before the launch is sent, after it was, or after its outcome was written."""
    provider, record = controller.parts.provider, controller._record
    launch = provider.launch
    died: list[bool] = []

    def die() -> None:
        died.append(True)
        provider.launch = launch
        raise RuntimeError("kill -9")

    def record_then(kind: str, body: Any, key: str = "") -> bool:
        done: bool = record(kind, body, key)
        if kind == where:
            die()
        return done

    def launch_then(*told: Any) -> Any:
        launch(*told)
        die()

    controller._record = record_then
    if where == "launch":
        provider.launch = launch_then
    return lambda: bool(died)


@pytest.mark.slow
def test_13_a_gang_stuck_on_one_node_waits_so_long_and_no_longer_and_says_why(make: Any) -> None:
    """dstack#4146: the gang is stuck when one job can't provision."""
    world = make(
        fallback="on-demand",
        gang={"hold_cap": 1000, "retry": 900, "rounds": 4, "pause": "4h", "success": 0.5},
    )
    window = world.provider.lend(START, START + 6 * HOUR, 4)
    world.provider.open = lambda now: max(0, 3 - len(world.provider.alive))
    world.controller()
    world.live(window.end + 4 * HOUR)
    assert not world.provider.alive
    paused = list(world.controllers["one"][0].parts.book.events("launching_paused"))
    assert paused
    assert "rounds" in str(paused[0].body["why"])
    world.provider.open = lambda now: 4  # the zone opens: it is tried again after the pause
    world.live(window.end + 10 * HOUR)
    assert world.state.phase == "running"


@pytest.mark.slow
def test_14_a_finished_run_launches_nothing_more(make: Any) -> None:
    """dstack#3130: a finished gang restarts and adds an instance."""
    world = make({"tokens": 4 * 8 * 3000.0 * 6 * HOUR}, fallback="on-demand")
    world.provider.lend(START, START + 2 * DAY, 4)
    world.controller()
    world.live(START + DAY, world.done)
    assert world.state.phase == "done"
    sent = len(world.provider.sent)
    made = world.controllers["one"][0]
    made.close()
    world.kill()
    again = world.controller("two")
    for _ in range(20):
        world.live(world.clock.now() + HOUR)
        again.step()
    assert len(world.provider.sent) == sent
    assert not world.provider.alive


@pytest.mark.slow
def test_19_a_node_that_drains_is_never_replaced_before_it_is_gone(make: Any) -> None:
    """aws-parallelcluster#7465: draining nodes are killed and relaunched for ever."""
    world = make(fallback="on-demand")
    world.provider.stop_s = 2 * HOUR  # the window's clean-up takes its time
    window = world.provider.lend(START, START + 3 * DAY, 4)
    world.controller()
    world.live(START + 5 * HOUR)
    world.provider.end_nodes([sorted(world.provider.alive)[0]])
    most = []
    world.checks.append(lambda w: most.append(len(w.provider.alive)))
    world.live(START + 6.9 * HOUR)
    assert len(launched(world)) == 4
    world.live(START + 9 * HOUR)
    assert max(most) == 4
    assert len(launched(world)) == 5
    assert world.state.phase == "running"
    assert not [node for node in launched(world) if node.window != window.id]


@pytest.mark.slow
def test_20_reserved_nodes_idle_beside_on_demand_ones_are_an_alarm_within_one_poll(make: Any) -> None:
    """kubernetes-on-aws#11623: a reservation is idle but billed while on-demand runs."""
    world = make(fallback="on-demand")
    first = world.provider.lend(START, START + 6 * HOUR, 4)
    world.controller()
    world.live(first.end + 2 * HOUR)
    assert {node.market for node in world.provider.alive.values()} == {ON_DEMAND}
    now = world.clock.now()
    more = world.provider.lend(now - 1.0, now + 3 * DAY, 4)
    world.controllers["one"][0]._record("window_adopted", {"window": more.id})
    world.live(now + 2 * world.run.file.poll)
    at = [at for at, alarm in world.sounded if alarm.mode == "idle reserved"]
    assert at
    assert at[0] <= now + world.run.file.poll + 1
    world.live(now + 3 * HOUR)  # and the run moves into what is paid
    assert {node.window for node in world.provider.alive.values()} == {more.id}
    assert "idle reserved" not in world.state.alarms
