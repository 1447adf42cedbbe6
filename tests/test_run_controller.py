"""The controller carries a run: through windows, failures, restarts; by a provider in memory."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from math import prod
from pathlib import Path
from typing import Any

import pytest

from run_world import DAY, HOUR, PLAN, START, World, run_of
from tenure.providers.protocol import PAYMENT_PENDING, Refused
from tenure.runs import tell
from tenure.runs.alarms import Webhook
from tenure.runs.controller import HeldByAnother
from tenure.runs.deadlines import ladder
from tenure.runs.drawn import Draws
from tenure.runs.gang import Patience, hold_ends, worth_holding
from tenure.runs.goodput import FACTORS
from tenure.runs.hook import Hook
from tenure.runs.look import Sound
from tenure.settings.errors import BadInput
from tenure.settings.run_file import run_file_of

Make = Callable[..., World]
BUDGETED = {"approval": {"above": 10**9, "budget": 10**9}}


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def made(plan: dict[str, Any] | None = None, draws: Draws | None = None, **keys: Any) -> World:
        return World(tmp_path, None, run_of(tmp_path, plan, **keys), draws)

    return made


def told(world: World) -> dict[str, Any]:
    book = world.book(world.clock.now)
    events = list(book.events())
    return tell.standing(world.run, 1800.0, world.state, events, world.hook, world.clock.now())


@pytest.mark.slow
def test_a_run_lives_through_one_window_to_a_verified_end(make: Make) -> None:
    world = make()
    world.provider.lend(START, START + 3 * DAY, 4)
    world.controller()
    world.live(START + 4 * DAY, world.done)
    state = world.state
    assert state.phase == "done"
    assert state.final is not None
    assert world.vault.newest().tokens >= world.run.tokens * 0.999999
    assert not world.provider.alive
    assert world.modes() == set()


@pytest.mark.slow
def test_goodput_taken_apart_multiplies_to_the_total_and_idle_nodes_are_paid(make: Make) -> None:
    draws = Draws(3, 2900.0, failures_per_node_day=0.4, save_every_s=3600.0, restart_s=1800.0)
    world = make(draws=draws)
    world.provider.lend(START, START + 4 * DAY, 4)
    world.controller()
    world.live(START + 5 * DAY, world.done)
    answer = told(world)
    assert len(answer["days"]) >= 2
    for one in [answer["goodput"], *answer["days"]]:
        assert prod(one[name] for name in FACTORS) == pytest.approx(one["goodput"], rel=1e-9)
    assert all(
        one["kept_work"] <= 1 + 1e-9 for one in answer["days"]
    )  # what a save brings was of its own day
    whole = answer["goodput"]
    assert whole["gpu_hours_paid"] == pytest.approx(4 * 8 * 4 * 24)  # to the window's end, used or not
    assert whole["goodput"] == pytest.approx(answer["tokens"]["kept"] / whole["gpu_hours_paid"])
    assert whole["kept_work"] < 1 < len(answer["attempts"])
    assert whole["run_speed"] == pytest.approx(2900 / 3000, rel=0.01)


def test_an_extension_that_is_not_paid_at_the_drain_counts_as_failed_and_is_resumed_when_it_is(
    make: Make,
) -> None:
    world = make({"tokens": 4 * 8 * 3000.0 * 30 * HOUR}, **BUDGETED)
    window = world.provider.lend(START, START + DAY, 4)
    world.provider.sold = lambda one, now: now > START + 20 * HOUR and not one.extensions
    world.provider.payment_s = 3.2 * HOUR
    world.provider.extension_day = Decimal(1000)
    world.controller()
    drain = ladder(window.end, 1800.0, margin_s=300, save_s=150, step_s=30).drain
    world.live(drain + 400.0)
    assert [one.state for one in window.extensions] == [PAYMENT_PENDING]
    assert world.state.attempts[-1].end == "drained"
    assert "extension pending" in world.modes()
    held = len(world.provider.alive)
    world.live(START + 3 * DAY, world.done)
    assert window.end > START + DAY
    assert world.state.phase == "done"
    assert held == 4  # kept until the window would have ended: it might be paid


def test_the_trainer_leaves_in_time_where_no_controller_is_left(make: Make) -> None:
    world = make({"tokens": 1e15})
    window = world.provider.lend(START, START + DAY, 4)
    world.controller()
    world.live(START + 12 * HOUR)
    world.kill()
    world.live(window.end + HOUR)
    assert world.trainer.told[1].exit_code == 0
    reached = world.vault.newest()
    world.controller("two")
    world.live(window.end + 2 * HOUR)
    assert world.state.attempts[-1].end == "drained"
    assert world.vault.newest() == reached
    assert "lost final checkpoint" not in world.modes()


def test_an_attempt_that_was_cut_off_in_a_window_that_is_listed_no_more_is_told_so(
    make: Make,
) -> None:
    world = make({"tokens": 1e15}, Draws(7, 3000.0, failures_per_node_day=0.0, hangs_per_day=48.0))
    world.provider.listed_s = 0.0  # Slurm forgets a reservation at its end
    window = world.provider.lend(START, START + DAY, 4)
    world.controller()
    world.live(START + DAY, stop=lambda: world.trainer.process is not None and world.state.began is not None)
    world.kill()
    world.live(window.end + HOUR)
    world.controller("two")
    world.live(window.end + 2 * HOUR)
    state = world.state
    assert state.attempts[-1].end == "cut off"
    assert state.attempts[-1].tokens > world.vault.newest().tokens
    assert "lost final checkpoint" in state.alarms
    assert state.windows[window.id].state == "expired"
    assert "window unknown" not in world.modes()


def test_a_window_that_is_taken_away_before_its_end_is_named_and_its_deadlines_hold(make: Make) -> None:
    world = make({"tokens": 1e15})
    window = world.provider.lend(START, START + DAY, 4)
    world.controller()
    world.live(START + 12 * HOUR)
    drain_at = world.hook.window()["drain_at"]  # type: ignore[index]
    world.provider.listed_s = -13 * HOUR
    world.live(START + 14 * HOUR)
    assert window.id in world.state.alarms["window unknown"]["text"]
    assert world.state.live is not None
    assert world.hook.window()["drain_at"] == drain_at  # type: ignore[index]
    world.live(window.end + HOUR)
    assert world.state.attempts[-1].end == "drained"


def test_a_second_controller_is_refused_and_a_late_one_can_do_nothing(make: Make) -> None:
    world = make()
    world.provider.lend(START, START + 3 * DAY, 4)
    world.controller("one")
    with pytest.raises(HeldByAnother, match="carried by one"):
        world.controller("two")
    stuck, wake = world.controllers.pop("one")
    world.live(START + HOUR)
    world.controller("two")
    world.controllers["one"] = (stuck, wake)  # it comes back, and believes it carries the run
    world.live(START + 3 * HOUR)
    assert world.refused
    assert list(world.controllers) == ["two"]
    assert len(world.provider.by_token) == 1


def test_overlapping_windows_are_filled_together(make: Make) -> None:
    """As karpenter-provider-aws#8514 asks: three blocks of one type fill one gang."""
    world = make()
    for nodes in (2, 1, 1):
        world.provider.lend(START, START + 3 * DAY, nodes)
    world.controller()
    world.live(START + 2 * HOUR)
    assert world.state.phase == "running"
    by_window = sorted(node.window for node in world.provider.alive.values())
    assert by_window == ["cb-1", "cb-1", "cb-2", "cb-3"]


