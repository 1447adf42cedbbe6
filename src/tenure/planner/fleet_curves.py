"""The curves of a fleet plan's page: what the answer's numbers are points of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tenure.planner.goodput import EXACT, FIRST_ORDER, Run
from tenure.planner.plan_goodput import run_of
from tenure.planner.plan_power import curve_of, site_of
from tenure.planner.power import Reference, cluster, per_gpu
from tenure.settings.goodput_file import GoodputFile
from tenure.settings.power_file import PowerFile

POINTS = 200


def goodput_curves(file: GoodputFile) -> dict[str, Any]:
    """Works over the interval between saves, and over recovery, by two conventions."""
    run = run_of(file)
    best = max(run.every, 1.0)
    every = np.geomspace(best / 8, best * 8, POINTS)
    recovery = np.linspace(0.0, 2 * max(run.recovery, 60.0), POINTS)

    def saved(t: float) -> Run:
        return replace(run, saves=replace(run.saves, every=float(t)))

    return {
        "every_s": every,
        "over_every": {name: np.array([saved(t).ettr(name) for t in every]) for name in (EXACT, FIRST_ORDER)},
        "recovery_s": recovery,
        "over_recovery": {
            name: np.array([replace(run, recovery=float(r)).ettr(name) for r in recovery])
            for name in (EXACT, FIRST_ORDER)
        },
    }


def power_curves(file: PowerFile) -> dict[str, Any]:
    """One accelerator's and the whole site's work over the limit."""
    curve, site = curve_of(file), site_of(file)
    reference = Reference.of(curve, file.rated_w)
    caps = np.linspace(curve.low_w, curve.high_w, POINTS)
    return {
        "cap_w": caps,
        "per_gpu": np.array([per_gpu(curve, reference, float(w)) for w in caps]),
        "cluster": np.array([cluster(site, curve, reference, float(w)) for w in caps]),
    }
