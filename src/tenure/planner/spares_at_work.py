"""A fleet's plan as a scenario: its job, its spares, its failures, and work that uses what is idle.

Played by the scheduler it says what the plan cannot: what interruptible work gets of idle spares, and that
the job has its racks back at once when one fails.
"""

from __future__ import annotations

import math
from typing import Any

from tenure.settings.spares_file import SparesFile

DAY_S, YEAR_S = 86_400.0, 365.25 * 86_400.0
LONGEST_S, SHORTEST_S = 30 * DAY_S, DAY_S
MOST_FREE = 5000
NEVER = "10000d"


def scenario_of(file: SparesFile, q: float, spare: int) -> dict[str, Any]:
    """The scenario: a node stands for a rack's used GPUs; `spare` over all zones, q of a rack's time down."""
    lasts_s = min(LONGEST_S, max(SHORTEST_S, file.mission or LONGEST_S))
    gpus, active = file.usable, file.active
    mttr_s = file.rack_mttr_s or 12 * 3600.0
    zones = file.zones
    clusters = {
        f"zone{zone + 1}" if zones > 1 else "fleet": {
            "nodes": active // zones, "gpus_per_node": gpus, "nodes_per_rack": 1,
        }
        for zone in range(zones)
    }  # fmt: skip
    failures: dict[str, Any] = {
        "node": {"mtbf": round(mttr_s * (1.0 - q) / q, 3), "repair": mttr_s},
        "spares": math.ceil(spare / zones),
    }
    if file.crews is not None and zones == 1:  # crews of a zone are not those of another
        failures["crews"] = file.crews
    if file.common_cause is not None:
        told = file.common_cause
        failures["common"] = {
            "per_year": told.per_year / zones, "racks": told.racks, "repair": told.mttr,
        }  # fmt: skip
    jobs = [
        {
            "id": f"job-{name}", "account": "job", "gpus": active // zones * gpus, "clusters": [name],
            "min_runtime": "1h", "runtime": NEVER, "checkpoint_every": "10m", "restart": "10m",
        }
        for name in clusters
    ]  # fmt: skip
    free = min(MOST_FREE, max(8, 4 * spare * math.ceil(lasts_s / (12 * 3600.0))))
    every_s = max(60, int(lasts_s / free))
    jobs.append(
        {
            "id": "free",
            "account": "free",
            "gpus": gpus,
            "min_runtime": 0,
            "runtime": "12h",
            "count": free,
            "every": every_s,
            "checkpoint_every": "30m",
        }
    )
    return {
        "lab": {
            "lab": "fleet",
            "clusters": clusters,
            "accounts": {"job": {"share": "100%"}, "free": {"share": "0%"}},
        },
        "until": f"{int(lasts_s)}s",
        "seed": 1,
        "jobs": jobs,
        "failures": failures,
    }
