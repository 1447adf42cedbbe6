"""The file of a provider's record: facts about what it sells, each with its source and date."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict

from tenure.settings.errors import Checked, checked
from tenure.settings.plan_units import DAY_S, Seconds
from tenure.settings.units import UNIT_S, Flag, Text
from tenure.settings.yaml_file import read_yaml


class Run(Checked):
    """Lengths from `from_` to `to` in steps."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
    from_: float
    to: float
    step: float


def _runs(value: Any) -> Any:
    return [{("from_" if key == "from" else key): number for key, number in run.items()} for run in value]


Runs = Annotated[tuple[Run, ...], BeforeValidator(_runs)]


class Lengths(Checked):
    """A lattice of lengths, in days or in hours."""

    days: Runs = ()
    hours: Runs = ()

    def in_days(self, most: float = 3650.0) -> list[float]:
        """All lengths up to `most` days, in order."""
        found: set[float] = set()
        for runs, unit in ((self.days, 1.0), (self.hours, UNIT_S["h"] / DAY_S)):
            for run in runs:
                count = int((min(run.to, most / unit) - run.from_) / run.step + 1e-9) + 1
                found.update((run.from_ + step * run.step) * unit for step in range(max(0, count)))
        return sorted(found)


class Extend(Checked):
    """Whether and by how much a window can be made longer after it was bought."""

    possible: Flag
    steps: Lengths = Lengths()
    earliest: Seconds | None = None
    latest_before_end: Seconds | None = None
    payment_before_end: Seconds | None = None
    most_days: float | None = None
    guaranteed: Flag = False
    gang_atomic: Flag = True


class FactFile(Checked):
    value: Any
    source: Text
    date: date
    note: str = ""


class ChainedFile(Checked):
    """A product that is had in short windows only, one after the other."""

    product: Text
    most_days: float
    source: Text
    date: date
    note: str = ""


class ProviderFile(Checked):
    provider: Text
    product: Text
    facts: dict[str, FactFile]
    chained: ChainedFile | None = None


def read_provider_file(path: Path) -> ProviderFile:
    """The record of a file; BadInput where it is wrong."""
    return checked(ProviderFile, read_yaml(path), file=path.name)


def part_of(value: Any, file: str) -> tuple[Lengths, Extend]:
    """Lattices of the facts `durations` and `extend`."""
    durations = checked(Lengths, value.get("durations", {}), file=file, at=("durations",))
    extend = checked(Extend, value.get("extend", {"possible": False}), file=file, at=("extend",))
    return durations, extend
