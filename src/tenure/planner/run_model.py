"""From tokens, nodes and failures to a distribution of run lengths; two engines that must agree.

Work is c(t) hours of computing at t tokens per second per GPU. Failures come at a rate λ of the whole gang
and each costs hours. `first-order`: failures strike computing alone. `compounding`: they strike lost time
too, so that every failure brings λL more, and a run with λL >= 1 never ends.

Given speed and rate, the length has a characteristic function in closed form; speed and rate are integrated
by Gauss's rules; `series.py` turns the result back. `draw` plays the same runs by chance.
Sources: Consul and Jain (1973) for the generalised Poisson count of failures that breed; Daly (2006) for the
mean of a segment with saves and restarts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tenure.planner.lengths import Atoms, Length
from tenure.planner.series import series_of

Array = NDArray[np.floating]
Complex = NDArray[np.complexfloating]
HOURS = 24.0
LEAST_WEIGHT = 1e-12  #: of a speed and rate that decide how far the series reaches
NO_WEIGHT = 1e-14  #: … and that is told at all
STILL = 1e-12  #: an hour: slower than this is not at all
SPEEDS, MORE_SPEEDS, RATES, MORE_RATES = 64, 96, 11, 24  #: points of integration; more for wide beliefs
NARROW = 0.06  #: of speeds so close together the time is nearly a straight line
WELL_KNOWN = 2.0  #: a posterior of such a shape has no long tail
VANISHED = 7.0  #: a normal's transform is nothing (e^-24) at so many per standard deviation
FASTEST_BRED = 0.95  #: rates that breed more failures each have no length to speak of: left out, and said
MANY = 200  #: so many failures of one run are drawn one by one; of more, their sum as a normal
SDS = 6.0  #: a normal speed is cut at so many standard deviations
FIRST_ORDER, COMPOUNDING = "first-order", "compounding"


class NeverEnds(ValueError):
    """λL >= 1: failures come faster than they are made good. `expected`: λL."""

    def __init__(self, expected: float) -> None:
        self.expected = expected
        super().__init__(
            f"the run never ends: each failure costs time in which {expected:.2f} more strike (λL must be "
            "below 1); fewer nodes, faster recovery, or groups that recover apart would change that"
        )


@cache
def _legendre(points: int) -> tuple[Array, Array]:
    return np.polynomial.legendre.leggauss(points)


@dataclass(frozen=True)
class Speed:
    """Tokens per second per GPU. `lognormal`: mean and sd are the variable's own."""

    mean: float
    sd: float
    lognormal: bool = False

    def points(self) -> tuple[Array, Array]:
        """Speeds and their weights."""
        if self.sd == 0:
            return np.array([self.mean]), np.array([1.0])
        x, weights = _legendre(SPEEDS if self.sd <= NARROW * self.mean else MORE_SPEEDS)
        z = SDS * x
        weights = weights * np.exp(-z * z / 2)
        return self._at(z), weights / weights.sum()

    def _at(self, z: Array) -> Array:
        if not self.lognormal:
            return self.mean + self.sd * z
        log_sd = math.sqrt(math.log1p((self.sd / self.mean) ** 2))
        return self.mean * np.exp(log_sd * z - log_sd**2 / 2)

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        z = rng.standard_normal(n)
        while (out := np.abs(z) > SDS).any():
            z[out] = rng.standard_normal(int(out.sum()))
        return self._at(z)


@dataclass(frozen=True)
class Rate:
    """Failures per node-day: known (`shape` None), or a Gamma posterior of `shape` over `node_days`."""

    per_node_day: float
    shape: float | None = None
    node_days: float = 0.0

    @classmethod
    def posterior(cls, events: float, node_days: float, shape: float, prior_node_days: float) -> Rate:
        """What `events` in `node_days` leave of a Gamma prior of `shape` over `prior_node_days`."""
        shape, seen = shape + events, node_days + prior_node_days
        return cls(shape / seen, shape, seen)

    def points(self) -> tuple[Array, Array]:
        if self.shape is None:
            return np.array([self.per_node_day]), np.array([1.0])
        points = RATES if self.shape >= WELL_KNOWN else MORE_RATES
        x, weights = special.roots_genlaguerre(points, self.shape - 1.0)
        return x / self.node_days, weights / weights.sum()

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        if self.shape is None:
            return np.full(n, self.per_node_day)
        return rng.gamma(self.shape, 1.0 / self.node_days, n)


@dataclass(frozen=True)
class Loss:
    """What a failure costs, in hours: `fixed`, or restart and the work since the last save.

    `every`: useful work between saves; `stall`: what one save blocks.
    """

    fixed: float | None = None
    restart: float = 0.0
    every: float = 0.0
    stall: float = 0.0


