"""What pages and charts draw of a plan, as columns of plain numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tenure.planner.forecast_answer import Forecast
from tenure.planner.gang import assemble
from tenure.planner.lengths import Length
from tenure.planner.plan_gang import HOUR_S, arrivals_of, zone_of
from tenure.planner.plan_window import Plan
from tenure.planner.window import curve
from tenure.settings.gang_file import GangFile

Array = NDArray[np.floating]
POINTS = 241
BINS = 120
MOST_DRAWS = 50_000


def window_curves(plan: Plan) -> dict[str, Any]:
    """Over window length: cost (None without a price a day) and P(overrun); over run length: its density."""
    low, high = _reach(plan.length)
    bought = [row.days for row in plan.rows if row.cost <= 1.5 * plan.chosen.cost] or [plan.chosen.days]
    days = np.linspace(min(low, *bought), max(high, *bought), POINTS)
    cost, p_overrun = curve(plan.length, plan.terms, days)
    chosen = plan.chosen
    return {
        "days": days,
        "cost": cost if plan.terms.reserved_day is not None else None,
        "p_overrun": p_overrun,
        "length": _density(plan.length, low, high),
        "net_days": chosen.days - chosen.offer.lost_days - plan.terms.lead_days,
    }


def _reach(length: Length) -> tuple[float, float]:
    low, high = length.quantile(np.array([0.0005, 0.9995]))
    return float(low) - 0.02 * float(high - low), float(high) + 0.02 * float(high - low)


def _density(length: Length, low: float, high: float, shift: float = 0.0) -> dict[str, Array]:
    """Chance of each of many equal bins: `edges` and `chance`."""
    if high - low < 1e-9:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, BINS + 1)
    above = length.above(edges)
    return {"edges": edges + shift, "chance": np.maximum(0.0, above[:-1] - above[1:])}


def gang_curve(file: GangFile) -> dict[str, Array]:
    """P(the gang is there by `hours`), as `hours` at many chances."""
    p = np.linspace(0.001, 0.999, 500)
    if file.arrivals is not None:
        return {"hours": arrivals_of(file.arrivals).quantile_h(file.nodes, p), "chance": p}
    rng = np.random.default_rng(file.seed)
    n = min(MOST_DRAWS, file.draws)
    drawn = assemble(rng, file.nodes, file.success, file.round / HOUR_S, zone_of(file), n)
    return {"hours": np.quantile(drawn.hours, p), "chance": p}


def forecast_curves(found: Forecast) -> dict[str, Any]:
    """The density of the whole run's length, what has passed included; None where nothing is left."""
    ends = found.passed_days + found.left_days
    if found.rest is None:
        return {"length": None, "net_days": ends}
    low, high = _reach(found.rest)
    return {"length": _density(found.rest, low, high, found.passed_days), "net_days": ends}
