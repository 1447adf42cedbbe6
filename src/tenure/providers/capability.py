"""What a provider sells and by what rules: records read from data files, each fact with source and date."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tenure.settings.errors import BadInput, nearest
from tenure.settings.plan_units import seconds
from tenure.settings.provider_file import ChainedFile, Extend, FactFile, Lengths, part_of, read_provider_file

RECORDS = Path(__file__).resolve().parent / "records"


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
    most_nodes_a_date: int | None  #: in all windows at once
    cancel: bool | None
    purchase_idempotent: bool | None
    launch_idempotent: bool | None
    gang_atomic: bool | None
    fee_basis: str | None
    full: str | None  #: what a launch does where the window is full: "none", "on-demand"
    chained: ChainedFile | None  #: a product that is only had in hops
    facts: dict[str, FactFile]


def providers() -> list[str]:
    """Names of all that have a record."""
    return sorted(file.stem for file in RECORDS.glob("*.yaml"))


@cache
def capability(provider: str) -> Capability:
    """The record of a provider; BadInput for an unknown one."""
    known = providers()
    if provider not in known:
        raise BadInput("lattice", "", f"the unknown provider '{provider}'", nearest(provider, known))
    record = read_provider_file(RECORDS / f"{provider}.yaml")
    values: dict[str, Any] = {name: fact.value for name, fact in record.facts.items()}
    durations, extend = part_of(values, provider)
    starts, end, nodes = values.get("starts", {}), values.get("end_rule", {}), values.get("nodes", {})
    cancel = values.get("cancel", {}).get("possible")
    return Capability(
        provider=record.provider,
        product=record.product,
        durations=durations,
        extend=extend,
        terminates_s=_seconds(end.get("terminates")) or 0.0,
        warns_s=_seconds(end.get("warns")),
        earliest_start_s=_seconds(starts.get("earliest")),
        latest_start_s=_seconds(starts.get("latest")),
        most_nodes=nodes.get("a_block"),
        most_nodes_a_date=nodes.get("all_blocks_of_a_date"),
        cancel=cancel if isinstance(cancel, bool) else None,
        purchase_idempotent=values.get("purchase_idempotent"),
        launch_idempotent=values.get("launch_idempotent"),
        gang_atomic=values.get("gang_atomic"),
        fee_basis=values.get("fee", {}).get("basis"),
        full=values.get("full"),
        chained=record.chained,
        facts=record.facts,
    )


def _seconds(value: Any) -> float | None:
    return None if value is None else seconds(value)
