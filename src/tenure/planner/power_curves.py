"""What an accelerator does at a power limit, relative to its rated one: measured and made curves.

A curve holds between its ends alone and is never carried past them. `gb200_fit` is made: one line through
three published statements on GB200 (1,200 to 1,000 W costs 5 %, a cluster gains 9 % by it, its optimum is
near 1,000 W). `h100_mayr` is measured: Mayr et al. (2026), arXiv:2603.16164, Table 4, Llama 3 8B on 4 H100,
over cap/700 W. Points of one's own are joined by monotone cubics (PCHIP; Fritsch and Carlson, 1980).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

Array = NDArray[np.float64]
GB200_RATED_W = 1200.0
GB200_LOW_W = 850.0
H100_RATED_W = 700.0
H100_CAPS_W = (200.0, 300.0, 400.0, 500.0, 600.0, 700.0)
H100_TOKENS_PER_S = (9699.3, 17982.3, 24853.4, 27705.3, 29250.0, 30271.0)
#: Ujeniya et al. (2026), arXiv:2604.11391: what another kernel really drew at those limits.
H100_DRAWN_W = (199.0, 298.0, 395.0, 493.0, 591.0, 647.0)
NAMED = ("gb200_fit", "h100_mayr")


class OutsideCurve(ValueError):
    """A limit no measurement of the curve stands for. `low_w`, `high_w`: what it covers."""

    def __init__(self, cap_w: float, curve: Curve) -> None:
        self.low_w, self.high_w = curve.low_w, curve.high_w
        super().__init__(
            f"{cap_w:g} W is outside the curve, which covers {curve.low_w:g} to {curve.high_w:g} W: a "
            "curve is never extrapolated"
        )


@dataclass(frozen=True)
class Curve:
    """`at`: relative speed at so many watts, valid from `low_w` to `high_w`."""

    name: str
    low_w: float
    high_w: float
    at: Callable[[Array], Array]

    def __call__(self, cap_w: float) -> float:
        """Relative speed. OutsideCurve where the curve does not reach."""
        if not self.low_w <= cap_w <= self.high_w:
            raise OutsideCurve(cap_w, self)
        return float(self.at(np.asarray(cap_w, float)))

    def holds(self, cap_w: float) -> bool:
        """Whether the curve reaches `cap_w`."""
        return self.low_w <= cap_w <= self.high_w


def gb200_fit() -> Curve:
    """T(P) = 1 - 0.05 ((1200 - P)/200)^2.8 from 850 to 1,200 W."""
    return Curve(
        "gb200_fit",
        GB200_LOW_W,
        GB200_RATED_W,
        lambda cap_w: 1.0 - 0.05 * ((GB200_RATED_W - cap_w) / 200.0) ** 2.8,
    )


def h100_mayr(rated_w: float = H100_RATED_W, *, drawn: bool = False) -> Curve:
    """The measured H100 carried to `rated_w` by cap/rated. `drawn`: over the watts really drawn."""
    axis = np.array(H100_DRAWN_W if drawn else H100_CAPS_W) * rated_w / H100_RATED_W
    speed = np.array(H100_TOKENS_PER_S) / H100_TOKENS_PER_S[-1]
    return _joined("h100_mayr", axis, speed)


def through(points: Sequence[tuple[float, float]]) -> Curve:
    """Points of watts and relative speed, in any order. ValueError for two at one watt or a single one."""
    ordered = np.array(sorted(points), dtype=float)
    if len(ordered) < 2:
        raise ValueError("a curve of two points or more")
    same = np.flatnonzero(np.diff(ordered[:, 0]) == 0)
    if len(same):
        raise ValueError(f"one point a watt, not two at {ordered[same[0], 0]:g} W")
    return _joined("points", ordered[:, 0], ordered[:, 1])


def _joined(name: str, watts: Array, speed: Array) -> Curve:
    cubic = PchipInterpolator(watts, speed)
    return Curve(name, float(watts[0]), float(watts[-1]), lambda cap_w: np.asarray(cubic(cap_w)))
