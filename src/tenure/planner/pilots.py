"""The speed of a gang from pilots on smaller ones, with what extrapolating costs in certainty.

log speed = a + b · log(nodes); a is free, b has a normal prior around 0 (speed a GPU does not depend on the
gang) whose sd says how much a doubling may cost. With one pilot the prior alone widens the answer; with more,
they speak. A target more than four times the largest pilot is flagged by the caller.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tenure.planner.run_model import SDS, Speed

SCALING_SD = 0.05  #: prior sd of b: a doubling of the gang changes the speed of a GPU by 3.5 % (one sd)
LEAST_SHARE = 0.25  #: a pilot on less than this of the target says little of it


class Pilot(NamedTuple):
    """A pilot's gang and speed, tokens per second per GPU."""

    nodes: int
    mean: float
    sd: float


class Fitted(NamedTuple):
    """`widened`: the sd over the pilots' own relative sd; `scaling`: b of the file's docstring."""

    speed: Speed
    scaling: float
    widened: float
    share: float  #: largest pilot over target


def fit(pilots: Sequence[Pilot], nodes: int) -> Fitted:
    """The speed of a gang of `nodes`: the posterior's, and the spread of a run around it."""
    logs = np.log([pilot.nodes / nodes for pilot in pilots])
    speeds = np.log([pilot.mean for pilot in pilots])
    own = np.array([max(pilot.sd / pilot.mean, 1e-6) for pilot in pilots])
    weight = 1.0 / own**2
    # unknowns: a (log speed at the target) and b; precision matrix of the posterior
    precision = np.array(
        [
            [weight.sum(), (weight * logs).sum()],
            [(weight * logs).sum(), (weight * logs**2).sum() + SCALING_SD**-2],
        ]
    )
    right = np.array([(weight * speeds).sum(), (weight * logs * speeds).sum()])
    covariance = np.linalg.inv(precision)
    at, scaling = covariance @ right
    run_sd = float(np.sqrt((weight * own**2).sum() / weight.sum()))  # of a run around its gang's mean
    sd = math.sqrt(float(covariance[0, 0]) * (len(pilots) > 1) + run_sd**2 + _prior_only(pilots, nodes))
    mean = math.exp(at)
    speed = Speed(mean, mean * sd, lognormal=mean <= SDS * mean * sd)
    return Fitted(speed, float(scaling), sd / run_sd, max(pilot.nodes for pilot in pilots) / nodes)


def _prior_only(pilots: Sequence[Pilot], nodes: int) -> float:
    """With one pilot, what the prior of scaling adds to the variance of the log speed."""
    if len(pilots) > 1:
        return 0.0
    return (SCALING_SD * math.log(nodes / pilots[0].nodes)) ** 2
