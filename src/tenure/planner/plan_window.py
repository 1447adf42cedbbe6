"""A window planned: a run and its prices in, every window on sale judged, the best one chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tenure.planner.lengths import Length
from tenure.planner.of_file import length_of, run_of, terms_of
from tenure.planner.on_sale import on_sale
from tenure.planner.pilots import Fitted
from tenure.planner.run_model import RunModel
from tenure.planner.terms import Terms
from tenure.planner.window import Continuous, Offer, Row, best, continuous, judge, spread
from tenure.settings.window_file import WindowFile


@dataclass(frozen=True)
class Plan:
    """A plan worked out. `run` is None where the length itself was given."""

    file: WindowFile
    run: RunModel | None
    fitted: Fitted | None
    length: Length
    terms: Terms
    rows: Sequence[Row]
    chosen: Row
    samples: Sequence[float] | None = None

    @property
    def offers(self) -> list[Offer]:
        """What is on sale."""
        return [row.offer for row in self.rows]

    @property
    def on_demand_day(self) -> float | None:
        """A day of the gang on demand."""
        return self.file.prices.day("on_demand", self.file.nodes)

    @cached_property
    def anywhere(self) -> Continuous | None:
        """The best of all lengths, for sale or not; None where only offers with fees are known."""
        return continuous(self.length, self.terms)


def plan_window(
    file: WindowFile, samples: Sequence[float] | None = None, offers: Sequence[Offer] | None = None
) -> Plan:
    """Work out the plan of a file. `samples`: days, where it names a file of them; `offers`: these alone.

    NeverEnds where failures come faster than they are made good.
    """
    if file.duration is not None:
        run, fitted, length = None, None, length_of(file.duration, samples)
    else:
        run, fitted = run_of(file)
        length = run.length()
    terms = terms_of(file)
    rows = judge(length, terms, on_sale(file, length) if offers is None else offers)
    chosen = best(within_budget(file, length, terms, rows) or rows)
    return Plan(file, run, fitted, length, terms, rows, chosen, samples)


def within_budget(file: WindowFile, length: Length, terms: Terms, rows: Sequence[Row]) -> list[Row]:
    """The rows whose chance to pass the budget is small enough, where a limit on it was given."""
    if file.budget is None or file.budget.probability is None:
        return list(rows)
    money, most = file.budget.amount, file.budget.probability
    return [row for row in rows if spread(length, terms, row.offer).above(money) <= most]
