"""Every combination of some settings, played."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from tenure.service import stage
from tenure.service.many import Play, ProgressCall, Runs, play_all
from tenure.settings.errors import BadInput

MOST_PLAYS = 100_000


def sweep(
    source: Path | str | Mapping[str, Any],
    values: Mapping[str, Sequence[str]],
    *,
    policy: str | None = None,
    seeds: Sequence[int] | None = None,
    workers: int | None = None,
    dask: str | None = None,
    progress: ProgressCall | None = None,
    keep: Path | None = None,
) -> Runs:
    """Play each combination of `values` (a list a key) with each seed; the last key varies fastest.

    Raises BadInput before anything is played where a key or a value is not known.
    """
    plays = [
        Play(stage.portable(source), policy, dict(zip(values, combination, strict=True)), seed)
        for combination in product(*values.values())
        for seed in seeds or (None,)
    ]
    if len(plays) > MOST_PLAYS:
        raise BadInput(
            "--set", "", f"{len(plays):,} combinations and seeds", f"at most {MOST_PLAYS:,} in one sweep"
        )
    first = {key: listed[0] for key, listed in values.items()}
    for key, listed in values.items():  # each value once: what is wrong with one is wrong beside any other
        for value in listed:
            stage.read(source, policy, {**first, key: value})
    return play_all(plays, workers=workers, dask=dask, progress=progress, keep=keep)
