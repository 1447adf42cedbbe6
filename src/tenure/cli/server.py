"""`tenure serve`, and what a command needs to ask a server: where it is, and a client."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli import options

if TYPE_CHECKING:
    from rich.console import Console

    from tenure.client import Client

Url = Annotated[
    str | None,
    typer.Option(
        "--url", metavar="URL", envvar="TENURE_URL", help="The server; default: http://127.0.0.1:8400."
    ),
]
ENGINES = "local, slurm or fake"


def client(url: str | None) -> Client:
    """The server that is meant, asked with the token that is there."""
    from tenure.client import Client

    return Client(url)


def serve(
    lab: Annotated[Path, typer.Argument(metavar="LAB", help="The lab's file: clusters, accounts, policy.")],
    *,
    engine: Annotated[
        str, typer.Option(metavar="NAME", help=f"What runs the jobs: {ENGINES}; fake only pretends.")
    ] = "local",
    db: Annotated[
        str | None,
        typer.Option(metavar="URL", help="postgresql+psycopg://…; default: SQLite in the data folder."),
    ] = None,
    data: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the server keeps its data.")] = Path(
        ".tenure"
    ),
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="0 takes a free one.")] = 8400,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where it listens; default: this machine only.")
    ] = "127.0.0.1",
    shadow: Annotated[
        bool,
        typer.Option("--shadow", help="Decide and record, and touch nothing: rehearse on the live queue."),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log every question and turn.")] = False,
) -> None:
    """Run the live scheduler, with its API, until Ctrl-C.

    Jobs that run go on when it stops, and are found again when it starts.
    """
    from tenure.service.live.standing import Options
    from tenure.web import serve as web

    if engine not in ("local", "slurm", "fake"):
        raise typer.BadParameter(f"{engine!r} is none of {ENGINES}", param_hint="--engine")
    web.serve(Options(lab, engine, db, data, host, port, shadow), _say, verbose=verbose)


def _say(text: str) -> None:
    typer.echo(text, err=True)


def doctor(*, url: Url = None, json: options.Json = None) -> None:
    """What a site must still configure. Leaves with 1 where something is wrong."""
    from tenure.cli import screen, tables_of_lab

    results = screen.Results(json)
    with client(url) as lab:
        findings = lab.doctor()
    told = {
        "findings": [one.model_dump() for one in findings],
        "ok": all(one.ok is not False for one in findings),
    }
    results.give(told, lambda console: tables_of_lab.doctor(console, findings))
    if not told["ok"]:
        raise typer.Exit(1)


def account(*, url: Url = None, json: options.Json = None) -> None:
    """How each account stands: held, owed, hours left in the lookback, and what is to come."""
    from tenure.cli import screen, tables_of_lab

    results = screen.Results(json)
    with client(url) as lab:
        told = lab.accounts()

    def say(console: Console) -> None:
        tables_of_lab.accounts(console, told)

    results.give(told.model_dump(), say)


def replay(
    turn: Annotated[int, typer.Argument(metavar="TURN", min=1, help="Its number, as answers name it.")],
    *,
    db: Annotated[
        str | None, typer.Option(metavar="URL", help="A record: a file's path, or postgresql+psycopg://…")
    ] = None,
    data: Annotated[Path, typer.Option(metavar="FOLDER", help="… or the folder of a server.")] = Path(
        ".tenure"
    ),
    lab: Annotated[
        Path | None, typer.Option(metavar="LAB", help="The lab as it was then; default: the record's newest.")
    ] = None,
    json: options.Json = None,
) -> None:
    """Decide a recorded turn again, from a record or a copy of it. Leaves with 1 where it differs."""
    from tenure.cli import screen, tables_of_lab
    from tenure.service.live.replays import replay as again

    results = screen.Results(json)
    told = again(turn, db=db, data=data, lab=lab)
    results.give(told, lambda console: tables_of_lab.replayed(console, told))
    if not told["same"]:
        raise typer.Exit(1)
