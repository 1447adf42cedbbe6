"""How long a run may take: a distribution of days, whatever it was made of.

Everything a plan asks of a distribution is the chance to run past a window, the mean time past it, and its
quantiles. Closed forms for the usual families are here; `series.py` has the run model's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special

Days = NDArray[np.floating]


class Length(Protocol):
    """A distribution of run lengths, in days."""

    @property
    def mean(self) -> float: ...

    @property
    def sd(self) -> float: ...

    def above(self, days: Days) -> Days:
        """P(D > days), strictly."""
        ...

    def excess(self, days: Days) -> Days:
        """E[(D - days)+], in days."""
        ...

    def quantile(self, p: Days) -> Days:
        """The shortest length reached with chance `p`."""
        ...

    def draw(self, rng: np.random.Generator, n: int) -> Days:
        """`n` lengths."""
        ...


@dataclass(frozen=True)
class Uniform:
    """Every length from `low` to `high` alike."""

    low: float
    high: float

    @property
    def mean(self) -> float:
        return (self.low + self.high) / 2

    @property
    def sd(self) -> float:
        return (self.high - self.low) / math.sqrt(12)

    def above(self, days: Days) -> Days:
        return np.clip((self.high - days) / (self.high - self.low), 0.0, 1.0)

    def excess(self, days: Days) -> Days:
        inside = np.clip(days, self.low, self.high)
        late = (self.high - inside) ** 2 / (2 * (self.high - self.low))
        return late + np.maximum(0.0, self.low - days)

    def quantile(self, p: Days) -> Days:
        return self.low + np.asarray(p) * (self.high - self.low)

    def draw(self, rng: np.random.Generator, n: int) -> Days:
        return rng.uniform(self.low, self.high, n)


@dataclass(frozen=True)
class Normal:
    """The textbook's; lengths below 0 are as unlikely as its mean and sd make them."""

    mean: float
    sd: float

    def above(self, days: Days) -> Days:
        return special.ndtr((self.mean - np.asarray(days)) / self.sd)

    def excess(self, days: Days) -> Days:
        z = (np.asarray(days) - self.mean) / self.sd
        return self.sd * (np.exp(-z * z / 2) / math.sqrt(2 * math.pi) - z * special.ndtr(-z))

    def quantile(self, p: Days) -> Days:
        return self.mean + self.sd * special.ndtri(p)

    def draw(self, rng: np.random.Generator, n: int) -> Days:
        return rng.normal(self.mean, self.sd, n)


@dataclass(frozen=True)
class Lognormal:
    """Of the length's own mean and sd, not of its logarithm's."""

    mean: float
    sd: float

    @property
    def log_sd(self) -> float:
        return math.sqrt(math.log1p((self.sd / self.mean) ** 2))

    @property
    def log_mean(self) -> float:
        return math.log(self.mean) - self.log_sd**2 / 2

    def above(self, days: Days) -> Days:
        return special.ndtr(-self._z(days))

    def _z(self, days: Days) -> Days:
        with np.errstate(divide="ignore"):
            return (np.log(np.maximum(days, 0.0)) - self.log_mean) / self.log_sd

    def excess(self, days: Days) -> Days:
        days = np.asarray(days, float)
        z = self._z(days)
        late = self.mean * special.ndtr(self.log_sd - z) - days * special.ndtr(-z)
        return np.where(days <= 0, self.mean - days, late)

    def quantile(self, p: Days) -> Days:
        return np.exp(self.log_mean + self.log_sd * special.ndtri(p))

    def draw(self, rng: np.random.Generator, n: int) -> Days:
        return rng.lognormal(self.log_mean, self.log_sd, n)


@dataclass(frozen=True)
class ShiftedExponential:
    """At least `shift`, and then as long again as chance will have it: `scale` on average."""

    shift: float
    scale: float

    @property
    def mean(self) -> float:
        return self.shift + self.scale

    @property
    def sd(self) -> float:
        return self.scale

    def above(self, days: Days) -> Days:
        return np.exp(-np.maximum(0.0, np.asarray(days) - self.shift) / self.scale)

    def excess(self, days: Days) -> Days:
        return self.scale * self.above(days) + np.maximum(0.0, self.shift - np.asarray(days))

    def quantile(self, p: Days) -> Days:
        return self.shift - self.scale * np.log1p(-np.asarray(p))

    def draw(self, rng: np.random.Generator, n: int) -> Days:
        return self.shift + rng.exponential(self.scale, n)


class Atoms:
    """Finitely many lengths, each with its chance: what was drawn or listed. Chances are made to sum to 1."""

    def __init__(self, days: Days, chances: Days | None = None) -> None:
        days = np.asarray(days, float)
        order = np.argsort(days, kind="stable")
        self.days = days[order]
        chances = np.full(len(days), 1.0) if chances is None else np.asarray(chances, float)[order]
        self.chances = chances / chances.sum()
        self.mean = float(self.days @ self.chances)
        self.sd = float(math.sqrt(max(0.0, self.chances @ (self.days - self.mean) ** 2)))
        from_above = self.chances[::-1].cumsum()[::-1]
        self._above = np.append(np.minimum(from_above, 1.0), 0.0)  #: chance of this place or a later one
        self._days_above = np.append((self.days * self.chances)[::-1].cumsum()[::-1], 0.0)
        self._upto = self.chances.cumsum()

    def above(self, days: Days) -> Days:
        return self._above[np.searchsorted(self.days, days, side="right")]

    def excess(self, days: Days) -> Days:
        place = np.searchsorted(self.days, days, side="right")
        return np.maximum(0.0, self._days_above[place] - np.asarray(days) * self._above[place])

    def quantile(self, p: Days) -> Days:
        place = np.searchsorted(self._upto, np.asarray(p) - 1e-12)
        return self.days[np.minimum(place, len(self.days) - 1)]

    def draw(self, rng: np.random.Generator, n: int) -> Days:
        return rng.choice(self.days, n, p=self.chances)
