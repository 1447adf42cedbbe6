"""The file of `plan place`: kinds of work, and the capacity they may run on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from tenure.settings.errors import BadInput, Checked, checked, dotted
from tenure.settings.plan_units import NotNegative, Part, Positive, Price, SomeSeconds, amount
from tenure.settings.units import Flag, Name, whole
from tenure.settings.yaml_file import read_yaml

MOST_WORKLOADS = 10_000
Gpus = Annotated[int, BeforeValidator(whole(1, 10_000_000, "a whole number of GPUs"))]
Hours = Annotated[float, BeforeValidator(amount(0, 87_600, "hours", above=True))]
Repeats = Annotated[float, BeforeValidator(amount(0, 100_000, "times a month"))]


class WorkloadFile(Checked):
    """A kind of work. `hours`: of one occurrence."""

    name: Name
    gpus: Gpus
    hours: Hours
    interruptible: Flag = False
    gang: Flag = False
    deadline: SomeSeconds | None = None  #: from when it could begin to when it must be done
    repeats_per_month: Repeats = 1.0
    shape: Literal["base", "burst", "run"] = "burst"
    hours_lost: NotNegative = 0.5  #: with an interruption, where it can be interrupted
    held_between: Flag = False  #: its nodes are kept on demand between occurrences


class CapacityFile(Checked):
    """Where it may run. `gpus` absent: no limit."""

    gpus: Annotated[int, BeforeValidator(whole(0, 10_000_000, "a whole number of GPUs"))] | None = None
    price_per_gpu_hour: Price = 0.0
    interruptions_per_node_day: NotNegative = 0.0
    p_gang: Part | None = None  #: chance that a gang is to be had at once


class CapacitiesFile(Checked):
    reserved: CapacityFile | None = None
    on_demand: CapacityFile | None = None
    spot: CapacityFile | None = None
    queue: CapacityFile | None = None

    @model_validator(mode="after")
    def _some(self) -> CapacitiesFile:
        if all(getattr(self, kind) is None for kind in type(self).model_fields):
            raise ValueError("at least one of reserved, on_demand, spot, queue")
        return self


class PlaceFile(Checked):
    workloads: list[WorkloadFile] = Field(min_length=1, max_length=MOST_WORKLOADS)
    capacity: CapacitiesFile
    gpus_per_node: Positive = 8.0


def read_place_file(path: Path) -> PlaceFile:
    """The plan of a file; BadInput where it is wrong."""
    return place_file_of(read_yaml(path), file=str(path))


def place_file_of(raw: Any, *, file: str = "plan") -> PlaceFile:
    """The plan of a mapping."""
    plan = checked(PlaceFile, raw, file=file)
    seen: set[str] = set()
    for index, work in enumerate(plan.workloads):
        if work.name in seen:
            raise BadInput(
                file, dotted(["workloads", index, "name"]), f"'{work.name}' again", "a name used once"
            )
        seen.add(work.name)
        if work.deadline is not None and work.deadline < work.hours * 3600:
            raise BadInput(
                file,
                dotted(["workloads", index, "deadline"]),
                f"{work.deadline / 3600:g} h for {work.hours:g} h of work",
                "a deadline no shorter than the work",
            )
    return plan
