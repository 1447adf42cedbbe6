"""Drawn histories: failures, tightness, lost answers, clocks that differ, restarts, dead controllers.

    python tests/run_histories.py --histories 1000

Each is lived to its end and judged: never later than the drain's deadline, never a node nobody wants, the
last checkpoint verified or loudly not, nothing launched before a window, twice, or after the end. Every fifth
one keeps its book in a real database.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from run_world import DAY, HOUR, START, MemoryVault, World, run_of
from tenure.ledger.opening import open_database
from tenure.providers.protocol import ON_DEMAND, STOPPING
from tenure.runs.controller import HeldByAnother
from tenure.runs.drawn import DrawnTrainer, Draws, Process

MARGIN_S, MOST_SKEW_S, POLL_S = 300.0, 120.0, 600.0
LOUD = {
    "lost final checkpoint",
    "nowhere to go",
    "phantom gang",
    "store silent",
    "provider silent",
    "reservation short",
    "window failed",
    "stall",
    "node not released",
    "late start",
    "extension pending",
}


class History(NamedTuple):
    """What came of one."""

    seed: int
    wrong: list[str]
    end: str
    seen: list[str]  #: what of interest happened in it


class WatchedTrainer(DrawnTrainer):
    """Notes when it begins to leave, and whether it was killed by the end of a window."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.left: list[tuple[int, float, float]] = []  #: attempt, instant, 99th percentile of its saves
        self.killed_hanging: list[int] = []
        self.taken: list[tuple[int, float]] = []  #: attempts whose nodes went under them

    def _begin_save(self, one: Process) -> None:
        known = float(np.quantile(one.saves, 0.99)) if one.saves else 0.0
        super()._begin_save(one)
        if one.leaving:
            self.left.append((one.attempt, one.at, known))

    def nodes_gone(self, nodes: Any) -> None:
        one = self.process
        if one is not None and set(nodes) & set(one.nodes):
            self.taken.append((one.attempt, self.now()))
            if one.phase in ("hanging", "starting"):
                self.killed_hanging.append(one.attempt)
        super().nodes_gone(nodes)


def drawn_world(seed: int, folder: Path) -> tuple[World, np.random.Generator, list[str]]:
    """A world with its windows, chances and faults."""
    rng = np.random.default_rng([seed, 9])
    seen: list[str] = []
    fallback = "on-demand" if rng.random() < 0.6 else "wait"
    hours = float(rng.uniform(8, 30))
    run = run_of(
        folder,
        {"tokens": 4 * 8 * 3000.0 * HOUR * hours, "failures": {"per_node_day": 0.3}},
        fallback=fallback,
        poll=POLL_S,
        deadlines={"save": 400, "margin": MARGIN_S, "least": 1800},
        gang={"spill": int(rng.integers(0, 2)), "rounds": 4, "pause": "1h", "hold_cap": 20},
        alarms={"stall": "40m", "silent": "80m"},
    )
    draws = Draws(
        seed,
        float(rng.normal(3000, 300)),
        daily_sd=50.0,
        failures_per_node_day=float(rng.choice([0.0, 0.2, 1.0])),
        save_s=float(rng.uniform(30, 240)),
        save_every_s=float(rng.uniform(1200, 7200)),
        restart_s=float(rng.uniform(60, 900)),
        ahead_s=float(rng.uniform(-MOST_SKEW_S, MOST_SKEW_S)),
        hangs_per_day=0.3 if rng.random() < 0.2 else 0.0,
    )
    database = open_database(folder / "runs.db") if seed % 5 == 0 else None
    world = World(folder, database, run, draws)
    watched = WatchedTrainer(
        world.hook,
        world.vault,
        draws,
        run.tokens,
        run.nodes * run.plan.gpus_per_node,
        now=world.clock.now,
        fail_node=world._fail,
    )
    world.trainer = watched
    world.provider.on_gone = watched.nodes_gone
    at = START
    for _ in range(int(rng.integers(1, 4))):
        end = at + float(rng.uniform(6, 20)) * HOUR
        nodes = 4 if rng.random() < 0.9 else 3
        world.provider.lend(at, end, nodes, broken=int(rng.random() < 0.05))
        at = end + float(rng.choice([-1.0, 0.0, 0.5, 4.0])) * HOUR
    _chances(world, rng, seen)
    if seed % 3 == 0:
        world.provider.listed_s = 0.0
        seen.append("forgotten windows")
    return world, rng, seen


def _chances(world: World, rng: np.random.Generator, seen: list[str]) -> None:
    lost = float(rng.choice([0.0, 0.02, 0.2]))
    provider = world.provider

    def fault(call: str) -> str:
        draw = rng.random()
        return "before" if draw < lost else "after" if draw < 1.5 * lost else ""

    provider.fault = fault
    if lost:
        seen.append("lost answers")
    tight_until = START + float(rng.uniform(0, 60)) * HOUR if rng.random() < 0.5 else 0.0
    part = int(rng.integers(0, 4))
    provider.open = lambda now: part if now < tight_until else 100
    provider.sold = lambda window, now: bool(rng.random() < 0.5) and window.end - now > HOUR
    provider.pays = bool(rng.random() < 0.7)
    provider.payment_s = float(rng.choice([60.0, 3600.0, 12 * HOUR]))
    provider.stop_s = float(rng.choice([5.0, 60.0, 400.0]))
    if rng.random() < 0.3:
        seen.append("slow listing")
        make = provider._make

        def made(token: str, *told: Any) -> None:
            make(token, *told)
            for which in provider.by_token.get(token, ()):
                provider.hidden_until.setdefault(which, provider.now() + 60.0)

        provider._make = made  # type: ignore[method-assign]


