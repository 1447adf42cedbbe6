"""`tenure plan failures|spares|goodput|power|capping|calibrate`: what a fleet needs and makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli import options

if TYPE_CHECKING:
    from rich.console import Console

PlanFile = Annotated[Path, typer.Argument(metavar="FILE", help="The plan's file, YAML.")]


def spares(
    file: PlanFile,
    json: options.Json = None,
    report: options.Report = None,
    scenario: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the plan as a scenario: tenure simulate FILE plays it."),
    ] = None,
) -> None:
    """Say how many racks to buy so that a job keeps its shape: at an instant, and through a whole mission.

    Racks of trays that hold some back, spare racks by confidence, zones, repair crews; the spares of the most
    work; the same job on racks that hold back more or less; and backwards, what a purchase covers.
    """
    from tenure.cli import screen, tables_of_fleet
    from tenure.service import fleet_plans

    results = screen.Results(json, report, scenario, inputs=(file,))
    answer = fleet_plans.spares(file, report, scenario)

    def say(console: Console) -> None:
        tables_of_fleet.spares(console, answer)

    results.give(answer, say)


def goodput(file: PlanFile, json: options.Json = None, report: options.Report = None) -> None:
    """Say what part of its time a job that fails and saves works, by each of four named conventions.

    How often it should save, where its time goes, what groups that recover apart would give, and backwards:
    which save time, recovery or failure rate reaches a target.
    """
    from tenure.cli import screen, tables_of_fleet
    from tenure.service import fleet_plans

    results = screen.Results(json, report, inputs=(file,))
    answer = fleet_plans.goodput(file, report)

    def say(console: Console) -> None:
        tables_of_fleet.goodput(console, answer)

    results.give(answer, say)


def power(file: PlanFile, json: options.Json = None, report: options.Report = None) -> None:
    """Say how many accelerators at which power limit a site feeds, and which limit gives the most work."""
    from tenure.cli import screen, tables_of_fleet
    from tenure.service import fleet_plans

    results = screen.Results(json, report, inputs=(file,))
    answer = fleet_plans.power(file, report)

    def say(console: Console) -> None:
        tables_of_fleet.power(console, answer)

    results.give(answer, say)


def failures(file: PlanFile, json: options.Json = None, report: options.Report = None) -> None:
    """Say how often things fail, from counts and logs: by cause and age, on which nodes, at which size.

    Rates per 1,000 node-days with 95 % intervals, source and class; lemon nodes; infant mortality; how often
    a job of each size would be stopped, and when that is carried too far from what was measured.
    """
    from tenure.cli import screen, tables_of_failures
    from tenure.service import fleet_plans

    results = screen.Results(json, report, inputs=(file,))
    answer = fleet_plans.failures(file, report)

    def say(console: Console) -> None:
        tables_of_failures.failures(console, answer)

    results.give(answer, say)


def capping(file: PlanFile, json: options.Json = None, report: options.Report = None) -> None:
    """Say whom to cap, and how far, so that every breaker holds for the least loss of work.

    A tree of breakers, jobs and where their racks stand; a small controller played reading by reading, with
    two thresholds, a floor, and what it does when readings stop.
    """
    from tenure.cli import screen, tables_of_power
    from tenure.service import fleet_plans

    results = screen.Results(json, report, inputs=(file,))
    answer = fleet_plans.capping(file, report)

    def say(console: Console) -> None:
        tables_of_power.capping(console, answer)

    results.give(answer, say)


def calibrate(file: PlanFile, json: options.Json = None, report: options.Report = None) -> None:
    """Set rack power readings right by the meters above them; refuse what cannot be told; watch for drift."""
    from tenure.cli import screen, tables_of_power
    from tenure.service import fleet_plans

    results = screen.Results(json, report, inputs=(file,))
    answer = fleet_plans.calibrate(file, report)

    def say(console: Console) -> None:
        tables_of_power.calibrate(console, answer)

    results.give(answer, say)


def published(json: options.Json = None) -> None:
    """Work published numbers of fleets out anew: reproduced, partly or not, each with its convention."""
    from tenure.cli import screen, tables_of_fleet
    from tenure.service import fleet_plans

    results = screen.Results(json)
    rows = fleet_plans.published()

    def say(console: Console) -> None:
        tables_of_fleet.published(console, rows)

    results.give({"rows": rows}, say)


COMMANDS = (failures, spares, goodput, power, capping, calibrate, published)
