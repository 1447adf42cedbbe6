"""A distribution given by its characteristic function, turned back by a cosine series.

Fang and Oosterlee, "A novel pricing method for European options based on Fourier-cosine series expansions",
SIAM J. Sci. Comput. 31 (2008): a density on [low, high] is a sum of cosines whose weights are values of the
characteristic function; chances and means past a point are sums of sines and cosines in closed form. The
error falls exponentially with the number of terms where the density is smooth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Days = NDArray[np.floating]
LEAST_TERMS, MOST_TERMS = 64, 1 << 14
SMALL = 1e-11  #: a weight below this adds nothing that is shown


@dataclass(frozen=True)
class Series:
    """A distribution of days on [low, high]. `weights[k]` belongs to cos(k π (x - low) / (high - low))."""

    low: float
    high: float
    weights: Days
    mean: float
    sd: float
    drawn: Callable[[np.random.Generator, int], Days]

    @property
    def span(self) -> float:
        return self.high - self.low

    def _turns(self) -> Days:
        return np.arange(len(self.weights)) * (np.pi / self.span)

    def above(self, days: Days) -> Days:
        days = np.asarray(days, float)
        x = np.clip(days - self.low, 0.0, self.span)
        turns = self._turns()[1:]
        waves = np.sin(np.multiply.outer(x, turns)) @ (self.weights[1:] / turns)
        below = self.weights[0] * x + waves
        return np.where(days < self.low, 1.0, np.clip(1.0 - below, 0.0, 1.0))

    def excess(self, days: Days) -> Days:
        """The integral of `above` from here on."""
        days = np.asarray(days, float)
        x = np.clip(days - self.low, 0.0, self.span)
        turns = self._turns()[1:]
        waves = (1.0 - np.cos(np.multiply.outer(x, turns))) @ (self.weights[1:] / turns**2)
        below = self.weights[0] * x**2 / 2 + waves  # the integral of P(D <= ·) from low to here
        late = (self.mean - self.low) - (x - below)
        return np.maximum(0.0, late) + np.maximum(0.0, self.low - days)

    def density(self, days: Days) -> Days:
        x = np.clip(np.asarray(days, float) - self.low, 0.0, self.span)
        return np.cos(np.multiply.outer(x, self._turns())) @ self.weights

    def quantile(self, p: Days) -> Days:
        """Bisection of all at once, then Newton's steps as long as they stay inside."""
        p = np.asarray(p, float)
        low, high = np.full(p.shape, self.low), np.full(p.shape, self.high)
        guess = np.clip(self.mean + self.sd * (p - 0.5), self.low, self.high)
        for _ in range(60):
            gap = (1.0 - self.above(guess)) - p
            low, high = np.where(gap < 0, guess, low), np.where(gap < 0, high, guess)
            if (high - low).max(initial=0.0) < 1e-9 or np.abs(gap).max(initial=0.0) < 1e-13:
                break
            with np.errstate(divide="ignore", invalid="ignore"):
                step = guess - gap / self.density(guess)
            guess = np.where((step > low) & (step < high), step, (low + high) / 2)
        return guess

    def draw(self, rng: np.random.Generator, n: int) -> Days:
        return self.drawn(rng, n)


def series_of(
    transform: Callable[[Days], NDArray[np.complexfloating]],
    low: float,
    high: float,
    moments: tuple[float, float],
    drawn: Callable[[np.random.Generator, int], Days],
    *,
    most_per_day: float = np.inf,
) -> Series:
    """The series of a characteristic function `transform(u) = E exp(i u D)`, u per day.

    Terms are added until they vanish, or up to `most_per_day`, where the caller knows that they have: past
    it a transform that is itself a sum over points only turns round, and its terms are noise. A distribution
    with steps (no spread of its speed) is none for this.
    """
    turn = np.pi / (high - low)
    pieces, at, step = [], 0, LEAST_TERMS
    most = int(min(MOST_TERMS, max(LEAST_TERMS, most_per_day / turn)))
    while at < most:
        step = min(step, most - at)
        turns = np.arange(at, at + step) * turn
        piece = (transform(turns) * np.exp(-1j * turns * low)).real * (2.0 / (high - low))
        pieces.append(piece)
        at += step
        if np.abs(piece[-step // 2 :]).max() * (high - low) < SMALL:
            break
        step = at
    weights = np.concatenate(pieces)
    weights[0] /= 2
    return Series(low, high, weights, moments[0], moments[1], drawn)
