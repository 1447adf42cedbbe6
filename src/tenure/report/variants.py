"""Runs by what was varied: policy and settings. Seeds of one variant belong together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tenure.report.yardsticks import Run, Yardstick, spread


@dataclass(frozen=True)
class Variant:
    policy: str
    settings: tuple[tuple[str, str], ...]  #: those that differ between runs
    runs: tuple[Run, ...]
    name: str

    def spread(self, yardstick: Yardstick) -> tuple[float, float, float] | None:
        return spread([yardstick.of(run) for run in self.runs])

    def median(self, yardstick: Yardstick) -> float | None:
        found = self.spread(yardstick)
        return None if found is None else found[0]


def swept_values(runs: Sequence[Run]) -> dict[str, list[str]]:
    """Settings with more than one value, each with its values in the order of the runs."""
    values: dict[str, list[str]] = {}
    for run in runs:
        for key, value in (run.get("set") or {}).items():
            known = values.setdefault(str(key), [])
            if str(value) not in known:
                known.append(str(value))
    return {key: known for key, known in values.items() if len(known) > 1}


def variants_of(runs: Sequence[Run]) -> list[Variant]:
    """In the order of the runs. Named by what tells them apart."""
    swept = swept_values(runs)
    several = len({policy_of(run) for run in runs}) > 1
    groups: dict[tuple[str, tuple[tuple[str, str], ...]], list[Run]] = {}
    for run in runs:
        chosen = run.get("set") or {}
        settings = tuple((key, str(chosen[key])) for key in swept if key in chosen)
        groups.setdefault((policy_of(run), settings), []).append(run)
    found = []
    for (policy, settings), members in groups.items():
        said = [policy] if several or not settings else []
        said += [f"{key.removeprefix('policy.')} {value}" for key, value in settings]
        found.append(Variant(policy, settings, tuple(members), ", ".join(said)))
    return found


def policy_of(run: Run) -> str:
    """A run's policy by name, whether it holds a name or all knobs."""
    policy = run.get("policy", "")
    return str(policy.get("name", "")) if isinstance(policy, dict) else str(policy)


def seeds_of(runs: Sequence[Run]) -> list[int]:
    return sorted({int(run["seed"]) for run in runs if run.get("seed") is not None})
