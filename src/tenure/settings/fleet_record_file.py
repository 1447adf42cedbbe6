"""A fleet's record in a file: what was published or logged of it, for a report beside others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, model_validator

from tenure.settings.errors import Checked, checked
from tenure.settings.failure_rates_file import Counts
from tenure.settings.plan_units import NotNegative, Part, Positive
from tenure.settings.units import Text, whole
from tenure.settings.yaml_file import read_yaml

Gpus = Annotated[int, BeforeValidator(whole(1, 100_000_000, "a whole number of GPUs"))]
Some = Annotated[int, BeforeValidator(whole(0, 10**9, "a whole number"))]
PerNode = Annotated[int, BeforeValidator(whole(1, 10_000, "a whole number of GPUs"))]
FORMS = "either log (a CSV file of incidents) or causes: {NAME: COUNT}"


class FleetRecordFile(Checked):
    """`planned`: which causes, or how many interruptions besides. What is left out is not known."""

    name: Text
    gpus: Gpus
    gpus_per_node: PerNode = 8
    days: Positive
    log: Text | None = None
    causes: Counts | None = None
    planned: Counts | None = None
    planned_causes: list[Text] = []
    manual: Some | None = None
    active_gpus: NotNegative | None = None
    spare_gpus: NotNegative | None = None
    availability: Part | None = None
    effective_time: Part | None = None

    @model_validator(mode="before")
    @classmethod
    def _counted(cls, raw: Any) -> Any:
        if isinstance(raw, dict) and (raw.get("log") is None) == (raw.get("causes") is None):
            raise ValueError(FORMS)
        return raw


def read_fleet_record(path: Path) -> FleetRecordFile:
    """The record of a file; BadInput where it is wrong."""
    return checked(FleetRecordFile, read_yaml(path), file=str(path))
