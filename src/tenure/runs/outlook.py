"""Will the run end within its window, and is more of it worth its price? What was seen, put to the planner.

Only money still to be spent counts. Windows that are bought and still to come are paid: their usable time
counts like what is left of this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from tenure.planner.forecast import Extension, Seen, believe, choices, choose, remaining
from tenure.planner.forecast_answer import Forecast, mean_overrun
from tenure.planner.lengths import Length
from tenure.planner.of_file import run_of, terms_of
from tenure.planner.run_model import NeverEnds, RunModel
from tenure.planner.terms import Overrun
from tenure.providers.protocol import Offer
from tenure.runs.state import State
from tenure.settings.run_file import Run

DAY_S, HOUR_S = 86400.0, 3600.0


@cache
def _length(model: RunModel) -> Length:
    return model.length()


def overrun_given(run: Run, on_offer: bool) -> Overrun:
    """What comes after the window, given whether an extension is on offer now: it tells the market's state.

    A tight market takes extension and fallback at once, so an offer says that the fallback is near its price.
    """
    weighed = [
        (state.chance * (state.p_extension if on_offer else 1.0 - state.p_extension), state.overrun)
        for state in terms_of(run.plan).states
    ]
    total = sum(weight for weight, _ in weighed)
    if total <= 0:
        return mean_overrun(run.plan)
    day = sum(weight * overrun.day for weight, overrun in weighed) / total
    return Overrun(day, sum(weight * overrun.move for weight, overrun in weighed) / total)


def trained_hours(state: State, now: float) -> float:
    """Wall hours from each attempt's beginning to its end: time between windows left out."""
    return sum((attempt.ended or now) - attempt.started for attempt in state.attempts) / HOUR_S


def foresee(
    run: Run,
    state: State,
    now: float,
    *,
    tokens: float,
    left_s: float,
    window_s: float,
    offers: Sequence[Offer],
) -> Forecast:
    """
    What was seen put to the planner, each extension on sale judged. `window_s`: of the window it runs in.

    ValueError, NeverEnds, ArithmeticError where nothing can be told (yet).
    """
    model, _ = run_of(run.plan)
    seen = Seen(trained_hours(state, now), state.failures, tokens)
    daily_sd = run.file.daily_sd
    believed = believe(model, seen, daily_sd=model.speed.sd / 5 if daily_sd is None else daily_sd)
    if believed.speed.mean <= 6 * believed.speed.sd or tokens <= 0:
        raise ValueError("too little is trained to tell a speed")
    rest = remaining(model, believed)
    extensions = [Extension(one.length_s / DAY_S, float(one.fee), one.id) for one in offers]
    judged = choices(rest, left_s / DAY_S, overrun_given(run, bool(offers)), extensions)
    return Forecast(model, seen, window_s / DAY_S, believed, rest, left_s / DAY_S, judged, choose(judged))


def outlook(
    run: Run,
    state: State,
    now: float,
    *,
    tokens: float,
    left_s: float,
    usable_s: float,
    offers: Sequence[Offer],
) -> dict[str, Any]:
    """A forecast's event. `usable_s`: seconds of all windows that are paid, `left_s` of them still to come;
    `offers`: extensions on sale."""
    hours = trained_hours(state, now)
    told: dict[str, Any] = {"hours": hours, "failures": state.failures, "tokens": tokens}
    try:
        found = foresee(run, state, now, tokens=tokens, left_s=left_s, window_s=usable_s, offers=offers)
    except (ValueError, NeverEnds, ArithmeticError) as cannot:
        return {**told, "cannot": str(cannot), "extend": "", "warnings": [str(cannot)]}
    none, chosen, rest = found.judged[0], found.chosen, found.rest
    prior, posterior = found.run.speed, found.now.speed
    away = abs(posterior.mean - prior.mean) / prior.sd if prior.sd > 0 else 0.0
    return {
        **told,
        "speed": posterior.mean,
        "speed_sd": posterior.sd,
        "away_sd": away,
        "plan_p_overrun": float(_length(found.run).above(np.array(max(0.0, usable_s / DAY_S)))),
        "rate": found.now.rate.per_node_day,
        "left_days": found.left_days,
        "rest_days": None if rest is None else rest.mean,
        "p_overrun": none.p_overrun,
        "expected_overrun_days": none.expected_overrun_days,
        "cost_without": none.cost,
        "cost": chosen.cost,
        "extend": chosen.extension.id,
        "extend_days": chosen.extension.days,
        "extend_fee": str(next((one.fee for one in offers if one.id == chosen.extension.id), 0)),
        "offers": len(offers),
    }
