"""Whether rack power readings can be set right by a meter above them, and by what factors.

    upstream = sum over racks of (gain · reading + offset) / (1 - loss) + noise

Gains of single racks can be told apart only where racks vary apart from each other. Racks of one synchronous
job do not: then only one common factor is to be had, and single gains are refused. `loss` between the racks
and the meter cannot be told from a common gain: it must be known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
LARGEST_ERROR = 0.02  #: a gain known no better than so is refused: readings are about 3 % off to begin with
SINGULAR = 1e-10
PATIENCE, ALARM = 0.5, 12.0  #: of the drift alarm, in standard deviations


@dataclass(frozen=True)
class Calibrated:
    """`gains` and their standard errors, a rack each; None where they cannot be told, and `refused` why.

    `common`: the factor that sets their sum right, and `offset` what is added to it; always there.
    `noise`: standard deviation of what is left over, in the meter's unit.
    """

    gains: Array | None
    errors: Array | None
    common: float
    offset: float
    noise: float
    refused: str | None

    def total(self, readings: Array) -> Array:
        """The racks' power set right, of readings (samples × racks)."""
        if self.gains is None:
            return self.common * readings.sum(axis=1) + self.offset
        return readings @ self.gains + self.offset


def calibrate(upstream: Array, readings: Array, loss: float = 0.0) -> Calibrated:
    """`upstream`: a meter's samples; `readings`: samples × racks; `loss`: the known part lost between."""
    racks = readings.shape[1]
    if len(upstream) < 3 * (racks + 1):
        raise ValueError(f"at least {3 * (racks + 1)} samples for {racks} racks")
    power = upstream * (1.0 - loss)
    common, offset, left = _together(power, readings)
    means = readings.mean(axis=0)
    apart = readings - means
    size = np.linalg.svd(apart, compute_uv=False)
    if size[-1] <= SINGULAR * max(size[0], float(np.abs(readings).max())):
        why = "the racks rise and fall together: no gain can be told from another, only one common factor"
        return Calibrated(None, None, common, offset, left, why)
    gains, *_ = np.linalg.lstsq(apart, power - power.mean(), rcond=None)
    rest = power - power.mean() - apart @ gains
    noise = float(np.sqrt(rest @ rest / (len(power) - racks - 1)))
    errors = noise * np.sqrt(np.diag(np.linalg.inv(apart.T @ apart)))
    if errors.max() > LARGEST_ERROR:
        why = (
            f"the racks vary too much together: a gain would be known to ± {errors.max():.1%} only, "
            "no better than unset; calibrate while racks are started one by one, tested or maintained"
        )
        return Calibrated(None, errors, common, offset, left, why)
    return Calibrated(gains, errors, common, float(power.mean() - means @ gains), noise, None)


def _together(power: Array, readings: Array) -> tuple[float, float, float]:
    total = readings.sum(axis=1)
    apart = total - total.mean()
    spread = float(apart @ apart)
    if spread <= (SINGULAR * max(1.0, float(np.abs(total).max()))) ** 2 * len(total):
        factor, offset = float(power.mean() / total.mean()), 0.0  # nothing varies: a ratio is all there is
    else:
        factor = float(apart @ (power - power.mean()) / spread)
        offset = float(power.mean() - factor * total.mean())
    rest = power - factor * total - offset
    return factor, offset, float(np.sqrt(rest @ rest / (len(power) - 2)))


def drifts_at(calibrated: Calibrated, upstream: Array, readings: Array, loss: float = 0.0) -> int | None:
    """The sample at which readings no longer fit the meter (cumulative sums); None while they do."""
    left = (upstream * (1.0 - loss) - calibrated.total(readings)) / calibrated.noise
    above = below = 0.0
    for sample, value in enumerate(left):
        above = max(0.0, above + float(value) - PATIENCE)
        below = max(0.0, below - float(value) - PATIENCE)
        if max(above, below) > ALARM:
            return sample
    return None
