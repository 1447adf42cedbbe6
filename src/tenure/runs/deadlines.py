"""By when must a run in a window have saved, and by when must it have left?

The ladder hangs from the instant at which the provider begins to take nodes down (`term`), by the *measured*
time of a save (its 99th percentile) and of a step:

    checkpoint = term - margin - 2·save      save and go on: if the last save fails, this one is young
    drain      = term - margin - save - step save once more at the next step boundary, and leave

A warning by the provider plays no part: it may come too late for the save, or not at all.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from tenure.providers.protocol import Window
from tenure.runs.state import State
from tenure.settings.run_file import Run


class Ladder(NamedTuple):
    """Instants, epoch seconds."""

    checkpoint: float
    drain: float
    term: float
    end: float  #: until which the window is paid


def save_of(run: Run, state: State) -> float:
    """What a save takes, seconds: as measured, or as the run's file has it."""
    return state.save_s if state.save_s is not None else run.file.deadlines.save


def ladder_of(window: Window, terminates_s: float, run: Run, state: State) -> Ladder:
    """
    The deadlines of a window. Where its end is soft, a checkpoint is due before it and nobody has to leave.

    Infinite where there is nothing to be done by then.
    """
    margin_s, save_s = run.file.deadlines.margin, save_of(run, state)
    told = ladder(window.end, terminates_s, margin_s=margin_s, save_s=save_s, step_s=state.step_s)
    if not window.soft:
        return told
    return Ladder(told.checkpoint if window.promised else inf, inf, inf, window.end)


def ladder(end: float, terminates_s: float, *, margin_s: float, save_s: float, step_s: float) -> Ladder:
    """The deadlines of a window. `terminates_s`: before its end, nodes are taken down."""
    term = end - terminates_s
    drain = term - margin_s - save_s - step_s
    return Ladder(min(drain, term - margin_s - 2 * save_s), drain, term, end)
