"""The answer of `plan window`: a run and its prices in, the window to buy and what speaks for and against it.

Everything is computed by the exact engine; draws of the same runs stand beside it as a check.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tenure.planner.lengths import Atoms, Length, Lognormal, Normal, ShiftedExponential, Uniform
from tenure.planner.pilots import Fitted, Pilot, fit
from tenure.planner.run_model import HOURS, Loss, Rate, RunModel, Speed
from tenure.planner.terms import Overrun, State, Terms
from tenure.planner.window import Continuous, Offer, Row, best, break_even, continuous, judge, spread
from tenure.settings.plan_units import DAY_S
from tenure.settings.window_file import DurationFile, WindowFile

HOUR_S = DAY_S / HOURS
QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True)
class Plan:
    """A plan worked out. `run` is None where the length itself was given."""

    file: WindowFile
    run: RunModel | None
    fitted: Fitted | None
    length: Length
    terms: Terms
    offers: Sequence[Offer]
    rows: Sequence[Row]
    chosen: Row
    on_demand_day: float | None

    @cached_property
    def anywhere(self) -> Continuous | None:
        """The best of all lengths, for sale or not; None where only offers with fees are known."""
        return continuous(self.length, self.terms)


def plan_window(file: WindowFile, offers: Sequence[Offer], samples: Sequence[float] | None = None) -> Plan:
    """Work out the plan of a file for these offers. `samples`: days, where the file names a file of them.

    NeverEnds where failures come faster than they are made good.
    """
    run, fitted = (None, None) if file.duration is not None else run_of(file)
    length = length_of(file.duration, samples) if file.duration is not None else _length(run)
    terms = terms_of(file)
    rows = judge(length, terms, offers)
    chosen = best(within_budget(file, length, terms, rows) or rows)
    return Plan(
        file,
        run,
        fitted,
        length,
        terms,
        offers,
        rows,
        chosen,
        file.prices.day("on_demand", file.nodes),
    )


def _length(run: RunModel | None) -> Length:
    assert run is not None
    return run.length()


def run_of(file: WindowFile) -> tuple[RunModel, Fitted | None]:
    """The run's model, and the fit of its speed where pilots tell it."""
    assert file.tokens is not None
    assert file.nodes is not None
    assert file.failures is not None
    assert file.recovery is not None
    fitted = None
    if file.pilots:
        fitted = fit([Pilot(pilot.nodes, pilot.mean, pilot.sd) for pilot in file.pilots], file.nodes)
        speed = fitted.speed
    else:
        assert file.throughput is not None
        told = file.throughput
        speed = Speed(told.mean, told.sd, told.distribution == "lognormal")
    recovery = file.recovery
    if recovery.hours_lost is not None:
        loss = Loss(fixed=recovery.hours_lost)
    else:
        assert recovery.checkpoint_every is not None
        hours = (recovery.restart, recovery.checkpoint_every, recovery.stall)
        loss = Loss(None, *(part / HOUR_S for part in hours))
    failures = file.failures
    if failures.seen is not None:
        prior = failures.prior
        rate = Rate.posterior(failures.seen.events, failures.seen.node_days, prior.shape, prior.node_days)
    else:
        rate = Rate(failures.per_node_day or 0.0)
    overhead = file.overhead or 0.0
    run = RunModel(file.tokens, file.nodes, file.gpus_per_node, speed, rate, loss, overhead, file.model)
    return run, fitted


def length_of(told: DurationFile, samples: Sequence[float] | None = None) -> Length:
    """A length given as a distribution of its own."""

    def days(seconds: float | None) -> float:
        return (seconds or 0.0) / DAY_S

    made: dict[str, Callable[[], Length]] = {
        "uniform": lambda: Uniform(days(told.low), days(told.high)),
        "normal": lambda: Normal(days(told.mean), days(told.sd)),
        "lognormal": lambda: Lognormal(days(told.mean), days(told.sd)),
        "shifted-exponential": lambda: ShiftedExponential(days(told.shift), days(told.scale)),
        "atoms": lambda: Atoms(np.array(list(told.atoms or {})), np.array(list((told.atoms or {}).values()))),
        "samples": lambda: Atoms(np.array(samples)),
    }
    return made[told.distribution]()


def terms_of(file: WindowFile) -> Terms:
    """Prices, states of the market, and what of a window cannot be used."""
    on_demand = file.prices.day("on_demand", file.nodes)
    reserved = file.prices.day("reserved", file.nodes)
    lead_days = sum(lead_s(file).values()) / DAY_S
    extension = file.extension
    if extension is None:
        states: tuple[State, ...] = (State(1.0, overrun_of(file, on_demand)),)
    else:
        price = extension.per_day if extension.per_day is not None else reserved
        fee = (price or 0.0) * extension.days
        if extension.states:
            states = tuple(
                State(
                    state.p,
                    overrun_of(file, (on_demand or 0.0) * state.on_demand_factor, state.p_fallback),
                    state.p_extension,
                    extension.days,
                    fee,
                )
                for state in extension.states
            )
        else:
            states = (State(1.0, overrun_of(file, on_demand), extension.p or 0.0, extension.days, fee),)
    return Terms(reserved, states, lead_days, file.salvage_per_day)


