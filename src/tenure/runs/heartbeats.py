"""What do a trainer's heartbeats say? Who is where, and whether steps have stopped: named, within minutes.

A collective that waits for one rank fails by itself only at its time-out, half an hour later, on every rank
but the one that is at fault. Here the ranks behind are those whose last step is the smallest; a rank whose
process still writes hangs, one that no longer writes is gone. The files: docs/reference/trainer-hook.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tenure.trainer.words import ENDS, EVAL, SAVING, TRAIN

#: Nothing is a stall before so long, however short a step is usually.
LEAST_S = 60.0
STEPS = 10  #: usual steps that may pass
SAVES = 3  #: slowest saves that may pass
SLOW_S = 1800.0  #: for what has no measured length yet: the first step, an evaluation, a first save
#: Calls in which a rank waits for the others.
COLLECTIVE = re.compile(r"distributed_c10d|\b(all_?reduce|all_?gather|barrier|broadcast|reduce_scatter)")
GONE_S = 60.0  #: a process that has not written for so long is taken for gone


class RankBeat(NamedTuple):
    """One heartbeat of a rank."""

    rank: int
    world: int
    attempt: int
    host: str
    at: float  #: when it last got on, epoch seconds of its own clock
    alive_at: float  #: when it wrote
    step: int
    tokens: float
    step_s: float
    state: str
    committed_step: int
    committed_tokens: float
    save_p50_s: float
    save_p99_s: float
    saves: int
    answered: str
    unsafe: str
    trouble: str
    where: str  #: the innermost calls of a rank that has not got on for a while
    spent_s: Mapping[str, float]


class Stall(NamedTuple):
    """Steps that have stopped."""

    since_s: float  #: seconds since the gang last got on
    behind: tuple[int, ...]  #: the ranks others wait for
    steps: Mapping[int, int]  #: each rank's last step
    text: str


def beat_of(told: Any) -> RankBeat | None:
    """The heartbeat of a parsed line; None where it is none."""
    if not isinstance(told, dict):
        return None
    try:
        return RankBeat(
            rank=int(told["rank"]),
            world=int(told.get("world", 1)),
            attempt=int(told.get("attempt", 0)),
            host=str(told.get("host", "")),
            at=float(told["at"]),
            alive_at=float(told["alive_at"] if "alive_at" in told else told["at"]),
            step=int(told["step"]),
            tokens=float(told["tokens"]),
            step_s=float(told.get("step_s", 0.0)),
            state=str(told.get("state", "")),
            committed_step=int(told.get("committed_step", -1)),
            committed_tokens=float(told.get("committed_tokens", 0.0)),
            save_p50_s=float(told.get("save_p50_s", 0.0)),
            save_p99_s=float(told.get("save_p99_s", 0.0)),
            saves=int(told.get("saves", 0)),
            answered=str(told.get("answered", "")),
            unsafe=str(told.get("unsafe", "")),
            trouble=str(told.get("trouble", "")),
            where=str(told.get("where", "")),
            spent_s={str(key): float(value) for key, value in dict(told.get("spent_s", {})).items()},
        )
    except (KeyError, TypeError, ValueError):
        return None


def read_beats(folder: Path, attempt: int | None = None) -> dict[int, RankBeat]:
    """The newest heartbeat of each rank; of one attempt only, where it is given."""
    found: dict[int, RankBeat] = {}
    for path in sorted(folder.glob("heartbeat-*.json")):
        try:
            beat = beat_of(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            continue  # being written over on a full disk: the next look reads it
        if beat is not None and attempt in (None, beat.attempt):
            found[beat.rank] = beat
    return found


def read_lines(folder: Path, rank: int = 0) -> Iterator[RankBeat]:
    """All heartbeats of a rank in order, of every attempt. What is torn is left out."""
    try:
        with (folder / f"heartbeats-{rank}.jsonl").open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                try:
                    beat = beat_of(json.loads(line))
                except ValueError:
                    continue
                if beat is not None:
                    yield beat
    except OSError:
        return


def patience_s(beat: RankBeat, least_s: float = LEAST_S) -> float:
    """How long a rank may stay where it is before that is a stall."""
    if beat.state == TRAIN:
        return max(least_s, STEPS * beat.step_s) if beat.step_s else SLOW_S
    if beat.state in (SAVING, "draining"):
        return max(least_s, SAVES * beat.save_p99_s) if beat.save_p99_s else SLOW_S
    if beat.state == EVAL and beat.step_s:
        return max(least_s, STEPS * beat.step_s)  # each piece of it polls too
    return SLOW_S


def stall_of(beats: Mapping[int, RankBeat], now: float, least_s: float = LEAST_S) -> Stall | None:
    """The stall of a gang, where there is one. `now`: epoch seconds; `beats`: of one attempt.

    A gang stalls when no rank has got on for longer than what each is doing may take, or when one rank is
    behind the others' step for so long while they wait for it.
    """
    alive = {rank: beat for rank, beat in beats.items() if beat.state not in ENDS}
    if not alive:
        return None
    first, last = min(alive.values(), key=_place), max(alive.values(), key=_place)
    world = max(beat.world for beat in alive.values())
    newest = max(beat.at for beat in alive.values())
    since = now - newest
    gone = [rank for rank, beat in alive.items() if now - beat.alive_at > max(GONE_S, least_s)]
    if since <= max(patience_s(beat, least_s) for beat in alive.values()) and not gone:
        return None
    missing = [rank for rank in range(world) if rank not in beats]
    behind = missing or gone or [rank for rank, beat in alive.items() if _place(beat) == _place(first)]
    if not missing and not gone and first.step == last.step:
        behind = _not_waiting(alive.values()) or [min(alive.values(), key=lambda beat: beat.at).rank]
    steps = {rank: beat.step for rank, beat in sorted(beats.items())}
    usual = f" (a step takes {last.step_s:.3g} s)" if last.step_s else ""
    if gone:
        since = now - max(beats[rank].at for rank in gone)
    text = f"no step for {since:.0f} s{usual}: " + "; ".join(_lines(beats, missing, gone, now))
    return Stall(since, tuple(sorted(behind)), steps, text)


def unsafe_of(beats: Iterable[RankBeat]) -> list[str]:
    """What was asked and is not taken up, a line a rank."""
    return [f"rank {beat.rank}: {beat.unsafe}" for beat in beats if beat.unsafe]


def _place(beat: RankBeat) -> int:
    return beat.step


def _not_waiting(beats: Iterable[RankBeat]) -> list[int]:
    """Ranks that are elsewhere while others wait for them in a collective; empty where that does not tell."""
    known = [beat for beat in beats if beat.where]
    waiting = {beat.rank for beat in known if COLLECTIVE.search(beat.where)}
    return [beat.rank for beat in known if beat.rank not in waiting] if waiting else []


def _lines(beats: Mapping[int, RankBeat], missing: list[int], gone: list[int], now: float) -> Iterator[str]:
    """Each rank's last step: those behind first, ranks that stand alike together."""
    if missing:
        yield f"{_ranks(missing)} never wrote a heartbeat"
    alike: dict[tuple[int, str, bool, str], list[int]] = {}
    for rank, beat in sorted(beats.items()):
        alike.setdefault((beat.step, beat.state, rank in gone, _innermost(beat.where)), []).append(rank)
    for (step, state, dead, where), ranks in sorted(
        alike.items(), key=lambda one: (one[0][0], not one[0][2])
    ):
        hosts = sorted({beats[rank].host for rank in ranks if beats[rank].host})
        on = f" on {', '.join(hosts[:3])}" if hosts and len(ranks) <= 8 else ""
        silent = max(now - beats[rank].alive_at for rank in ranks)
        how = f", silent for {silent:.0f} s" if dead else ""
        at = f", in {where}" if where else ""
        yield f"{_ranks(ranks)}{on} at step {step} ({state}{how}{at})"


def _innermost(where: str) -> str:
    """The collective a rank waits in, or else its innermost call."""
    calls = where.split(" < ")
    return next((call for call in calls if COLLECTIVE.search(call)), calls[0])


def _ranks(ranks: list[int]) -> str:
    """`ranks 0-2, 5`."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1][1:] = [rank]
        else:
            runs.append([rank])
    text = ", ".join("-".join(map(str, run)) for run in runs)
    return f"rank {text}" if len(ranks) == 1 else f"ranks {text}"
