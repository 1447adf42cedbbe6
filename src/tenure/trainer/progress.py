"""How far is this rank, what is it doing, how long did each kind of thing take? What a heartbeat holds."""

from __future__ import annotations

import os
import statistics
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

from tenure.trainer import words
from tenure.trainer.place import Place
from tenure.trainer.save_times import SaveTimes

STEPS_REMEMBERED = 50
FRAMES = 6


def stack_of(thread: int) -> str:
    """Where a thread is now, innermost first: `train.py:88 step < loop.py:12 run`."""
    frame = sys._current_frames().get(thread)
    told: list[str] = []
    while frame is not None and len(told) < FRAMES:
        code = frame.f_code
        told.append(f"{os.path.basename(code.co_filename)}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return " < ".join(told)


class Progress:
    """Written by the trainer's thread, read by the watcher's: each field is set whole."""

    def __init__(self, place: Place, now: Callable[[], float], ticks: Callable[[], float]) -> None:
        self.place = place
        self._now, self._ticks = now, ticks
        self.at = now()
        self.step, self.tokens, self.state = -1, 0.0, words.STARTING
        self.committed_step, self.committed_tokens = -1, 0.0
        self.saves, self.failed_saves = SaveTimes(), 0
        self.answered = ""
        self.spent_s: dict[str, float] = {}
        self._mark = ticks()
        self._steps: deque[float] = deque(maxlen=STEPS_REMEMBERED)
        self._in_step_s = 0.0

    @property
    def step_s(self) -> float:
        """The usual length of a step; 0 before the second one."""
        return statistics.median(tuple(self._steps)) if self._steps else 0.0

    def still_s(self) -> float:
        """Seconds since it last got on."""
        return self._ticks() - self._mark

    def spend(self, on: str) -> float:
        """What has passed since the last call went into `on`. Returns it, in seconds."""
        ticks = self._ticks()
        passed, self._mark = max(0.0, ticks - self._mark), ticks
        self.spent_s[on] = self.spent_s.get(on, 0.0) + passed
        return passed

    def reached(self, step: int, tokens: float, kind: str) -> None:
        """A step, or a piece of something else, is done."""
        first = self.state == words.STARTING
        passed = self.spend(words.STARTING if first else kind)
        if kind == words.TRAIN:
            self._in_step_s += passed
            if step > self.step >= 0 and not first:
                self._steps.append(self._in_step_s / (step - self.step))
            if step != self.step:
                self._in_step_s = 0.0
        self.step, self.tokens, self.state, self.at = int(step), float(tokens), kind, self._now()

    def enter(self, state: str) -> None:
        """From now on it does this."""
        self.state, self.at = state, self._now()

    def body(self) -> dict[str, Any]:
        """As a heartbeat holds it."""
        return {
            "rank": self.place.rank,
            "world": self.place.world,
            "attempt": self.place.attempt,
            "at": round(self.at, 3),
            "step": self.step,
            "tokens": self.tokens,
            "step_s": round(self.step_s, 6),
            "state": self.state,
            "committed_step": self.committed_step,
            "committed_tokens": self.committed_tokens,
            "save_p50_s": round(self.saves.quantile(0.5), 3),
            "save_p99_s": round(self.saves.quantile(0.99), 3),
            "saves": self.saves.count,
            "failed_saves": self.failed_saves,
            "answered": self.answered,
            "spent_s": {key: round(value, 3) for key, value in self.spent_s.copy().items()},
            "host": self.place.host,
            "pid": os.getpid(),
        }
