"""`tenure token`: who may ask a server."""

from __future__ import annotations

from typing import Annotated

import typer

from tenure.cli import options
from tenure.cli.server import Url, client

app = typer.Typer(no_args_is_help=True, help="Tokens: who may ask the server.")


@app.command()
def create(
    user: Annotated[str, typer.Argument(metavar="USER")],
    *,
    admin: Annotated[bool, typer.Option("--admin", help="An administrator's: may do everything.")] = False,
    expires: Annotated[str | None, typer.Option(metavar="90d", help="Default: never.")] = None,
    note: Annotated[str, typer.Option(metavar="WORDS", help="What it is for.")] = "",
    url: Url = None,
    json: options.Json = None,
) -> None:
    """Make a token for a user and print it: it is shown this once, and kept as a hash."""
    from tenure.cli import screen

    results = screen.Results(json)
    with client(url) as lab:
        made = lab.create_token(user, admin=admin, expires=expires, note=note)
    results.give(made.model_dump(), lambda console: console.print(made.token, soft_wrap=True))


@app.command("list")
def listed(*, url: Url = None, json: options.Json = None) -> None:
    """All tokens, without the tokens; your own where you are no administrator."""
    from tenure.cli import screen, tables_of_lab

    results = screen.Results(json)
    with client(url) as lab:
        tokens = lab.tokens()
    results.give(
        {"tokens": [one.model_dump() for one in tokens]},
        lambda console: tables_of_lab.tokens(console, tokens),
    )


@app.command()
def revoke(id: Annotated[str, typer.Argument(metavar="ID")], *, url: Url = None) -> None:
    """It opens nothing any more. ID: as `token list` shows it."""
    with client(url) as lab:
        typer.echo(lab.revoke_token(id).text)