def overrun_of(file: WindowFile, on_demand_day: float | None, p_fallback: float | None = None) -> Overrun:
    """What comes after the window. `p_fallback` of a market state replaces the file's."""
    told = file.overrun
    if told.per_day is not None:
        if p_fallback is None or told.stall_per_day is None:
            return Overrun(told.per_day, told.move)
    chance = p_fallback if p_fallback is not None else told.p_fallback
    return Overrun.mixture(
        move=told.move,
        on_demand_day=on_demand_day or 0.0,
        stall_day=told.stall_per_day or 0.0,
        p_fallback=1.0 if chance is None or told.stall_per_day is None else chance,
    )


def lead_s(file: WindowFile) -> dict[str, float]:
    """Seconds of a window that cannot be used: start-up, the provider's termination, the final save."""
    lead = file.lead
    termination = lead.termination
    if termination is None:
        termination = 1800.0 if file.lattice == "aws" else 0.0
    drain = lead.drain
    if drain is None:
        drain = final_save_s(file) or 0.0
    return {"startup": lead.startup or 0.0, "termination": termination, "drain": drain}


def final_save_s(file: WindowFile) -> float | None:
    """How long the last save takes: all parameters and their optimizer's state over the store's bandwidth."""
    if file.params is None or file.store is None:
        return None
    return file.params * file.store.bytes_per_param / (file.store.gb_per_s * 1e9)


def within_budget(file: WindowFile, length: Length, terms: Terms, rows: Sequence[Row]) -> list[Row]:
    """The rows whose chance to pass the budget is small enough, where a limit on it was given."""
    if file.budget is None or file.budget.probability is None:
        return list(rows)
    money, most = file.budget.amount, file.budget.probability
    return [row for row in rows if spread(length, terms, row.offer).above(money) <= most]


# --- the answer ---------------------------------------------------------------------------------------------


def answer(plan: Plan) -> dict[str, Any]:
    """The keys of the plan's JSON; every figure's convention is in `conventions`."""
    length, file = plan.length, plan.file
    told: dict[str, Any] = {
        "run": file.run,
        "duration_days": {"mean": length.mean, "sd": length.sd, **quantiles(length)},
        "break_even": break_even(plan.terms),
        "windows": [_row(row) for row in plan.rows],
        "best": {**_row(plan.chosen), **_spread(plan, plan.chosen.offer)},
        "continuous": plan.anywhere._asdict() if plan.anywhere else None,
        "on_demand": {"cost": length.mean * plan.on_demand_day} if plan.on_demand_day else None,
        "method": "exact",
        "regret": regret(plan),
        "lead_s": lead_s(file),
        "final_save_s": final_save_s(file),
        "draws": _drawn(plan),
    }
    if plan.run is not None:
        told["failures"] = {
            "expected": length_failures(plan.run, length),
            "lost_h": plan.run.hours_a_failure,
            "bred": plan.run.bred(),
        }
    if plan.fitted is not None:
        told["throughput"] = {
            "mean": plan.fitted.speed.mean,
            "sd": plan.fitted.speed.sd,
            "scaling": plan.fitted.scaling,
            "widened": plan.fitted.widened,
        }
    return told


def quantiles(length: Length) -> dict[str, float]:
    """p50 … p99 of a length, in days."""
    found = length.quantile(np.array(list(QUANTILES.values())))
    return dict(zip(QUANTILES, (float(day) for day in found), strict=True))


def length_failures(run: RunModel, length: Length) -> float:
    """Failures expected over the run: of its computing alone, or of all its time."""
    hours = (
        length.mean * HOURS if run.model == "compounding" else run.without_failures().length().mean * HOURS
    )
    return run.failures_per_hour * hours


def _row(row: Row) -> dict[str, Any]:
    told: dict[str, Any] = {"id": row.offer.id} if row.offer.id else {}
    return told | {
        "days": row.days,
        "cost": row.cost,
        "p_overrun": row.p_overrun,
        "expected_overrun_days": row.expected_overrun_days,
    }


def _spread(plan: Plan, offer: Offer) -> dict[str, Any]:
    """The tail of an offer's cost beside its mean."""
    whole = spread(plan.length, plan.terms, offer)
    told: dict[str, Any] = {"cost_p90": whole.quantile(0.9), "cost_p95": whole.quantile(0.95)}
    if plan.file.budget is not None:
        told["p_over_budget"] = whole.above(plan.file.budget.amount)
    return told


def regret(plan: Plan) -> float | None:
    """What the best window on sale costs more than the best of all lengths."""
    return None if plan.anywhere is None else plan.chosen.cost - plan.anywhere.cost


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


__all__ = ["Plan", "answer", "final_save_s", "lead_s", "plan_window", "run_of", "terms_of", "within_budget"]
