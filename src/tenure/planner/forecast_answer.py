"""The answer of `run forecast`: what is believed now, what is left, each extension judged, the choice."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tenure.planner.forecast import Choice, Extension, Posterior, Seen, believe, choices, choose, remaining
from tenure.planner.lengths import Length
from tenure.planner.of_file import lead_s, run_of, terms_of
from tenure.planner.run_model import HOURS, Rate, RunModel
from tenure.planner.terms import Overrun
from tenure.planner.window_answer import QUANTILES
from tenure.providers.capability import capability
from tenure.settings.observation_file import ObservationFile
from tenure.settings.plan_units import DAY_S
from tenure.settings.window_file import WindowFile

ASKED_AT = (0.5, 0.75)  #: parts of the window at which a forecast is due
HOUR_S = 3600.0

CONVENTIONS = {
    "posterior": "speed: prior and seen days added in precision; rate: Gamma prior, wall node-days "
    "of exposure",
    "duration_days": "of the whole run, what has passed included, in days from its first training step",
    "extensions.cost": "fee + K·P(R > left) + v·E[(R - left)+]: money still to be spent; the window is paid",
    "extensions.p_overrun": "chance that the rest R takes longer than what is left of window and "
    "extension, net",
    "choice": "least cost; exact ties do not extend",
}


@dataclass(frozen=True)
class Forecast:
    """A forecast worked out. `rest` is None where nothing is left to do."""

    run: RunModel
    seen: Seen
    window_days: float
    now: Posterior
    rest: Length | None
    left_days: float  #: of the window, net of lead and drain
    judged: list[Choice]
    chosen: Choice

    @property
    def passed_days(self) -> float:
        return self.seen.hours / HOURS


def forecast(told: ObservationFile, plan: WindowFile) -> Forecast:
    """Work it out. ValueError where what was seen cannot be; NeverEnds where the rest never ends."""
    run, _ = run_of(plan)
    if told.rate is not None:
        run = replace(
            run, rate=Rate(told.rate.shape / told.rate.node_days, told.rate.shape, told.rate.node_days)
        )
    seen = Seen(told.seen.hours, told.seen.failures, told.seen.tokens, told.seen.speed)
    now = believe(run, seen, daily_sd=told.daily_sd)
    rest = remaining(run, now)
    left = told.window.days - sum(lead_s(plan).values()) / DAY_S - seen.hours / HOURS
    offered = [Extension(offer.days, offer.fee, offer.id) for offer in told.window.extensions()]
    judged = choices(rest, left, mean_overrun(plan), offered)
    return Forecast(run, seen, told.window.days, now, rest, left, judged, choose(judged))


def mean_overrun(plan: WindowFile) -> Overrun:
    """Over all states of the market: what comes after the window is linear in both of its prices."""
    states = terms_of(plan).states
    return Overrun(
        sum(state.chance * state.overrun.day for state in states),
        sum(state.chance * state.overrun.move for state in states),
    )


def answer(found: Forecast, plan: WindowFile) -> dict[str, Any]:
    """The keys of the forecast's JSON."""
    return {
        "run": plan.run,
        "sentence": _sentence(found),
        "seen": {"hours": found.seen.hours, "failures": found.seen.failures, "tokens": found.now.tokens_done},
        "done": found.now.share_done,
        "posterior": {
            "speed": {"mean": found.now.speed.mean, "sd": found.now.speed.sd},
            "failures_per_node_day": found.now.rate.per_node_day,
            "rate": {"shape": found.now.rate.shape, "node_days": found.now.rate.node_days},
        },
        "duration_days": _whole(found),
        "window": {"days": found.window_days, "left_days": found.left_days, "lead_s": lead_s(plan)},
        "p_overrun": found.judged[0].p_overrun,
        "expected_overrun_days": found.judged[0].expected_overrun_days,
        "extensions": [_choice(one) for one in found.judged],
        "choice": _choice(found.chosen),
        "ask_again_h": _ask_again(found, plan),
        "warnings": _warnings(found),
        "conventions": CONVENTIONS,
    }


def _choice(one: Choice) -> dict[str, Any]:
    told = {"id": one.extension.id} if one.extension.id else {}
    return {
        **told,
        "days": one.extension.days,
        "fee": one.extension.fee,
        "cost": one.cost,
        "p_overrun": one.p_overrun,
        "expected_overrun_days": one.expected_overrun_days,
    }


def _whole(found: Forecast) -> dict[str, float] | None:
    if found.rest is None:
        return None
    passed, rest = found.passed_days, found.rest
    quantiles = passed + rest.quantile(np.array(list(QUANTILES.values())))
    told = dict(zip(QUANTILES, (float(day) for day in quantiles), strict=True))
    return {"mean": passed + rest.mean, "sd": rest.sd, **told}


def _sentence(found: Forecast) -> str:
    none, chosen = found.judged[0], found.chosen
    if found.rest is None:
        return "all tokens are done: do not extend"
    over = f"overrun with chance {none.p_overrun:.1%}"
    if chosen.extension.days == 0:
        if len(found.judged) == 1:
            return f"no extension is on offer; {over}"
        cheapest = min(found.judged[1:], key=lambda one: one.cost)
        saved = none.cost - cheapest.cost + cheapest.extension.fee
        more, its_fee = _days(cheapest.extension.days), cheapest.extension.fee
        return f"do not extend: {over}, but {more} more cost {its_fee:,.0f} and save {saved:,.0f}"
    days, fee = chosen.extension.days, chosen.extension.fee
    return f"extend by {_days(days)} for {fee:,.0f}: {over} without; saves {none.cost - chosen.cost:,.0f}"


def _days(count: float) -> str:
    return "a day" if count == 1 else f"{count:g} days"


def _ask_again(found: Forecast, plan: WindowFile) -> list[float]:
    """Hours of the window still to come at which to forecast again; the last: when it can still help."""
    whole = found.window_days * HOURS
    due = [part * whole for part in ASKED_AT]
    if plan.lattice is not None:
        extend = capability(plan.lattice).extend
        if extend.latest_before_end is not None:
            due.append(whole - (extend.latest_before_end + _payment_s(plan.lattice)) / HOUR_S)
    return [hours for hours in due if hours > found.seen.hours + 1e-9]


def _payment_s(provider: str) -> float:
    """How long a payment may take, by the record; an extension asked for later may fail on it."""
    fee = capability(provider).facts.get("fee")
    text = str(fee.value.get("unpaid_after", "0h")) if fee is not None else "0h"
    return float(text.removesuffix("h")) * HOUR_S


def _warnings(found: Forecast) -> list[str]:
    prior, now = found.run.speed, found.now.speed
    warnings = []
    if prior.sd > 0 and abs(now.mean - prior.mean) > 2 * prior.sd:
        away = abs(now.mean - prior.mean) / prior.sd
        warnings.append(
            f"pilot that lied: the speed now believed, {now.mean:,.0f}, is {away:.1f} sd from the plan's "
            f"{prior.mean:,.0f}: plan again"
        )
    if found.left_days < 0:
        warnings.append("late start: the window's usable time is over")
    return warnings
