"""What would a trainer do? One drawn by chance in virtual time: its speed, its saves, failures of its nodes.

It lives where a real one lives: it reads requests and the window's deadlines from the hook folder, writes its
heartbeats there, and commits its checkpoints to a store. It holds the deadlines itself, so it leaves in time
with nobody watching. Between two calls of `advance` nothing happens; every instant at which something does is
told by `next_event`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from tenure.providers.protocol import Node
from tenure.runs.hook import Hook
from tenure.runs.look import ABSENT, ENDED, UNDER_WAY, Kept, TrainerSeen
from tenure.runs.state import EXIT_INCOMPLETE

DAY_S = 86400.0
STARTING, STEPPING, SAVING, HANGING, OVER = "starting", "stepping", "saving", "hanging", "over"
NEVER = float("inf")


class Draws(NamedTuple):
    """What chance there is. Speeds in tokens per second per GPU while stepping."""

    seed: int
    speed: float
    daily_sd: float = 0.0
    failures_per_node_day: float = 0.02
    step_s: float = 30.0
    save_s: float = 120.0  #: median
    save_spread: float = 0.2  #: sd of its logarithm
    stall_part: float = 1.0  #: of a save, that steps wait for it
    save_every_s: float = 7200.0
    restart_s: float = 600.0
    ahead_s: float = 0.0  #: its clock is so much ahead
    hangs_per_day: float = 0.0  #: stops stepping without ending


class Vault(Protocol):
    """Where it commits."""

    def take_over(self, attempt: int) -> None:
        """From now on nothing older commits."""
        ...

    def commit(self, step: int, attempt: int, tokens: float) -> None:
        """Keep a checkpoint, whole."""
        ...

    def newest(self) -> Kept:
        """The newest that verifies."""
        ...


@dataclass
class Process:
    """One attempt's processes."""

    attempt: int
    nodes: tuple[str, ...]
    phase: str
    until: float  #: of the phase, for starting and saving
    at: float  #: lived up to here
    step: float  #: with the part of the one under way
    committed: Kept
    to_save: float  #: seconds of stepping until the next save
    leaving: bool = False  #: it ends with the save under way
    answered: str = ""
    saves: tuple[float, ...] = ()
    exit_code: int | None = None
    done: bool = False
    hang: float = NEVER
    computing_s: float = 0.0


