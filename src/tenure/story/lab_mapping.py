"""Stories whose first line holds the lab itself, as a lab file writes it, instead of rows made of it.

It is read leniently: who wrote the story had the lab checked. Anything missing shows as a KeyError.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

WHOLE = 1_000_000


def rows_of_lab(lab: Mapping[str, Any]) -> dict[str, Any]:
    """{lab, clusters, nodes, accounts, prices} as `began` has them otherwise, of a lab's mapping."""
    clusters = lab["clusters"]
    return {
        "lab": str(lab.get("lab", "lab")),
        "clusters": list(clusters),
        "prices": {name: told.get("price_per_gpu_hour") for name, told in clusters.items()},
        "nodes": [node for name, told in clusters.items() for node in _nodes(name, told)],
        "accounts": list(_accounts(lab)),
    }


def _nodes(cluster: str, told: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    listed = told["nodes"]
    if isinstance(listed, int):
        listed = [{"name": f"{cluster}-{nth:04d}"} for nth in range(listed)]
    block = told.get("nodes_per_rack")
    for nth, node in enumerate(listed):
        yield {
            "name": node["name"],
            "cluster": cluster,
            "gpus": node["gpus"] if "gpus" in node else told["gpus_per_node"],
            "rack": node.get("rack", nth // block if block else 0),
            "gpu": node.get("gpu", told.get("gpu")),
        }


def _accounts(lab: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The root, then every account, each before those below it."""
    clusters = lab["clusters"]
    yield {"path": "", "parent": None, "shares": dict.fromkeys(clusters, 1.0)}

    def below(told: Mapping[str, Any], path: str) -> Iterator[dict[str, Any]]:
        for name, child, share in _children(told):
            own = f"{path}/{name}" if path else name
            shares = {c: part(t.get("shares", {}).get(own, share)) / WHOLE for c, t in clusters.items()}
            yield {"path": own, "parent": path, "shares": shares, "max_gpus": child.get("max_gpus")}
            yield from below(child, own)

    yield from below(lab, "")


def _children(told: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], Any]]:
    """(name, mapping, share) of the accounts written, then of researchers: equal parts of what is left."""
    written = told.get("accounts") or {}
    for name, child in written.items():
        yield name, child, child["share"]
    researchers = told.get("researchers") or []
    left = max(0, WHOLE - sum(part(child["share"]) for child in written.values()))
    for name in researchers:
        yield name, {}, (left // len(researchers)) / WHOLE


def part(share: Any) -> int:
    """Millionths of `35%` or 0.35, rounded down as in lab files."""
    if isinstance(share, str) and share.rstrip().endswith("%"):
        return int(Fraction(share.rstrip()[:-1].strip()) * WHOLE / 100)
    return int(Fraction(str(share)) * WHOLE)
