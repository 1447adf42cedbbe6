"""`tenure node`: how nodes are, and what people say of them."""

from __future__ import annotations

from typing import Annotated

import typer

from tenure.cli import options
from tenure.cli.server import Url, client

app = typer.Typer(
    no_args_is_help=True, help="Health: list nodes, drain them, take them down, repair them, bring them up."
)

Node = Annotated[str, typer.Argument(metavar="NODE")]
Reason = Annotated[str, typer.Option("--reason", metavar="WORDS", help="Why: it is recorded.")]


@app.command("list")
def listed(*, url: Url = None, json: options.Json = None) -> None:
    """All nodes, how they are and what runs on them."""
    from tenure.cli import screen, tables_of_lab

    results = screen.Results(json)
    with client(url) as lab:
        nodes = lab.nodes()
    results.give(
        {"nodes": [one.model_dump() for one in nodes]}, lambda console: tables_of_lab.nodes(console, nodes)
    )


def _set(node: str, state: str, reason: str, url: str | None) -> None:
    with client(url) as lab:
        typer.echo(lab.set_node(node, state, reason).text)


@app.command()
def drain(node: Node, *, reason: Reason, url: Url = None) -> None:
    """Nothing new starts there; what runs leaves when its protection ends."""
    _set(node, "drain", reason, url)


@app.command()
def down(node: Node, *, reason: Reason, url: Url = None) -> None:
    """It is dead: what ran there has ended, and is queued again where it can be."""
    _set(node, "down", reason, url)


@app.command()
def up(node: Node, *, reason: Reason = "", url: Url = None) -> None:
    """It takes work again."""
    _set(node, "up", reason, url)


@app.command()
def repair(
    node: Node,
    *,
    reason: Reason = "",
    test: Annotated[bool, typer.Option("--test", help="The repair is done: it is being tested.")] = False,
    url: Url = None,
) -> None:
    """Somebody works on it; with --test, it is tested. `up` ends the repair."""
    if not test and not reason:
        raise typer.BadParameter("--reason says what is being done", param_hint="repair")
    _set(node, "test" if test else "repair", reason, url)


@app.command()
def reserve(
    nodes: Annotated[
        list[str], typer.Argument(metavar="NODE…", help="Names, or patterns such as 'jupiter-00*'.")
    ],
    *,
    length: Annotated[str, typer.Option("--for", metavar="4h", help="How long it is out of service.")],
    begins: Annotated[
        str, typer.Option("--from", metavar="WHEN", help="A date and time (UTC), or a duration from now.")
    ] = "now",
    reason: Reason,
    url: Url = None,
    json: options.Json = None,
) -> None:
    """A maintenance window: nothing is protected or promised across its beginning."""
    from tenure.cli import screen, tables_of_lab

    results = screen.Results(json)
    with client(url) as lab:
        told = lab.reserve(nodes, begins, length, reason)
    results.give(told.model_dump(), lambda console: tables_of_lab.reservations(console, [told]))


@app.command()
def reservations(*, url: Url = None, json: options.Json = None) -> None:
    """Windows in which nodes are out of service: open, or to come."""
    from tenure.cli import screen, tables_of_lab

    results = screen.Results(json)
    with client(url) as lab:
        told = lab.reservations()
    results.give(
        {"reservations": [one.model_dump() for one in told]},
        lambda console: tables_of_lab.reservations(console, told),
    )


@app.command()
def unreserve(
    reservation: Annotated[str, typer.Argument(metavar="ID", help="As `reservations` lists it.")],
    *,
    url: Url = None,
) -> None:
    """Take a reservation back; nodes that it took out come back."""
    with client(url) as lab:
        typer.echo(lab.unreserve(reservation).text)
