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
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What was seen of the run so far, YAML.")],
    json: options.Json = None,
    report: options.Report = None,
) -> None:
    """Forecast a run under way again from what was seen of it: extend the window, or not.

    Prints what is now believed of speed and failures, the distribution of what is left, and the cost to be
    expected with each extension on offer; money spent before does not count.
    """
    from tenure.cli import screen, tables_of_plans
    from tenure.service import forecasts, plan_pages

    results = screen.Results(json, report, inputs=(file,))
    planned = forecasts.forecast(file)
    if report is not None:
        plan_pages.write_forecast(planned, report)

    def say(console: Console) -> None:
        tables_of_plans.forecast(console, planned.answer)

    results.give(planned.answer, say)


for _command in (*carrying.COMMANDS, *buying.COMMANDS):
    app.command()(_command)
