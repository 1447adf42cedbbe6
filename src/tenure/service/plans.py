"""Numbers before money is spent: a plan's file in, the whole answer out, as `--json` writes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tenure.planner.place import plan_place
from tenure.planner.plan_gang import plan_gang
from tenure.planner.plan_window import Plan, plan_window
from tenure.planner.run_model import NeverEnds
from tenure.planner.window_answer import answer
from tenure.settings.errors import BadInput, shown
from tenure.settings.gang_file import GangFile, read_gang_file
from tenure.settings.place_file import PlaceFile, read_place_file
from tenure.settings.units import number
from tenure.settings.window_file import WindowFile, read_window_file

MOST_SAMPLES = 5_000_000


class WindowPlanned(NamedTuple):
    """The answer of `plan window`, and the plan it was read from."""

    answer: dict[str, Any]
    plan: Plan


class GangPlanned(NamedTuple):
    answer: dict[str, Any]
    file: GangFile


class PlacePlanned(NamedTuple):
    answer: dict[str, Any]
    file: PlaceFile


def window(path: Path) -> WindowPlanned:
    """Which window to buy. BadInput where the file is wrong, or its run never ends."""
    plan = planned(read_window_file(path), path)
    return WindowPlanned(answer(plan), plan)


def planned(file: WindowFile, path: Path) -> Plan:
    """The plan of a file that was read from `path`."""
    samples = None
    if file.duration is not None and file.duration.file is not None:
        samples = read_samples(path.parent / file.duration.file)
    try:
        return plan_window(file, samples)
    except NeverEnds as never:
        allowed = (
            "λL below 1: fewer nodes, fewer failures, faster recovery, or groups that recover on their own"
        )
        found = f"a run that never ends: λL = {never.expected:.3g} failures strike in the time one costs"
        raise BadInput(str(path), "failures", found, allowed) from None


def gang(path: Path) -> GangPlanned:
    """How a gang comes together. BadInput where the file is wrong."""
    file = read_gang_file(path)
    return GangPlanned(plan_gang(file), file)


def place(path: Path) -> PlacePlanned:
    """Where each kind of work should run. BadInput where the file is wrong."""
    file = read_place_file(path)
    return PlacePlanned(plan_place(file), file)


def read_samples(path: Path) -> Sequence[float]:
    """Run lengths in days, one a line; a first line that is no number is a head. BadInput otherwise."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as refused:
        raise BadInput(str(path), "", type(refused).__name__, "a text file of days, one a line") from None
    days: list[float] = []
    for at, line in enumerate(lines, start=1):
        word = line.strip().rstrip(",")
        if not word or word.startswith("#") or (at == 1 and not word[0].isdigit()):
            continue
        try:
            value = float(number(word))
        except ValueError:
            value = 0.0
        if not 0 < value <= 36_500:
            raise BadInput(str(path), f"line {at}", shown(word), "a number of days above 0, at most 36500")
        days.append(value)
    if not 1 <= len(days) <= MOST_SAMPLES:
        raise BadInput(str(path), "", f"{len(days)} lengths", f"1 to {MOST_SAMPLES} lengths, one a line")
    return days


__all__ = ["gang", "place", "planned", "read_samples", "window"]
