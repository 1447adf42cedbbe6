"""What would have been: a cluster with the nodes, the queue and the run times of a real one, never touched.

For `serve --shadow`: jobs come as they come to the real engine; orders start and stop them in memory only.
An attempt here runs as long as the job really ran, all its runs together where it goes on where it was. While
that is not known yet, it goes on until the job ends there. What ran there when somebody first looked begins
here at once, before anything else, with what was left of it.
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
from tenure.engines.theirs import Theirs

THEIRS_FILE = "theirs.jsonl"  #: beside `file`
FIRST_FOR_S = 60.0  #: what ran already begins here before anything else, or within so long


class Real(NamedTuple):
    """A run of a job, as it really was."""

    started: float
    ended: float | None = None
    exit_code: int | None = None
    signal: int | None = None


class ShadowEngine:
    """Reads one engine and pretends the rest. What it pretends outlives the process in `file`."""

    keeps_queue = True
    limit_step_s = 1

    def __init__(self, engine: Engine, clock: Clock, file: Path) -> None:
        self.name = engine.name
        self._engine, self._clock, self._file = engine, clock, file
        kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        self._queue: dict[str, SeenArrival] = {
            job: SeenArrival(*told) for job, told in kept.get("queue", {}).items()
        }
        self._runs: dict[str, dict[str, Real]] = {
            job: {attempt: Real(*told) for attempt, told in runs.items()}
            for job, runs in kept.get("runs", {}).items()
        }
        self._attempts: dict[tuple[str, int], dict[str, Any]] = {
            (one["job"], one["attempt"]): one for one in kept.get("attempts", [])
        }
        self._worked_s: dict[str, float] = kept.get("worked_s", {})
        self._ignored: set[str] = set(kept.get("ignored", ()))  #: jobs that were withdrawn here alone
        self._first: list[str] = kept.get("first", [])  #: jobs that ran already when somebody first looked
        self._theirs = Theirs(file.with_name(THEIRS_FILE))
        expect = getattr(engine, "expect", None)
        if expect is not None:
            expect(self._theirs.open())

    def see(self) -> Seen:
        """The real nodes, the real queue without what was started here, and the attempts pretended."""
        seen = self._engine.see()
        waiting = {arrival.job: arrival for arrival in seen.arrivals}
        self._queue |= waiting
        self._note(seen, waiting)
        for one in self._attempts.values():
            self._let_end(one, seen.at, waiting)
        here = {job for job, _ in self._attempts}
        arrivals = [
            arrival for job, arrival in self._queue.items() if job not in here and job not in self._ignored
        ]
        since = seen.at if self._theirs.since is None else self._theirs.since
        if seen.at < since + FIRST_FOR_S and any(one.job in self._first for one in arrivals):
            arrivals = [one for one in arrivals if one.job in self._first]
        for job in [job for job in self._runs if self._ended(job, waiting)]:
            if job not in self._queue and job not in here:
                del self._runs[job]
        for job in [job for job in self._ignored if self._ended(job, waiting)]:
            self._queue.pop(job, None)  # it was never to run here, and is over there
        self._ignored &= self._queue.keys()
        self._keep()
        return Seen(seen.at, seen.nodes, [_seen(one) for one in self._attempts.values()], arrivals)

    def _note(self, seen: Seen, waiting: dict[str, SeenArrival]) -> None:
        """Write down what happened there, and take in the jobs that were never seen waiting."""
        at_first, facts = self._theirs.since is None, self._theirs.news(seen)
        started = {fact["job"]: fact["at"] for fact in facts if fact["event"] == "started"}
        known: dict[str, SeenArrival] = getattr(self._engine, "known", dict)()
        fresh = {job: known[job] for job in started if job in known and job not in self._queue}
        fresh = {job: one for job, one in fresh.items() if job not in self._runs}
        for job, arrival in fresh.items():
            spec = {key: value for key, value in arrival.spec.items() if key != "after"}
            self._queue[job] = arrival._replace(spec=spec, held=False)
            if at_first:
                self._first.append(job)
                self._worked_s[job] = max(0.0, seen.at - started[job])
        for attempt in seen.attempts:
            if attempt.started is not None and (attempt.job in self._queue or attempt.job in self._runs):
                run = Real(attempt.started, attempt.ended, attempt.exit_code, attempt.signal)
                self._runs.setdefault(attempt.job, {})[str(attempt.attempt)] = run
        if fresh:
            self._keep()  # before it is said that they began: they are taken in only once
        there = waiting.keys() | self._runs.keys() | {one.job for one in seen.attempts}
        gone = [job for job in self._queue if job not in there]  # taken back before they ran
        facts += [{"event": "left", "at": seen.at, "job": job} for job in gone]
        self._theirs.write(facts, seen)
        for job in gone:
            del self._queue[job]

    def _ended(self, job: str, waiting: dict[str, SeenArrival]) -> bool:
        """Whether all its runs there are known."""
        runs = self._runs.get(job, {})
        return bool(runs) and job not in waiting and all(run.ended is not None for run in runs.values())

    def _work(self, job: str) -> tuple[float, Real]:
        """(seconds it ran there, its last run), once it has ended there."""
        runs = sorted(self._runs[job].values(), key=lambda run: run.started)
        resumable = job not in self._queue or self._queue[job].spec.get("resumable", True)
        counted = runs if resumable else runs[-1:]
        return sum(run.ended - run.started for run in counted if run.ended is not None), runs[-1]

    def _let_end(self, one: dict[str, Any], at: float, waiting: dict[str, SeenArrival]) -> None:
        """An attempt ends: at the end of its grace, or when its work is done, so far as that is known."""
        if one["ended"] is not None:
            return
        job = one["job"]
        if job not in self._queue and job not in self._runs:
            one |= {"ended": at, "cancelled": True}  # taken back there, where it never ran
            return
        done = real = None
        if self._ended(job, waiting):
            ran_s, real = self._work(job)
            done = one["started"] + max(0.0, ran_s - self._worked_s.get(job, 0.0))
            if one["started"] < real.started and real.ended is not None:
                done = max(done, real.ended)  # it was not known before
        if real is not None and done is not None and done <= at and done <= (one["leaves"] or done):
            one |= {"ended": done, "exit_code": real.exit_code, "done": one["leaves"] is not None}
            one["signal"] = real.signal
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
                "signal": None, "done": False, "cancelled": False,
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
            "runs": {
                job: {attempt: list(run) for attempt, run in runs.items()} for job, runs in self._runs.items()
            },
            "attempts": list(self._attempts.values()),
            "worked_s": self._worked_s,
            "ignored": sorted(self._ignored),
            "first": self._first,
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
        cancelled=one.get("cancelled", False),
    )


__all__ = ["THEIRS_FILE", "ShadowEngine"]
