"""Where each kind of work should run, and what that costs a month.

Reserved for the run and the base load, idle reserved hours filled by what can be interrupted, the rest on
demand or spot: by tolerance of interruptions and by the shape of the demand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tenure.settings.place_file import CapacitiesFile, CapacityFile, PlaceFile, WorkloadFile

MONTH_H = 730.0
KINDS = ("queue", "reserved", "spot", "on_demand")  #: in order of preference where prices are equal
HOURS_A_DAY = 24.0


class Priced(NamedTuple):
    """One place for one kind of work. `cost` a month; `why_not` is empty where it may run there."""

    on: str
    cost: float
    why: str
    why_not: str


@dataclass(frozen=True)
class Layer:
    """GPUs that one kind of work keeps busy for part of a month."""

    name: str
    gpus: int
    utilisation: float
    paid: float  #: part of the month it is paid for on demand: all of it where nodes are kept between runs


def plan_place(file: PlaceFile) -> dict[str, Any]:
    """The keys of the plan's JSON."""
    capacity = file.capacity
    base = base_load(file)
    left = {
        kind: place.gpus
        for kind in KINDS
        if (place := _of(capacity, kind)) is not None and place.gpus is not None
    }
    placements: list[dict[str, Any]] = []
    warnings: list[str] = []
    for work in sorted(file.workloads, key=_order):
        options = [_priced(work, kind, _of(capacity, kind), file, left.get(kind)) for kind in KINDS]
        fitting = [option for option in options if not option.why_not]
        chosen = min(fitting, key=lambda option: (option.cost, KINDS.index(option.on))) if fitting else None
        if work.held_between:
            warnings.append(_hoarding(work, capacity))
        if chosen is None:
            reasons = "; ".join(f"{option.on}: {option.why_not}" for option in options)
            placements.append(
                {"name": work.name, "on": None, "why": reasons, "cost": None, "alternatives": []}
            )
            continue
        warnings.append(_phantom_gang(work, chosen.on, _of(capacity, chosen.on)))
        if chosen.on in left:
            left[chosen.on] -= work.gpus if chosen.on != "queue" else 0
        placements.append(
            {
                "name": work.name,
                "on": chosen.on,
                "why": chosen.why,
                "cost": chosen.cost,
                "alternatives": [_alternative(option) for option in options if option is not chosen],
            }
        )
    order = {work.name: row for row, work in enumerate(file.workloads)}
    placements.sort(key=lambda placed: order[placed["name"]])
    return {
        "placements": placements,
        "base_load": base,
        "cost": sum(placed["cost"] or 0.0 for placed in placements),
        "warnings": [text for text in warnings if text],
        "conventions": {
            "cost": f"a month of {MONTH_H:g} hours; reserved GPUs are paid whether used or not",
            "break_even_utilisation": "reserved price over on-demand price: above it, reserve",
        },
    }


def _alternative(option: Priced) -> dict[str, Any]:
    return {
        "on": option.on,
        "cost": None if option.why_not else option.cost,
        "why": option.why_not or option.why,
    }


def _of(capacity: CapacitiesFile, kind: str) -> CapacityFile | None:
    found: CapacityFile | None = getattr(capacity, kind)
    return found


def _order(work: WorkloadFile) -> tuple[int, float, str]:
    """Runs and base load choose first: they are what reservations are for; then the tightest deadlines."""
    return ({"run": 0, "base": 1, "burst": 2}[work.shape], work.deadline or 1e18, work.name)


def hours_a_month(work: WorkloadFile) -> float:
    """GPU-busy hours of one GPU of it in a month."""
    return work.hours * work.repeats_per_month


def utilisation(work: WorkloadFile) -> float:
    return min(1.0, hours_a_month(work) / MONTH_H)


def lengthened(work: WorkloadFile, place: CapacityFile, gpus_per_node: float) -> float:
    """Hours of one occurrence with its interruptions made good: 1/(1 - λL); inf where it never ends."""
    nodes = max(1.0, work.gpus / gpus_per_node)
    bred = place.interruptions_per_node_day * nodes / HOURS_A_DAY * work.hours_lost
    return work.hours / (1.0 - bred) if bred < 1 else float("inf")


