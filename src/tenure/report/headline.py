"""The figures at the top, each beside the published one and with what it means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tenure.report.frames import number, percent, seconds

PUBLISHED = (
    "Published: Ai2, “Impactful scheduling for GPU clusters”, 9 October 2026: 30 days, clusters of 88 to "
    "1,024 GPUs. Another load: a reference, not a target."
)
ENOUGH = 0.95  #: an account counts as served from this ratio on


@dataclass(frozen=True)
class Tile:
    name: str
    value: str
    more: str  #: under the figure
    beside: str  #: the published figure, or empty
    about: str  #: the definition


def served(accounts: dict[str, dict[str, float]]) -> tuple[int, int]:
    """How many leaf accounts with anything owed got at least `ENOUGH` of it, and of how many."""
    ratios = [row["ratio"] for row in owed_leaves(accounts).values()]
    return sum(ratio is not None and ratio >= ENOUGH for ratio in ratios), len(ratios)


def owed_leaves(accounts: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    inner = {path.rsplit("/", 1)[0] for path in accounts if "/" in path} | {""}
    leaves = {p: row for p, row in accounts.items() if p not in inner or len(accounts) == 1}
    return {path: row for path, row in leaves.items() if (row.get("owed_gpu_h") or 0) > 0}


def tiles(measures: dict[str, Any]) -> list[Tile]:
    """Eight figures; those without a value in the measures show a dash."""
    return [*delivery_tiles(measures.get("delivered", {})), *cluster_tiles(measures), *stop_tiles(measures)]


def delivery_tiles(delivered: dict[str, Any]) -> list[Tile]:
    accounts = delivered.get("accounts", {})
    good, of = served(accounts)
    owed = owed_leaves(accounts)
    least = min(owed, key=lambda path: owed[path]["ratio"], default="")
    return [
        Tile(
            "Owed time delivered",
            percent(delivered.get("total")),
            f"hour by hour {percent(delivered.get('hourly'))}",
            "98 %",
            "Owed: the account's entitlement, capped hour by hour at what it asked for. Delivered: budgeted "
            "GPU-hours held. Sum over accounts of the smaller of the two, over the sum owed. Hour by hour is "
            "the strict form: late delivery does not repair an hour.",
        ),
        Tile(
            "Worst account",
            percent(delivered.get("worst")),
            least,
            "90 %",
            "The smallest delivered ÷ owed of any account, at most 1.",
        ),
        Tile(
            "Accounts at 95 % or more",
            f"{good} of {of}",
            "of accounts that were owed anything",
            "13 of 15",
            "Accounts without accounts below them whose delivered ÷ owed is at least 95 %.",
        ),
    ]


def cluster_tiles(measures: dict[str, Any]) -> list[Tile]:
    hours = measures.get("gpu_hours", {})
    debug = measures.get("first_wait_s", {}).get("debug", {})
    return [
        Tile(
            "Occupancy",
            percent(measures.get("occupancy")),
            f"idle {number(hours.get('idle'))} GPU-h",
            "98 %",
            "GPU-hours held, budgeted and unbudgeted, over capacity that was not down. A GPU kept free for a "
            "claim but not yet used counts as idle.",
        ),
        Tile(
            "Debug wait, 90th percentile",
            seconds(debug.get("p90")),
            f"median {seconds(debug.get('p50'))}, {number(debug.get('n'))} jobs",
            "30 s",
            "Debug: at most 8 GPUs and a minimum of at most 15 minutes. "
            "Submission to first start; nearest rank.",
        ),
        Tile(
            "Unbudgeted share",
            percent(measures.get("unbudgeted_share")),
            f"{number(hours.get('unbudgeted'))} GPU-h",
            "18 %",
            "Unbudgeted GPU-hours over all GPU-hours held.",
        ),
    ]


def stop_tiles(measures: dict[str, Any]) -> list[Tile]:
    hours, stops = measures.get("gpu_hours", {}), measures.get("preemptions", {})
    lost_part = hours.get("lost", 0) / hours["capacity"] if hours.get("capacity") else None
    return [
        Tile(
            "Preempted",
            f"{number(stops.get('per_day'))} a day",
            f"budgeted {number(stops.get('budgeted', {}).get('per_day'))} a day",
            "",
            "Attempts stopped so that another could start. Budgeted ones only past their protection.",
        ),
        Tile(
            "Lost to stops",
            percent(lost_part, 2),
            f"{number(hours.get('lost'))} GPU-h",
            "",
            "Work since the last save and time to restart, of stopped attempts, over capacity.",
        ),
    ]
