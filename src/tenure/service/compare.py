"""The same worlds under several policies or settings, and what differs for each account."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from tenure.service import stage
from tenure.service.many import Play, ProgressCall, Runs, play_all
from tenure.service.outputs import placed, plain
from tenure.settings.errors import BadInput

MOST_COLUMNS = 24


def compare(
    source: Path | str | Mapping[str, Any],
    policies: Sequence[str],
    seeds: Sequence[int],
    *,
    values: Mapping[str, Sequence[str]] | None = None,
    workers: int | None = None,
    progress: ProgressCall | None = None,
    keep: Path | None = None,
) -> Runs:
    """Play every seed's world under every policy: worlds are paired, seed by seed, job by job.

    `values`: settings; a key with several is compared too, a column each: 2 % of spares against 4 %.
    Raises BadInput before anything is played where a policy or setting is not known.
    """
    if not policies:
        raise BadInput("--policies", "", "no name", "names of policies such as budget,window")
    if not seeds:
        raise BadInput("--seeds", "", "no seed", "seeds such as 1-5 or 1,2,7")
    columns = [
        (policy, dict(zip(values or {}, combination, strict=True)))
        for policy in policies
        for combination in product(*(values or {}).values())
    ]
    if len(columns) > MOST_COLUMNS:
        raise BadInput(
            "--set",
            "",
            f"{len(columns)} policies and settings beside each other",
            f"at most {MOST_COLUMNS}; `tenure sweep` plays more",
        )
    for policy, chosen in columns:
        stage.read(source, policy, chosen)
    plays = [
        Play(stage.portable(source), policy, chosen, seed, _label(policy, chosen, values or {}))
        for seed in seeds
        for policy, chosen in columns
    ]
    return play_all(plays, workers=workers, progress=progress, keep=keep)


def _label(policy: str, chosen: Mapping[str, str], values: Mapping[str, Sequence[str]]) -> str:
    """A column's name: the policy, and what tells it from its neighbours."""
    told = [f"{key.rsplit('.', 1)[-1]}={chosen[key]}" for key, listed in values.items() if len(listed) > 1]
    return " ".join([policy, *told]) if told else ""


def differences(runs: Sequence[Mapping[str, Any]], one: str, other: str) -> list[dict[str, Any]]:
    """What `other` changes for each account against `one`, over the seeds both have played.

    A row an account: `account`, mean `delivered_gpu_h` and `ratio` of both (a pair: one, other), and of the
    ratio's paired difference the mean, least and greatest (`change`, `change_min`, `change_max`).
    """
    by_seed: dict[int, dict[str, Mapping[str, Any]]] = {}
    for run in runs:
        by_seed.setdefault(run["seed"], {})[run["policy"]] = run["delivered"]["accounts"]
    pairs = [(played[one], played[other]) for played in by_seed.values() if one in played and other in played]
    rows = []
    for account in pairs[0][0] if pairs else ():
        both = [(before[account], after[account]) for before, after in pairs if account in after]
        changes = [
            b["ratio"] - a["ratio"] for a, b in both if a["ratio"] is not None and b["ratio"] is not None
        ]
        rows.append(
            {
                "account": account,
                "delivered_gpu_h": _means(both, "delivered_gpu_h"),
                "ratio": _means(both, "ratio"),
                "change": mean(changes),
                "change_min": min(changes, default=None),
                "change_max": max(changes, default=None),
            }
        )
    return rows


def _means(
    both: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], key: str
) -> tuple[float | None, float | None]:
    return mean([a[key] for a, _ in both]), mean([b[key] for _, b in both])


def write_page(runs: Runs, path: Path) -> None:
    """Write what has been played as one HTML page; of no finished play there is none."""
    from tenure.report.comparison import write_comparison

    if runs.done:
        with placed(path) as draft:  # the page tells variants by their settings, and needs no label for them
            write_comparison(
                [plain(run | {"policy": run["policy"].split(" ")[0]}) for run in runs.runs], draft
            )


def mean(values: Sequence[float | None]) -> float | None:
    """The mean of those that are numbers; None of none."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None
