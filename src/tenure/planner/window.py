"""Which window to reserve: the one of least expected cost, among what is for sale.

A window of `days` is paid whole. Of it `net` days are usable (start-up, the provider's own termination and
the final save are not). A run that is not done by then moves (a lump sum) and goes on at the price of an
overrun day; unused days bring back their salvage. With a price a day this is the newsvendor's problem: the
best length is the one run past with chance (b - s)/(v - s), except that a lump sum or an extension makes the
cost no longer convex, so the whole line is searched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tenure.planner.lengths import Length
from tenure.planner.market import CostSpread, late_cost
from tenure.planner.terms import Terms

Array = NDArray[np.floating]
GRID = 400  #: lengths tried before the best one is closed in on


@dataclass(frozen=True)
class Offer:
    """A window that can be bought: its real length, its whole fee (None: length times the reserved day)."""

    days: float
    fee: float | None = None
    id: str = ""
    extra: float = 0.0  #: paid besides: data and checkpoints moved there
    lost_days: float = 0.0  #: not usable besides the lead: data still on its way, a gap between segments


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
    lost = np.array([offer.lost_days for offer in offers], float)
    fees = np.array([fee_of(offer, terms) for offer in offers], float)
    p_over, late, cost = _costs(length, terms, days - lost, fees)
    return [
        Row(offer, float(days[i]), float(cost[i]), float(p_over[i]), float(late[i]))
        for i, offer in enumerate(offers)
    ]


def best(rows: Sequence[Row]) -> Row:
    """The row of least expected cost; exact ties go to the longer."""
    return min(rows, key=lambda row: (row.cost, -row.days))


def fee_of(offer: Offer, terms: Terms) -> float:
    """What is paid for it before the run begins."""
    if offer.fee is not None:
        return offer.fee + offer.extra
    if terms.reserved_day is None:
        raise ValueError("an offer without a fee needs a price for the reserved day")
    return terms.reserved_day * offer.days + offer.extra


def spread(length: Length, terms: Terms, offer: Offer) -> CostSpread:
    """The whole distribution of an offer's cost."""
    return CostSpread(length, fee_of(offer, terms), offer.days - offer.lost_days - terms.lead_days, terms)


def _costs(length: Length, terms: Terms, days: Array, fees: Array) -> tuple[Array, Array, Array]:
    """P(overrun), expected days past the window, and expected cost of each."""
    net = days - terms.lead_days
    usable = np.maximum(net, 0.0)
    p_over, late = length.above(usable), length.excess(usable)
    unused = usable - length.mean + late  # E[(net - D)+]
    p_over, late = np.where(net < 0, 1.0, p_over), late + np.maximum(0.0, -net)
    cost = fees - terms.salvage_day * unused
    for state in terms.states:
        cost = cost + state.chance * late_cost(length, state, net)
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
    price = terms.reserved_day
    far = float(length.quantile(np.array(1.0 - 1e-7))) + terms.lead_days
    days = np.concatenate([[0.0], np.linspace(float(length.quantile(np.array(1e-7))), far, GRID)])

    def cost(at: Array) -> Array:
        return _costs(length, terms, at, price * at)[2]

    costs = cost(days)
    place = int(np.argmin(costs))
    low, high = days[max(0, place - 1)], days[min(len(days) - 1, place + 1)]
    for _ in range(6):  # each narrows the bracket sixteenfold
        near = np.linspace(low, high, 33)
        at = int(np.argmin(cost(near)))
        low, high = near[max(0, at - 1)], near[min(32, at + 1)]
    chosen = np.array([days[place], (low + high) / 2])
    chosen = chosen[np.argmin(cost(chosen)) :][:1]
    p_over, _, total = _costs(length, terms, chosen, price * chosen)
    return Continuous(float(chosen[0]), float(total[0]), float(p_over[0]))


def curve(length: Length, terms: Terms, days: Array) -> tuple[Array, Array]:
    """Expected cost and P(overrun) of these lengths, at the price of a day: for drawing."""
    p_over, _, cost = _costs(length, terms, days, (terms.reserved_day or 0.0) * days)
    return cost, p_over


def break_even(terms: Terms) -> float | None:
    """The chance of an overrun at which a reserved day is worth its price: (b - s)/(v - s)."""
    if terms.reserved_day is None:
        return None
    return (terms.reserved_day - terms.salvage_day) / (terms.overrun_day - terms.salvage_day)