class Given(NamedTuple):
    """Speeds and rates of the rules of integration, flat: compute hours, failures an hour, weights."""

    hours: Array
    rate: Array
    weight: Array


@dataclass(frozen=True)
class RunModel:
    """A run: `tokens` on `nodes` of `gpus_per_node`; overhead as a part of compute time."""

    tokens: float
    nodes: int
    gpus_per_node: int
    speed: Speed
    rate: Rate
    loss: Loss
    overhead: float = 0.0
    model: str = COMPOUNDING

    def compute_hours(self, speed: Array | float) -> Array:
        """Hours of useful computing at so many tokens per second per GPU, overhead included."""
        per_hour = self.nodes * self.gpus_per_node * 3600.0
        return self.tokens * (1.0 + self.overhead) / (per_hour * np.asarray(speed, float))

    @property
    def failures_per_hour(self) -> float:
        return self.rate.per_node_day * self.nodes / HOURS

    @property
    def hours_a_failure(self) -> float:
        """Mean hours lost with a failure, at the known or expected rate."""
        if self.loss.fixed is not None:
            return self.loss.fixed
        return self.loss.restart + self.loss.every / 2

    def bred(self) -> float:
        """λL: failures expected in the time one failure costs."""
        return self.failures_per_hour * self.hours_a_failure

    def length(self) -> Length:
        """The distribution of run lengths, exact to the rules of integration. NeverEnds where λL >= 1."""
        if self.model == COMPOUNDING and self.bred() >= 1.0:
            raise NeverEnds(self.bred())
        given = self._given()
        means, variances = self._moments(given)
        mean = float(given.weight @ means)
        sd = math.sqrt(max(0.0, float(given.weight @ (variances + (means - mean) ** 2))))
        if self.speed.sd == 0 and (self.loss.fixed is not None or self.failures_per_hour == 0):
            return self._steps(given)
        low = float(given.hours.min())
        shown = given.weight > LEAST_WEIGHT
        high = float((means + 8.0 * np.sqrt(variances))[shown].max()) + 4.0 * self.hours_a_failure
        low -= 0.02 * (high - low)

        def transform(per_day: Array) -> Complex:
            return self._transform(given, per_day / HOURS)

        blocked = 1.0 + (self.loss.stall / self.loss.every if self.loss.every else 0.0)
        spread = self.speed.sd / self.speed.mean * float(given.weight @ given.hours) * blocked / HOURS
        return series_of(
            transform,
            low / HOURS,
            high / HOURS,
            (mean / HOURS, sd / HOURS),
            self.draw,
            most_per_day=VANISHED / spread if spread > 0 else math.inf,
        )

    def without_failures(self) -> RunModel:
        """The same run on machines that never fail."""
        return replace(self, rate=Rate(0.0))

    # --- given speed and rate ---------------------------------------------------------------------------
    def _given(self) -> Given:
        speeds, speed_weights = self.speed.points()
        rates, rate_weights = self.rate.points()
        rates = rates * self.nodes / HOURS
        if self.model == COMPOUNDING:
            ends = rates * self.hours_a_failure < FASTEST_BRED  # what never ends has no length
            rates, rate_weights = rates[ends], rate_weights[ends] / rate_weights[ends].sum()
        hours = self.compute_hours(speeds)
        return Given(
            np.repeat(hours, len(rates)),
            np.tile(rates, len(hours)),
            np.outer(speed_weights, rate_weights).ravel(),
        )

    def _moments(self, given: Given) -> tuple[Array, Array]:
        """Mean hours and their variance, for each speed and rate."""
        hours, rate, loss = given.hours, given.rate, self.loss
        if loss.fixed is not None:
            lost, spread = loss.fixed, loss.fixed**2
            bred = rate * lost if self.model == COMPOUNDING else np.zeros_like(rate)
            return hours + hours * rate * lost / (1 - bred), hours * rate * spread / (1 - bred) ** 3
        if self.model == FIRST_ORDER:
            lost, square = loss.restart + loss.every / 2, loss.every**2 / 12
            blocked = hours * (1 + loss.stall / loss.every)
            return blocked + hours * rate * lost, hours * rate * (lost**2 + square)
        mean, variance = segment_moments(rate, loss)
        return hours / loss.every * mean, hours / loss.every * variance

    def _transform(self, given: Given, per_hour: Array) -> Complex:
        """E exp(iωD), D in hours, for each ω of `per_hour`."""
        turn = 1j * per_hour
        total = np.zeros(len(per_hour), complex)
        for rate in np.unique(given.rate):
            of_rate = (given.rate == rate) & (given.weight > NO_WEIGHT)
            if of_rate.any():
                growth = self._growth(rate, turn)
                waves = np.exp(np.multiply.outer(given.hours[of_rate], growth))
                # no product of matrices: its threads cost more than they compute
                total += np.einsum("s,st->t", given.weight[of_rate], waves)
        return total

    def _growth(self, rate: Array, turn: Complex) -> Complex:
        """The logarithm of a run's transform for every hour it computes, failures at `rate`; `turn` = iω."""
        loss = self.loss
        if loss.fixed is not None:
            one = np.exp(turn * loss.fixed)
            if self.model == COMPOUNDING:
                one = _with_offspring(one, rate * loss.fixed)
            return turn + rate * (one - 1.0)
        if self.model == FIRST_ORDER:
            with np.errstate(invalid="ignore", divide="ignore"):
                again = np.where(turn == 0, 1.0, np.expm1(turn * loss.every) / (turn * loss.every))
            one = np.exp(turn * loss.restart) * again
            return turn * (1 + loss.stall / loss.every) + rate * (one - 1.0)
        return segment_log_transform(turn, rate, loss) / loss.every

    def _steps(self, given: Given) -> Atoms:
        """With one speed and one cost of a failure, lengths are steps: so many failures, so many hours."""
        days, chances = [], []
        for hours, rate, weight in zip(
            given.hours.tolist(), given.rate.tolist(), given.weight.tolist(), strict=True
        ):
            lost = self.loss.fixed or 0.0
            bred = rate * lost if self.model == COMPOUNDING else 0.0
            mean = rate * hours / (1 - bred)
            n = np.arange(0, int(mean + 12 * math.sqrt(mean / (1 - bred) ** 2) + 40 / (1 - bred)) + 1)
            days.append((hours + lost * n) / HOURS)
            chances.append(weight * generalised_poisson(n, rate * hours, bred))
        return Atoms(np.concatenate(days), np.concatenate(chances))

    # --- by chance --------------------------------------------------------------------------------------
    def draw(self, rng: np.random.Generator, n: int) -> Array:
        """`n` run lengths in days, each run played: speed, rate, failures, what they cost."""
        hours = self.compute_hours(self.speed.draw(rng, n))
        rate = self.rate.draw(rng, n) * self.nodes / HOURS
        loss = self.loss
        if loss.fixed is not None:
            failures = rng.poisson(rate * hours)
            if self.model == COMPOUNDING:
                failures = _breed(rng, failures, np.minimum(rate * loss.fixed, 0.999))
            return (hours + loss.fixed * failures) / HOURS
        if self.model == FIRST_ORDER:
            failures = rng.poisson(rate * hours)
            even = np.full(len(failures), loss.every / 2), np.full(len(failures), loss.every**2 / 12)
            lost = loss.restart * failures + _sum_of(
                rng, failures, even, lambda drawn: rng.random(int(failures[drawn].sum())) * loss.every
            )
            return (hours * (1 + loss.stall / loss.every) + lost) / HOURS
        return draw_segments(rng, hours, rate, loss) / HOURS


