"""The answer of `plan goodput`: what part of its time a job works, by which convention, what would help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tenure.planner import goodput, save_interval
from tenure.planner.failures import by_cause, lemons_of, rate_of
from tenure.planner.goodput import CONVENTIONS, EXACT, MEANING, WALL, Run, Saves
from tenure.planner.groups import ASSUMES, COUNTS, Groups, maps, stall_away, stall_that_pays, synchronous
from tenure.planner.phases import MEANING as REINFORCED
from tenure.planner.phases import Rollout
from tenure.planner.played_run import played_nodes
from tenure.settings.goodput_file import GoodputFile, counted

DAY_S = 86_400.0

GROUP_MEANING = {
    "wall": "1 - L/M: M is wall time between failures",
    "renewal": "M/(M + L): M is uptime between failures",
    "overlap": "exp(-L/M): failures by chance, stalls and absences overlap",
}


@dataclass(frozen=True)
class Log:
    """Incidents counted by cause and by node, over `days` on `of_nodes` nodes."""

    causes: Mapping[str, int]
    nodes: Mapping[str, int]
    of_nodes: int
    days: float

    @property
    def events(self) -> int:
        """All incidents."""
        return sum(self.causes.values())

    def told(self) -> dict[str, Any]:
        """Rates per 1,000 node-days with their intervals, causes and lemon nodes."""
        node_days = self.of_nodes * self.days
        lemons = lemons_of(self.nodes, self.of_nodes)
        return {
            **rate_of(self.events, node_days)._asdict(),
            "causes": [
                {"cause": cause.name, "share": cause.share, **cause.measured._asdict()}
                for cause in by_cause(self.causes, node_days)
            ],
            "lemons": {
                "nodes": [lemon._asdict() for lemon in lemons.found],
                "of_nodes": lemons.of_nodes,
                "of_events": lemons.of_events,
                "rate_without": lemons.rate_without,
            },
        }


def run_of(file: GoodputFile) -> Run:
    """The job of a file, in seconds. Time in a queue, restart and reload count as recovery."""
    told = file.checkpoint
    saves = Saves() if told is None else Saves(file.blocking_s, told.every, file.persist_s)
    return Run(file.mtbf_s, sum(file.recovery_parts_s.values()), saves)


def groups_of(file: GoodputFile) -> Groups | None:
    """The groups that recover apart, in seconds."""
    told = file.groups
    return None if told is None else Groups(told.count, told.stall, told.away, told.penalty, told.fewest)


def plan_goodput(file: GoodputFile, log: Log | None = None) -> dict[str, Any]:
    """The keys of the plan's JSON. `log`: what the file's log of incidents counts."""
    told_of_log = None
    if log is not None:
        told_of_log = log.told()
        file = counted(file, log.events)
    run = run_of(file)
    groups = groups_of(file)
    ettr = {name: run.ettr(name) for name in CONVENTIONS}
    reinforcement = _reinforcement(file, run, ettr[file.convention])
    told: dict[str, Any] = {
        "convention": file.convention,
        "kind": "synchronous" if reinforcement is None else "reinforcement learning",
        "goodput": ettr[file.convention] if reinforcement is None else reinforcement["goodput"],
        "reinforcement": reinforcement,
        "rate": _rate(file),
        "played": played_nodes(file, run),
        "mtbf_s": run.mtbf,
        "ettr": ettr,
        "interval_s": intervals(run),
        "every_s": run.every,
        "lost_with_failure_s": run.lost_with_failure * run.mtbf,
        "failures_per_day": DAY_S / run.mtbf,
        "recovery_s": file.recovery_parts_s,
        "blocking_s": run.saves.blocking,
        "persist_s": run.saves.persist,
        "time": _time(file, run),
        "inverse": _inverse(file, run),
        "groups": None if groups is None else _of_groups(groups, run.mtbf),
        "groups_against_synchronous": None if groups is None else _against(groups, run),
        "log": told_of_log,
        "mtbf_interval_s": _interval(file, log),
        "warnings": _warnings(file, run, groups),
        "conventions": _conventions(groups) | (REINFORCED if reinforcement is not None else {}),
    }
    return told


def _rate(file: GoodputFile) -> dict[str, Any] | None:
    """The failure rate with where it comes from."""
    told = file.failures
    if told is None:
        return None
    return {"per_1000_node_days": told.per_1000_node_days, "source": told.source, "class": told.kind}


def rollout_of(file: GoodputFile, run: Run) -> Rollout | None:
    """The rollouts of a file, in seconds."""
    told = file.rollout
    if told is None:
        return None
    mtbf = run.mtbf
    if told.nodes is not None and file.failures is not None and file.failures.nodes is not None:
        mtbf *= file.failures.nodes / told.nodes
    return Rollout(told.part, Groups(told.replicas, told.stall, told.away), mtbf, told.mode)


def _reinforcement(file: GoodputFile, run: Run, training: float) -> dict[str, Any] | None:
    rollout = rollout_of(file, run)
    if rollout is None:
        return None
    return {
        "rollout": rollout.works,
        "training": training,
        "goodput": rollout.with_training(training),
        "part": rollout.part,
        "mode": rollout.mode,
        "mtbf_rollout_s": rollout.mtbf,
    }


def _interval(file: GoodputFile, log: Log | None) -> dict[str, float] | None:
    """Where failures were counted, what their number leaves open: 95 % of what is believed."""
    told = file.failures
    if log is not None and told is not None and told.nodes is not None:
        measured = rate_of(log.events, log.of_nodes * log.days)
        per_day = told.nodes / 1000.0
    elif told is not None and told.events is not None and told.days is not None:
        measured, per_day = rate_of(told.events, told.days), 1.0 / 1000.0
    else:
        return None
    return {"low": DAY_S / (measured.high * per_day), "high": DAY_S / (measured.low * per_day)}


def intervals(run: Run) -> dict[str, float]:
    """Useful work between saves by each formula."""
    blocking = run.saves.blocking
    return {
        "young": save_interval.young(run.mtbf, blocking),
        "daly": save_interval.daly(run.mtbf, blocking),
        "daly_high": save_interval.daly_high(run.mtbf, blocking),
        "exact": save_interval.exact(run.mtbf, blocking),
    }


def _time(file: GoodputFile, run: Run) -> dict[str, float]:
    """Parts of wall time under the exact model; they sum to 1."""
    parts = goodput.buckets(run)
    waited = file.queue / run.recovery if run.recovery else 0.0
    return {
        "productive": parts.productive,
        "saving": parts.saving,
        "rework": parts.rework,
        "recovery": parts.recovery * (1.0 - waited),
        "queue": parts.recovery * waited,
    }


def _inverse(file: GoodputFile, run: Run) -> dict[str, Any]:
    """What alone, all else as it is, would give the target in the leading convention."""
    mtbf = goodput.mtbf_for(run, file.target, file.convention)
    recovery = goodput.recovery_for(run, file.target, file.convention)
    nodes = file.failures.nodes if file.failures else None
    others = run.recovery - file.recovery
    return {
        "target": file.target,
        "blocking_s": goodput.blocking_for(run, file.target, file.convention),
        "recovery_s": None if recovery is None or recovery < others else recovery - others,
        "mtbf_s": mtbf,
        "per_1000_node_days": DAY_S * 1000.0 / (mtbf * nodes) if mtbf and nodes else None,
    }


def _of_groups(groups: Groups, mtbf: float) -> dict[str, float]:
    return {
        "wall": groups.wall(mtbf),
        "renewal": groups.renewal(mtbf),
        "overlap": groups.overlap(mtbf),
    }


def _against(groups: Groups, run: Run) -> dict[str, Any]:
    """The same job as one group, and from which stall on groups lose more than it."""
    whole = synchronous(run.recovery)
    pays = stall_that_pays(run.recovery, groups, run.mtbf)
    return {
        "synchronous": _of_groups(whole, run.mtbf),
        "loss_s": {"groups": groups.loss, "synchronous": whole.loss},
        "pays_below_stall_s": pays if pays > 0 else None,
        "map": [
            {"count": count, "pays_below_stall_s": max(0.0, edge), "wall": other.wall(run.mtbf)}
            for count in COUNTS
            for other in [groups.of(count)]
            for edge in [stall_that_pays(run.recovery, other, run.mtbf)]
        ],
        "maps": maps(groups, run.recovery, run.mtbf)
        | {"stall_away": stall_away(groups, run.recovery, run.mtbf)},
    }


def _warnings(file: GoodputFile, run: Run, groups: Groups | None) -> list[str]:
    outside = goodput.out_of_range(run)
    found = [f"{name}: {why}" for name, why in outside.items()]
    blocking, persist = run.saves.blocking, run.saves.persist
    if file.failures is not None and file.failures.kind == "unsaid":
        found.append("failures: no class is given: a rate of hardware alone and one of all causes differ")
    elif file.failures is not None and file.failures.kind != "all-cause":
        found.append(f"failures: {file.failures.kind} alone: what else stops the job is not in this answer")
    if file.checkpoint is None:
        found.append("no checkpoint is given: saves are taken to be free and made all the time")
    if blocking >= 2.0 * run.mtbf:
        found.append("daly, daly_high: one save blocks for twice the mtbf or longer, outside their range")
    if persist > run.every > 0:
        found.append(
            f"a save is usable only {persist:g} s after it is made, when the next is due: saves pile up"
        )
    if file.convention == WALL and file.checkpoint is not None:
        found.append("wall: saves and rework are left out, so no save time can be asked of it")
    best = replace(run, saves=replace(run.saves, every=None))
    lost = best.ettr(EXACT) - run.ettr(EXACT)
    if lost > goodput.APART:
        found.append(
            f"saving every {run.every:g} s gives {run.ettr(EXACT):.4f}, every {best.every:.0f} s would give "
            f"{best.ettr(EXACT):.4f} (exact)"
        )
    if groups is not None:
        found.append(
            ASSUMES
            if groups.penalty == 0.0
            else f"groups.penalty: {groups.penalty:.0%} of what is worked while a group is away is taken to "
            "be worth nothing: assumed, not measured"
        )
        if groups.fewest > 1:
            found.append(
                "groups.fewest: overlap alone takes it in (wall and renewal know of no second failure); "
                f"other numbers of groups keep it as a part of the job, {groups.fewest} of {groups.count}"
            )
        if groups.wall(run.mtbf) < 0:
            found.append(
                "groups.wall: a failure costs more than the wall time between two: it has no answer here"
            )
        if groups.loss > run.recovery:
            found.append(
                f"groups lose {groups.loss:g} s with a failure, the whole job recovers in "
                f"{run.recovery:g} s: groups do not pay here"
            )
    return found


def _conventions(groups: Groups | None) -> dict[str, str]:
    told = {f"ettr.{name}": meaning for name, meaning in MEANING.items()}
    told |= {
        "mtbf_s": "of the whole job; uptime for exact, renewal and first_order, wall time for wall",
        "interval_s, every_s": "useful work between two saves, the save itself not in it",
        "time": "exact model; queue is the part of recovery spent waiting for nodes",
        "persist": "added to recovery: work redone because the newest save was not yet usable",
        "inverse": "each alone, all else as it is (queue, restart and reload too); the interval chosen anew "
        "where it is optimal",
    }
    if groups is not None:
        told |= {f"groups.{name}": meaning for name, meaning in GROUP_MEANING.items()}
        told["groups_against_synchronous.maps"] = (
            "overlap with groups less overlap of the whole job stopping, saves left out; above 0 groups win"
        )
        told["groups"] = "saves left out; L = stall + (away - stall)/count"
    return told
