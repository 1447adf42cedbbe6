"""`tenure audit`: owed and delivered, of a story or of the server's record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli import options
from tenure.cli.server import Url, client

if TYPE_CHECKING:
    from rich.console import Console

    from tenure.cli.screen import Results


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
    shadow: Annotated[
        bool,
        typer.Option("--shadow", help="Of a server in shadow mode: what they did beside what Tenure would."),
    ] = False,
    url: Url = None,
) -> None:
    """Say what each account was owed and got, how long jobs waited and what was lost.

    Nothing but the story is looked at, so anyone who has the file gets the same numbers.
    """
    from tenure.cli import screen, tables, tables_of_audit
    from tenure.service import audits
    from tenure.settings.errors import BadInput

    results = screen.Results(json, report, inputs=() if story is None else (story,))
    if shadow:
        if story is not None:
            raise BadInput("--shadow", "", f"with {story}", "no STORY: it compares what a server has seen")
        _side_by_side(results, since, report, url)
        return
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


def _side_by_side(results: Results, since: str | None, report: Path | None, url: str | None) -> None:
    """What they did, what Tenure would have done."""
    from tenure.service import side_by_side

    with client(url) as lab:
        told = lab.audit_shadow(since)
    if report is not None:
        side_by_side.write_page(told, report)
    results.give(told, lambda console: console.print(side_by_side.text_of(told), end="", soft_wrap=True))
