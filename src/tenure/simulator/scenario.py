"""Scenarios: from a file, a mapping or a built-in name to a world with no chance left in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tenure.core.columns import WHOLE
from tenure.core.policy import Policy
from tenure.core.words import NEVER_S, NONE
from tenure.settings.errors import BadInput, nearest, shown
from tenure.settings.job_in_lab import account_row
from tenure.settings.lab import Lab, lab_of, leaf_paths, read_lab, with_own_leaves
from tenure.settings.lab_tables import Holder, LabTables, lab_tables
from tenure.settings.policy_file import named, policy_of
from tenure.settings.scenario_file import (
    FROM_TRACE,
    ScenarioFile,
    plain_numbers,
    scenario_file,
    with_changes,
)
from tenure.settings.units import instant_text
from tenure.settings.yaml_file import parse_yaml, read_yaml
from tenure.simulator.failures import drawn_happenings, with_spares
from tenure.simulator.scenario_events import happenings, named_jobs, rows_of
from tenure.simulator.scenario_trace import read_given, remarks_about, traced
from tenure.simulator.scenario_work import (
    Work,
    constructed,
    job_ids,
    joined,
    warnings_about,
)
from tenure.simulator.workload import Leaf, Shape, draw_workload, shape_from, shape_lab
from tenure.simulator.world import Names, World
from tenure.story.columns import StoryAccount

HERE = "scenario"  #: what a mapping without a file is called in messages


class RulePolicy(NamedTuple):
    """A policy by name: the rule that decides and its knobs."""

    rule: str
    knobs: Policy


@dataclass(frozen=True)
class Scenario:
    """A scenario whose file is right, with its lab. `changes`: what `--set policy.…` said."""

    name: str
    file: str
    folder: Path
    written: ScenarioFile
    lab: Lab
    shape: Shape | None
    changes: Mapping[str, str]
    warnings: tuple[str, ...]
    spare_gpus: tuple[int, ...] = ()  #: of nodes beside the lab's own, by cluster: no work is drawn for them

    @property
    def until_s(self) -> int:
        """End of the span; NEVER_S: until all jobs are done."""
        return NEVER_S if self.written.until is None else self.written.until

    @property
    def warmup_s(self) -> int:
        return self.written.warmup

    @property
    def seed(self) -> int:
        return self.written.seed

    def policy(self, name: str = "budget") -> RulePolicy:
        """
        The policy of that name on this lab: the lab's file, what the name stands for, then `--set`.

        Raises BadInput for an unknown name or a knob that is wrong.
        """
        meant = named(name)
        changes = {key.removeprefix("policy."): value for key, value in self.changes.items()}
        knobs = policy_of(self.lab.policy, {**meant.changes, **changes}, file=self.lab.file, at=("policy",))
        return RulePolicy(meant.rule, knobs)


def built_in() -> dict[str, str]:
    """Scenarios that come with the program: name → text."""
    folder = resources.files("tenure.simulator") / "scenarios"
    files = sorted(folder.iterdir(), key=lambda one: one.name)
    return {f.name[:-5]: f.read_text(encoding="utf-8") for f in files if f.name.endswith(".yaml")}


def load_scenario(
    source: Path | str | Mapping[str, Any],
    *,
    set_: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Scenario:
    """
    The scenario of a file, of a mapping, or of that built-in name where there is no such file.

    `set_`: changes by key (`policy.lookback`, `until`, `workload.debug_per_hour` …). Paths in a file are
    relative to it, in a mapping to `folder` (default: where we are). Raises BadInput, one sentence.
    """
    raw, name, file, where = _raw(source, folder)
    raw, changes = with_changes(raw, set_ or {}, file=file)
    written = scenario_file(raw, file=file)
    shape = None if written.workload is None else shape_from(plain_numbers(written.workload), file=file)
    lab, spare_gpus = with_spares(_lab(written, shape, file, where), written.failures)
    policy_of(None, changes)
    warnings = tuple(warnings_about(written.jobs, lab))
    scenario = Scenario(name, file, where, written, lab, shape, changes, warnings, spare_gpus)
    _check_what_is_known(scenario)
    return scenario


def _raw(source: Path | str | Mapping[str, Any], folder: Path | None) -> tuple[Any, str, str, Path]:
    if isinstance(source, Mapping):
        return source, HERE, HERE, folder or Path()
    path = Path(source)
    if not path.exists() and path.name == str(source) and not path.suffix:
        known = built_in()
        if str(source) not in known:
            raise BadInput(
                str(source), "", "no such file and no built-in scenario", nearest(str(source), known)
            )
        return parse_yaml(known[str(source)], file=str(source)), str(source), str(source), folder or Path()
    return read_yaml(path), path.stem, str(path), path.parent


def _lab(written: ScenarioFile, shape: Shape | None, file: str, folder: Path) -> Lab:
    if written.lab is None:
        assert shape is not None
        return lab_of(shape_lab(shape), file=file, at=("lab",))
    if isinstance(written.lab, str):
        return read_lab(folder / written.lab)
    return lab_of(written.lab, file=file, at=("lab",))


def _check_what_is_known(scenario: Scenario) -> None:
    """Jobs and events against the lab, as far as no trace has to be read for it."""
    written, lab, file = scenario.written, scenario.lab, scenario.file
    if written.trace is not None and written.trace.accounts == FROM_TRACE:
        job_ids(written.jobs, file)
        return
    work = constructed(written.jobs, Holder(lab), lab.rows(), lab_tables(lab).gpu_types, file)
    rows = rows_of(work.ids, named_jobs(written.events))
    if written.trace is not None or written.workload is not None:
        rows |= dict.fromkeys(named_jobs(written.events), 0)
    happenings(written.events, lab, rows, file)
    trace = written.trace
    if trace is not None:
        paths = trace.accounts.values() if isinstance(trace.accounts, Mapping) else [trace.accounts]
        for path in paths:
            account_row(lab.rows(), path, file, "trace.accounts")


def build_world(scenario: Scenario, *, seed: int | None = None) -> tuple[World, Names]:
    """
    The tables of a world, and what their rows are called.

    `seed` (default: the scenario's) is what drawn work is drawn from. Raises BadInput where a trace cannot be
    read or does not fit the lab.
    """
    written, file = scenario.written, scenario.file
    given, lab = None, scenario.lab
    if written.trace is not None:
        given = read_given(written, lab, scenario.folder, file)
        lab = given.lab
    paths = {job.account for job in written.jobs} | set(given.paths if given else ())
    lab = lab._replace(accounts=with_own_leaves(lab.accounts, paths))
    tables, holder = lab_tables(lab), Holder(lab)
    leaf_of = _leaves(lab)
    parts = [constructed(written.jobs, holder, leaf_of, tables.gpu_types, file)]
    remarks = list(scenario.warnings)
    if given is not None:
        parts.append(traced(given, written, holder, leaf_of, file))
        remarks += remarks_about(parts[-1], written.trace)
    if scenario.shape is not None:
        drawn, said = _drawn(scenario, lab, tables, holder, scenario.seed if seed is None else seed)
        parts.append(drawn)
        remarks += said
    work = joined(parts)
    _check_ids(parts, file)
    told, notes = happenings(written.events, lab, rows_of(work.ids, named_jobs(written.events)), file)
    told = np.concatenate([work.happenings, told])
    if written.failures is not None:
        drawn_seed = scenario.seed if seed is None else seed
        failing, why = drawn_happenings(
            lab, written.failures, seed=drawn_seed, until_s=scenario.until_s, first_note=len(notes)
        )
        told, notes = np.concatenate([told, failing]), [*notes, *why]
    told = told[np.argsort(told["t"], kind="stable")]
    world = World(
        work.jobs,
        work.hidden,
        work.streams,
        told,
        tables.nodes,
        tables.clusters,
        tables.accounts,
        tables.shares,
    )
    names = _names(lab, tables, work.ids)
    names.notes, names.remarks = notes, remarks
    names.start = None if written.start is None else instant_text(written.start)
    if given is not None:
        names.start, names.import_report = names.start or given.trace.start, given.trace.report
    return world, names


def _leaves(lab: Lab) -> dict[str, int]:
    """Row where the work given to each path runs: its own leaf, where an inner account has one."""
    rows = lab.rows()
    for row, account in enumerate(lab.accounts):
        if account.own_leaf_of is not None:
            rows[lab.accounts[account.own_leaf_of].path] = row
    return rows


def _check_ids(parts: Sequence[Work], file: str) -> None:
    """Constructed ids are unique already; none may be a trace's or a drawn one too."""
    own = set(parts[0].ids)
    twice = next((one for part in parts[1:] for one in part.ids if one in own), None) if own else None
    if twice is not None:
        raise BadInput(
            file, "jobs", f"the id {shown(twice)}, which the trace or the workload has too", "another id"
        )


def _drawn(
    scenario: Scenario, lab: Lab, tables: LabTables, holder: Holder, seed: int
) -> tuple[Work, list[str]]:
    """Drawn work for the lab's leaves, over all its clusters together."""
    shape, workload = scenario.shape, scenario.written.workload or {}
    assert shape is not None
    gpus = tables.clusters["gpus"].astype(np.float64) - np.array(scenario.spare_gpus)
    whole = np.array([[1.0] * len(gpus)] * len(lab.accounts))
    rows = lab.rows()
    for row, account in enumerate(lab.accounts[1:], 1):
        whole[row] = whole[account.parent] * np.array(account.shares) / WHOLE
    leaves = [
        Leaf(path, rows[path], float(whole[rows[path]] @ gpus / gpus.sum()))
        for path in leaf_paths(scenario.lab)
    ]
    drawn = draw_workload(
        shape,
        leaves=leaves,
        cluster_gpus=int(gpus.sum()),
        seed=seed,
        until_s=scenario.until_s,
        philly_file=scenario.folder / str(workload["file"]) if "file" in workload else None,
    )
    sizes, size_of = np.unique(drawn.jobs["gpus"], return_inverse=True)
    bits = np.array([holder.clusters(size) for size in sizes.tolist()], np.int64)
    if (bits == 0).any():
        size = int(sizes[bits == 0][0])
        allowed = holder.allowed(range(len(lab.clusters)))
        raise BadInput(
            scenario.file, "workload", f"drawn jobs of {size} GPUs, which no cluster can hold", allowed
        )
    drawn.jobs["clusters"] = bits[size_of] if len(sizes) else 0
    return Work(drawn.jobs, drawn.hidden, drawn.ids, drawn.streams, drawn.happenings), drawn.remarks


def _names(lab: Lab, tables: LabTables, ids: list[str]) -> Names:
    return Names(
        lab=lab.name,
        clusters=list(lab.clusters),
        nodes=[node.name for node in lab.nodes],
        accounts=[
            StoryAccount(a.path, a.parent if a.parent >= 0 else NONE, a.shares, a.max_gpus, a.own_leaf_of)
            for a in lab.accounts
        ],
        jobs=ids,
        gpu_types=tables.gpu_types,
        prices=lab.prices,
    )


__all__ = ["Scenario", "build_world", "built_in", "load_scenario"]
