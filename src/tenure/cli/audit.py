"""`tenure audit`: owed and delivered, of a story or of the server's record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli import options
from tenure.cli.server import Url, client

if TYPE_CHECKING:
    from rich.console import Console


def audit(
    story: Annotated[
        Path | None,
        typer.Argument(
            metavar="STORY",
            help="A story as --log writes it: .jsonl, .gz, .zst; default: the server's record.",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="30d", help="Only so long before its end; default: all after warm-up."),
    ] = None,
    json: options.Json = None,
    report: options.Report = None,
    url: Url = None,
) -> None:
    """Say what each account was owed and got, how long jobs waited and what was lost.

    Nothing but the story is looked at, so anyone who has the file gets the same numbers.
    """
    from tenure.cli import screen, tables, tables_of_audit
    from tenure.service import audits

    results = screen.Results(json, report, inputs=() if story is None else (story,))
    if story is None:
        with client(url) as lab, lab.story(since) as told:
            audited = audits.audit(told)
    else:
        audited = audits.audit(story, since=since)
    screen.warn(audited.warnings)
    if report is not None:
        audits.write_page(audited, report)

    def say(console: Console) -> None:
        tables.played(console, audited)
        tables_of_audit.explained(console, audited.measures)

    results.give(audited.measures, say)
