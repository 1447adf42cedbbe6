"""One attempt on the fake cluster: when does it end, how, and what has it saved by then?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tenure.engines.fake.behaviour import Behaviour
from tenure.engines.protocol import SeenAttempt

OWN_END, TIME_LIMIT, GRACE = "own end", "time limit", "grace"
SIGKILL, SIGTERM = 9, 15


@dataclass
class Stay:
    """An attempt. Instants are true; those `shown` have the skew of the engine's clock at that moment."""

    job: str
    attempt: int
    nodes: dict[str, int]
    behaviour: Behaviour
    begins: float  #: its first process
    ends: float  #: if nobody stops it
    at_limit: bool  #: `ends` is its max_runtime, not its own end
    began_shown: float | None = None
    told: bool = False
    leaves: float | None = None  #: told to stop, it is gone by then
    noticed: float | None = None
    ended: float | None = None
    ended_shown: float | None = None
    exit_code: int | None = None
    signal: int | None = None
    node_failed: bool = False
    timed_out: bool = False
    cancelled: bool = False
    done: bool = False
    saved: float | None = None
    detail: str = ""

    def next_due(self) -> tuple[float, str] | None:
        """When it does something next, by itself, and what; None once it has ended."""
        if self.ended is not None:
            return None
        if self.began_shown is None and (self.leaves is None or self.begins < self.leaves):
            return self.begins, ""
        if self.leaves is not None and self.leaves < self.ends:
            return self.leaves, GRACE
        return self.ends, TIME_LIMIT if self.at_limit else OWN_END

    def worked_s(self, now: float) -> float:
        """Useful work of this stay so far."""
        lost_s = self.behaviour.restart_s if self.attempt > 1 else 0
        return max(0.0, now - self.begins - lost_s)

    def kept_s(self, now: float) -> float:
        """Useful work of this stay that its own saves hold."""
        every_s = self.behaviour.checkpoint_every_s
        return self.worked_s(now) // every_s * every_s if every_s > 0 else 0.0

    def end(self, now: float, skew: float, how: str) -> float:
        """It ends; useful work that it leaves to the job's next attempt, in seconds."""
        self.ended, self.ended_shown = now, now + skew
        kept_s = self.kept_s(now)
        if how == OWN_END:
            self.done = self.told  # it is at the end of its work, not stopped: whoever watches must know
            code = self.behaviour.exit_code
            self.exit_code = code if code is not None else int(self.behaviour.fails)
        else:
            self.signal = SIGTERM if how == GRACE and self.behaviour.leaves_after_s is not None else SIGKILL
            self.timed_out = how == TIME_LIMIT and not self.told  # of two words, the first counts
            self.detail = how
            if self.told and self.behaviour.saves_when_asked:
                kept_s = self.worked_s(now)
        if self.began_shown is not None and kept_s > 0:
            self.saved = now - (self.worked_s(now) - kept_s) + skew
        return kept_s if self.behaviour.resumable else 0.0

    def seen(self, now: float, skew: float) -> SeenAttempt:
        """As `Engine.see` shows it."""
        saved = self.saved
        if self.ended is None and self.began_shown is not None and self.kept_s(now) > 0:
            saved = now - (self.worked_s(now) - self.kept_s(now)) + skew
        return SeenAttempt(
            job=self.job,
            attempt=self.attempt,
            nodes=self.nodes,
            started=self.began_shown,
            ended=self.ended_shown,
            exit_code=self.exit_code,
            signal=self.signal,
            node_failed=self.node_failed,
            timed_out=self.timed_out,
            cancelled=self.cancelled,
            told=self.told,
            done=self.done,
            saved=saved,
            detail=self.detail,
        )

    def plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self) | {"behaviour": list(self.behaviour)}

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Stay:
        """Back from `plain`."""
        return cls(**plain | {"behaviour": Behaviour(*plain["behaviour"])})
