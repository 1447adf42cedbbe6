"""`tenure run start|status|drain|resume|rehearse`: carry a run, see how it stands, rehearse it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenure.cli import options
from tenure.cli.endings import FAILED, complain

if TYPE_CHECKING:
    from tenure.runs.words import Event
    from tenure.service.runs import Place

File = Annotated[Path, typer.Argument(metavar="RUN", help="The run's file, YAML.")]
Data = Annotated[Path, typer.Option("--data", metavar="DIR", help="Where the run's book is kept.")]
Db = Annotated[str | None, typer.Option("--db", metavar="URL", help="Its database, where it is not there.")]
DATA = Path(".tenure")


@contextmanager
def no_is_one_line() -> Iterator[None]:
    from tenure.service.runs import CannotCarry

    try:
        yield
    except CannotCarry as no:
        complain(str(no))
        raise typer.Exit(FAILED) from None


def place_of(data: Path, db: str | None) -> Place:
    from tenure.service.runs import Place

    return Place(data=data, db=db)


def start(file: File, *, data: Data = DATA, db: Db = None, json: options.Json = None) -> None:
    """Carry the run to its end, or take it over from a controller that is gone.

    Waits for the window, assembles the gang, starts the trainer, watches, forecasts, extends, drains in time
    and hands over to the next window. Ctrl-C ends the controller; the trainer goes on and holds the deadlines
    itself.
    """
    from tenure.cli import screen, tables_of_carrying
    from tenure.service import runs

    results = screen.Results(json, inputs=(file,))
    with no_is_one_line():
        carried = runs.start(file, place_of(data, db), _says(results.json_alone))
    results.give(
        carried.standing, lambda console: tables_of_carrying.standing(console, carried.standing, lines=0)
    )
    if not carried.done:
        complain("the run goes on without a controller: start it again to take it over", "note")


def _says(quiet: bool) -> Callable[[Event], None]:
    """Prints each event as a line, to stderr."""
    from tenure.runs.tell import timeline

    def say(event: Event) -> None:
        if not quiet:
            for line in timeline([event]):
                typer.echo(f"{str(line['at'])[:19]}Z  {line['text']}", err=True)

    return say


def status(
    file: File,
    *,
    lines: Annotated[int, typer.Option(metavar="N", min=0, help="Of the timeline, the newest.")] = 20,
    data: Data = DATA,
    db: Db = None,
    json: options.Json = None,
    report: options.Report = None,
) -> None:
    """Show how the run stands: phase, deadlines, daily goodput, money, alarms, and its timeline."""
    from tenure.cli import screen, tables_of_carrying
    from tenure.service import run_pages, runs

    results = screen.Results(json, report, inputs=(file,))
    with no_is_one_line():
        told = runs.status(file, place_of(data, db))
    if report is not None:
        run_pages.write_run(told, report)
    results.give(told, lambda console: tables_of_carrying.standing(console, told, lines=lines))


def drain(
    file: File,
    *,
    reason: Annotated[str, typer.Option(metavar="WORDS", help="Why, for the record.")] = "",
    data: Data = DATA,
    db: Db = None,
    json: options.Json = None,
) -> None:
    """Ask the run to save, leave its nodes and wait, whatever is left of its window."""
    from tenure.service import runs

    _give(json, file, lambda: runs.drain(file, place_of(data, db), reason))


def resume(file: File, *, data: Data = DATA, db: Db = None, json: options.Json = None) -> None:
    """Ask a drained run to go on."""
    from tenure.service import runs

    _give(json, file, lambda: runs.resume(file, place_of(data, db)))


def rehearse(
    file: File,
    *,
    days: Annotated[
        float | None, typer.Option(metavar="N", help="Of the window; default: the plan's best.")
    ] = None,
    start_at: Annotated[datetime | None, typer.Option("--start", help="Of the window, UTC.")] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Of all that is drawn.")] = 7,
    speed: Annotated[
        float | None, typer.Option(metavar="TOKENS", help="A second and GPU; default: drawn from the plan.")
    ] = None,
    failures: Annotated[
        float | None, typer.Option(metavar="RATE", help="A node-day; default: the plan's.")
    ] = None,
    tight_from: Annotated[
        float | None,
        typer.Option(metavar="HOURS", help="Into the window: then nothing more is for sale."),
    ] = None,
    json: options.Json = None,
    report: options.Report = None,
) -> None:
    """Live the whole run in virtual time on a cloud on this machine: the real controller, no money.

    Buys the window, assembles the gang, loses nodes, forecasts, extends or falls back, drains and finishes,
    in seconds, by the plan's own chances.
    """
    from tenure.cli import screen, tables_of_carrying
    from tenure.service import run_pages, runs

    results = screen.Results(json, report, inputs=(file,))
    asked: dict[str, Any] = {"seed": seed, "tight_from_h": tight_from, "failures": failures, "speed": speed}
    asked |= {"days": days, "start": start_at}
    with screen.progress(compiles=False) as move, no_is_one_line():

        def told_part(part: float) -> None:
            if move is not None:
                move(min(1.0, part), "living the run")

        told = runs.rehearsed(file, asked, told_part)
    if report is not None:
        run_pages.write_run(told, report)
    results.give(told, lambda console: tables_of_carrying.standing(console, told))


def _give(json: str | None, file: Path, ask: Callable[[], dict[str, Any]]) -> None:
    from tenure.cli import screen, tables_of_carrying

    results = screen.Results(json, inputs=(file,))
    with no_is_one_line():
        told = ask()
    results.give(told, lambda console: tables_of_carrying.asked(console, told))


COMMANDS = (start, status, drain, resume, rehearse)
