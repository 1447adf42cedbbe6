"""Heartbeats read: who is behind, since when; and a pilot that becomes a plan."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import yaml

from tenure.runs.heartbeats import RankBeat, beat_of, read_beats, read_lines, stall_of, unsafe_of
from tenure.runs.pilot import NoPilot, read_pilot
from tenure.service import plans
from tenure.trainer import Hook, Place
from tenure.trainer.signals import Signals
from tenure.trainer.steady_clock import SteadyClock
from tenure.trainer.watcher import Times

NOW = 1_000_000.0


def of(rank: int, step: int, at: float, *, alive: float = NOW, world: int = 4, **more: object) -> RankBeat:
    told: dict[str, object] = {"rank": rank, "world": world, "attempt": 1, "host": f"n{rank // 2}", "at": at}
    told |= {"alive_at": alive, "step": step, "tokens": step * 10.0, "step_s": 2.0, "state": "train"} | more
    beat = beat_of(told)
    assert beat is not None
    return beat


def test_a_gang_that_steps_is_no_stall() -> None:
    beats = {rank: of(rank, 42, NOW - 3) for rank in range(4)}
    assert stall_of(beats, NOW) is None


def test_a_rank_that_hangs_is_named_with_everyones_last_step_long_before_a_collective_times_out() -> None:
    beats = {rank: of(rank, 42, NOW - 90) for rank in range(4)} | {3: of(3, 41, NOW - 92)}
    stall = stall_of(beats, NOW)
    assert stall is not None
    assert stall.behind == (3,)
    assert stall.steps == {0: 42, 1: 42, 2: 42, 3: 41}
    assert stall.since_s == 90
    assert stall.text.index("rank 3 on n1 at step 41") < stall.text.index("ranks 0-2")
    assert stall_of(beats, NOW - 40) is None, "within what ten steps may take, and a minute"


def test_of_ranks_at_the_same_step_the_one_that_is_in_no_collective_is_behind() -> None:
    waits = "distributed_c10d.py:3000 all_reduce < train.py:80 step"
    beats = {rank: of(rank, 42, NOW - 90, where=waits) for rank in range(4)}
    beats |= {2: of(2, 42, NOW - 89, where="data.py:12 read < train.py:70 step")}
    stall = stall_of(beats, NOW)
    assert stall is not None
    assert stall.behind == (2,)
    assert "rank 2 on n1 at step 42 (train, in data.py:12 read)" in stall.text


def test_a_rank_whose_process_is_gone_is_told_from_one_that_hangs() -> None:
    beats = {rank: of(rank, 42, NOW - 5) for rank in range(4)} | {2: of(2, 42, NOW - 70, alive=NOW - 70)}
    stall = stall_of(beats, NOW)
    assert stall is not None
    assert stall.behind == (2,)
    assert "silent for 70 s" in stall.text


def test_a_rank_that_never_wrote_is_named_once_the_others_wait() -> None:
    beats = {rank: of(rank, 1, NOW - 100) for rank in (0, 1, 3)}
    stall = stall_of(beats, NOW)
    assert stall is not None
    assert stall.behind == (2,)
    assert "rank 2 never wrote" in stall.text


@pytest.mark.parametrize(
    ("state", "still", "stalls"),
    [("saving", 250.0, False), ("saving", 310.0, True), ("eval", 50.0, False), ("starting", 600.0, False)],
)
def test_what_takes_long_by_nature_is_given_its_time(state: str, still: float, stalls: bool) -> None:
    beats = {rank: of(rank, 42, NOW - still, state=state, save_p99_s=100.0) for rank in range(4)}
    assert (stall_of(beats, NOW) is not None) == stalls


def test_a_gang_that_has_left_is_no_stall() -> None:
    beats = {rank: of(rank, 42, NOW - 9000, state="drained", alive=NOW - 9000) for rank in range(4)}
    assert stall_of(beats, NOW) is None


def test_requests_that_nobody_takes_up_are_told_by_rank() -> None:
    beats = [of(0, 1, NOW), of(1, 1, NOW, unsafe="drain (x) was asked 130 s ago and is not taken up")]
    assert unsafe_of(beats) == ["rank 1: drain (x) was asked 130 s ago and is not taken up"]


def test_torn_files_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "heartbeat-0.json").write_text('{"rank": 0, "at"')
    (tmp_path / "heartbeat-1.json").write_text(json.dumps({"rank": 1, "at": 5, "step": 3, "tokens": 9}))
    (tmp_path / "heartbeats-1.jsonl").write_text(
        '{"rank": 1, "at": 5, "step": 3, "tokens": 9}\n{"rank": 1, "a\n[]\n'
    )
    assert set(read_beats(tmp_path)) == {1}
    assert [beat.step for beat in read_lines(tmp_path, 1)] == [3]
    assert read_beats(tmp_path, attempt=7) == {}


class Clocks:
    def __init__(self) -> None:
        self.now = NOW

    def clock(self) -> SteadyClock:
        return SteadyClock(lambda: self.now, lambda: self.now)


def pilot_run(folder: Path, *, save_s: float = 30.0) -> None:
    """Two attempts on 2 nodes of 8 GPUs: the first dies after 300 steps, the second drains. 4 s a step."""
    clocks = Clocks()
    step = committed = 0
    for attempt, steps in ((1, 300), (2, 600)):
        hook = Hook(
            folder, Place(0, 16, 0, attempt), clock=clocks.clock(), signals=Signals(()), env={}, thread=False,
            times=Times(log_s=60),
        )  # fmt: skip
        clocks.now += 116
        for _ in range(steps):
            clocks.now += 4.0 if step % 2 else 4.2
            step += 1
            hook.poll(step, step * 65_600.0)
            if step % 100 == 0:
                with hook.saving(step):
                    clocks.now += save_s
                committed = step
        if attempt == 2:
            hook.poll(step, step * 65_600.0)
            hook.leave()
        step = committed
        clocks.now += 600


@pytest.mark.slow
def test_a_pilot_becomes_the_throughput_failures_and_recovery_of_a_plan(tmp_path: Path) -> None:
    pilot_run(tmp_path / "hook")
    pilot = read_pilot(tmp_path / "hook", nodes=2)
    assert pilot.mean == pytest.approx(65_600 / 4.1 / 16, rel=0.01)
    assert 0 < pilot.sd < 0.02 * pilot.mean
    assert pilot.failures == 1
    assert pilot.restart_s == pytest.approx(120, abs=5)
    assert pilot.stall_s == pytest.approx(30, abs=1)
    assert pilot.checkpoint_every_s == pytest.approx(410, rel=0.02)
    assert pilot.hours == pytest.approx((900 * 4.1 + 9 * 30 + 240) / 3600, rel=0.03)
    plan = {
        "run": "carried-on", "tokens": 2e10, "nodes": 8,
        "prices": {"reserved_per_day": 8000, "on_demand_per_day": 12000},
        "overrun": {"per_day": 20000}, "windows": {"days": "1-20"}, "draws": 1000,
    } | pilot.fragment()  # fmt: skip
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(plan))
    answer = plans.window(tmp_path / "plan.yaml").answer
    useful_days = 2e10 / (pilot.mean * 64) / 86400
    assert answer["duration_days"]["p50"] > useful_days
    assert math.isfinite(answer["duration_days"]["mean"])


def test_a_folder_without_a_pilot_says_so(tmp_path: Path) -> None:
    with pytest.raises(NoPilot, match="no heartbeats"):
        read_pilot(tmp_path)
    (tmp_path / "heartbeats-0.jsonl").write_text(
        json.dumps({"rank": 0, "at": 5, "step": 3, "tokens": 9}) + "\n"
    )
    with pytest.raises(NoPilot, match="no two heartbeats"):
        read_pilot(tmp_path)
