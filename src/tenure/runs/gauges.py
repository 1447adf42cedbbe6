"""What can a monitoring system read of a run? A file of Prometheus gauges, written anew at every step.

Put its folder under node_exporter's textfile collector, or serve it by anything that serves files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tenure.runs.deadlines import ladder_of
from tenure.runs.state import PHASES, State
from tenure.settings.run_file import Run


def lines(run: Run, terminates_s: float, state: State, now: float, reached: float) -> Iterator[str]:
    """The file's lines."""
    name = run.file.run.replace("\\", "\\\\").replace('"', '\\"')
    yield "# TYPE tenure_run_alarm gauge"
    for mode in sorted(state.alarms):
        yield f'tenure_run_alarm{{run="{name}",mode="{mode}"}} 1'
    yield "# TYPE tenure_run_phase gauge"
    for phase in PHASES:
        yield f'tenure_run_phase{{run="{name}",phase="{phase}"}} {int(state.phase == phase)}'
    yield "# TYPE tenure_run_tokens gauge"
    yield f'tenure_run_tokens{{run="{name}"}} {reached:.0f}'
    yield "# TYPE tenure_run_tokens_target gauge"
    yield f'tenure_run_tokens_target{{run="{name}"}} {run.tokens:.0f}'
    yield "# TYPE tenure_run_stepped_timestamp_seconds gauge"
    yield f'tenure_run_stepped_timestamp_seconds{{run="{name}"}} {now:.0f}'
    waits = [one.start - now for one in state.windows.values() if one.start > now and not one.soft]
    if waits and state.live is None:
        yield "# TYPE tenure_run_seconds_to_window gauge"
        yield f'tenure_run_seconds_to_window{{run="{name}"}} {min(waits):.0f}'
    live = state.live
    yield "# TYPE tenure_run_queued gauge"
    yield f'tenure_run_queued{{run="{name}"}} {int(live is not None and live.waiting is not None)}'
    known = [state.windows[which] for which in (live.windows if live else ()) if which in state.windows]
    windows = [window for window in known if not window.soft]
    if windows:
        drain = min(ladder_of(one, terminates_s, run, state).drain for one in windows)
        yield "# TYPE tenure_run_seconds_to_drain gauge"
        yield f'tenure_run_seconds_to_drain{{run="{name}"}} {drain - now:.0f}'


def write(path: Path, told: Iterator[str]) -> None:
    """Whole, or as it was."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text("\n".join(told) + "\n", encoding="utf-8")
    beside.replace(path)
