"""The answer of `plan window`, key by key: what is fixed of it, and what speaks for and against it.

Everything is computed by the exact engine; draws of the same runs stand beside it as a check.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from tenure.planner.lengths import Length
from tenure.planner.of_file import HOUR_S, final_save_s, lead_s
from tenure.planner.offers import Chain, Composite, chained, composites
from tenure.planner.plan_gang import arrivals_of
from tenure.planner.plan_window import Plan
from tenure.planner.run_model import COMPOUNDING, HOURS, RunModel, segment_moments
from tenure.planner.sensitivity import Moved, tornado
from tenure.planner.terms import State
from tenure.planner.warned import NEXT_STEPS, warnings
from tenure.planner.window import Row, break_even, spread
from tenure.providers.capability import capability
from tenure.settings.plan_units import DAY_S

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
MOST_COMPOSITES = 5

#: What each figure means, where it could mean several things.
CONVENTIONS = {
    "duration_days": "D: the run's length from its first training step, in days",
    "break_even": "(b - s)/(v - s): chance of an overrun at which a reserved day is worth its price",
    "windows.days": "length bought and paid; an offer's: its end less its start",
    "windows.cost": "expected: fee + data's way + K·P(D > net) + v·E[(D - net)+] - salvage",
    "windows.p_overrun": "P(D > net), strictly; net = days - startup - termination - drain - what "
    "an offer loses",
    "windows.expected_overrun_days": "E[(D - net)+]",
    "windows.regret": "cost over that of the best length of all, on sale or not",
    "best": "least expected cost among windows; exact ties go to the longer; cost_p90, cost_p95 of "
    "the whole cost",
    "continuous": "the same over all real lengths from 0, at the price of a reserved day",
    "on_demand.cost": "mean D times the on-demand day; gang_wait: what nodes cost until the last "
    "one is there",
    "method": "exact: characteristic function turned back by a cosine series; draws: a check on it",
    "tornado": "each assumption moved on its own; kept_cost: of the window chosen here, cost: of "
    "the best then",
    "checkpoint": "useful work between saves: the file's, that of the shortest mean run, Young's",
    "composites": "a block and an extension at the price of a day; p_needed of its being offered",
    "goodput": "tokens per paid GPU-hour: ideal at the mean speed, over the mean run, finishing in "
    "the window",
}


def answer(plan: Plan) -> dict[str, Any]:
    """The keys of the plan's JSON."""
    length, file = plan.length, plan.file
    told: dict[str, Any] = {
        "run": file.run,
        "duration_days": {"mean": length.mean, "sd": length.sd, **quantiles(length)},
        "break_even": break_even(plan.terms),
        "windows": [_row(plan, row) for row in plan.rows],
        "best": {**_row(plan, plan.chosen), **_spread(plan)},
        "continuous": plan.anywhere._asdict() if plan.anywhere else None,
        "on_demand": on_demand(plan),
        "method": "exact",
        "warnings": [str(one) for one in warnings(plan)],
        "prices": {
            "reserved_per_day": plan.terms.reserved_day,
            "overrun_per_day": plan.terms.overrun_day,
            "salvage_per_day": plan.terms.salvage_day,
        },
        "market": [_state(state) for state in plan.terms.states],
        "lead_s": lead_s(file),
        "final_save_s": final_save_s(file),
        "draws": _drawn(plan),
        "tornado": [[moved_dict(one) for one in pair] for pair in tornado(plan)],
        "composites": composite_dicts(plan),
        "chained": chain_dict(plan),
        "next_steps": list(NEXT_STEPS),
        "conventions": CONVENTIONS,
    }
    if plan.run is not None:
        told |= _of_run(plan, plan.run)
    if file.lattice is not None:
        told["provider"] = provider_dict(file.lattice)
    return told


def quantiles(length: Length) -> dict[str, float]:
    """p50 … p99 of a length, in days."""
    found = length.quantile(np.array(list(QUANTILES.values())))
    return dict(zip(QUANTILES, (float(day) for day in found), strict=True))


def _of_run(plan: Plan, run: RunModel) -> dict[str, Any]:
    hours = plan.length.mean * HOURS
    struck = hours if run.model == COMPOUNDING else run.without_failures().length().mean * HOURS
    failures = {
        "expected": run.failures_per_hour * struck,
        "per_node_day": run.rate.per_node_day,
        "hours_each": run.hours_a_failure,
        "bred": run.bred(),
        "model": run.model,
    }
    gpus = run.nodes * run.gpus_per_node
    goodput = {
        "ideal": run.speed.mean * HOUR_S,
        "run": run.tokens / (gpus * hours),
        "window": run.tokens / (gpus * plan.chosen.days * HOURS),
    }
    fitted = plan.fitted
    throughput: dict[str, Any] = {"mean": run.speed.mean, "sd": run.speed.sd}
    if fitted is not None:
        throughput |= {"scaling": fitted.scaling, "widened": fitted.widened, "largest_pilot": fitted.share}
    told = {"failures": failures, "goodput": goodput, "throughput": throughput}
    saves = checkpoint(run, plan.length.mean)
    return told if saves is None else {**told, "checkpoint": saves}


