"""What goes to the terminal: results to stdout, everything else to stderr; bars only where someone looks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenure.cli.endings import FAILED, INTERRUPTED, complain

if TYPE_CHECKING:
    from rich.console import Console

    from tenure.service.many import Runs
    from tenure.service.stage import Script

ProgressCall = Callable[[float, str], None]

PATIENCE_S = 1.0  #: a bar appears only for what takes longer
WIDEST = 120  #: columns


class Results:
    """Where a command's answer goes: a table to stdout, its numbers to a file, or JSON alone to stdout.

    Raises BadInput at once for a file that could not be written, before any work is done.
    """

    def __init__(self, json: str | None, *others: Path | None, inputs: tuple[Path, ...] = ()) -> None:
        from tenure.service.outputs import check_writable

        self.json_alone = json == "-"
        self.json_path = None if json is None or self.json_alone else Path(json)
        check_writable(self.json_path, *others, inputs=inputs)

    def give(self, numbers: Mapping[str, Any], table: Callable[[Console], None]) -> None:
        """Write `numbers` where they are wanted, and print the table unless stdout is for JSON alone."""
        from tenure.service.outputs import json_text, write_json

        if self.json_path is not None:
            write_json(numbers, self.json_path)
        if self.json_alone:
            sys.stdout.write(json_text(numbers))
        else:
            table(console())


def console() -> Console:
    """The console of tables: stdout, at most 120 columns wide; names with [brackets] stay as they are."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal or console.width > WIDEST:
        console.width = WIDEST
    return console


def watch(draw: Callable[[Console], None], every_s: float) -> None:
    """Draw again and again in place, until Ctrl-C; once where nobody looks."""
    from rich.live import Live
    from rich.text import Text

    if not sys.stdout.isatty():
        draw(console())
        return
    shown = console()

    def picture() -> Text:
        with shown.capture() as drawn:
            draw(shown)
        return Text.from_ansi(drawn.get())

    with Live(picture(), console=shown, auto_refresh=False, screen=False) as live:
        while True:
            time.sleep(every_s)
            live.update(picture(), refresh=True)


def warn(warnings: list[str]) -> None:
    """Each warning on a line of its own, on stderr."""
    for warning in warnings:
        complain(warning, "note")


def say_lookback(script: Script) -> None:
    """Where nobody said how far back use counts, say what holds: once all that was given is right."""
    if not script.lookback_given:
        warn([f"no lookback is given: use counts for {script.lookback}"])


@contextmanager
def progress(compiles: bool = True) -> Iterator[ProgressCall | None]:
    """A bar on stderr that a callback(part from 0 to 1, what is being done) moves; None off a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task("starting", total=1.0)
    begun, shown = time.monotonic(), False
    compiling = compiles and not _kernels_ready()

    def show() -> None:
        nonlocal shown
        if not shown:
            shown = True
            bar.start()

    def move(part: float, doing: str) -> None:
        if compiling and part <= 0:
            return  # nothing is played yet: what takes its time is the compiler
        bar.update(task, total=1.0, completed=part, description=doing)
        if time.monotonic() - begun > PATIENCE_S:
            show()

    try:
        if compiling:
            bar.update(task, total=None, description="compiling the kernels for this machine (once) …")
            show()
        yield move
    finally:
        if shown:
            bar.stop()


def _kernels_ready() -> bool:
    from tenure.service.readiness import kernels_ready

    return kernels_ready()


def end_of_many(
    runs: Runs, script: Script, results: Results, report: Path | None, table: Callable[[Console], None]
) -> None:
    """Notes, page, numbers and table of many plays.

    Then leave as interrupted or failed where some plays are missing, saying which and what was kept.
    """
    import typer

    from tenure.service import compare as comparing

    say_lookback(script)
    warn(runs.warnings)
    if report is not None:
        comparing.write_page(runs, report)
    results.give(runs.as_json(), table)
    for failure in runs.failures:
        complain(f"this play failed: {failure}")
    if runs.interrupted:
        kept = "" if runs.kept_in is None else f"; they are in {runs.kept_in}"
        complain(f"stopped by Ctrl-C after {len(runs.runs)} of {runs.asked} plays{kept}", "note")
        raise typer.Exit(INTERRUPTED)
    if runs.failures:
        raise typer.Exit(FAILED)
