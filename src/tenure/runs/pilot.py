"""What did a pilot show? Its heartbeats become the throughput, failures and recovery of a plan's file.

Only rank 0's log is read. Speed is tokens over the seconds spent in steps; the trainer itself tells saves,
starts and evaluation apart. A failure is an attempt that ended by itself without having drained or finished.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tenure.runs.heartbeats import RankBeat, read_beats, read_lines
from tenure.trainer.words import DRAINED_STATE, FINISHED, INCOMPLETE_STATE, SAVING, STARTING, TRAIN

BLOCKS = 24  #: into which a pilot is cut, to see how its speed varies
LEAST_SD = 0.005  #: of the mean: no pilot knows better


class NoPilot(ValueError):
    """The folder does not hold enough of a run to say anything."""


class Pilot(NamedTuple):
    """What was seen. Tokens per second per GPU; seconds."""

    nodes: int
    gpus: int
    mean: float
    sd: float
    hours: float  #: of wall time under way, all attempts
    failures: int
    restart_s: float | None
    checkpoint_every_s: float | None  #: useful work between saves
    stall_s: float | None  #: what one save blocks
    tokens: float

    def fragment(self) -> dict[str, Any]:
        """Keys of a `plan window` file."""
        pilot = {
            "nodes": self.nodes,
            "mean": _figures(self.mean),
            "sd": _figures(self.sd),
            "hours": _figures(self.hours),
            "failures": self.failures,
        }
        found: dict[str, Any] = {"gpus_per_node": max(1, self.gpus // self.nodes), "pilots": [pilot]}
        if self.checkpoint_every_s is not None:
            found["recovery"] = {
                "restart": f"{self.restart_s or 0.0:.4g}s",
                "checkpoint_every": f"{self.checkpoint_every_s:.6g}s",
                "stall": f"{self.stall_s or 0.0:.4g}s",
            }
        return found


def read_pilot(folder: Path, nodes: int | None = None) -> Pilot:
    """The pilot whose hook folder this is. `nodes`: where the heartbeats' hosts do not tell (one machine)."""
    lines = list(read_lines(folder))
    if not lines:
        raise NoPilot(f"{folder} holds no heartbeats of rank 0")
    attempts: dict[int, list[RankBeat]] = {}
    for beat in lines:
        attempts.setdefault(beat.attempt, []).append(beat)
    gpus = max(beat.world for beat in lines)
    hosts = {beat.host for beat in read_beats(folder).values() if beat.host}
    used = nodes if nodes is not None else max(1, len(hosts))
    speeds = [speed for beats in attempts.values() for speed in _speeds(beats, gpus)]
    trained = sum(_spent(beats, TRAIN) for beats in attempts.values())
    tokens = sum(_gained(beats) for beats in attempts.values())
    if trained <= 0 or tokens <= 0 or not speeds:
        raise NoPilot(f"{folder} holds no two heartbeats between which a step was done")
    mean = tokens / trained / gpus
    sd = statistics.stdev(speeds) if len(speeds) > 1 else 0.1 * mean
    starts = [_spent_at_end(beats, STARTING) for beats in attempts.values() if _gained(beats) > 0]
    saves = sum(beats[-1].saves for beats in attempts.values())
    saving = sum(_spent_at_end(beats, SAVING) for beats in attempts.values())
    ordered = sorted(attempts)
    failed = [
        number
        for number in ordered
        if attempts[number][-1].state not in (DRAINED_STATE, INCOMPLETE_STATE, FINISHED)
    ]
    under_way = bool(failed) and failed[-1] == ordered[-1] and attempts[ordered[-1]][-1].state != "failed"
    return Pilot(
        nodes=used,
        gpus=gpus,
        mean=mean,
        sd=max(sd, LEAST_SD * mean),
        hours=sum(beats[-1].alive_at - beats[0].alive_at for beats in attempts.values()) / 3600,
        failures=len(failed) - under_way,  # the newest attempt may simply be running
        restart_s=statistics.median(starts) if starts else None,
        checkpoint_every_s=trained / saves if saves else None,
        stall_s=saving / saves if saves else None,
        tokens=tokens,
    )


def _speeds(beats: Sequence[RankBeat], gpus: int) -> list[float]:
    """Speed in each of at most `BLOCKS` parts of an attempt, tokens per second per GPU."""
    last = beats[-1].spent_s.get(TRAIN, 0.0)
    size, found, begin = last / BLOCKS, [], beats[0]
    for beat in beats[1:]:
        seconds = beat.spent_s.get(TRAIN, 0.0) - begin.spent_s.get(TRAIN, 0.0)
        if seconds > 0 and seconds >= size and beat.tokens > begin.tokens:
            if begin.step >= 0:  # tokens before the first heartbeat with a step are not this attempt's
                found.append((beat.tokens - begin.tokens) / seconds / gpus)
            begin = beat
    return found


def _first_step(beats: Sequence[RankBeat]) -> RankBeat | None:
    return next((beat for beat in beats if beat.step >= 0), None)


def _gained(beats: Sequence[RankBeat]) -> float:
    first = _first_step(beats)
    return 0.0 if first is None else beats[-1].tokens - first.tokens


def _spent(beats: Sequence[RankBeat], on: str) -> float:
    """Seconds from the first heartbeat with a step."""
    first = _first_step(beats)
    return 0.0 if first is None else beats[-1].spent_s.get(on, 0.0) - first.spent_s.get(on, 0.0)


def _spent_at_end(beats: Sequence[RankBeat], on: str) -> float:
    return beats[-1].spent_s.get(on, 0.0)


def _figures(value: float) -> float:
    """Five significant figures: more would be a pretence."""
    return 0.0 if value == 0 else round(value, 4 - math.floor(math.log10(abs(value))))
