"""The file of `run forecast`: what was seen of a run under way, and what its window may be extended by."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from tenure.settings.errors import BadInput, Checked, checked
from tenure.settings.plan_units import NotNegative, Positive, Price, amount
from tenure.settings.units import Text, whole
from tenure.settings.window_file import MOST_DAYS, PriorFile, WindowFile, window_file_of
from tenure.settings.yaml_file import read_yaml

Days = Annotated[float, BeforeValidator(amount(0, MOST_DAYS, "days", above=True))]
MOST_HOURS = MOST_DAYS * 24


class SeenFile(Checked):
    """Since the first training step: wall hours, tokens kept or the speed while computing, failures."""

    hours: Annotated[float, BeforeValidator(amount(0, MOST_HOURS, "hours", above=True))]
    failures: Annotated[int, BeforeValidator(whole(0, 10_000_000, "a whole number of failures"))]
    tokens: NotNegative | None = None
    speed: Positive | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> SeenFile:
        if (self.tokens is None) == (self.speed is None):
            raise ValueError("either tokens (kept), or speed (tokens per second per GPU while computing)")
        return self


class OfferedFile(Checked):
    """An extension on offer."""

    days: Days
    fee: Price
    id: Text = ""


class BoughtFile(Checked):
    """The window that was bought, and by what it can be extended."""

    days: Days
    offered: list[OfferedFile] = Field(default=[], max_length=1000)
    per_day: Price | None = None
    up_to: Annotated[int, BeforeValidator(whole(1, 365, "a whole number of days"))] = 7

    @model_validator(mode="after")
    def _one_of_both(self) -> BoughtFile:
        if self.offered and self.per_day is not None:
            raise ValueError("either offered: [{days, fee}], or per_day with up_to")
        return self

    def extensions(self) -> list[OfferedFile]:
        """What is on offer: the offers, or whole days at a price each."""
        if self.per_day is None:
            return list(self.offered)
        return [OfferedFile(days=day, fee=self.per_day * day) for day in range(1, self.up_to + 1)]


class ObservationFile(Checked):
    """The file, each value checked by itself. `plan`: a file's name, or the plan itself."""

    plan: Any
    seen: SeenFile
    daily_sd: NotNegative = 0.0
    rate: PriorFile | None = None
    window: BoughtFile


def read_observation_file(path: Path) -> tuple[ObservationFile, WindowFile]:
    """What was seen, and the plan of the run; BadInput where either is wrong."""
    found = checked(ObservationFile, read_yaml(path), file=str(path))
    if isinstance(found.plan, str):
        file = path.parent / found.plan
        plan = window_file_of(read_yaml(file), file=str(file))
    else:
        plan = window_file_of(found.plan, file=f"{path}: plan")
    if plan.duration is not None:
        allowed = "a run of tokens: a length given as such has no speed to learn"
        raise BadInput(str(path), "plan.duration", "a length of its own", allowed)
    if found.rate is not None and found.rate.node_days == 0:
        raise BadInput(str(path), "rate.node_days", "0", "the node-days that the prior is worth, above 0")
    return found, plan


__all__ = ["BoughtFile", "ObservationFile", "OfferedFile", "SeenFile", "read_observation_file"]
