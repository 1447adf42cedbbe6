"""How many accelerators at which power limit a site feeds, and which limit gives the most work.

`site_w`: what the site supplies. `multiplier`: site watts for one watt at the accelerator and its share of
the rack (network, services, conversion, cooling). `overhead_w`: an accelerator's share of all in its rack
that does not follow the limit. `capital_w`: what an accelerator costs besides power, expressed in watts;
with 0 power alone is scarce, and the answer is a limit far below what people choose.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tenure.planner.power_curves import Curve

STEPS = 4001
ROUNDING = 1e-9  #: 83,000 accelerators that fill the site to the last digit are 83,000


@dataclass(frozen=True)
class Site:
    """Watts throughout."""

    site_w: float
    multiplier: float
    overhead_w: float
    capital_w: float = 0.0

    def all_in_w(self, cap_w: float) -> float:
        """Site watts of one accelerator at a limit."""
        return self.multiplier * (cap_w + self.overhead_w)

    def gpus(self, cap_w: float) -> int:
        """Accelerators the site feeds at a limit."""
        return math.floor(self.site_w / self.all_in_w(cap_w) * (1.0 + ROUNDING))


@dataclass(frozen=True)
class Reference:
    """The limit that speeds are told against: the rated one, or the curve's highest point."""

    cap_w: float
    rated: bool

    @classmethod
    def of(cls, curve: Curve, rated_w: float) -> Reference:
        """Rated where the curve reaches it."""
        return cls(rated_w, True) if curve.holds(rated_w) else cls(curve.high_w, False)


def per_gpu(curve: Curve, reference: Reference, cap_w: float) -> float:
    """Speed of one accelerator relative to the reference."""
    return curve(cap_w) / curve(reference.cap_w)


def cluster(site: Site, curve: Curve, reference: Reference, cap_w: float) -> float:
    """Work of the whole site relative to the reference; accelerators not rounded."""
    power = (cap_w + site.overhead_w) / (reference.cap_w + site.overhead_w)
    return per_gpu(curve, reference, cap_w) / power


def optimum_w(site: Site, curve: Curve) -> float:
    """The limit with the most work per watt, capital included, within the curve: T'/T = 1/(P + x + k)."""
    extra = site.overhead_w + site.capital_w

    def most(caps: np.ndarray) -> int:
        return int(np.argmax(curve.at(caps) / (caps + extra)))

    caps = np.linspace(curve.low_w, curve.high_w, STEPS)
    best = most(caps)
    while caps[-1] - caps[0] > 1e-6 * curve.high_w:  # the first pass finds the highest hill, the rest its top
        caps = np.linspace(caps[max(0, best - 1)], caps[min(STEPS - 1, best + 1)], STEPS)
        best = most(caps)
    return float(caps[best])


def at_edge(curve: Curve, cap_w: float) -> bool:
    """Whether an optimum lies on the curve's edge: the true one may be beyond it."""
    return min(cap_w - curve.low_w, curve.high_w - cap_w) < 1e-4 * curve.high_w


def cap_within(limit_w: float, gpus: int, multiplier: float, overhead_w: float) -> float:
    """The limit at which `gpus` draw all that a breaker or a site gives them; below 0: none."""
    return limit_w / (multiplier * gpus) - overhead_w


@dataclass(frozen=True)
class Choice:
    """A limit chosen while it is open which of several curves the work will follow.

    `regret`: by curve, the part of its own best that this limit leaves undone; `worst` of them is the least
    that any limit has.
    """

    cap_w: float
    regret: dict[str, float]
    worst: float


def choose_under(site: Site, curves: dict[str, Curve]) -> Choice | None:
    """The limit with the least worst regret, where all curves reach; None where they share no limit."""
    low, high = max(c.low_w for c in curves.values()), min(c.high_w for c in curves.values())
    if low > high:
        return None
    extra = site.overhead_w + site.capital_w
    caps = np.linspace(low, high, STEPS)
    left = {}
    for name, curve in curves.items():
        best_w = optimum_w(site, curve)
        left[name] = 1.0 - curve.at(caps) / (caps + extra) / (curve(best_w) / (best_w + extra))
    worst = np.max(list(left.values()), axis=0)
    at = int(np.argmin(worst))
    return Choice(float(caps[at]), {name: float(v[at]) for name, v in left.items()}, float(worst[at]))


def limit_factor(gpus: int, held: int, idle: float) -> float:
    """What the limit of the others may rise by, in a rack fed as before, when `held` of `gpus` idle.

    (gpus - held·idle)/(gpus - held); `idle`: an idle accelerator's draw in parts of an active one's.
    """
    return (gpus - held * idle) / (gpus - held)


def capital_for(site: Site, curve: Curve, cap_w: float) -> float | None:
    """Backwards: the capital term, in watts, that makes `cap_w` the optimum; None where none >= 0 does."""
    step = 1e-4 * curve.high_w
    if not curve.holds(cap_w - step) or not curve.holds(cap_w + step):
        return None
    slope = (curve(cap_w + step) - curve(cap_w - step)) / (2 * step)
    capital = curve(cap_w) / slope - cap_w - site.overhead_w if slope > 0 else -1.0
    return capital if capital >= 0 else None


def stranded(site: Site, rated_w: float, measured_w: float) -> float:
    """The part of the supply that planning by `rated_w` leaves unused where `measured_w` is drawn."""
    return 1.0 - site.all_in_w(measured_w) / site.all_in_w(rated_w)


def straggler_speed(gpus: int, sigma: float) -> float:
    """Speed of a synchronous job whose accelerators differ by `sigma` (normal): 1 + sigma E[least of N]."""
    return 1.0 - sigma * _greatest_of_normals(gpus)


def _greatest_of_normals(n: int) -> float:
    """E[max of n standard normals]: the upper end less the integral of F^n up to it, by trapezoids."""
    from scipy.special import log_ndtr

    z = np.linspace(-12.0, 12.0, 24_001)
    return float(z[-1] - np.trapezoid(np.exp(n * log_ndtr(z)), z))
