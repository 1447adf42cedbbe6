"""`tenure fleet`: what happened to a fleet, from stories and records, laid out to be compared."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli import options
from tenure.cli.server import Url, client

if TYPE_CHECKING:
    from rich.console import Console


def fleet(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE…",
            help="Stories as --log writes them, or records of fleets (.yaml); default: the server's record.",
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="30d", help="Only so long before a story's end; default: all of it.")
    ] = None,
    json: options.Json = None,
    report: options.Report = None,
    url: Url = None,
) -> None:
    """Say what a fleet had and what became of it: GPUs active, spare and down, interruptions, goodput.

    Several files stand side by side, every figure with its definition, and what does not compare is said.
    """
    from tenure.cli import screen, tables_of_fleets
    from tenure.service import fleet_report

    results = screen.Results(json, report, inputs=tuple(files or ()))
    if files:
        answer = fleet_report.fleet_report(files, since, report)
    else:
        with client(url) as lab, lab.story(since) as told:
            answer = fleet_report.fleet_report([told], since, report)

    def say(console: Console) -> None:
        tables_of_fleets.fleets(console, answer)

    results.give(answer, say)
