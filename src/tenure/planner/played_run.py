"""A run of `plan goodput` played node by node, beside the formula: crews, lemons, causes that take many."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from tenure.planner.goodput import Run
from tenure.planner.play_fleet import Part, PlayedJob
from tenure.planner.play_nodes import Lemons, PlayedNodes, draws
from tenure.settings.goodput_file import GoodputFile

YEAR_S = 365.25 * 86_400.0
DAY_S = 86_400.0
PARTS = ("productive", "saving", "rework", "recovery", "short")


def played_nodes(file: GoodputFile, run: Run) -> dict[str, Any] | None:
    """What play gives with all the file says, and with none of what formulas leave out; None without play."""
    told, failures = file.play, file.failures
    if told is None or failures is None or failures.nodes is None or failures.per_1000_node_days is None:
        return None
    lemons = None if told.lemons is None else Lemons(told.lemons.part, told.lemons.times)
    mean_times = 1.0 if lemons is None else 1.0 - lemons.part + lemons.part * lemons.times
    node_s = DAY_S * 1000.0 / failures.per_1000_node_days
    common = None if told.common is None else Part(YEAR_S / told.common.per_year, told.common.mttr)
    nodes = failures.nodes + told.spare
    whole = PlayedNodes(
        nodes, failures.nodes, Part(node_s * mean_times, told.repair), told.crews, lemons, common,
        0 if told.common is None else told.common.nodes,
    )  # fmt: skip
    # as the formulas have it: no crews to wait for, no lemons, and never too few nodes
    plain = PlayedNodes(2 * failures.nodes, failures.nodes, Part(node_s, told.repair))
    job = PlayedJob(run.recovery + run.saves.persist, run.every, run.saves.blocking)
    return {
        "draws": told.draws,
        "lasts_s": told.lasts,
        **_means(whole, job, told.seed, told.lasts, told.draws),
        "plain": _means(plain, job, told.seed, told.lasts, told.draws),
        "formula": run.ettr(),
        "without_lemons": None
        if lemons is None
        else _means(replace(whole, lemons=None), job, told.seed, told.lasts, told.draws)["productive"],
    }


def _means(fleet: PlayedNodes, job: PlayedJob, seed: int, lasts_s: float, n: int) -> dict[str, float]:
    rows = list(draws(seed, fleet, job, lasts_s, n))
    found = {name: float(np.mean([getattr(row, name) for row in rows])) for name in PARTS}
    works = [row.productive for row in rows]
    return found | {
        "error": float(np.std(works, ddof=1)) / math.sqrt(n),
        "stops_per_day": float(np.mean([row.stops for row in rows])) / (lasts_s / DAY_S),
        "shortages": float(np.mean([row.shortages for row in rows])),
        "down": float(np.mean([row.down for row in rows])),
        "queued": float(np.mean([row.queued for row in rows])),
    }
