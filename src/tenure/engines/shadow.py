"""What would have been: a cluster with the nodes, the queue and the run times of a real one, never touched.

For `serve --shadow`: jobs come as they come to the real engine; orders start and stop them in memory only.
An attempt here runs as long as the job really ran. While that is not known yet, it goes on until the job ends
there; work that was stopped here goes on where it was. What ran before anybody looked is not here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tenure.engines.clock import Clock
from tenure.engines.protocol import (
    Engine,
    Enrol,
    Forget,
    Order,
    OrderRefused,
    Seen,
    SeenArrival,
    SeenAttempt,
    Start,
    Stop,
    Withdraw,
)


class Real(NamedTuple):
    """How a job really ran."""

    started: float
    ended: float | None = None
    exit_code: int | None = None
    signal: int | None = None


class ShadowEngine:
    """Reads one engine and pretends the rest. What it pretends outlives the process in `file`."""

    keeps_queue = True

    def __init__(self, engine: Engine, clock: Clock, file: Path) -> None:
        self.name = engine.name
        self._engine, self._clock, self._file = engine, clock, file
        kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        self._queue: dict[str, SeenArrival] = {
            job: SeenArrival(*told) for job, told in kept.get("queue", {}).items()
        }
        self._real: dict[str, Real] = {job: Real(*told) for job, told in kept.get("real", {}).items()}
        self._attempts: dict[tuple[str, int], dict[str, Any]] = {
            (one["job"], one["attempt"]): one for one in kept.get("attempts", [])
        }
        self._worked_s: dict[str, float] = kept.get("worked_s", {})
        self._ignored: set[str] = set(kept.get("ignored", ()))  #: jobs that were withdrawn here alone

    def see(self) -> Seen:
        """The real nodes, the real queue without what was started here, and the attempts pretended."""
        seen = self._engine.see()
        waiting = {arrival.job: arrival for arrival in seen.arrivals}
        for attempt in seen.attempts:
            if attempt.started is not None:
                self._real[attempt.job] = Real(
                    attempt.started, attempt.ended, attempt.exit_code, attempt.signal
                )
        self._queue |= waiting
        for job in [job for job in self._queue if job not in waiting and job not in self._real]:
            del self._queue[job]  # taken back before it ran
        for one in self._attempts.values():
            self._let_end(one, seen.at)
        here = {job for job, _ in self._attempts}
        arrivals = [
            arrival for job, arrival in self._queue.items() if job not in here and job not in self._ignored
        ]
        for job in [job for job, real in self._real.items() if real.ended is not None]:
            if job not in self._queue and job not in here:
                del self._real[job]
        self._ignored &= self._queue.keys()
        self._keep()
        return Seen(seen.at, seen.nodes, [_seen(one) for one in self._attempts.values()], arrivals)

    def _let_end(self, one: dict[str, Any], at: float) -> None:
        """An attempt ends: at the end of its grace, or when its work is done, so far as that is known."""
        if one["ended"] is not None:
            return
        real, job = self._real.get(one["job"]), one["job"]
        done = None
        if real is not None and real.ended is not None:
            left_s = max(0.0, real.ended - real.started - self._worked_s.get(job, 0.0))
            done = one["started"] + left_s
            if one["started"] < real.started:
                done = max(done, real.ended)  # it was not known before
        if done is not None and done <= at and (one["leaves"] is None or done <= one["leaves"]):
            one |= {
                "ended": done,
                "exit_code": real.exit_code if real else 0,
                "done": one["leaves"] is not None,
            }
            one["signal"] = real.signal if real else None
            self._queue.pop(job, None)
        elif one["leaves"] is not None and one["leaves"] <= at:
            one["ended"] = one["leaves"]
            self._worked_s[job] = self._worked_s.get(job, 0.0) + one["leaves"] - one["started"]

    def carry_out(self, order: Order) -> None:
        """Pretend. A submission is refused: nobody would ever run it."""
        if isinstance(order, Enrol):
            raise OrderRefused("this server only watches: submit the job to the real scheduler")
        key = (getattr(order, "job", ""), getattr(order, "attempt", 0))
        if isinstance(order, Start) and key not in self._attempts:
            self._attempts[key] = {
                "job": order.job, "attempt": order.attempt, "nodes": dict(order.nodes),
                "started": self._clock.now(), "leaves": None, "ended": None, "exit_code": None,
                "signal": None, "done": False,
            }  # fmt: skip
        elif isinstance(order, Stop) and key in self._attempts and self._attempts[key]["leaves"] is None:
            self._attempts[key]["leaves"] = self._clock.now() + order.grace_s
        elif isinstance(order, Withdraw):
            self._ignored.add(order.job)
        elif isinstance(order, Forget):
            self._attempts.pop(key, None)
        self._keep()

    def expect(self, attempts: Mapping[tuple[str, int], Mapping[str, int]]) -> None:
        """Nothing to do: what is pretended here is not forgotten."""

    def log_of(self, job: str, attempt: int, *, last_bytes: int = 1 << 16) -> bytes:
        """What the real job wrote, where the engine knows."""
        return self._engine.log_of(job, attempt, last_bytes=last_bytes)

    def on_change(self, wake: Callable[[], None]) -> None:
        """As the real engine tells."""
        self._engine.on_change(wake)

    def close(self) -> None:
        """Let go of the real engine."""
        self._engine.close()

    def _keep(self) -> None:
        kept = {
            "queue": {job: list(arrival) for job, arrival in self._queue.items()},
            "real": {job: list(real) for job, real in self._real.items()},
            "attempts": list(self._attempts.values()),
            "worked_s": self._worked_s,
            "ignored": sorted(self._ignored),
        }
        beside = self._file.with_suffix(".new")
        beside.write_text(json.dumps(kept), encoding="utf-8")
        os.replace(beside, self._file)


def _seen(one: dict[str, Any]) -> SeenAttempt:
    return SeenAttempt(
        job=one["job"],
        attempt=one["attempt"],
        nodes=one["nodes"],
        started=one["started"],
        ended=one["ended"],
        exit_code=one["exit_code"],
        signal=one["signal"],
        told=one["leaves"] is not None,
        done=one["done"],
    )


__all__ = ["ShadowEngine"]
