"""The file of `plan goodput`: how often a job fails, what failures and saves cost, how it is counted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, model_validator

from tenure.settings.errors import BadInput, Checked, checked
from tenure.settings.plan_units import MOST_NODES, OpenPart, Part, Positive, Seconds, SomeSeconds, seconds
from tenure.settings.units import Text, whole
from tenure.settings.yaml_file import read_yaml

RATE = (
    "a rate with its denominator: {per_1000_node_days, nodes}, {events, days} of the whole job, or {log, "
    "of_nodes, days, nodes}: failures that stop it, and over what they were counted"
)
SHAPES = ({"per_1000_node_days", "nodes"}, {"events", "days"}, {"log", "of_nodes", "days", "nodes"})
MOST_GROUPS = 100_000
Nodes = Annotated[int, BeforeValidator(whole(1, MOST_NODES, "a whole number of nodes"))]
GroupCount = Annotated[int, BeforeValidator(whole(2, MOST_GROUPS, "a whole number of groups"))]


class JobFailuresFile(Checked):
    """How often the whole job is stopped. `log`: a CSV file, kept over `days` on `of_nodes` nodes."""

    per_1000_node_days: Positive | None = None
    nodes: Nodes | None = None
    events: Positive | None = None
    days: Positive | None = None
    log: Text | None = None
    of_nodes: Nodes | None = None

    @model_validator(mode="before")
    @classmethod
    def _has_denominator(cls, raw: Any) -> Any:
        if not isinstance(raw, dict):
            raise ValueError(RATE)
        given = {key for key in raw if key in cls.model_fields and raw[key] is not None}
        if given not in SHAPES:
            raise ValueError(RATE)
        return raw

    @property
    def mtbf_s(self) -> float:
        """Mean seconds between failures of the whole job; a log has been counted before (`counted`)."""
        if self.per_1000_node_days is not None and self.nodes is not None:
            return 86_400_000.0 / (self.per_1000_node_days * self.nodes)
        assert self.days is not None
        assert self.events is not None
        return 86_400.0 * self.days / self.events


def _every(value: Any) -> float | None:
    if value == "optimal":
        return None
    try:
        found = seconds(value)
    except ValueError:
        found = 0.0
    if found <= 0:
        raise ValueError("a duration above 0 such as 20m: useful work between saves; or optimal")
    return found


class SavesFile(Checked):
    blocking: Seconds
    every: Annotated[float | None, BeforeValidator(_every)]
    persist: Seconds = 0.0


class GroupsFile(Checked):
    count: GroupCount
    stall: Seconds
    away: Seconds
    penalty: Part = 0.0

    @model_validator(mode="after")
    def _away_holds_stall(self) -> GroupsFile:
        if self.away < self.stall:
            raise ValueError("an away that is at least the stall: it counts the stall in")
        return self


class GoodputFile(Checked):
    mtbf: SomeSeconds | None = None
    failures: JobFailuresFile | None = None
    recovery: Seconds
    queue: Seconds = 0.0
    checkpoint: SavesFile | None = None
    groups: GroupsFile | None = None
    convention: Literal["exact", "renewal", "first_order", "wall"] = "exact"
    target: OpenPart = 0.9

    @property
    def mtbf_s(self) -> float:
        """Mean seconds between failures of the whole job."""
        if self.mtbf is not None:
            return self.mtbf
        assert self.failures is not None
        return self.failures.mtbf_s


def read_goodput_file(path: Path) -> GoodputFile:
    """The plan of a file; BadInput where it is wrong."""
    return goodput_file_of(read_yaml(path), file=str(path))


def goodput_file_of(raw: Any, *, file: str = "plan") -> GoodputFile:
    """The plan of a mapping."""
    plan = checked(GoodputFile, raw, file=file)
    if (plan.mtbf is None) == (plan.failures is None):
        found = "nothing" if plan.mtbf is None else "both mtbf and failures"
        raise BadInput(file, "mtbf", found, f"either mtbf of the whole job, or failures: {RATE}")
    return plan


def counted(plan: GoodputFile, events: int) -> GoodputFile:
    """The plan with its log replaced by the rate that `events` in it make."""
    told = plan.failures
    assert told is not None
    assert told.of_nodes is not None
    assert told.days is not None
    rate = events / (told.of_nodes * told.days) * 1000.0
    failures = JobFailuresFile.model_validate({"per_1000_node_days": rate, "nodes": told.nodes})
    return plan.model_copy(update={"failures": failures})
