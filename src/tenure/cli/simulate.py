"""`tenure simulate`: play a scenario and say who got what."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tenure.cli import options


def simulate(
    scenario: options.Scenario,
    *,
    policy: options.PolicyName = None,
    set_: options.Set = None,
    seed: options.Seed = None,
    log: Annotated[
        Path | None, typer.Option("--log", metavar="FILE.jsonl", help="Write the story, one event a line.")
    ] = None,
    log_waits: Annotated[
        bool, typer.Option("--log-waits", help="… with every change of the reason a job waits for.")
    ] = False,
    json: options.Json = None,
    report: options.Report = None,
) -> None:
    """Play a scenario: what was owed, what was delivered, how long people waited.

    The same scenario, policy and seed give the same answer on every machine.
    """
    from tenure.cli import screen, tables
    from tenure.service import audits, replay, stage

    if log_waits and log is None:
        raise typer.BadParameter("needs --log FILE.jsonl to write them to", param_hint="--log-waits")
    results = screen.Results(json, log, report, inputs=(scenario,))
    script = stage.read(scenario, policy, options.assignments(set_), seed)
    with screen.progress(compiles=False) as moved:
        ready = stage.build(script, moved)
    screen.say_lookback(script)
    with screen.progress() as moved:
        played = replay.replay(ready, log_waits=log_waits, progress=moved)
    screen.warn(played.warnings)
    if log is not None:
        replay.write_log(played, log)
    if report is not None:
        audits.write_page(played, report)
    results.give(played.measures, lambda console: tables.played(console, played))
