"""What a window costs in the end: its fee, and what comes after it in each state of the market.

In each state the cost of a window rises with the run's length, so that quantiles of the cost are the cost at
quantiles of the length, and a chance to pass a sum is a chance to pass a length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tenure.planner.lengths import Length
from tenure.planner.terms import State, Terms

Array = NDArray[np.floating]
MOST_STEPS = 4_000
HALVINGS = 60


def late_cost(length: Length, state: State, net_days: Array) -> Array:
    """Expected cost of all past the window, of which `net_days` are usable."""
    net_days = np.asarray(net_days, float)
    usable, short = np.maximum(net_days, 0.0), np.maximum(0.0, -net_days)
    cost = np.zeros_like(net_days)
    if state.p_extension < 1:
        moved = np.where(net_days < 0, 1.0, length.above(usable))
        without = state.overrun.move * moved + state.overrun.day * (length.excess(usable) + short)
        cost = cost + (1 - state.p_extension) * without
    if state.p_extension > 0:
        cost = cost + state.p_extension * state.step_fee * expected_steps(length, net_days, state.step_days)
    return cost


def expected_steps(length: Length, days: Array, step_days: float) -> Array:
    """Mean number of whole steps bought past `days`: the sum over k of P(D > days + k steps)."""
    far = float(length.quantile(np.array(1 - 1e-9)))
    nearest = float(np.min(days, initial=far))
    most = min(MOST_STEPS, max(1, int(np.ceil((far - nearest) / step_days)) + 1))
    total = np.zeros_like(days)
    for k in range(most):
        at = days + k * step_days
        total = total + np.where(at < 0, 1.0, length.above(np.maximum(at, 0.0)))
    return total


def cost_at(lengths: Array, fee: float, net_days: float, terms: Terms, state: State) -> Array:
    """What runs of these lengths cost, in a state that surely has, or surely has not, the extension."""
    late = np.maximum(0.0, lengths - net_days)
    if state.p_extension > 0:
        after = np.ceil(late / state.step_days - 1e-12) * state.step_fee
    else:
        after = state.overrun.move * (lengths > net_days) + state.overrun.day * late
    return fee + after - terms.salvage_day * np.maximum(0.0, max(net_days, 0.0) - lengths)


@dataclass(frozen=True)
class CostSpread:
    """The whole cost of one window: its quantiles, and the chance to pass a sum."""

    length: Length
    fee: float
    net_days: float
    terms: Terms

    def above(self, money: float) -> float:
        """P(cost > money)."""
        parts = [part for state in self.terms.states for part in state.parts()]
        return float(sum(part.chance * self._above(money, part) for part in parts))

    def _above(self, money: float, state: State) -> float:
        """The cost rises with the length: find the longest run that costs no more."""
        low, high = 0.0, float(self.length.quantile(np.array(1 - 1e-12))) + 1.0

        def cost(days: float) -> float:
            return float(cost_at(np.array(days), self.fee, self.net_days, self.terms, state))

        if cost(high) <= money:
            return 0.0
        if cost(low) > money:
            return 1.0
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if cost(middle) <= money else (low, middle)
        return float(self.length.above(np.array(low)))

    def quantile(self, p: float) -> float:
        """The sum that is passed with chance 1 - p."""
        low = self.fee - self.terms.salvage_day * max(self.net_days, 0.0) - 1.0
        high = self.fee + 1.0
        while self.above(high) > 1 - p and high < 1e18:
            high *= 2
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.above(middle) <= 1 - p else (middle, high)
        return high

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        """`n` costs, each of a run and a state of the market of its own."""
        lengths = self.length.draw(rng, n)
        parts = [part for state in self.terms.states for part in state.parts()]
        which = rng.choice(len(parts), n, p=np.array([part.chance for part in parts]))
        costs = np.empty(n)
        for row, part in enumerate(parts):
            chosen = which == row
            costs[chosen] = cost_at(lengths[chosen], self.fee, self.net_days, self.terms, part)
        return costs
