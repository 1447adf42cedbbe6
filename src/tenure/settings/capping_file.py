"""The file of `plan capping`: a tree of breakers, jobs and where their racks stand, and a controller."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from tenure.settings.errors import BadInput, Checked, checked, nearest
from tenure.settings.plan_units import OpenPart, Positive, SomeSeconds, amount
from tenure.settings.power_file import NoWatts, PowerCurve, RackCount, Watts
from tenure.settings.units import Name, whole
from tenure.settings.yaml_file import read_yaml

MOST_JOBS, MOST_BREAKERS = 500, 2000
Racks = Annotated[int, BeforeValidator(whole(1, 100_000, "a whole number of racks"))]
Seed = Annotated[int, BeforeValidator(whole(0, 2**63 - 1))]
SomeRacks = Annotated[int, BeforeValidator(whole(0, 100_000, "a whole number of racks"))]
Multiplier = Annotated[float, BeforeValidator(amount(1, 100, "watts at the breaker for one at the rack,"))]


class RackPowerFile(Checked):
    """A rack of `gpus`; `overhead_w` of each does not follow its limit; `multiplier`: up to the breaker."""

    gpus: RackCount
    overhead_w: NoWatts
    multiplier: Multiplier = 1.0


class TreeBreakerFile(Checked):
    """A breaker; `under`: the one above it. `spare`: idle racks on it, ready to take a job's."""

    name: Name
    limit_kw: Positive
    under: Name | None = None
    spare: SomeRacks = 0


class PlacedJobFile(Checked):
    """A synchronous job: as slow as its slowest rack. `racks`: by the breaker they hang on."""

    name: Name
    racks: Annotated[dict[Name, Racks], Field(min_length=1, max_length=MOST_BREAKERS)]

    @property
    def all_racks(self) -> int:
        return sum(self.racks.values())


class ControllerFile(Checked):
    """Thresholds in parts of a breaker's limit; `every`: between readings; `settle`: how fast draw follows.

    `patience`: readings missed before all goes to the floor; `trip`: how long a breaker bears too much.
    `dark`: from when until when there are no readings. `swing`: how far draw strays from its mean.
    """

    high: OpenPart = 0.98
    low: OpenPart = 0.94
    every: SomeSeconds = 1.0
    settle: SomeSeconds = 2.0
    rise_w: Watts = 5.0
    hold: SomeSeconds = 30.0
    patience: Annotated[int, BeforeValidator(whole(1, 10_000, "a whole number of readings"))] = 3
    trip: SomeSeconds = 60.0
    lasts: SomeSeconds = 3600.0
    busy: OpenPart = 0.97
    swing: OpenPart = 0.02
    dark: tuple[SomeSeconds, SomeSeconds] | None = None
    seed: Seed = 7

    @model_validator(mode="after")
    def _in_order(self) -> ControllerFile:
        if self.low >= self.high:
            raise ValueError("a low threshold below the high one")
        if self.settle >= self.trip:
            raise ValueError("a settle shorter than trip: a controller slower than its breaker saves nothing")
        if self.lasts / self.every > 200_000:
            raise ValueError("at most 200,000 readings")
        if self.dark is not None and self.dark[0] >= self.dark[1]:
            raise ValueError("dark: [from, until], in this order")
        return self


class CappingFile(Checked):
    base_w: Watts
    rated_w: Watts
    curve: PowerCurve
    floor_w: NoWatts = 0.0
    rack: RackPowerFile
    breakers: Annotated[list[TreeBreakerFile], Field(min_length=1, max_length=MOST_BREAKERS)]
    jobs: Annotated[list[PlacedJobFile], Field(min_length=1, max_length=MOST_JOBS)]
    controller: ControllerFile | None = None


def read_capping_file(path: Path) -> CappingFile:
    """The file, checked; BadInput where it is wrong."""
    return capping_file_of(read_yaml(path), file=str(path))


def capping_file_of(raw: Any, *, file: str = "plan") -> CappingFile:
    """The file of a mapping."""
    plan = checked(CappingFile, raw, file=file)
    known: list[str] = []
    for row, breaker in enumerate(plan.breakers):
        if breaker.name in known:
            raise BadInput(file, f"breakers[{row}].name", f"'{breaker.name}' again", "a name used once")
        if breaker.under is not None and breaker.under not in known:
            found, allowed = (
                f"'{breaker.under}'",
                f"a breaker named before it: {nearest(breaker.under, known)}",
            )
            raise BadInput(file, f"breakers[{row}].under", found, allowed)
        known.append(breaker.name)
    names = [job.name for job in plan.jobs]
    for row, job in enumerate(plan.jobs):
        if job.name in names[:row]:
            raise BadInput(file, f"jobs[{row}].name", f"'{job.name}' again", "a name used once")
        for name in job.racks:
            if name not in known:
                raise BadInput(file, f"jobs[{row}].racks", f"the breaker '{name}'", nearest(name, known))
    if plan.curve == "gb200_fit" and plan.rated_w != 1200:
        raise BadInput(file, "rated_w", f"{plan.rated_w:g} W", "1200 with gb200_fit, which is in its watts")
    if plan.floor_w >= plan.base_w:
        raise BadInput(file, "floor_w", f"{plan.floor_w:g} W", f"less than base_w ({plan.base_w:g} W)")
    return plan
