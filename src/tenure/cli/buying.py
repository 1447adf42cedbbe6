"""`tenure run offers|sign|approve|buy|void|purchases`: what is for sale for a run, and buying it once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenure.cli import options
from tenure.cli.endings import FAILED, complain

if TYPE_CHECKING:
    from tenure.cli.screen import Results
    from tenure.service.buying import Place

File = Annotated[Path, typer.Argument(metavar="RUN", help="The run's file, YAML.")]
Data = Annotated[Path, typer.Option("--data", metavar="DIR", help="Where the run's book is kept.")]
Db = Annotated[str | None, typer.Option("--db", metavar="URL", help="Its database, where it is not there.")]
Days = Annotated[
    str | None,
    typer.Option("--days", metavar="14,21", help="Lengths asked for; default: those near the plan's best."),
]
Nodes = Annotated[
    int | None,
    typer.Option("--nodes", metavar="N", min=1, help="Of the gang, where several windows hold it."),
]
PlanId = Annotated[str, typer.Argument(metavar="PLAN", help="As `run sign` printed it.")]
DATA = Path(".tenure")
MOST_DAYS = 3650.0


@contextmanager
def _no_is_one_line() -> Iterator[None]:
    from tenure.service.buying import CannotBuy

    try:
        yield
    except CannotBuy as no:
        complain(str(no))
        raise typer.Exit(FAILED) from None


@contextmanager
def _place(data: Path, db: str | None) -> Iterator[Place]:
    """Where it is asked; with a bar where it takes long, and a no told in one line."""
    from tenure.cli import screen
    from tenure.service.buying import Place

    with _no_is_one_line(), screen.progress(compiles=False) as bar:
        yield Place(data=data, db=db, told=bar)


def _days(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        days = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        days = []
    if not days or not all(0 < one <= MOST_DAYS for one in days):
        raise typer.BadParameter(f"{text!r} is no list of days above 0: 14,21", param_hint="--days")
    return days


def offers(
    file: File,
    *,
    days: Days = None,
    nodes: Nodes = None,
    data: Data = DATA,
    db: Db = None,
    json: options.Json = None,
) -> None:
    """Show what is for sale for the run, by its expected cost under the run's own plan."""
    from tenure.cli import screen, tables_of_buying
    from tenure.service import buying

    results = screen.Results(json, inputs=(file,))
    wanted = buying.Wanted(_days(days), nodes)
    with _place(data, db) as place:
        told = buying.offers(file, place, wanted)
    results.give(told, lambda console: tables_of_buying.offers(console, told))


def sign(
    file: File,
    offer: Annotated[str, typer.Argument(metavar="OFFER", help="Its id, as `run offers` shows it.")],
    *,
    days: Days = None,
    nodes: Nodes = None,
    budget: Annotated[
        str | None,
        typer.Option(metavar="SUM", help="Of all the run's purchases; default: the file's, else the fee."),
    ] = None,
    data: Data = DATA,
    db: Db = None,
    json: options.Json = None,
) -> None:
    """Sign for an offer, as who you are on this machine. Nothing is bought by it."""
    from tenure.cli import screen
    from tenure.service import buying

    wanted = buying.Wanted(_days(days), nodes)
    results = screen.Results(json, inputs=(file,))
    with _place(data, db) as place:
        told = buying.sign(file, place, offer, wanted, budget=budget)
    _give(results, told)


def approve(file: File, plan: PlanId, *, data: Data = DATA, db: Db = None, json: options.Json = None) -> None:
    """Say yes to what somebody else has signed: above the run's set sum, two people must."""
    from tenure.cli import screen
    from tenure.service import buying

    results = screen.Results(json, inputs=(file,))
    with _place(data, db) as place:
        told = buying.approve(file, place, plan)
    _give(results, told)


def buy(file: File, plan: PlanId, *, data: Data = DATA, db: Db = None, json: options.Json = None) -> None:
    """Buy what was signed. It is sent once, ever: asked again, it says what became of it."""
    from tenure.cli import screen
    from tenure.service import buying

    results = screen.Results(json, inputs=(file,))
    with _place(data, db) as place:
        told = buying.buy(file, place, plan)
    _give(results, told)


def purchases(file: File, *, data: Data = DATA, db: Db = None, json: options.Json = None) -> None:
    """Show all that was signed for the run, by whom, and what became of it."""
    from tenure.cli import screen, tables_of_buying
    from tenure.service import buying

    results = screen.Results(json, inputs=(file,))
    with _place(data, db) as place:
        told = buying.purchases(file, place)
    results.give(told, lambda console: tables_of_buying.plans(console, told["plans"]))


def void(
    file: File,
    intent: Annotated[str, typer.Argument(metavar="INTENT", help="As `run purchases` shows it.")],
    *,
    data: Data = DATA,
    db: Db = None,
) -> None:
    """Say that a purchase whose answer was lost bought nothing, after a look at the provider's own page."""
    from tenure.service import buying

    with _place(data, db) as place:
        buying.void(file, place, intent)
    typer.echo(f"{intent} is void: it may be bought anew")


def _give(results: Results, told: dict[str, Any]) -> None:
    from tenure.cli import tables_of_buying

    results.give(told, lambda console: tables_of_buying.plans(console, [told]))


COMMANDS = (offers, sign, approve, buy, purchases, void)
