"""`tenure preflight`: is everything ready before the window begins?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli import options
from tenure.cli.endings import FAILED

if TYPE_CHECKING:
    from rich.console import Console


def preflight(
    file: Annotated[Path, typer.Argument(metavar="RUN", help="The run's file, YAML.")],
    *,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="CHECK", help="Ask only this one. Repeatable.")
    ] = None,
    accept: Annotated[
        list[str] | None,
        typer.Option("--accept", metavar="CHECK", help="Its unknown is no obstacle. Repeatable."),
    ] = None,
    launch: Annotated[
        bool | None,
        typer.Option(
            help="Launch one node into the window, read it back and let it go; default: the file's."
        ),
    ] = None,
    write_plan: Annotated[
        Path | None,
        typer.Option(metavar="FILE.yaml", help="Write the plan with what the probe showed of the speed."),
    ] = None,
    data: Annotated[
        Path, typer.Option("--data", metavar="DIR", help="Where the run's book is kept: what it has bought.")
    ] = Path(".tenure"),
    db: Annotated[
        str | None, typer.Option("--db", metavar="URL", help="Its database, where it is not there.")
    ] = None,
    json: options.Json = None,
) -> None:
    """Ask whether all is ready for a run: window, image, data, checkpoint, store, nodes, network, speed.

    Each check passes, fails or is unknown, within its time; its deadline is when what it finds can still be
    mended before the window begins. Exit status: 0 all pass; 1 one fails, or is unknown and not accepted.
    """
    from tenure.cli import screen, tables_of_preflight
    from tenure.service import preflight as asking

    results = screen.Results(json, write_plan, inputs=(file,))
    ask = asking.Ask(tuple(only or ()), tuple(accept or ()), launch, write_plan, data=data, db=db)
    with screen.progress(compiles=False) as move:
        told = asking.preflight(file, ask, move or (lambda part, doing: None))

    def say(console: Console) -> None:
        tables_of_preflight.checks(console, told)

    results.give(told, say)
    if told["verdict"] != "pass":
        raise typer.Exit(FAILED)
