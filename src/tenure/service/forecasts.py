"""A run under way, forecast again: what was seen of it in, extend or not out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from tenure.planner.forecast_answer import Forecast, answer
from tenure.planner.forecast_answer import forecast as forecast_of
from tenure.planner.run_model import NeverEnds
from tenure.settings.errors import BadInput
from tenure.settings.observation_file import read_observation_file
from tenure.settings.window_file import WindowFile
from tenure.settings.yaml_file import read_yaml


class Forecasted(NamedTuple):
    """The answer of `run forecast`, and what it was read from."""

    answer: dict[str, Any]
    found: Forecast
    plan: WindowFile


def is_of_run(path: Path) -> bool:
    """Whether the file is that of `run start`, whose book and heartbeats tell what was seen. BadInput."""
    raw = read_yaml(path)
    return isinstance(raw, dict) and "seen" not in raw and {"run", "provider"} <= set(raw)


def forecast(path: Path) -> Forecasted:
    """Extend, or not. BadInput where the file is wrong or what was seen cannot be."""
    told, plan = read_observation_file(path)
    try:
        found = forecast_of(told, plan)
    except NeverEnds as never:
        seen = f"a run that never ends: λL = {never.expected:.3g} at the rate now believed"
        raise BadInput(str(path), "seen.failures", seen, "λL below 1") from None
    except ValueError as refused:
        raise BadInput(str(path), "seen", str(refused), "hours, failures and tokens of one run") from None
    return Forecasted(answer(found, plan), found, plan)
