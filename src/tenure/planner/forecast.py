"""A run under way, forecast again: what was seen changes the speed and the rate; then extend, or not.

Speed: prior mean and sd of the run's own speed, and the sd of single days around it. Seen tokens over seen
hours of computing are so many days' mean. Rate: a Gamma prior of a shape over node-days; what was seen adds
to both. What is left is as long as the remaining work at the speed believed now; failures still to come are
Poisson (or breed, `compounding`), and their rate is what is believed of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tenure.planner.lengths import Length
from tenure.planner.run_model import HOURS, Rate, RunModel, Speed
from tenure.planner.terms import Overrun


@dataclass(frozen=True)
class Seen:
    """What was seen since the first training step: wall hours, tokens kept (None: worked out), failures."""

    hours: float
    failures: int
    tokens: float | None = None
    speed: float | None = None  #: tokens per second per GPU while computing, overhead included in `hours`


class Posterior(NamedTuple):
    """What is believed after it."""

    speed: Speed
    rate: Rate
    tokens_done: float
    share_done: float


def believe(run: RunModel, seen: Seen, *, daily_sd: float) -> Posterior:
    """Speed and rate after what was seen.

    The mean speed of n days of computing has sd `daily_sd`/√n around the run's own; two normal beliefs add in
    precision. `hours` of wall time are node-days of exposure.
    """
    computed = seen.hours - seen.failures * run.hours_a_failure
    if computed <= 0:
        raise ValueError("more hours lost with failures than have passed")
    per_speed = run.nodes * run.gpus_per_node * 3600.0 * computed / (1.0 + run.overhead)
    if seen.tokens is not None:
        tokens = seen.tokens
    elif seen.speed is not None:
        tokens = seen.speed * per_speed
    else:
        raise ValueError("either tokens or the speed seen")
    measured = tokens / per_speed
    prior, days = run.speed, seen.hours / HOURS
    if prior.sd == 0:
        speed = prior
    elif daily_sd == 0:
        speed = replace(prior, mean=measured, sd=0.0)
    else:
        precise = days / daily_sd**2
        total = precise + 1.0 / prior.sd**2
        mean = (measured * precise + prior.mean / prior.sd**2) / total
        speed = replace(prior, mean=mean, sd=math.sqrt(1.0 / total))
    rate = run.rate
    if rate.shape is not None:
        rate = Rate.posterior(seen.failures, run.nodes * seen.hours / HOURS, rate.shape, rate.node_days)
    return Posterior(speed, rate, tokens, tokens / run.tokens)


def remaining(run: RunModel, now: Posterior) -> Length | None:
    """How many days the rest takes; None where nothing is left."""
    left = run.tokens - now.tokens_done
    if left <= 0:
        return None
    return replace(run, tokens=left, speed=now.speed, rate=now.rate).length()


class Extension(NamedTuple):
    """An offered extension: so many days more, for a fee."""

    days: float
    fee: float
    id: str = ""


class Choice(NamedTuple):
    """An extension judged: `cost` is its fee and all that is still to be expected after it."""

    extension: Extension
    cost: float
    p_overrun: float
    expected_overrun_days: float


def choices(
    rest: Length | None, window_left_days: float, overrun: Overrun, offered: Sequence[Extension]
) -> list[Choice]:
    """Not extending, then every extension. `window_left_days`: usable, net of lead and drain.

    Only money still to be spent counts: the window is paid, whatever comes.
    """
    judged = []
    for extension in (Extension(0.0, 0.0), *offered):
        days = np.array(window_left_days + extension.days)
        if rest is None:
            p_over, late = 0.0, 0.0
        else:
            usable = np.maximum(days, 0.0)
            p_over = float(rest.above(usable)) if days >= 0 else 1.0
            late = float(rest.excess(usable) + np.maximum(0.0, -days))
        cost = extension.fee + overrun.move * p_over + overrun.day * late
        judged.append(Choice(extension, cost, p_over, late))
    return judged


def choose(judged: Sequence[Choice]) -> Choice:
    """The cheapest; ties do not extend."""
    return min(judged, key=lambda choice: (choice.cost, choice.extension.days))
