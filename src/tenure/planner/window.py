"""Which window to reserve: the one of least expected cost, among what is for sale.

A window of `days` is paid whole. Of it `net` days are usable (start-up, the provider's own termination and
the final save are not). A run that is not done by then moves (a lump sum) and goes on at the price of an
overrun day; unused days bring back their salvage. With a price a day this is the newsvendor's problem: the
best length is the one run past with chance (b - s)/(v - s), except that a lump sum makes the cost no longer
convex, so ends are checked too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tenure.planner.lengths import Length

Array = NDArray[np.floating]
GRID = 400  #: lengths tried before the best one is closed in on


@dataclass(frozen=True)
class Overrun:
    """What happens after the window. `day`: all-in price of a day (v); `move`: a lump sum, once (K).

    `mixture` makes both from a fallback that works with chance `p`.
    """

    day: float
    move: float = 0.0

    @classmethod
    def mixture(cls, *, move: float, on_demand_day: float, stall_day: float, p_fallback: float) -> Overrun:
        """With chance p the run moves to on-demand nodes; else people wait, at a price a day."""
        return cls(p_fallback * on_demand_day + (1.0 - p_fallback) * stall_day, p_fallback * move)


@dataclass(frozen=True)
class Terms:
    """Prices and what of a window cannot be used, in days. `salvage`: of an unused reserved day."""

    reserved_day: float | None  #: b; None where only offers with fees are known
    overrun: Overrun
    lead_days: float = 0.0
    salvage_day: float = 0.0


@dataclass(frozen=True)
class Offer:
    """A window that can be bought: its real length, its whole fee (None: length times the reserved day)."""

    days: float
    fee: float | None = None
    id: str = ""
    extra: float = 0.0  #: paid besides (data and checkpoints moved there)


class Row(NamedTuple):
    """A window judged."""

    offer: Offer
    days: float
    cost: float  #: expected, all in
    p_overrun: float
    expected_overrun_days: float


def judge(length: Length, terms: Terms, offers: Sequence[Offer]) -> list[Row]:
    """Every window with its expected cost, in the order given."""
    days = np.array([offer.days for offer in offers], float)
    fees = np.array([_fee(offer, terms) for offer in offers], float)
    p_over, late, cost = _costs(length, terms, days, fees)
    return [
        Row(offer, float(days[i]), float(cost[i]), float(p_over[i]), float(late[i]))
        for i, offer in enumerate(offers)
    ]


def best(rows: Sequence[Row]) -> Row:
    """The row of least expected cost; exact ties go to the longer."""
    return min(rows, key=lambda row: (row.cost, -row.days))


def _fee(offer: Offer, terms: Terms) -> float:
    if offer.fee is not None:
        return offer.fee + offer.extra
    if terms.reserved_day is None:
        raise ValueError("an offer without a fee needs a price for the reserved day")
    return terms.reserved_day * offer.days + offer.extra


def _costs(length: Length, terms: Terms, days: Array, fees: Array) -> tuple[Array, Array, Array]:
    """P(overrun), expected days past the window, and expected cost of each."""
    net = days - terms.lead_days
    usable = np.maximum(net, 0.0)
    p_over, late = length.above(usable), length.excess(usable)
    p_over, late = np.where(net < 0, 1.0, p_over), late + np.maximum(0.0, -net)
    unused = usable - length.mean + length.excess(usable)  # E[(net - D)+]
    cost = fees + terms.overrun.move * p_over + terms.overrun.day * late - terms.salvage_day * unused
    return p_over, late, cost


class Continuous(NamedTuple):
    """The best length of all, whether or not it is for sale."""

    days: float
    cost: float
    p_overrun: float


def continuous(length: Length, terms: Terms) -> Continuous | None:
    """The least expected cost over all real lengths from 0; None without a price a day."""
    if terms.reserved_day is None:
        return None
    far = float(length.quantile(np.array(1.0 - 1e-7))) + terms.lead_days
    days = np.concatenate([[0.0], np.linspace(float(length.quantile(np.array(1e-7))), far, GRID)])

    def cost(at: Array) -> Array:
        return _costs(length, terms, at, terms.reserved_day * at)[2]  # type: ignore[operator]

    costs = cost(days)
    place = int(np.argmin(costs))
    low, high = days[max(0, place - 1)], days[min(len(days) - 1, place + 1)]
    for _ in range(6):  # each narrows the bracket sixteenfold
        near = np.linspace(low, high, 33)
        at = int(np.argmin(cost(near)))
        low, high = near[max(0, at - 1)], near[min(32, at + 1)]
    chosen = np.array([days[place], (low + high) / 2])
    chosen = chosen[np.argmin(cost(chosen)) :][:1]
    p_over, _, total = _costs(length, terms, chosen, terms.reserved_day * chosen)
    return Continuous(float(chosen[0]), float(total[0]), float(p_over[0]))


def break_even(terms: Terms) -> float | None:
    """The chance of an overrun at which a reserved day is worth its price: (b - s)/(v - s)."""
    if terms.reserved_day is None:
        return None
    return (terms.reserved_day - terms.salvage_day) / (terms.overrun.day - terms.salvage_day)


def costs_drawn(drawn: Array, terms: Terms, offer: Offer) -> Array:
    """The cost of each drawn run under one window: for its spread, its p95, its chance to pass a budget."""
    net = offer.days - terms.lead_days
    late = np.maximum(0.0, drawn - max(net, 0.0)) + max(0.0, -net)
    unused = np.maximum(0.0, max(net, 0.0) - drawn)
    moved = terms.overrun.move * (drawn > net)
    return _fee(offer, terms) + moved + terms.overrun.day * late - terms.salvage_day * unused
