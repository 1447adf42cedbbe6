"""`tenure trace`: what a trace of real jobs holds, and one form for all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tenure.cli import options

app = typer.Typer(no_args_is_help=True, help="Traces of real jobs: what they hold, and one form for all.")

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="The trace's file (pai: its folder); .gz and .zst too.")
]
Format = Annotated[
    str | None,
    typer.Option("--format", help="csv, helios, philly, pai, acme, swf, sacct, tenure; default: by look."),
]
Columns = Annotated[
    str | None,
    typer.Option(metavar="KEY=NAME,…", help="csv: which column is which: job=id,submit=at,runtime=s,gpus=n."),
]
Timezone = Annotated[str, typer.Option(metavar="ZONE", help="Of times that name none, e.g. Europe/Paris.")]
Tenant = Annotated[
    str | None,
    typer.Option(metavar="FIELD", help="What names the tenant where there is a choice: user, group …"),
]


@app.command()
def describe(
    file: File,
    *,
    format_: Format = None,
    columns: Columns = None,
    timezone: Timezone = "UTC",
    tenant: Tenant = None,
    gpus: Annotated[int | None, typer.Option(min=1, help="GPUs of a cluster: what load it would be.")] = None,
    chart: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Draw it: sizes, run times, the week, tenants.")
    ] = None,
    json: options.Json = None,
) -> None:
    """Say what a trace holds: jobs, GPU-hours, tenants, sizes; what was dropped or guessed."""
    from tenure.cli import screen, tables_of_traces
    from tenure.service import traces

    results = screen.Results(json, chart, inputs=(file,))
    reading = traces.Reading(format_, options.column_map(columns), timezone, tenant)
    with screen.progress(compiles=False) as moved:
        described = traces.describe(file, reading, gpus=gpus, chart=chart, progress=moved)
    results.give(described, lambda console: tables_of_traces.described(console, described))


@app.command()
def convert(
    file: File,
    out: Annotated[Path, typer.Argument(help="File to write, one row a job.", metavar="OUT.parquet")],
    *,
    format_: Format = None,
    columns: Columns = None,
    timezone: Timezone = "UTC",
    tenant: Tenant = None,
    json: options.Json = None,
) -> None:
    """Write a trace as Parquet in columns of our own (`--format tenure`), quick to read again."""
    from tenure.cli import screen, tables_of_traces
    from tenure.service import traces

    results = screen.Results(json, out, inputs=(file,))
    reading = traces.Reading(format_, options.column_map(columns), timezone, tenant)
    with screen.progress(compiles=False) as moved:
        converted = traces.convert(file, out, reading, progress=moved)
    results.give(converted, lambda console: tables_of_traces.converted(console, converted))