class DrawnTrainer:
    """A `parts.Trainer`. `fail_node`: called with the id of a node that dies of itself."""

    def __init__(
        self,
        hook: Hook,
        vault: Vault,
        draws: Draws,
        target: float,
        gpus: int,
        *,
        now: Callable[[], float],
        fail_node: Callable[[str], None] = lambda node: None,
    ) -> None:
        self.hook, self.vault, self.draws, self.target, self.gpus = hook, vault, draws, target, gpus
        self.now, self.fail_node = now, fail_node
        self.process: Process | None = None
        self.started: list[tuple[int, float]] = []
        self.told: dict[int, TrainerSeen] = {}
        self._rng = np.random.default_rng([draws.seed, 1])
        self._days = np.random.default_rng([draws.seed, 2])
        self._by_day: list[float] = []
        self._next_failure = NEVER
        self._lines = 0.0

    @property
    def batch(self) -> float:
        """Tokens of a step, whole."""
        return float(round(self.draws.speed * self.gpus * self.draws.step_s))

    def tokens(self, one: Process) -> float:
        """Of all its steps."""
        return int(one.step) * self.batch

    # --- as a controller sees it -----------------------------------------------------------------------
    def start(self, attempt: int, nodes: Sequence[Node]) -> None:
        """Begin from the newest checkpoint; the second time nothing more happens."""
        if attempt in self.told or (self.process is not None and self.process.attempt == attempt):
            return
        if self.process is not None:
            self._over(self.process, 137)
        now, kept = self.now(), self.vault.newest()
        self.vault.take_over(attempt)
        self.started.append((attempt, now))
        self.process = Process(
            attempt,
            tuple(node.id for node in nodes),
            STARTING,
            now + self.draws.restart_s,
            now,
            float(max(0, kept.step)),
            kept,
            self.draws.save_every_s,
        )
        self._draw_failures(self.process, now)

    def seen(self, attempt: int) -> TrainerSeen:
        """How it is with an attempt."""
        if attempt in self.told:
            return self.told[attempt]
        if self.process is not None and self.process.attempt == attempt:
            return TrainerSeen(UNDER_WAY)
        return TrainerSeen(ABSENT)

    def stop(self, attempt: int) -> None:
        """Kill it."""
        if self.process is not None and self.process.attempt == attempt:
            self._over(self.process, 137)

    # --- as the world lives it -------------------------------------------------------------------------
    def nodes_gone(self, nodes: Sequence[str]) -> None:
        """Its nodes were taken: it dies."""
        if self.process is not None and set(nodes) & set(self.process.nodes):
            self._over(self.process, 1)

    def next_event(self) -> float:
        """When something happens to it of itself, at the latest."""
        one = self.process
        if one is None:
            return NEVER
        if one.phase == HANGING:
            return self._next_failure
        if one.phase != STEPPING:
            return min(one.until, self._next_failure)
        return min(one.at + max(0.001, self._stepping_s(one)), self._next_failure, one.hang)

    def advance(self, now: float) -> None:
        """Live on until then."""
        while (one := self.process) is not None:
            instant = min(self.next_event(), now)
            self._live(one, instant)
            if self.process is not None and instant >= now:
                break
        if self.process is not None:
            self._beat(self.process)

    def _live(self, one: Process, instant: float) -> None:
        if one.phase == STEPPING:
            spent = max(0.0, instant - one.at)
            one.step += spent / self._step_s(one.at)
            one.to_save -= spent
            one.computing_s += spent
        one.at = max(one.at, instant)
        if instant >= self._next_failure:
            self._fail(one)
        elif one.phase == STEPPING and instant >= one.hang:
            one.phase = HANGING
        elif one.phase == STARTING and instant >= one.until:
            one.phase = STEPPING
            self._beat(one)
        elif one.phase == SAVING and instant >= one.until:
            self._saved(one)
        elif one.phase == STEPPING and self._stepping_s(one) <= 0.001:
            self._begin_save(one)

    def _fail(self, one: Process) -> None:
        node = str(self._rng.choice(np.array(one.nodes)))
        self._over(one, 1)
        self.fail_node(node)

    def _saved(self, one: Process) -> None:
        one.committed = Kept(int(one.step), self.tokens(one), one.attempt)
        self.vault.commit(one.committed.step, one.attempt, one.committed.tokens)
        one.to_save = self.draws.save_every_s
        one.phase = STEPPING
        if self.tokens(one) >= self.target:
            one.done = True
            self._over(one, 0)
        elif one.leaving:
            self._over(one, 0)
        else:
            self._beat(one)

    def _begin_save(self, one: Process) -> None:
        asked = self._asked(one)
        if asked is not None:
            one.answered, one.leaving = asked[0], asked[1]
        one.step = float(round(one.step))  # saves are made between two steps
        spread = self.draws.save_spread
        took = self.draws.save_s * float(np.exp(spread * np.clip(self._rng.standard_normal(), -3, 3)))
        one.saves = (*one.saves[-99:], took)
        one.phase, one.until = SAVING, one.at + took
        self._beat(one)

    def _asked(self, one: Process) -> tuple[str, bool] | None:
        """(id, leave) of what it must do by now: the newest request, or its own deadlines."""
        request, window = self.hook.request(), self.hook.window() or {}
        mine = window if window.get("attempt") == one.attempt else {}
        here = one.at + self.draws.ahead_s
        drain, save = mine.get("drain_at"), mine.get("checkpoint_at")
        if drain is not None and here >= drain:
            return f"own-drain-{drain}", True
        if request is not None and request.get("id") != one.answered and self._for(request, one):
            return str(request["id"]), request.get("kind") == "drain"
        if save is not None and here >= save and one.committed.step < one.step and not one.answered:
            return f"own-checkpoint-{save}", False
        return None

    def _for(self, request: Any, one: Process) -> bool:
        return request.get("attempt") in (None, one.attempt)

    def _stepping_s(self, one: Process) -> float:
        """Seconds of stepping until it saves or must look at the day's speed anew."""
        steps = math.ceil(self.target / self.batch) - one.step
        due = [one.to_save, steps * self._step_s(one.at)]
        if self._asked(one) is not None:
            due.append(0.0)
        mine = self.hook.window() or {}
        if mine.get("attempt") == one.attempt:
            for instant in (mine.get("checkpoint_at"), mine.get("drain_at")):
                if instant is not None and instant > one.at + self.draws.ahead_s:
                    due.append(instant - one.at - self.draws.ahead_s)
        due.append((int(one.at / DAY_S) + 1) * DAY_S - one.at + 0.01)
        return max(0.0, min(due))

    def _speed(self, at: float) -> float:
        day = int(at / DAY_S)
        while len(self._by_day) <= day % 4000:
            self._by_day.append(self.draws.speed + self.draws.daily_sd * float(self._days.standard_normal()))
        return max(1.0, self._by_day[day % 4000])

    def _step_s(self, at: float) -> float:
        return self.draws.step_s * self.draws.speed / self._speed(at)

    def _draw_failures(self, one: Process, now: float) -> None:
        rate = self.draws.failures_per_node_day * len(one.nodes) / DAY_S
        self._next_failure = now + float(self._rng.exponential(1 / rate)) if rate > 0 else NEVER
        hangs = self.draws.hangs_per_day / DAY_S
        one.hang = now + float(self._rng.exponential(1 / hangs)) if hangs > 0 else NEVER

    def _over(self, one: Process, code: int) -> None:
        one.phase, one.exit_code = OVER, code
        if code == 0 and one.committed.step < int(one.step):
            one.exit_code = EXIT_INCOMPLETE
        self._beat(one)
        self.told[one.attempt] = TrainerSeen(ENDED, one.exit_code, one.done, f"exit {one.exit_code}")
        self.process, self._next_failure = None, NEVER

    def _beat(self, one: Process) -> None:
        """Rank 0 speaks for all: they step together."""
        if one.phase in (STARTING, HANGING):
            return
        told = {
            "rank": 0,
            "attempt": one.attempt,
            "at": one.at + self.draws.ahead_s,
            "step": int(one.step),
            "tokens": self.tokens(one),
            "step_s": self._step_s(one.at),
            "state": one.phase,
            "committed_step": one.committed.step,
            "committed_tokens": one.committed.tokens,
            "save_p50_s": float(np.median(one.saves)) if one.saves else 0.0,
            "save_p99_s": float(np.quantile(one.saves, 0.99)) if one.saves else 0.0,
            "answered": one.answered,
            "spent_s": {"train": one.computing_s},
        }
        line = json.dumps(told)
        (self.hook.folder / "heartbeat-0.json").write_text(line, encoding="utf-8")
        with (self.hook.folder / "heartbeats-0.jsonl").open("a", encoding="utf-8") as lines:
            lines.write(line + "\n")
