"""What is played to judge the policy: scenarios, trees of accounts, rivals, the small cluster's ways out."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any, NamedTuple

SEEDS = (1, 2, 3, 4, 5)
FLAT = ("ai2", "sat95", "sat", "small", "philly")
TREES = (("ai2", "programs"), ("sat95", "programs"), ("sat", "programs"), ("ai2", "researchers"),
         ("sat", "researchers"))  # fmt: skip
RIVALS = tuple((shape, policy) for policy in ("window", "priority") for shape in ("ai2", "sat", "small"))
#: The small cluster's ways out: nodes of the pool, GPUs of the largest quick job, quick GPUs beyond a target.
TRADE = ((0, 8, 8), (0, 8, 24), (0, 4, 8), (1, 8, 8), (1, 4, 8), (2, 8, 8))
TRADE_KEYS = ("policy.pool.nodes", "policy.quick.gpus", "policy.quick.beyond")
ONLY_DEBUG = ("a11", "a12", "a13", "a14")


class Play(NamedTuple):
    """One scenario under one policy, before its seed is chosen."""

    shape: str
    tree: str = "flat"
    policy: str = "budget"
    changes: tuple[tuple[str, str], ...] = ()


def trade_play(setting: tuple[int, ...]) -> Play:
    """`small` under one row of TRADE."""
    return Play("small", changes=tuple(zip(TRADE_KEYS, map(str, setting))))


def plays(shapes: Iterable[str]) -> list[Play]:
    """All that the page needs, each once."""
    wanted = [Play(shape) for shape in FLAT if shape in shapes]
    wanted += [Play(shape, tree) for shape, tree in TREES if shape in shapes]
    wanted += [Play(shape, policy=policy) for shape, policy in RIVALS if shape in shapes]
    if "small" in shapes:
        wanted += [trade_play(setting) for setting in TRADE]
    return wanted


def middle(rows: list[dict[str, Any]], name: str) -> tuple[float, float, float] | None:
    """(median, least, most) over the seeds; None where no seed has such a thing."""
    values = [row[name] for row in rows if row[name] is not None]
    return (statistics.median(values), min(values), max(values)) if values else None