def generalised_poisson(n: NDArray[np.int64], theta: float, eta: float) -> Array:
    """P(n) of failures that breed: θ first ones, η more for each."""
    if theta == 0:
        return (n == 0).astype(float)
    grown = theta + n * eta
    return np.exp(math.log(theta) + special.xlogy(n - 1, grown) - grown - special.gammaln(n + 1))


def _with_offspring(one: Complex, bred: Array) -> Complex:
    """The transform of a failure with all it breeds: B = one · exp(bred (B - 1)), by Newton's steps."""
    whole = one.copy()
    for _ in range(50):
        grown = one * np.exp(bred * (whole - 1.0))
        step = (whole - grown) / (1.0 - bred * grown)
        whole = whole - step
        if np.abs(step).max() < 1e-14:
            break
    return whole


def _breed(rng: np.random.Generator, failures: NDArray[np.int64], bred: Array) -> NDArray[np.int64]:
    total, young = failures.copy(), failures
    alive = np.flatnonzero(young)
    young = young[alive]
    while len(alive):
        young = rng.poisson(bred[alive] * young)
        total[alive] += young
        still = young > 0
        alive, young = alive[still], young[still]
    return total


def _sums(values: Array, counts: NDArray[np.int64]) -> Array:
    """Sums of consecutive runs of `values`, `counts` of them each."""
    ends = counts.cumsum()
    running = np.concatenate([[0.0], values.cumsum()])
    return running[ends] - running[ends - counts]


