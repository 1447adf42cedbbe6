"""The report of one fleet or several: from stories, or from records in files; laid out to be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tenure.audit.fleet import MEANING, fleet_of
from tenure.audit.span import AuditError
from tenure.planner.failures import rate_of
from tenure.report.fleet_report_page import figures_of_fleets, write_fleet_report
from tenure.service.audits import since_second
from tenure.service.outputs import placed
from tenure.settings.errors import BadInput
from tenure.settings.fleet_record_file import FleetRecordFile, read_fleet_record
from tenure.settings.incident_file import read_incidents
from tenure.story.jsonl import StoryError, read_story

MOST_FLEETS = 8
APART = 2.0  #: fleets so many times apart in size or span are warned of

SHORT_DAYS = 1.0  #: spans below it are warned of


def fleet_report(paths: Sequence[Path], since: str | None = None, page: Path | None = None) -> dict[str, Any]:
    """`paths`: stories, or YAML files of records. BadInput where one is neither, or there are too many."""
    if not 1 <= len(paths) <= MOST_FLEETS:
        raise BadInput("FILE", "", f"{len(paths)} files", f"1 to {MOST_FLEETS}")
    fleets = [
        _of_file(path) if path.suffix in (".yaml", ".yml") else _of_story(path, since) for path in paths
    ]
    told = {"fleets": fleets, "warnings": _warnings(fleets), "conventions": MEANING}
    if page is not None:
        with placed(page) as draft:
            write_fleet_report(told, draft)
    return told


def figures_across(answer: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """The figures of a report as lines of text: a name, and one text a fleet."""
    fleets = answer["fleets"]
    return [(name, [written(read(fleet)) for fleet in fleets]) for name, read, written in figures_of_fleets()]


def _of_story(path: Path, since: str | None) -> dict[str, Any]:
    try:
        story = read_story(path)
        told = fleet_of(story, since_s=None if since is None else since_second(story, since))
    except (StoryError, AuditError) as wrong:
        said = str(wrong).removeprefix(str(path)).lstrip(",: ")
        raise BadInput(str(path), "", said, "a whole story, or a record of a fleet (.yaml)") from None
    told["file"] = path.name
    return _rated(told)


def _rated(told: dict[str, Any]) -> dict[str, Any]:
    """With the rate of node failures and what it leaves open."""
    counted = told["node_failures"]
    if counted is not None and counted["node_days"] > 0:
        told["node_failures"] = rate_of(counted["events"], counted["node_days"])._asdict()
    return told


def _of_file(path: Path) -> dict[str, Any]:
    file = read_fleet_record(path)
    causes = file.causes or read_incidents(path.parent / str(file.log)).of_causes()
    planned = {name: count for name, count in causes.items() if name in file.planned_causes}
    unplanned = {name: count for name, count in causes.items() if name not in planned}
    planned |= file.planned or {}
    runs = [] if file.effective_time is None else [_run(file, unplanned, planned)]
    nodes = file.gpus // file.gpus_per_node
    return _rated(
        {
            "name": file.name,
            "file": path.name,
            "from": "a record",
            "span_days": file.days,
            "nodes": nodes,
            "gpus": {"all": file.gpus, "active": file.active_gpus, "spare": file.spare_gpus, "down": None},
            "availability": file.availability,
            "interruptions": {
                "unplanned": _group(unplanned),
                "planned": _group(planned),
                "scheduler": None,
            },
            "manual": None if file.manual is None else {"all": file.manual},
            "node_failures": {"events": sum(unplanned.values()), "node_days": nodes * file.days},
            "goodput": {"of_all": None, "of_healthy": None},
            "held": {"of_all": None, "of_healthy": None},
            "runs": runs,
            "policy": None,
        }
    )


def _group(causes: Mapping[str, int]) -> dict[str, Any]:
    return {"total": sum(causes.values()), "causes": dict(sorted(causes.items(), key=lambda one: -one[1]))}


def _run(file: FleetRecordFile, unplanned: Mapping[str, int], planned: Mapping[str, int]) -> dict[str, Any]:
    return {
        "run": file.name,
        "gpus": file.gpus,
        "wall_h": 24.0 * file.days,
        "interruptions": sum(unplanned.values()) + sum(planned.values()),
        "effective_time": file.effective_time,
        "effective_time_held": None,
    }


def _warnings(fleets: Sequence[Mapping[str, Any]]) -> list[str]:
    found = []
    for fleet in fleets:
        if fleet["from"] == "a record":
            found.append(
                f"{fleet['name']}: node failures are its unplanned interruptions, whatever their cause; the "
                "rest is as published, by definitions of its own"
            )
        if fleet["span_days"] < SHORT_DAYS:
            found.append(
                f"{fleet['name']}: a span of {24 * fleet['span_days']:.2g} h: rates say little, and a "
                "restart counts as lost when its attempt is stopped, so that goodput may fall below 0"
            )
        if not fleet["runs"]:
            found.append(f"{fleet['name']}: no run of more than one node: no effective time is told")
    if len(fleets) < 2:
        return found
    for key, noun in (("span_days", "spans"), ("nodes", "sizes")):
        values = [float(fleet[key]) for fleet in fleets if fleet[key]]
        if values and max(values) > APART * min(values):
            ratio = max(values) / min(values)
            found.append(
                f"the {noun} are {ratio:.1f} times apart: counts do not compare, rates and shares may"
            )
    if len({fleet["from"] for fleet in fleets}) > 1:
        found.append("one is measured from a story, another as recorded: their definitions differ")
    policies = {fleet["policy"] for fleet in fleets if fleet["policy"]}
    if len(policies) > 1:
        found.append(f"played or run under several policies ({', '.join(sorted(policies))})")
    sizes = [fleet["runs"][0]["gpus"] for fleet in fleets if fleet["runs"]]
    if sizes and max(sizes) > APART * min(sizes):
        found.append("their largest runs differ more than twice in size: effective times do not compare")
    return found