def _priced(
    work: WorkloadFile, kind: str, place: CapacityFile | None, file: PlaceFile, left: int | None
) -> Priced:
    if place is None:
        return Priced(kind, 0.0, "", "not offered")
    if left is not None and work.gpus > left:
        return Priced(kind, 0.0, "", f"{left} GPUs are left there, it needs {work.gpus}")
    interrupts = kind == "queue" or place.interruptions_per_node_day > 0
    if kind in ("queue", "spot") and not work.interruptible:
        return Priced(kind, 0.0, "", "it cannot be interrupted, and there it would be")
    if kind == "queue" and work.deadline is not None and work.deadline < 2 * work.hours * 3600:
        return Priced(kind, 0.0, "", "its deadline leaves no time to wait for idle hours")
    hours = lengthened(work, place, file.gpus_per_node) if interrupts else work.hours
    if hours == float("inf"):
        return Priced(kind, 0.0, "", "it would be interrupted faster than it gets on")
    if work.deadline is not None and hours * 3600 > work.deadline:
        return Priced(kind, 0.0, "", f"with interruptions it takes {hours:.3g} h, past its deadline")
    busy = hours * work.repeats_per_month
    if kind == "reserved":
        return _reserved(work, place, busy)
    if kind == "on_demand" and work.held_between:
        return Priced(kind, work.gpus * place.price_per_gpu_hour * MONTH_H, "kept between its runs", "")
    cost = work.gpus * place.price_per_gpu_hour * busy
    return Priced(kind, cost, _why(work, kind, place, hours), "")


def _reserved(work: WorkloadFile, place: CapacityFile, busy: float) -> Priced:
    """Reserved GPUs are paid for the whole month when they are for base load; a run pays its own window."""
    paid = MONTH_H if work.shape == "base" else min(MONTH_H, busy) if work.shape == "run" else busy
    cost = work.gpus * place.price_per_gpu_hour * paid
    if work.shape == "burst":
        paid = MONTH_H
        cost = work.gpus * place.price_per_gpu_hour * paid
    told = {
        "run": f"a run of {work.hours:g} h is what a window is for",
        "base": f"busy {utilisation(work):.0%} of the month",
        "burst": f"idle {1 - utilisation(work):.0%} of a month that is paid whole",
    }
    if work.held_between:
        return Priced("reserved", cost, "kept between its runs either way: so at the reserved price", "")
    return Priced("reserved", cost, told[work.shape], "")


def _why(work: WorkloadFile, kind: str, place: CapacityFile, hours: float) -> str:
    if kind == "queue":
        return "it can be interrupted and fills idle reserved hours"
    if kind == "spot":
        price = f"at {place.price_per_gpu_hour:g} a GPU-hour"
        return f"it can be interrupted: {hours:.3g} h with what stops lose, {price}"
    if work.shape == "burst":
        return f"busy {utilisation(work):.0%} of the month: too little for a reservation"
    return f"at {place.price_per_gpu_hour:g} a GPU-hour"


def base_load(file: PlaceFile) -> dict[str, Any]:
    """How many GPUs to reserve: every layer busy more than the break-even part of the month."""
    reserved, on_demand = file.capacity.reserved, file.capacity.on_demand
    if reserved is None or on_demand is None or on_demand.price_per_gpu_hour == 0:
        return {"gpus": _base_gpus(file.workloads), "break_even_utilisation": None, "reserve": None}
    even = reserved.price_per_gpu_hour / on_demand.price_per_gpu_hour
    layers = [
        Layer(work.name, work.gpus, used, 1.0 if work.held_between else used)
        for work in file.workloads
        for used in [utilisation(work)]
    ]
    worth = [layer for layer in layers if layer.paid >= even]
    reserve = sum(layer.gpus for layer in worth)
    return {
        "gpus": _base_gpus(file.workloads),
        "break_even_utilisation": even,
        "reserve": reserve if reserved.gpus is None else min(reserve, reserved.gpus),
        "layers": [layer.__dict__ for layer in sorted(layers, key=lambda one: -one.paid)],
    }


def _base_gpus(workloads: Sequence[WorkloadFile]) -> int:
    return sum(work.gpus for work in workloads if work.shape == "base")


def _phantom_gang(work: WorkloadFile, on: str, place: CapacityFile | None) -> str:
    """A gang that is not surely there at once waits, and what of it came is paid meanwhile."""
    if not work.gang or place is None or place.p_gang is None or place.p_gang >= 1:
        return ""
    return (
        f"phantom gang: {work.name} needs {work.gpus} GPUs together; on {on} they are there at once "
        f"with chance "
        f"{place.p_gang:.0%}: work out the wait and its bill with `tenure plan gang`"
    )


def _hoarding(work: WorkloadFile, capacity: CapacitiesFile) -> str:
    """On-demand nodes kept between runs are a reservation at full price."""
    place = capacity.on_demand
    if place is None:
        return ""
    paid = work.gpus * place.price_per_gpu_hour * MONTH_H
    used = hours_a_month(work) * work.gpus * place.price_per_gpu_hour
    text = (
        f"hoarding: {work.name} keeps {work.gpus} GPUs on demand between its runs: {paid:,.0f} a month for "
        f"{used:,.0f} of use ({utilisation(work):.0%})"  # given back between runs, it would be that
    )
    reserved = capacity.reserved
    if reserved is None:
        return text
    instead = work.gpus * reserved.price_per_gpu_hour * MONTH_H
    return f"{text}; reserved, the same GPUs cost {instead:,.0f}: reserve the base load"
