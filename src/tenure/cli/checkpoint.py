"""`tenure checkpoint`: what outlives every window. STORE is a folder or a URL (s3://bucket/path)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenure.cli import options
from tenure.cli.endings import FAILED, complain

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

app = typer.Typer(no_args_is_help=True, help="Checkpoints of a training run: list, verify, copy, prune.")

StoreUrl = Annotated[
    str, typer.Argument(metavar="STORE", help="A folder, or a URL such as s3://bucket/path.")
]
Run = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")]
Name = Annotated[
    str | None,
    typer.Argument(
        metavar="[CHECKPOINT]", help="A step, or step-attempt; default: the newest that verifies."
    ),
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="KEY=VALUE",
        help="For the store's file system: endpoint_url=https://…. Repeatable.",
    ),
]


def _answered(ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The answer, or the store's own sentence and exit 1."""
    from tenure.service.checkpoints import StoreError

    try:
        return ask()
    except StoreError as wrong:
        complain(str(wrong))
        raise typer.Exit(FAILED) from None


@app.command("list")
def list_(store: StoreUrl, run: Run, option: Options = None, json: options.Json = None) -> None:
    """List everything that lies in a run's store, committed or not."""
    from tenure.cli import screen, tables_of_checkpoints
    from tenure.service import checkpoints

    results = screen.Results(json)
    opened = checkpoints.open_store(store, run, option or ())
    answer = _answered(lambda: checkpoints.listed(opened))
    results.give(answer, lambda console: tables_of_checkpoints.listed(console, answer))


@app.command()
def verify(
    store: StoreUrl,
    run: Run,
    checkpoint: Annotated[
        str | None, typer.Argument(metavar="[CHECKPOINT]", help="A step, or step-attempt; default: all.")
    ] = None,
    *,
    deep: Annotated[bool, typer.Option("--deep", help="Read every byte again and compare its hash.")] = False,
    due: Annotated[
        str | None,
        typer.Option(
            "--due",
            metavar="DURATION",
            help="In full, and only those not found sound in full for so long: 7d. For cron.",
        ),
    ] = None,
    option: Options = None,
    json: options.Json = None,
) -> None:
    """Compare checkpoints with their manifests: sizes, or every byte. Exit 1 where one is not sound."""
    from tenure.cli import screen, tables_of_checkpoints
    from tenure.service import checkpoints

    results = screen.Results(json)
    opened = checkpoints.open_store(store, run, option or ())
    with screen.progress(compiles=False) as move:
        answer = _answered(
            lambda: checkpoints.verified(opened, checkpoint, deep=deep, due=due, progress=move)
        )
    results.give(answer, lambda console: tables_of_checkpoints.verified(console, answer))
    if not answer["sound"]:
        raise typer.Exit(FAILED)


@app.command()
def copy(
    store: StoreUrl,
    run: Run,
    to: Annotated[str, typer.Argument(metavar="TO", help="The other store: a folder or a URL.")],
    checkpoint: Name = None,
    *,
    to_run: Annotated[str | None, typer.Option("--to-run", metavar="RUN", help="Another id there.")] = None,
    gb_per_s: Annotated[
        float | None, typer.Option("--gb-per-s", min=1e-6, help="Bandwidth, to say how long it takes.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many bytes have to go.")] = False,
    option: Options = None,
    to_option: Annotated[
        list[str] | None, typer.Option("--to-option", metavar="KEY=VALUE", help="As --option, for TO.")
    ] = None,
    json: options.Json = None,
) -> None:
    """Copy a checkpoint to another store and commit it there. Cut off, it goes on where it was."""
    from tenure.cli import screen, tables_of_checkpoints
    from tenure.service import checkpoints

    results = screen.Results(json)
    here = checkpoints.open_store(store, run, option or ())
    there = checkpoints.open_store(to, to_run or run, to_option or ())
    speed = None if gb_per_s is None else gb_per_s * 1e9
    with screen.progress(compiles=False) as move:
        answer = _answered(
            lambda: checkpoints.copied(here, there, checkpoint, bytes_per_s=speed, dry=dry_run, progress=move)
        )
    results.give(answer, lambda console: tables_of_checkpoints.copied(console, answer))


@app.command()
def prune(
    store: StoreUrl,
    run: Run,
    *,
    keep: Annotated[int, typer.Option("--keep", min=1, help="The last so many stay.")] = 3,
    every: Annotated[
        str | None, typer.Option("--every", metavar="DURATION", help="And one in each such stretch: 12h.")
    ] = None,
    grace: Annotated[
        str, typer.Option("--grace", metavar="DURATION", help="Saves never committed stay for so long.")
    ] = "24h",
    deep: Annotated[
        bool, typer.Option("--deep", help="Count as good only what verifies byte by byte.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    option: Options = None,
    json: options.Json = None,
) -> None:
    """Let old checkpoints go: never finals, what is being read, or the only one that verifies."""
    from tenure.cli import screen, tables_of_checkpoints
    from tenure.service import checkpoints

    results = screen.Results(json)
    opened = checkpoints.open_store(store, run, option or ())
    rule = checkpoints.rule(keep, every, grace)
    with screen.progress(compiles=False) as move:
        answer = _answered(lambda: checkpoints.pruned(opened, rule, dry=dry_run, deep=deep, progress=move))
    results.give(answer, lambda console: tables_of_checkpoints.pruned(console, answer))


@app.command()
def commit(
    store: StoreUrl,
    run: Run,
    checkpoint: Annotated[str, typer.Argument(metavar="CHECKPOINT", help="step-attempt.")],
    option: Options = None,
    json: options.Json = None,
) -> None:
    """Commit a save that is whole and never was: one copied by other means, or whose writer died."""
    from tenure.cli import screen
    from tenure.service import checkpoints

    results = screen.Results(json)
    opened = checkpoints.open_store(store, run, option or ())
    answer = _answered(lambda: checkpoints.adopted(opened, checkpoint))

    def say(console: Console) -> None:
        console.print(f"{answer['name']} is committed: {answer['bytes']:,} bytes, verified")

    results.give(answer, say)
