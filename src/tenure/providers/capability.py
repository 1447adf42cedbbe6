"""What a provider sells and by what rules: records read from data files, each fact with source and date."""

from __future__ import annotations

from datetime import date
from functools import cache
from importlib import resources
from typing import Annotated, Any, NamedTuple

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict

from tenure.settings.errors import BadInput, nearest
from tenure.settings.plan_units import DAY_S, Seconds
from tenure.settings.units import UNIT_S


class Said(BaseModel):
    """Frozen, all keys known: a record with a slip of the pen is refused when it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Run(Said):
    """Lengths from `from_` to `to` in steps."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
    from_: float
    to: float
    step: float


def _runs(value: Any) -> Any:
    return [{("from_" if key == "from" else key): number for key, number in run.items()} for run in value]


Runs = Annotated[tuple[Run, ...], BeforeValidator(_runs)]


class Lengths(Said):
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


class Extend(Said):
    possible: bool
    steps: Lengths = Lengths()
    earliest: Seconds | None = None
    latest_before_end: Seconds | None = None
    payment_before_end: Seconds | None = None
    most_days: float | None = None
    guaranteed: bool = False
    gang_atomic: bool = True


class Fact(NamedTuple):
    """A fact as it was written down."""

    name: str
    value: Any
    source: str
    date: date
    note: str


class Capability(NamedTuple):
    """A provider's record. What it does not say is not known: None, not a guess."""

    provider: str
    product: str
    durations: Lengths
    extend: Extend
    terminates_s: float  #: before the end, running machines are taken down
    warns_s: float | None  #: before the end, a warning is sent
    earliest_start_s: float | None
    latest_start_s: float | None
    most_nodes: int | None  #: in one window
    cancel: bool | None
    purchase_idempotent: bool | None
    launch_idempotent: bool | None
    gang_atomic: bool | None
    fee_basis: str | None
    hop_days: float | None  #: longest window of a product that is only had in hops
    facts: tuple[Fact, ...]


def providers() -> list[str]:
    """Names of all that have a record."""
    folder = resources.files("tenure.providers") / "records"
    return sorted(file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml"))


@cache
def capability(provider: str) -> Capability:
    """The record of a provider; BadInput for an unknown one."""
    known = providers()
    if provider not in known:
        raise BadInput("lattice", "", f"the unknown provider '{provider}'", nearest(provider, known))
    text = (resources.files("tenure.providers") / "records" / f"{provider}.yaml").read_text("utf-8")
    record = yaml.safe_load(text)
    facts = tuple(
        Fact(name, fact["value"], fact["source"], fact["date"], fact.get("note", ""))
        for name, fact in record["facts"].items()
    )
    values = {fact.name: fact.value for fact in facts}
    starts, end, nodes = values.get("starts", {}), values.get("end_rule", {}), values.get("nodes", {})
    cancel = values.get("cancel", {}).get("possible")
    return Capability(
        provider=record["provider"],
        product=record["product"],
        durations=Lengths.model_validate(values["durations"]),
        extend=Extend.model_validate(values.get("extend", {"possible": False})),
        terminates_s=_seconds(end.get("terminates")) or 0.0,
        warns_s=_seconds(end.get("warns")),
        earliest_start_s=_seconds(starts.get("earliest")),
        latest_start_s=_seconds(starts.get("latest")),
        most_nodes=nodes.get("a_block"),
        cancel=cancel if isinstance(cancel, bool) else None,
        purchase_idempotent=values.get("purchase_idempotent"),
        launch_idempotent=values.get("launch_idempotent"),
        gang_atomic=values.get("gang_atomic"),
        fee_basis=values.get("fee", {}).get("basis"),
        hop_days=record.get("chained", {}).get("most_days"),
        facts=facts,
    )


def _seconds(value: Any) -> float | None:
    from tenure.settings.plan_units import seconds

    return None if value is None else seconds(value)
