"""The answer of `plan gang`: a gang's chances, how long it takes to come together, and the bill meanwhile."""

from __future__ import annotations

from typing import Any

import numpy as np

from tenure.planner.gang import (
    HOURS,
    Arrivals,
    Exponential,
    Linear,
    Trickle,
    Zone,
    assemble,
    attempts_all_or_nothing,
    p_all_at_once,
    rounds_keep,
)
from tenure.settings.gang_file import ArrivalsFile, GangFile

HOUR_S = 3600.0
SHOWN = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def plan_gang(file: GangFile) -> dict[str, Any]:
    """The keys of the plan's JSON."""
    arrivals = None if file.arrivals is None else arrivals_of(file.arrivals)
    told: dict[str, Any] = {
        "nodes": file.nodes,
        "p_all_at_once": p_all_at_once(file.nodes, file.success),
        "attempts_all_or_nothing": attempts_all_or_nothing(file.nodes, file.success),
        "rounds_keep": rounds_keep(file.nodes, file.success),
    }
    rng = np.random.default_rng(file.seed)
    if arrivals is not None:
        held = arrivals.held_days_per_node(file.nodes)
        quantiles = arrivals.quantile_h(file.nodes, np.array(list(SHOWN.values())))
        assembly = {"mean": arrivals.mean_h(file.nodes)}
        method = "exact"
    else:
        drawn = assemble(rng, file.nodes, file.success, file.round / HOUR_S, zone_of(file), file.draws)
        held = float(drawn.held_node_h.mean()) / file.nodes / HOURS
        quantiles = np.quantile(drawn.hours, list(SHOWN.values()))
        assembly = {"mean": float(drawn.hours.mean())}
        method = "draws"
    told["held_node_days_per_node"] = held
    told["held_cost"] = held * file.nodes * HOURS * file.price_per_node_hour
    told["assembly_h"] = assembly | dict(zip(SHOWN, (float(q) for q in quantiles), strict=True))
    told["method"] = method
    told["warnings"] = [str(text) for text in _warnings(file, told)]
    told["conventions"] = {
        "attempts_all_or_nothing": "mean number of attempts, each for all nodes at once",
        "rounds_keep": "mean number of rounds, the first counts 1; what came is kept",
        "held_cost": "all nodes, from each one's arrival to the last one's",
        "assembly_h": "from the first request to the last node; rounds: the first is at 0",
    }
    return told


def arrivals_of(told: ArrivalsFile) -> Arrivals:
    """How nodes come by themselves."""
    if told.kind == "trickle":
        assert told.have is not None
        assert told.per_day is not None
        return Trickle(told.have, told.per_day)
    assert told.days is not None
    return Linear(told.days) if told.kind == "linear" else Exponential(told.days)


def zone_of(file: GangFile) -> Zone | None:
    """The zone's open and tight spells, where the file gives them."""
    return None if file.zone is None else Zone(file.zone.open_h, file.zone.tight_h)


def _warnings(file: GangFile, told: dict[str, Any]) -> list[str]:
    found = []
    if file.nodes > 1 and told["p_all_at_once"] < 0.5 and file.arrivals is None:
        found.append(
            f"phantom gang: one attempt brings all {file.nodes} nodes with chance "
            f"{told['p_all_at_once']:.1%} only"
        )
    if file.zone is not None:
        found.append(
            "tight zone: days of waiting come from zones that stay tight, not from single failures: "
            "measure how long "
            "they do"
        )
    if file.arrivals is None and file.zone is None and file.success < 1:
        found.append(
            "failing together: nodes are taken to fail apart from each other: where they fail "
            "together one attempt is "
            "likelier and "
            "a retry is worth less"
        )
    return found
