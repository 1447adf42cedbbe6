"""`tenure sweep`: every combination of some settings."""

from __future__ import annotations

from typing import Annotated

import typer

from tenure.cli import options


def sweep(
    scenario: options.Scenario,
    *,
    set_: Annotated[
        list[str],
        typer.Option(
            "--set", metavar="policy.KEY=V,V…", help="A key and its values. Repeatable: every combination."
        ),
    ],
    policy: options.PolicyName = None,
    seeds: Annotated[
        str | None,
        typer.Option(metavar="1-5", help="Seeds: a range, a list or both."),
    ] = None,
    workers: options.Workers = None,
    dask: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Play on the workers of this Dask scheduler."),
    ] = None,
    json: options.Json = None,
    report: options.Report = None,
) -> None:
    """Play every combination of the given settings.

    With --json FILE finished plays are in the file as they come, so that nothing is lost by Ctrl-C.
    """
    from tenure.cli import screen, tables_of_runs
    from tenure.service import stage
    from tenure.service import sweep as sweeping

    results = screen.Results(json, report, inputs=(scenario,))
    values = options.value_lists(set_)
    script = stage.read(scenario, policy, {key: listed[0] for key, listed in values.items()})
    with screen.progress() as moved:
        swept = sweeping.sweep(
            scenario,
            values,
            policy=policy,
            seeds=None if seeds is None else options.seed_list(seeds),
            workers=workers,
            dask=dask,
            progress=moved,
            keep=results.json_path,
        )
    screen.end_of_many(swept, script, results, report, lambda console: tables_of_runs.swept(console, swept))
