"""`tenure policy`: the knobs and their meaning; a lab's file checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tenure.cli import options

app = typer.Typer(no_args_is_help=True, help="The knobs of the rules, and a lab's file checked.")


@app.command()
def show(
    policy: options.PolicyName = None,
    set_: options.Set = None,
    json: options.Json = None,
) -> None:
    """List every knob of a policy: its key in the files, its value, what it means."""
    from tenure.cli import screen, tables_of_settings
    from tenure.service import policies

    results = screen.Results(json)
    shown = policies.show(policy, options.assignments(set_))
    results.give(shown, lambda console: tables_of_settings.knobs(console, shown))


@app.command()
def check(
    lab: Annotated[Path, typer.Argument(help="Lab file.", metavar="LAB")],
    json: options.Json = None,
) -> None:
    """Check a lab's file and say what it holds, or what is wrong with it."""
    from tenure.cli import screen, tables_of_settings
    from tenure.service import policies

    results = screen.Results(json, inputs=(lab,))
    checked = policies.check(lab)
    screen.warn(checked["warnings"])
    results.give(checked, lambda console: tables_of_settings.lab(console, checked))