def _sum_of(
    rng: np.random.Generator,
    counts: NDArray[np.int64],
    moments: tuple[Array, Array],
    values: Callable[[NDArray[np.bool_]], Array],
) -> Array:
    """
    For each run the sum of its `counts` drawn values; `values` draws those of some runs, one after another.

    Of more than MANY only their mean and variance matter: drawing them all could take all memory.
    """
    few = counts <= MANY
    sums = np.empty(len(counts))
    sums[few] = _sums(values(few), counts[few])
    mean, variance = moments[0][~few], moments[1][~few]
    many = counts[~few]
    sums[~few] = many * mean + np.sqrt(many * variance) * rng.standard_normal(len(many))
    return sums


# --- segments: work `every`, save `stall`, restart after a failure -----------------------------------------


def _cut(rate: Array, span: float) -> tuple[Array, Array]:
    """Mean and variance of the time to a failure that comes within `span`."""
    small = rate * span < 1e-4
    x, rate = np.where(small, 1.0, rate * span), np.where(small, 1.0, rate)
    q = -np.expm1(-x)
    mean = (1.0 - x * np.exp(-x) / q) / rate
    square = (2.0 - (x * x + 2 * x) * np.exp(-x) / q) / rate**2
    mean = np.where(small, span / 2, mean)
    return mean, np.where(small, span**2 / 12, square - mean**2)


def _retried(rate: Array, span: float, extra: tuple[Array | float, Array | float]) -> tuple[Array, Array]:
    """Mean and variance of the time until `span` passes without a failure; each failure costs `extra` too."""
    odds = np.expm1(rate * span)  # mean number of failures before success
    mean, variance = _cut(rate, span)
    mean, variance = mean + extra[0], variance + extra[1]
    return span + odds * mean, odds * variance + odds * (1 + odds) * mean**2


def segment_moments(rate: Array, loss: Loss) -> tuple[Array, Array]:
    """Mean and variance of one segment's hours: e^{λR}(e^{λ(τ+δ)} - 1)/λ and what belongs to it."""
    restart = _retried(rate, loss.restart, (0.0, 0.0))
    return _retried(rate, loss.every + loss.stall, restart)


def segment_log_transform(turn: Complex, rate: Array, loss: Loss) -> Complex:
    """log E exp(iωT) of one segment, `turn` = iω."""
    slow, span = rate - turn, loss.every + loss.stall
    restart = np.exp(-slow * loss.restart) / (1.0 - rate * _until(slow, loss.restart))
    failed = rate * _until(slow, span)
    return -slow * span - np.log(1.0 - failed * restart)


def _until(slow: Complex, span: float) -> Complex:
    """The integral of exp(-slow t) over t from 0 to `span`."""
    still = np.abs(slow) < STILL
    moving = np.where(still, 1.0, slow)
    return np.where(still, span, -np.expm1(-moving * span) / moving)


def draw_segments(rng: np.random.Generator, hours: Array, rate: Array, loss: Loss) -> Array:
    """Hours of runs of hours/every segments, failure by failure."""
    span = loss.every + loss.stall
    segments = hours / loss.every
    took = segments * span
    failures = _failures_before(rng, segments, rate, span)
    took += _cut_times(rng, rate, failures, span)
    took += failures * loss.restart
    if loss.restart > 0:
        again = _failures_before(rng, failures.astype(float), rate, loss.restart)
        took += _cut_times(rng, rate, again, loss.restart)
    return took


def _cut_times(rng: np.random.Generator, rate: Array, failures: NDArray[np.int64], span: float) -> Array:
    """Hours of so many stretches of `span` that a failure cut short."""
    return _sum_of(
        rng,
        failures,
        _cut(rate, span),
        lambda drawn: _failing_times(rng, np.repeat(rate[drawn], failures[drawn]), span),
    )


def _failures_before(
    rng: np.random.Generator, successes: Array, rate: Array, span: float
) -> NDArray[np.int64]:
    """Failures before so many spans pass without one: a Poisson count of a Gamma rate (negative binomial)."""
    odds = np.expm1(rate * span)
    return rng.poisson(rng.gamma(np.maximum(successes, 1e-12)) * odds * (successes > 0))


def _failing_times(rng: np.random.Generator, rate: Array, span: float) -> Array:
    """When within `span` a failure came, given that it did."""
    within = -np.expm1(-rate * span)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(
            rate * span < 1e-9,
            rng.random(len(rate)) * span,
            -np.log1p(-rng.random(len(rate)) * within) / rate,
        )


Drawn = Callable[[np.random.Generator, int], Array]