@pytest.mark.parametrize("spill", [0, 1])
def test_a_reservation_that_is_short_is_told_of_and_filled_up_only_where_the_plan_says(
    make: Make, spill: int
) -> None:
    world = make(gang={"spill": spill})
    world.provider.lend(START, START + 3 * DAY, 4, broken=1)
    world.controller()
    world.live(START + 2 * HOUR)
    outside = [node for node in world.provider.alive.values() if not node.window]
    assert len(outside) == spill
    assert ("reservation short" in world.modes()) == (spill == 0)
    assert (world.state.phase == "running") == (spill == 1)


@contextmanager
def every_launch_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As EC2 refuses a subnet that is not there: not for lack of capacity."""

    def refuse(*told: Any) -> None:
        raise Refused("InvalidSubnetID.NotFound", "The subnet ID 'subnet-1' does not exist")

    with monkeypatch.context() as wrong:
        wrong.setattr(world.provider, "_make", refuse)
        yield


def test_a_launch_that_is_refused_for_another_reason_than_capacity_is_told_at_once_in_the_providers_words(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make()
    window = world.provider.lend(START, START + 3 * DAY, 4)
    world.controller()
    with every_launch_refused(world, monkeypatch):
        world.live(START + 60.0)
        assert world.modes() == {"launch refused"}
        alarm = world.state.alarms["launch refused"]
        assert "InvalidSubnetID.NotFound" in alarm["text"]
        assert "'subnet-1' does not exist" in alarm["text"]
        assert alarm["until"] < window.end
    window.broken = 2  # now it is only short
    world.live(START + HOUR)
    assert world.state.phase == "assembling"
    assert "launch refused" not in world.state.alarms
    assert "reservation short" in world.state.alarms


def test_who_mends_what_a_launch_was_refused_for_and_starts_the_controller_again_does_not_wait(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make()
    world.provider.lend(START, START + 3 * DAY, 4)
    world.controller()
    with every_launch_refused(world, monkeypatch):
        world.live(START + 60.0)
    world.kill()
    world.controller("one")
    world.live(START + 120.0)
    assert len(world.provider.alive) == 4


def test_drain_and_resume_are_obeyed(make: Make) -> None:
    world = make()
    world.provider.lend(START, START + 4 * DAY, 4)
    world.controller()
    world.live(START + 5 * HOUR)
    world.book(world.clock.now).ask("drain_asked", {"by": "ann"})
    world.live(START + 6 * HOUR)
    assert world.state.phase == "paused"
    assert world.state.attempts[-1].end == "drained"
    assert not world.provider.alive
    assert told(world)["tokens"]["kept"] == world.vault.newest().tokens > 0
    world.book(world.clock.now).ask("resume_asked", {"by": "ann"})
    world.live(START + 7 * HOUR)
    assert world.state.phase == "running"
    assert world.state.attempts[-1].from_tokens == world.state.attempts[0].tokens


def test_a_window_that_the_provider_does_not_know_is_named(make: Make) -> None:
    world = make(windows=["nope"])
    world.controller()
    world.live(START + HOUR)
    assert "nope" in world.state.alarms["window unknown"]["text"]


def test_a_hook_folder_that_is_gone_or_full_is_an_alarm_and_the_run_goes_on(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make()
    world.provider.lend(START, START + 4 * DAY, 4)
    world.controller()
    world.live(START + 5 * HOUR)

    def full(hook: Hook, body: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(Hook, "beats", lambda hook, attempt: {})
        world.live(START + 6 * HOUR)
        assert "hook silent" in world.modes()
        broken.setattr(Hook, "ask", full)
        world.book(world.clock.now).ask("drain_asked", {"by": "ann"})
        world.live(START + 6.5 * HOUR)
        assert "hook silent" in world.modes()
        assert len(world.state.attempts) == 1
    world.live(START + 8 * HOUR)
    assert world.state.phase == "paused"


def test_a_pilot_that_lied_and_a_window_for_the_median_are_named(make: Make) -> None:
    world = make(draws=Draws(1, 2300.0, failures_per_node_day=0.0, save_every_s=3600.0), daily_sd=30)
    world.provider.lend(START, START + 47 * HOUR, 4)
    world.controller()
    world.live(START + 26 * HOUR)
    assert {"pilot that lied", "median trap"} <= world.modes()


def test_a_trainer_that_never_steps_is_started_ever_more_seldom(make: Make) -> None:
    world = make(
        draws=Draws(1, 3000.0, failures_per_node_day=0.0, restart_s=9 * HOUR), gang={"start_within": "5m"}
    )
    world.provider.lend(START, START + 2 * DAY, 4)
    world.controller()
    world.live(START + DAY)
    assert "does not get on" in world.modes()
    assert len(world.state.attempts) < 30


def test_silence_of_the_store_starts_nothing(make: Make) -> None:
    world = make()
    world.provider.lend(START, START + 3 * DAY, 4)
    world.vault.silent = True
    world.controller()
    world.live(START + 2 * HOUR)
    assert not world.state.attempts
    assert "store silent" in world.modes()
    world.vault.silent = False
    world.live(START + 3 * HOUR)
    assert world.state.phase == "running"


def test_a_lost_last_checkpoint_is_loud(make: Make) -> None:
    world = make({"tokens": 1e15})
    window = world.provider.lend(START, START + DAY, 4)
    world.vault.commit = lambda *kept: None  # type: ignore[method-assign]  # what it saves never arrives
    world.controller()
    world.live(window.end + HOUR)
    assert "lost final checkpoint" in world.modes()
    assert "lost final checkpoint" in world.state.alarms


def test_holding_a_gang_ends_by_cap_rounds_or_worth() -> None:
    patience = Patience(900.0, 8, 100.0, 100.0, 1000.0, 0.95)
    assert hold_ends(1.0, 31, 1, 0, 60.0, patience) == ""
    assert "cap 100" in hold_ends(99.5, 31, 1, 0, 60.0, patience)
    assert "8 rounds" in hold_ends(1.0, 31, 1, 8, 60.0, patience)
    dear = patience._replace(stalled_hour=1e6)
    assert worth_holding(31, 1, 7, dear)
    assert not worth_holding(31, 1, 2, patience._replace(stalled_hour=1.0))


def test_alarms_are_posted_with_the_time_left() -> None:
    heard: list[dict[str, Any]] = []

    class Ear(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Ear)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        hook = Webhook("example", f"http://127.0.0.1:{server.server_address[1]}/", lambda: START)
        hook(Sound("stall", "no step for 900 s", 120.4))
        hook.close()
        deaf = Webhook("example", "http://127.0.0.1:9/", lambda: START)
        deaf(Sound("stall", "nobody hears it", None))
        deaf.close()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert heard == [
        {
            "run": "example",
            "mode": "stall",
            "text": "no step for 900 s",
            "left_s": 120,
            "at": "2027-01-15T08:00:00Z",
        }
    ]
    assert deaf.failed == 1


def wrong_files() -> Iterator[tuple[dict[str, Any], str]]:
    yield {"nodes": 3}, "unknown key"
    yield {"hook": None}, "hook"
    yield {"launch": {"command": "train"}}, "a list of words"
    yield {"approval": {"above": -1}}, "a sum of money"
    yield {"fallback": "spot"}, "fallback"
    yield {"launch": {"command": ["x"], "engine": "lab"}}, "by: lab"
    yield {"provider": {"name": "own", "by": "lab"}}, "launch.engine: lab"
    yield {"provider": {"name": "own", "by": "slurm"}, "fallback": "on-demand"}, "nothing on demand"
    yield {"alarms": {"webhook": "ftp://x"}}, "an address"


@pytest.mark.parametrize(("change", "said"), list(wrong_files()))
def test_a_wrong_run_file_is_one_sentence(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    good = {
        "run": "r",
        "plan": PLAN,
        "provider": "aws",
        "store": "s",
        "hook": "h",
        "launch": {"command": ["x"]},
    }
    run_file_of(good, tmp_path)
    with pytest.raises(BadInput, match=said):
        run_file_of({**good, **change}, tmp_path)


def test_money_is_exact(tmp_path: Path) -> None:
    run = run_of(tmp_path, approval={"above": "0.10", "budget": "1200000.01"})
    assert run.file.approval.budget == Decimal("1200000.01")
    assert run.file.approval.above == Decimal("0.10")
