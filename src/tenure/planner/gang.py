"""How a gang of nodes comes together, how long that takes, and what is paid while it waits.

All or nothing: every attempt asks for all nodes at once. Keep and retry: what came is kept (and paid), the
rest is asked for again a round later. Trickle and arrivals: nodes come by themselves. Zones: capacity is
there (`open`) or not (`tight`) for exponential times, and nothing comes while it is tight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.floating]
HOURS = 24.0
FEWEST_ROUNDS_LEFT = 1e-13
MOST_ROUNDS = 1_000_000  #: a gang that takes more is given up


def p_all_at_once(nodes: int, success: float) -> float:
    """Chance that one attempt gets all nodes, each with chance `success`, apart from each other."""
    return success**nodes


def attempts_all_or_nothing(nodes: int, success: float) -> float:
    """Mean number of attempts until one gets all; inf where that never comes."""
    chance = p_all_at_once(nodes, success)
    return 1.0 / chance if chance > 0 else math.inf


def rounds_upto(nodes: int, success: float) -> Array:
    """P(all nodes are there after k rounds), k = 0, 1, …, until it is 1 for all that is shown."""
    if success >= 1.0:
        return np.array([0.0, 1.0])
    miss = math.log1p(-success)
    most = math.ceil((math.log(FEWEST_ROUNDS_LEFT) - math.log(nodes)) / miss) + 1
    k = np.arange(most + 1)
    with np.errstate(divide="ignore"):
        chances = np.exp(nodes * np.log1p(-np.exp(k * miss)))
    chances[0] = 0.0
    return chances


def rounds_keep(nodes: int, success: float) -> float:
    """Mean number of rounds of keep-and-retry; the first counts 1."""
    return float((1.0 - rounds_upto(nodes, success)).sum())


@dataclass(frozen=True)
class Linear:
    """Node k of N comes at k/N of `days`."""

    days: float

    def held_days_per_node(self, nodes: int) -> float:
        return self.days * (nodes - 1) / (2 * nodes)

    def mean_h(self, nodes: int) -> float:
        return self.days * HOURS

    def quantile_h(self, nodes: int, p: Array) -> Array:
        return np.full(np.shape(p), self.days * HOURS)


@dataclass(frozen=True)
class Exponential:
    """Independent nodes of equal mean, so that the last one comes after `days` on average."""

    days: float

    def _mean_h(self, nodes: int) -> float:
        return self.days * HOURS / harmonic(nodes)

    def held_days_per_node(self, nodes: int) -> float:
        whole = harmonic(nodes)
        return self.days * (whole - 1.0) / whole

    def mean_h(self, nodes: int) -> float:
        return self.days * HOURS

    def quantile_h(self, nodes: int, p: Array) -> Array:
        return -self._mean_h(nodes) * np.log(-np.expm1(np.log(p) / nodes))


@dataclass(frozen=True)
class Trickle:
    """`have` nodes at once, then one every 1/`per_day` days."""

    have: int
    per_day: float

    def days(self, nodes: int) -> float:
        return max(0, nodes - self.have) / self.per_day

    def held_days_per_node(self, nodes: int) -> float:
        late = max(0, nodes - self.have)
        return (min(nodes, self.have) * late + late * (late - 1) / 2) / self.per_day / nodes

    def mean_h(self, nodes: int) -> float:
        return self.days(nodes) * HOURS

    def quantile_h(self, nodes: int, p: Array) -> Array:
        return np.full(np.shape(p), self.mean_h(nodes))


Arrivals = Linear | Exponential | Trickle


def harmonic(n: int) -> float:
    """1 + 1/2 + … + 1/n."""
    return float(special.digamma(n + 1) + np.euler_gamma)


@dataclass(frozen=True)
class Zone:
    """Open and tight spells, exponential with these means in hours; the start is stationary."""

    open_h: float
    tight_h: float


class Assembled(NamedTuple):
    """Drawn gangs, keep-and-retry. `hours`: until the last node; `held_node_h`: of all nodes until then."""

    hours: Array
    held_node_h: Array


def assemble(
    rng: np.random.Generator, nodes: int, success: float, round_h: float, zone: Zone | None, n: int
) -> Assembled:
    """Draw `n` gangs round by round; the first round is at 0, what came is kept and paid until the last."""
    hours, held = np.zeros(n), np.zeros(n)
    if zone is not None:
        tight = rng.random(n) < zone.tight_h / (zone.open_h + zone.tight_h)
        hours += tight * _next_round(rng.exponential(zone.tight_h, n), round_h)
    missing = np.full(n, nodes)
    going = np.arange(n)
    for _ in range(MOST_ROUNDS):
        missing[going] -= rng.binomial(missing[going], success)
        going = going[missing[going] > 0]
        if not len(going):
            break
        wait = _until_next_round(rng, round_h, zone, len(going))
        hours[going] += wait
        held[going] += wait * (nodes - missing[going])
    return Assembled(hours, held)


def _until_next_round(rng: np.random.Generator, round_h: float, zone: Zone | None, n: int) -> Array:
    """Hours from a round in an open spell to the next: a round on, or past the tight spell that comes first.

    Open spells are memoryless, so each round begins one anew.
    """
    if zone is None:
        return np.full(n, round_h)
    open_h = rng.exponential(zone.open_h, n)
    through = open_h + rng.exponential(zone.tight_h, n)
    return np.where(open_h >= round_h, round_h, np.maximum(round_h, _next_round(through, round_h)))


def _next_round(hours: Array, round_h: float) -> Array:
    return np.ceil(hours / round_h) * round_h
