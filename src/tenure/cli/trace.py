"""`tenure trace`: what a trace of real jobs holds, and one form for all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tenure.cli import options

app = typer.Typer(no_args_is_help=True, help="Traces of real jobs: what they hold, and one form for all.")

File = Annotated[Path, typer.Argument(metavar="FILE", help="Trace; .gz and .zst are read as they are.")]
Format = Annotated[
    str | None,
    typer.Option(
        "--format", help="csv, helios, philly, pai, acme, swf, sacct, tenure; default: by its name."
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        metavar="KEY=NAME,…",
        help="csv: which column is which: job=id,submit=at,runtime=sec,gpus=n.",
    ),
]


@app.command()
def describe(file: File, format_: Format = None, columns: Columns = None, json: options.Json = None) -> None:
    """Say what a trace holds: jobs, GPU-hours, tenants, sizes; what was dropped or guessed."""
    from tenure.cli import screen, tables_of_traces
    from tenure.service import traces

    results = screen.Results(json, inputs=(file,))
    with screen.progress(compiles=False) as moved:
        described = traces.describe(
            file, format_=format_, columns=options.column_map(columns), progress=moved
        )
    results.give(described, lambda console: tables_of_traces.described(console, described))


@app.command()
def convert(
    file: File,
    out: Annotated[Path, typer.Argument(help="File to write, one row a job.", metavar="OUT.parquet")],
    format_: Format = None,
    columns: Columns = None,
) -> None:
    """Write a trace as Parquet in Tenure's own columns (format `tenure`), quick to read again."""
    from tenure.cli import screen, tables_of_traces
    from tenure.service import outputs, traces

    outputs.check_writable(out, inputs=(file,))
    with screen.progress(compiles=False) as moved:
        converted = traces.convert(
            file, out, format_=format_, columns=options.column_map(columns), progress=moved
        )
    tables_of_traces.converted(screen.console(), out, converted)
