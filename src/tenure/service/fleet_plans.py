"""Plans of a fleet: a file in, the whole answer out, as `--json` writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tenure.planner.plan_goodput import Log, plan_goodput
from tenure.planner.plan_power import plan_power
from tenure.planner.plan_spares import plan_spares
from tenure.planner.published import rows
from tenure.settings.errors import BadInput
from tenure.settings.goodput_file import read_goodput_file
from tenure.settings.incident_file import read_incidents
from tenure.settings.power_file import read_power_file
from tenure.settings.spares_file import read_spares_file


def goodput(path: Path) -> dict[str, Any]:
    """What part of its time a job works. BadInput where the file is wrong."""
    file = read_goodput_file(path)
    if file.failures is None or file.failures.log is None:
        return plan_goodput(file)
    told = file.failures
    log = path.parent / file.failures.log
    incidents = read_incidents(log)
    nodes = incidents.of_nodes()
    if told.of_nodes is not None and len(nodes) > told.of_nodes:
        raise BadInput(str(path), "failures.of_nodes", f"{told.of_nodes}", f"the {len(nodes)} nodes of {log}")
    assert told.of_nodes is not None
    assert told.days is not None
    return plan_goodput(file, Log(incidents.of_causes(), nodes, told.of_nodes, told.days))


def spares(path: Path) -> dict[str, Any]:
    """What to buy so that a job keeps its shape. BadInput where the file is wrong or spares are no answer."""
    return plan_spares(read_spares_file(path), name=str(path))


def power(path: Path) -> dict[str, Any]:
    """Accelerators and limit under a supply. BadInput where the file is wrong or asks past its curve."""
    return plan_power(read_power_file(path), name=str(path))


def published() -> list[dict[str, Any]]:
    """Published numbers worked out anew, each with its verdict and convention."""
    return [{**row._asdict(), "error": row.error} for row in rows()]
