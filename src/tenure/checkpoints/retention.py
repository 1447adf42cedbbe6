"""Which checkpoints may go? Pure: what stands and a rule in, what is kept and why out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from tenure.checkpoints.words import Checkpoint

HOUR_S = 3600.0


class Keep(NamedTuple):
    """What is kept: the last so many, one in each stretch of so many seconds, finals, what is being read."""

    last: int = 3
    every_s: float | None = None  #: None: no others
    grace_s: float = 24 * HOUR_S  #: a save that was never committed is left alone for so long


class Verdict(NamedTuple):
    """What becomes of one checkpoint."""

    checkpoint: Checkpoint
    kept: bool
    why: str


def judge(
    sound: Sequence[Checkpoint], unsound: Sequence[Checkpoint], keep: Keep, reading: Collection[str] = ()
) -> list[Verdict]:
    """
    A verdict for every checkpoint, newest first.

    `sound`: those that verify; `unsound`: those that do not, which are kept for a person to look at and count
    for nothing. `reading`: names (step-attempt) that somebody reads.
    """
    if keep.last < 1:
        raise ValueError("at least the last one is kept")
    newest = sorted(sound, key=lambda one: (one.step, one.attempt), reverse=True)
    spaced = _spaced(newest, keep.every_s)
    verdicts = []
    for place, one in enumerate(newest):
        if place < keep.last:
            verdicts.append(
                Verdict(one, True, f"one of the last {keep.last}" if keep.last > 1 else "the last")
            )
        elif one.final:
            verdicts.append(Verdict(one, True, "final"))
        elif one.name in reading:
            verdicts.append(Verdict(one, True, "being read"))
        elif one.name in spaced:
            verdicts.append(Verdict(one, True, "first of its hours"))
        else:
            verdicts.append(Verdict(one, False, f"older than the last {keep.last}"))
    verdicts += [Verdict(one, True, "does not verify: a person should look") for one in unsound]
    return sorted(verdicts, key=lambda one: (one.checkpoint.step, one.checkpoint.attempt), reverse=True)


def _spaced(newest_first: Sequence[Checkpoint], every_s: float | None) -> set[str]:
    """Names of the oldest checkpoint of each stretch of `every_s`."""
    if every_s is None:
        return set()
    if every_s <= 0:
        raise ValueError("the stretch of which one is kept must be longer than nothing")
    kept: dict[int, str] = {}
    for one in newest_first:
        kept[int(one.at // every_s)] = one.name
    return set(kept.values())
