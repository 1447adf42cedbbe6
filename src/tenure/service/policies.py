"""The knobs of the rules, and a lab's file checked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tenure.core.columns import WHOLE
from tenure.core.words import NONE
from tenure.settings.lab import Lab, read_lab
from tenure.settings.policy_file import NAMED, describe, named, policy_of


def show(policy: str | None = None, set_: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A policy by name, its rule and meaning, and every knob: {key, value, default, meaning}.

    Raises BadInput for a name, key or value that is not known.
    """
    name = policy or "budget"
    chosen = named(name)
    knobs = policy_of(chosen.changes, set_)
    return {
        "policy": name,
        "rule": chosen.rule,
        "meaning": chosen.meaning,
        "policies": {known: of.meaning for known, of in NAMED.items()},
        "knobs": [row._asdict() for row in describe(knobs)],
    }


def check(path: Path) -> dict[str, Any]:
    """What a lab's file holds. Raises BadInput with the first thing wrong in it."""
    lab = read_lab(path)
    default = {row.key: row.value for row in describe()}
    chosen = {row.key: row.value for row in describe(lab.knobs()) if row.value != default[row.key]}
    return {
        "file": str(path),
        "lab": lab.name,
        "clusters": _clusters(lab),
        "accounts": _accounts(lab),
        "policy": chosen,
        "lookback": "given" if "lookback" in lab.policy else "default",
        "warnings": _warnings(lab),
    }


def _clusters(lab: Lab) -> list[dict[str, Any]]:
    rows = []
    for row, name in enumerate(lab.clusters):
        nodes = [node for node in lab.nodes if node.cluster == row]
        rows.append(
            {
                "cluster": name,
                "nodes": len(nodes),
                "gpus": sum(node.gpus for node in nodes),
                "types": sorted({node.gpu for node in nodes if node.gpu is not None}),
                "racks": len({node.rack for node in nodes}),
                "price_per_gpu_hour": lab.prices[row],
            }
        )
    return rows


def _accounts(lab: Lab) -> list[dict[str, Any]]:
    """Path, share of the parent's and GPUs entitled by cluster, with every node healthy."""
    gpus = [sum(node.gpus for node in lab.nodes if node.cluster == row) for row in range(len(lab.clusters))]
    parts: list[list[float]] = []
    rows = []
    for account in lab.accounts:
        above = [1.0] * len(gpus) if account.parent == NONE else parts[account.parent]
        own = [above[c] * share / WHOLE for c, share in enumerate(account.shares)]
        parts.append(own)
        if account.path:
            rows.append(
                {
                    "account": account.path,
                    "share": [share / WHOLE for share in account.shares],
                    "entitled_gpus": [round(part * of, 2) for part, of in zip(own, gpus, strict=True)],
                    "max_gpus": account.max_gpus,
                    "managers": list(account.managers),
                }
            )
    return rows


def _warnings(lab: Lab) -> list[str]:
    """What is legal and may not be meant."""
    told = []
    for row, account in enumerate(lab.accounts):
        below = [other for other in lab.accounts if other.parent == row]
        if not below:
            continue
        for cluster, name in enumerate(lab.clusters):
            given = sum(other.shares[cluster] for other in below)
            if given < WHOLE - len(below):  # what rounding leaves is nobody's fault
                where = account.path or "the lab"
                left = 100 * (WHOLE - given) / WHOLE
                told.append(f"{where} leaves {left:.4g} % of {name} to nobody: whoever has work fills it")
    return told