def lived(seed: int, folder: Path) -> History:
    """One history, lived and judged."""
    world, rng, seen = drawn_world(seed, folder)
    provider = world.provider
    wrong: list[str] = []
    first = min(window.start for window in provider.lent.values())

    def check(w: World) -> None:
        now = w.clock.now()
        up = [node for node in w.provider.alive.values() if node.state != STOPPING]
        if len(up) > w.run.nodes + _moving(w):
            wrong.append(f"{len(up)} nodes at {(now - START) / HOUR:.2f} h")
        if now < first and w.provider.alive:
            wrong.append("nodes before the first window")

    world.checks.append(check)
    until = max(window.end for window in provider.lent.values()) + 2 * DAY
    skew = float(rng.uniform(-MOST_SKEW_S, MOST_SKEW_S))
    world.controller("c0", skew)
    deaths = int(rng.integers(0, 4))
    count = 0
    for _ in range(deaths):
        world.live(world.clock.now() + float(rng.uniform(0.5, 20)) * HOUR, world.done)
        if world.done():
            break
        if rng.random() < 0.3:  # a second one is started while the first is there
            seen.append("two controllers")
            try:
                world.controller("rival", float(rng.uniform(-MOST_SKEW_S, MOST_SKEW_S)))
            except HeldByAnother:
                continue
            wrong.append("two controllers hold the run")
        seen.append("controller dead")
        for name in list(world.controllers):
            world.kill(name)
        world.live(world.clock.now() + float(rng.choice([0.6, 2.0, 15.0])) * HOUR)
        count += 1
        world.controller(f"c{count}", float(rng.uniform(-MOST_SKEW_S, MOST_SKEW_S)))
    world.live(until, world.done)
    provider.fault = lambda call: ""
    world.vault.silent = False
    world.live(world.clock.now() + 6 * HOUR, world.done)
    judge(world, wrong, seen)
    end = world.state.phase
    if world.db is not None:
        world.db.engine.dispose()
    return History(seed, wrong, end, seen)


def _moving(world: World) -> int:
    """Nodes that may be there besides the gang: on demand ones while the run moves into a window."""
    outside = sum(node.market == ON_DEMAND for node in world.provider.alive.values())
    return (
        outside
        if any(world.provider.lent[n.window].start for n in world.provider.alive.values() if n.window)
        else 0
    )


def judge(world: World, wrong: list[str], seen: list[str]) -> None:
    """What must hold at the end."""
    state, provider, trainer = world.state, world.provider, world.trainer
    assert isinstance(trainer, WatchedTrainer)
    by_number = {attempt.number: attempt for attempt in state.attempts}
    ends = {which: window.end for which, window in provider.lent.items()}
    for attempt, at, save_s in trainer.left:
        for which in by_number[attempt].windows if attempt in by_number else ():
            latest = ends[which] - provider.capability.terminates_s - save_s - 60.0
            if at > latest:
                wrong.append(f"attempt {attempt} began to leave {at - latest:.0f} s too late for {which}")
    for attempt, at in trainer.taken:
        over = [
            which
            for which in by_number[attempt].windows
            if at >= ends[which] - provider.capability.terminates_s - 1
        ]
        if over and attempt not in trainer.killed_hanging:
            wrong.append(f"attempt {attempt} was still there when {over[0]} was taken down")
        if over:
            seen.append("hung through the end")
    kept = world.vault.newest()
    if state.phase == "done":
        if kept.tokens < world.run.tokens * 0.999999:
            wrong.append("done without all tokens in a verified checkpoint")
        if provider.alive:
            wrong.append(f"{len(provider.alive)} nodes after the end")
    else:
        if not world.modes() & LOUD:
            wrong.append(f"not done ({state.phase}) and silent about it")
        live = state.live.nodes if state.live is not None else ()
        held = [n for n in provider.alive.values() if n.id not in live and n.state != STOPPING]
        if held and state.phase not in ("assembling", "running", "draining"):
            wrong.append(f"{len(held)} orphans in {state.phase}")
    lost = [
        a for a in state.attempts if a.end in ("incomplete", "cut off", "drained") and a.tokens > kept.tokens
    ]
    if lost and "lost final checkpoint" not in world.modes():
        wrong.append("a last save was lost in silence")


def one(seed: int) -> History:
    """In a folder of its own, in memory where the machine has one."""
    shm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shm if shm.is_dir() else None) as folder:
        return lived(seed, Path(folder))


def main() -> int:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--histories", type=int, default=1000)
    ask.add_argument("--first", type=int, default=0)
    ask.add_argument("--workers", type=int, default=2)
    told = ask.parse_args()
    began = time.monotonic()
    ends: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    wrong = []
    with ProcessPoolExecutor(told.workers) as pool:
        for history in pool.map(one, range(told.first, told.first + told.histories), chunksize=8):
            ends[history.end] += 1
            seen.update(set(history.seen))
            if history.wrong:
                wrong.append(history)
                print(f"seed {history.seed}: {history.wrong[:3]}", flush=True)
    print(f"{told.histories} histories in {time.monotonic() - began:.0f} s: {dict(ends)}; {dict(seen)}")
    print(f"{len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

__all__ = ["MemoryVault", "lived", "one"]
