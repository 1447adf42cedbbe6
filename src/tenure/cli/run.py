"""`tenure run`: a training run across capacity windows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli import buying, carrying, options

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(no_args_is_help=True, help="A training run across capacity windows.")


@app.callback()
def run() -> None:
    """A training run across capacity windows."""


@app.command()
def forecast(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The run's file, or what was seen of it so far, YAML.")
    ],
    *,
    data: carrying.Data = carrying.DATA,
    db: carrying.Db = None,
    json: options.Json = None,
    report: options.Report = None,
) -> None:
    """Forecast a run under way again from what was seen of it: extend the window, or not.

    Prints what is now believed of speed and failures, the distribution of what is left, and the cost to be
    expected with each extension on offer; money spent before does not count. Of a run that is carried its
    book and heartbeats tell what was seen, and its provider what is on offer; nothing is bought.
    """
    from tenure.cli import screen, tables_of_plans
    from tenure.service import forecasts, plan_pages, runs

    results = screen.Results(json, report, inputs=(file,))
    if forecasts.is_of_run(file):
        with carrying.no_is_one_line():
            planned = runs.forecast(file, carrying.place_of(data, db))
    else:
        planned = forecasts.forecast(file)
    if report is not None:
        plan_pages.write_forecast(planned, report)

    def say(console: Console) -> None:
        tables_of_plans.forecast(console, planned.answer)

    results.give(planned.answer, say)


for _command in (*carrying.COMMANDS, *buying.COMMANDS):
    app.command()(_command)
