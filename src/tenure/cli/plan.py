"""`tenure plan`: numbers before money is spent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli import options

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(no_args_is_help=True, help="Numbers before money is spent.")

PlanFile = Annotated[Path, typer.Argument(metavar="FILE", help="The plan's file, YAML.")]
Charts = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Write the page's charts there, as SVG and PNG.")
]


@app.command()
def window(
    file: PlanFile, json: options.Json = None, report: options.Report = None, charts: Charts = None
) -> None:
    """Choose the window to reserve for a run: of real offers or a lattice, at least expected cost.

    Prints the run's length as a distribution, every window with its cost and chance of an overrun, the tail
    of the cost, what would change the answer, and what goes wrong with plans like it.
    """
    from tenure.cli import screen, tables_of_plans
    from tenure.service import plan_pages, plans

    results = screen.Results(json, report, inputs=(file,))
    planned = plans.window(file)
    if report is not None:
        plan_pages.write_window(planned, report)
    if charts is not None:
        plan_pages.write_charts(planned, charts)

    def say(console: Console) -> None:
        tables_of_plans.window(console, planned.answer)

    results.give(planned.answer, say)


@app.command()
def gang(file: PlanFile, json: options.Json = None, report: options.Report = None) -> None:
    """Say how long a gang of nodes takes to come together, and what is paid while it waits."""
    from tenure.cli import screen, tables_of_plans
    from tenure.service import plan_pages, plans

    results = screen.Results(json, report, inputs=(file,))
    planned = plans.gang(file)
    if report is not None:
        plan_pages.write_gang(planned, report)

    def say(console: Console) -> None:
        tables_of_plans.gang(console, planned.answer)

    results.give(planned.answer, say)


@app.command()
def place(file: PlanFile, json: options.Json = None, report: options.Report = None) -> None:
    """Say where each kind of work should run (reserved, on demand, spot, queue), why, and what it costs."""
    from tenure.cli import screen, tables_of_plans
    from tenure.service import plan_pages, plans

    results = screen.Results(json, report, inputs=(file,))
    planned = plans.place(file)
    if report is not None:
        plan_pages.write_place(planned, report)

    def say(console: Console) -> None:
        tables_of_plans.place(console, planned.answer)

    results.give(planned.answer, say)
