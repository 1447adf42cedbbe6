"""Plans of a fleet: a file in, the whole answer out, as `--json` writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tenure.planner.plan_goodput import plan_goodput
from tenure.planner.plan_power import plan_power
from tenure.planner.plan_spares import plan_spares
from tenure.settings.goodput_file import read_goodput_file
from tenure.settings.power_file import read_power_file
from tenure.settings.spares_file import read_spares_file


def goodput(path: Path) -> dict[str, Any]:
    """What part of its time a job works. BadInput where the file is wrong."""
    return plan_goodput(read_goodput_file(path))


def spares(path: Path) -> dict[str, Any]:
    """What to buy so that a job keeps its shape. BadInput where the file is wrong or spares are no answer."""
    return plan_spares(read_spares_file(path), name=str(path))


def power(path: Path) -> dict[str, Any]:
    """Accelerators and limit under a supply. BadInput where the file is wrong or asks past its curve."""
    return plan_power(read_power_file(path), name=str(path))
