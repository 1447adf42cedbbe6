"""What things cost: the reserved day, the days after the window, and what can be had there."""

from __future__ import annotations

from dataclasses import dataclass, replace


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
class State:
    """One state of the market at the window's end: a tight one takes extension and fallback at once.

    `p_extension`: chance that the window can be extended, in whole steps of `step_days` at `step_fee` each;
    `overrun`: what happens where it cannot.
    """

    chance: float
    overrun: Overrun
    p_extension: float = 0.0
    step_days: float = 1.0
    step_fee: float = 0.0

    def parts(self) -> list[State]:
        """With and without the extension, each with its own chance."""
        if not 0 < self.p_extension < 1:
            return [self]
        extended = replace(self, chance=self.chance * self.p_extension, p_extension=1.0)
        without = replace(self, chance=self.chance * (1 - self.p_extension), p_extension=0.0)
        return [extended, without]


@dataclass(frozen=True)
class Terms:
    """Prices and what of a window cannot be used, in days. `salvage_day`: of an unused reserved day."""

    reserved_day: float | None  #: b; None where only offers with fees are known
    states: tuple[State, ...]
    lead_days: float = 0.0
    salvage_day: float = 0.0

    @classmethod
    def of(
        cls, reserved_day: float | None, overrun: Overrun, lead_days: float = 0.0, salvage_day: float = 0.0
    ) -> Terms:
        """With one state of the market, and no extension."""
        return cls(reserved_day, (State(1.0, overrun),), lead_days, salvage_day)

    @property
    def overrun_day(self) -> float:
        """v: the mean price of a day past the window, extensions left out."""
        return sum(state.chance * state.overrun.day for state in self.states)