def checkpoint(run: RunModel, mean_days: float) -> dict[str, float] | None:
    """The interval between saves of least mean length beside the file's; None where saves block nothing."""
    loss = run.loss
    if loss.fixed is not None or loss.stall == 0 or run.failures_per_hour == 0:
        return None
    every = np.geomspace(loss.stall, 200 * loss.every, 400)
    segments = [replace(loss, every=float(one)) for one in every]
    if run.model == COMPOUNDING:
        known = np.array([run.failures_per_hour])
        with np.errstate(over="ignore", invalid="ignore"):
            slower = np.array([float(segment_moments(known, one)[0][0]) / one.every for one in segments])
    else:
        lost = loss.restart + every / 2
        slower = 1 + loss.stall / every + run.failures_per_hour * lost
    least = int(np.nanargmin(np.where(np.isfinite(slower), slower, np.nan)))
    at_best = replace(run, loss=segments[least])
    return {
        "every_h": loss.every,
        "best_every_h": float(every[least]),
        "young_h": math.sqrt(2 * loss.stall / run.failures_per_hour),
        "saved_days": mean_days - at_best.length().mean,
    }


def on_demand(plan: Plan) -> dict[str, float] | None:
    """The whole run without a reservation; with its gang's wait where it is known."""
    day, file = plan.on_demand_day, plan.file
    if day is None:
        return None
    told = {"cost": plan.length.mean * day}
    if file.on_demand_gang is not None and file.nodes is not None:
        arrivals = arrivals_of(file.on_demand_gang.arrivals)
        told["gang_wait"] = arrivals.held_days_per_node(file.nodes) * day
        told["with_gang_wait"] = told["cost"] + told["gang_wait"]
    return told


def _row(plan: Plan, row: Row) -> dict[str, Any]:
    told: dict[str, Any] = {"id": row.offer.id} if row.offer.id else {}
    told |= {
        "days": row.days,
        "cost": row.cost,
        "p_overrun": row.p_overrun,
        "expected_overrun_days": row.expected_overrun_days,
    }
    if row.offer.extra or row.offer.lost_days:
        told |= {"data_cost": row.offer.extra, "lost_days": row.offer.lost_days}
    if plan.anywhere is not None:
        told["regret"] = row.cost - plan.anywhere.cost
    return told


def _spread(plan: Plan) -> dict[str, Any]:
    """The tail of the chosen window's cost beside its mean."""
    whole = spread(plan.length, plan.terms, plan.chosen.offer)
    told: dict[str, Any] = {"cost_p90": whole.quantile(0.9), "cost_p95": whole.quantile(0.95)}
    if plan.file.budget is not None:
        told["budget"] = plan.file.budget.amount
        told["p_over_budget"] = whole.above(plan.file.budget.amount)
    return told


def _state(state: State) -> dict[str, Any]:
    return {
        "p": state.chance,
        "p_extension": state.p_extension,
        "extension_days": state.step_days if state.p_extension else None,
        "extension_fee": state.step_fee if state.p_extension else None,
        "overrun_per_day": state.overrun.day,
        "move": state.overrun.move,
    }


def moved_dict(moved: Moved) -> dict[str, Any]:
    """An assumption moved, `ends` false where the run then never does."""
    told = moved._asdict()
    return told | {"ends": moved.cost is not None}


def found_composites(plan: Plan) -> list[Composite]:
    """Blocks with extensions that would be cheaper than the best single window of the lattice."""
    if plan.file.lattice is None or plan.file.offers or plan.terms.reserved_day is None:
        return []
    record = capability(plan.file.lattice)
    if not record.extend.possible:
        return []
    blocks = [row.days for row in plan.rows]
    return composites(plan.length, plan.terms, blocks, record.extend.steps.in_days(most=60.0), plan.chosen)


def composite_dicts(plan: Plan) -> list[dict[str, Any]]:
    return [one._asdict() for one in found_composites(plan)[:MOST_COMPOSITES]]


def chain_dict(plan: Plan) -> dict[str, Any] | None:
    """The run in short windows of the provider, where it sells them and the file says how long they wait."""
    told, file = plan.file.chained, plan.file
    if told is None or file.lattice is None:
        return None
    product = capability(file.lattice).chained
    price = told.per_day if told.per_day is not None else plan.terms.reserved_day
    if product is None or price is None:
        return None
    hop, wait, restart = product.most_days, told.wait / DAY_S, told.restart / DAY_S
    if restart >= hop:
        return None
    chain: Chain = chained(plan.length, price, hop, wait, restart)
    return {**chain._asdict(), "product": product.product, "hop_days": hop, "wait_days": wait}


def provider_dict(name: str) -> dict[str, Any]:
    """Whose lattice, and who says so."""
    record = capability(name)
    facts = {
        key: {"value": fact.value, "source": fact.source, "date": fact.date.isoformat(), "note": fact.note}
        for key, fact in record.facts.items()
    }
    return {"name": record.provider, "product": record.product, "facts": facts}


def _drawn(plan: Plan) -> dict[str, Any]:
    """The same by chance: a check on the exact figures, with the error to be expected of it."""
    n = plan.file.draws
    rng = np.random.default_rng(plan.file.seed)
    lengths = plan.length.draw(rng, n)
    net = plan.chosen.days - plan.chosen.offer.lost_days - plan.terms.lead_days
    p_over = float((lengths > net).mean())
    return {
        "n": n,
        "seed": plan.file.seed,
        "mean": float(lengths.mean()),
        "mean_error": float(lengths.std() / math.sqrt(n)),
        "p_overrun": p_over,
        "p_overrun_error": math.sqrt(max(p_over * (1 - p_over), 1.0 / n) / n),
    }
