"""`tenure compare`: the same worlds under several policies or settings."""

from __future__ import annotations

from typing import Annotated

import typer

from tenure.cli import options


def compare(
    scenario: options.Scenario,
    *,
    policies: Annotated[
        str, typer.Option(metavar="NAME,NAME…", help="budget, window, fifo, fifo-backfill, priority.")
    ] = "budget,window",
    seeds: Annotated[str, typer.Option(metavar="1-5", help="Seeds: a range, a list or both.")] = "1-5",
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=V1,V2…",
            help="Change one key; of several values each is a column: failures.spares=2%,4%. Repeatable.",
        ),
    ] = None,
    workers: options.Workers = None,
    json: options.Json = None,
    report: options.Report = None,
) -> None:
    """Play the same worlds under several policies and set the outcomes side by side.

    What chance decides is drawn before, so job for job every policy meets the same demand. With exactly two
    columns the difference for each account is shown too. Ctrl-C keeps what was finished.
    """
    from tenure.cli import screen, tables_of_runs
    from tenure.service import compare as comparing
    from tenure.service import stage

    results = screen.Results(json, report, inputs=(scenario,))
    values = options.value_lists(set_)
    script = stage.read(scenario, None, {key: listed[0] for key, listed in values.items()})
    with screen.progress() as moved:
        compared = comparing.compare(
            scenario,
            options.names(policies),
            options.seed_list(seeds),
            values=values,
            workers=workers,
            progress=moved,
            keep=results.json_path,
        )
    screen.end_of_many(
        compared, script, results, report, lambda console: tables_of_runs.compared(console, compared)
    )
