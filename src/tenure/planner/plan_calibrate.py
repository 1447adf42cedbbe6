"""The answer of `plan calibrate`: factors that set rack readings right, or why there are none; and drift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import special

from tenure.planner.calibration import Calibrated, calibrate, drifts_at
from tenure.settings.calibration_file import CalibrationFile, MeterFile
from tenure.settings.errors import BadInput

POINTS = 400
CONVENTIONS = {
    "gains": "a rack's power = its gain · its reading; meter · (1 - loss) = sum of them + offset",
    "errors": "standard error of each gain; a gain known no better than 2 % is refused",
    "common": "the one factor that sets the racks' sum right, where single gains cannot be told apart",
    "total_error": "root mean square of what is left over on the samples fitted, ÷ their mean",
    "drift": "cumulative sums of what is left over on the samples after `fit`, alarm at 12 deviations",
    "margin": "what a sum of readings may be short by, at `confidence`: independent errors average out over "
    "racks, a common one does not",
}


def plan_calibrate(
    file: CalibrationFile,
    times: Sequence[str],
    columns: Mapping[str, Sequence[float]],
    *,
    name: str = "plan",
) -> dict[str, Any]:
    """The keys of the JSON. BadInput with too few samples."""
    fit = len(times) if file.fit is None else min(file.fit, len(times))
    meters = [_meter(file, row, meter, (times, columns), fit, name) for row, meter in enumerate(file.meters)]
    racks = sum(len(meter.racks) for meter in file.meters)
    told: dict[str, Any] = {
        "samples": len(times),
        "fitted": fit,
        "meters": meters,
        "margin": _margin(file, racks),
    }
    told["warnings"] = _warnings(file, told)
    told["conventions"] = CONVENTIONS
    return told


def _meter(
    file: CalibrationFile,
    row: int,
    meter: MeterFile,
    samples: tuple[Sequence[str], Mapping[str, Sequence[float]]],
    fit: int,
    name: str,
) -> dict[str, Any]:
    times, columns = samples
    upstream = np.array(columns[meter.column])
    readings = np.column_stack([columns[rack] for rack in meter.racks])
    try:
        found = calibrate(upstream[:fit], readings[:fit], meter.loss)
    except ValueError as few:
        raise BadInput(name, f"meters[{row}]", f"{fit} samples", str(few)) from None
    drift = None
    if fit < len(times):
        drift = drifts_at(found, upstream[fit:], readings[fit:], meter.loss)
    power = upstream * (1.0 - meter.loss)
    unset, left = readings.sum(axis=1) - power, found.total(readings) - power
    thin = np.unique(np.linspace(0, len(power) - 1, min(len(power), POINTS)).astype(int))
    return {
        "meter": meter.column,
        "racks": list(meter.racks),
        "gains": None if found.gains is None else found.gains.tolist(),
        "errors": None if found.errors is None else found.errors.tolist(),
        "common": found.common,
        "offset": found.offset,
        "refused": found.refused,
        "total_error": _part(left[:fit], power[:fit]),
        "total_error_unset": _part(unset[:fit], power[:fit]),
        "drift": _drift(found, drift, fit, times),
        "lines": {
            "sample": thin.tolist(),
            "unset": (unset / power)[thin].tolist(),
            "set": (left / power)[thin].tolist(),
        },
    }


def _part(left: np.ndarray, power: np.ndarray) -> float:
    return float(np.sqrt(np.mean(left**2)) / power.mean())


def _drift(found: Calibrated, sample: int | None, fit: int, times: Sequence[str]) -> dict[str, Any] | None:
    if sample is None:
        return None
    return {"sample": fit + sample, "time": times[fit + sample]}


def _margin(file: CalibrationFile, racks: int) -> dict[str, float]:
    z = float(special.ndtri(file.confidence))
    apart = z * file.independent / racks**0.5
    return {
        "confidence": file.confidence,
        "independent": apart,
        "common": z * file.common,
        "together": float(np.hypot(apart, z * file.common)),
    }


def _warnings(file: CalibrationFile, told: Mapping[str, Any]) -> list[str]:
    found = []
    for meter in told["meters"]:
        if meter["refused"]:
            found.append(f"{meter['meter']}: {meter['refused']}")
        if meter["drift"]:
            found.append(
                f"{meter['meter']}: readings no longer fit the meter from sample {meter['drift']['sample']} "
                f"({meter['drift']['time']}) on: calibrate anew, or look for the rack that changed"
            )
    if all(meter.loss == 0 for meter in file.meters):
        found.append("loss is 0: what is lost between racks and meter would be taken for the racks'")
    if told["fitted"] == told["samples"]:
        found.append("all samples are fitted: give fit, so that the rest is watched for drift")
    return found
