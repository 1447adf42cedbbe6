"""One instant of a play, and what people ask of it: would this job start, when, and who is stopped next?

A question changes nothing: it is put to a copy of the play as it stood before the instant, in which the job
arrives as any other does, and the same code decides that decides for everybody.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tenure.core.board import as_kernels_want
from tenure.core.explain import (
    explain_stop,
    moment_text,
)
from tenure.core.outlook import VERDICT, judge_entry
from tenure.core.policy import Policy
from tenure.core.tables import columns, empty
from tenure.core.tell_one import Called, Instant
from tenure.core.words import NEVER_S, NONE, Happened, Phase, Rule
from tenure.simulator.clockwork import DONE
from tenure.simulator.simulate import Stage, advance, set_stage
from tenure.simulator.world import Names, World

WATCHED_S = 30 * 86400  #: how long an answer is played on at most
FEW_TURNS = 500  #: turns between two looks at whether the job has started
ABSENT = (Phase.ABSENT, Phase.WAITING, Phase.RESTING, Phase.HELD, Phase.CLAIMING)


class Asked(NamedTuple):
    """A job asked about, in the core's words: what its row of `columns.JOB` becomes."""

    gpus: int
    min_runtime_s: int
    max_runtime_s: int
    clusters: int  #: bit c set: may run on cluster c
    gpu_type: int
    same_rack: bool
    kind: int
    priority: int
    resumable: bool


@dataclass(frozen=True)
class Moment:
    """A play as it stood before the events of its instant. `row`: of the job that may be asked about."""

    world: World
    names: Names
    before: Stage
    at_s: int
    row: int

    def ask(self, asked: Asked, *, watch_s: int = WATCHED_S) -> dict[str, Any]:
        """What becomes of the job if it is submitted now: at once, why not, and when, in this play's future.

        `watch_s`: how long it is played on to see the start.
        """
        stage = self._with(asked)
        _play_to(stage, self.at_s)
        answer = self._decided(stage)
        answer["starts_at_s"] = self._start_of(stage, self.at_s + watch_s, answer)
        answer["watched_s"] = watch_s
        return answer

    def next_preempted(self) -> dict[str, Any]:
        """Every running attempt: whether it may be stopped now, else from when on; for whom, by which rule.

        In the order in which they would be stopped: what a waiting job can take first, then by instant and
        by what the stop would cost.
        """
        stage = _copy_of(self.before)
        _play_to(stage, self.at_s)
        verdicts = empty(len(stage.board.claims), VERDICT)
        board = as_kernels_want(stage.board)
        n = judge_entry(as_kernels_want(stage.lab), board, stage.policy, self.at_s, columns(verdicts))
        told = [self._verdict(stage, verdicts[k]) for k in range(n)]
        told.sort(
            key=lambda one: (not one["candidate"], not one["spare"], one["for"] is None, *one.pop("order"))
        )
        now = [one for one in told if one["candidate"]]
        starts = [one["interruptible_from_s"] for one in told if one["spare"] or one["for"]]
        later = [from_s for from_s in starts if from_s is not None and from_s > self.at_s]
        return {
            "at_s": self.at_s,
            "candidates": len(now),
            "nobody_before_s": None if now or not later else min(later),
            "attempts": told,
        }

    # --- the job in its world ---------------------------------------------------------------------------

    def _with(self, asked: Asked) -> Stage:
        """A copy of the play in which the row asked about is this job."""
        stage = _copy_of(self.before)
        jobs = stage.lab.jobs.copy()
        for name, value in asked._asdict().items():
            jobs[name][self.row] = value
        jobs.flags.writeable = False
        stage.lab = stage.lab._replace(jobs=jobs)
        stays = stage.board.stays
        stays["gpus"][self.row], stays["budgeted"][self.row] = asked.gpus, asked.min_runtime_s > 0
        return stage

    def _decided(self, stage: Stage) -> dict[str, Any]:
        """What the turn made of it."""
        phase = int(stage.board.stays["phase"][self.row])
        instant, placements = self._instant(stage), _placements(stage)
        answer: dict[str, Any] = {
            "starts_now": phase == Phase.RUNNING,
            "reason": None,
            "need": None,
            "have": None,
        }
        told = _events(stage)
        told = told[told["t"] == self.at_s]
        mine = told[told["job"] == self.row]
        if phase == Phase.RUNNING:
            started = mine[mine["event"] == Happened.STARTED][-1]
            answer |= instant.placed(started, placements)
            answer["sentence"] = instant.why_started(self.row, int(started["rule"]))
            answer["earliest_start"] = {"earliest_s": self.at_s, "latest_s": self.at_s}
        else:
            answer |= instant.why_waits(self.row)
        if phase == Phase.CLAIMING:
            answer |= instant.placed(mine[mine["event"] == Happened.CLAIMED][-1], placements)
        stops = told[(told["event"] == Happened.STOPPING) & (told["by"] == self.row)]
        answer["stops"] = [instant.stopped(one, asked=self.row) for one in stops]
        return answer

    def _instant(self, stage: Stage) -> Instant:
        """The stage in the words of this play."""
        names, rows = self.names, self.names.accounts
        paths = [row.path if row.own_leaf_of is None else rows[row.own_leaf_of].path for row in rows]
        called = Called(names.clusters, names.nodes, paths, names.jobs)
        return Instant(stage.lab, stage.board, stage.policy, called, self.at_s)

    def _start_of(self, stage: Stage, until_s: int, answer: dict[str, Any]) -> int | None:
        """Play on until it starts; fills in what its stops have lost. None: not within the time watched."""
        missing = {one["job"]: one for one in answer["stops"]}
        while True:
            for event in _events(stage):
                name = str(self.names.jobs[int(event["job"])]) if missing and event["job"] != NONE else ""
                if event["event"] == Happened.STOPPED and name in missing and event["t"] >= self.at_s:
                    missing.pop(name)["lost_gpu_s"] = int(event["y"])
            if int(stage.board.stays["attempt"][self.row]) > 0:
                return int(stage.board.stays["started_s"][self.row])
            _forget(stage)
            if (
                _play_to(stage, until_s, turns=FEW_TURNS) == DONE
                and not stage.board.stays["attempt"][self.row]
            ):
                return None

    # --- who is next --------------------------------------------------------------------------------------

    def _verdict(self, stage: Stage, verdict: Any) -> dict[str, Any]:
        job, taker, rule = int(verdict["job"]), int(verdict["taker"]), int(verdict["rule"])
        stays = stage.board.stays
        cluster, account = int(stays["cluster"][job]), int(stays["account"][job])
        instant = self._instant(stage)
        owner = instant.standing(cluster, account)
        stopping = int(stays["phase"][job]) == Phase.STOPPING
        from_s = int(verdict["from_s"])
        told: dict[str, Any] = {
            "job": str(self.names.jobs[job]),
            "account": owner["account"],
            "attempt": int(stays["attempt"][job]),
            "gpus": int(stays["gpus"][job]),
            "cluster": owner["cluster"],
            "budgeted": bool(stays["budgeted"][job]),
            "stopping": stopping,
            "interruptible_from_s": from_s if from_s < NEVER_S else None,
            "spare": bool(verdict["spare"]),
            "candidate": stopping or (from_s <= self.at_s and (taker != NONE or bool(verdict["spare"]))),
            "for": None if taker == NONE else str(self.names.jobs[taker]),
            "for_account": None if taker == NONE else instant.account_of(taker),
            "rule": None,
            "mine": None,
            "theirs": owner["ratio"],
            "lost_gpu_s": int(verdict["lost_gpu_s"]),
            "order": (max(from_s, self.at_s), float(verdict["cost"]), job),
        }
        if stopping:
            rule = self._rule_of_stop(stage, job)
        if taker != NONE:
            told["mine"] = instant.standing(cluster, int(stays["account"][taker]))["ratio"]
            told["rule"] = Rule(rule).name.lower()
        told["sentence"] = self._say_verdict(stage, told, rule)
        return told

    def _say_verdict(self, stage: Stage, told: dict[str, Any], rule: int) -> str:
        from_s = told["interruptible_from_s"]
        since = (
            "" if from_s is None or from_s <= self.at_s else f"protected until {moment_text(from_s)}; then "
        )
        if from_s is None:
            return "this policy never stops it"
        if told["for"] is None:
            if stage.board.counts["one_list"][0]:
                return (
                    f"{since}beyond its team's quota: stopped as soon as work within another's needs the GPUs"
                )
            if not told["spare"]:
                return f"{since}its account would fall below its target without it"
            return f"{since}may be stopped, and nobody who waits may take its place"
        facts = {"taker": told["for"], "account": told["account"]}
        facts |= {key: None if told[key] is None else f"{told[key]:.2f}" for key in ("mine", "theirs")}
        facts["mine"] = None if facts["theirs"] is None else facts["mine"]
        return since + explain_stop(Rule(rule), facts)

    def _rule_of_stop(self, stage: Stage, job: int) -> int:
        told = _events(stage)
        stops = told[(told["event"] == Happened.STOPPING) & (told["job"] == job)]
        return int(stops["rule"][-1]) if len(stops) else int(Rule.NONE)


def play_until(
    world: World,
    names: Names,
    policy: Policy,
    *,
    rule: str = "budget",
    at_s: int,
    row: int = NONE,
) -> Moment:
    """The play just before the events of `at_s`. `row`: the job that may be asked about; it arrives then."""
    if row != NONE:
        world = _with_entries_everywhere(world, row)
    stage = set_stage(world, policy, rule, at_s - 1)
    if row != NONE:
        stage.board.entries["job"] = _entry_jobs(world)
    if at_s > 0:
        _play_to(stage, at_s - 1)
    _forget(stage)
    return Moment(world, names, stage, at_s, row)


def _with_entries_everywhere(world: World, row: int) -> World:
    """Room in the waiting lists of every cluster for the job asked about, whatever it will ask for."""
    jobs = world.jobs.copy()
    jobs["clusters"][row] = (1 << len(world.clusters)) - 1
    entries = np.bitwise_count(jobs["clusters"].astype(np.uint64)).astype(np.int64)
    jobs["first_entry"] = np.cumsum(entries) - entries
    return world._replace(jobs=jobs)


def _entry_jobs(world: World) -> NDArray[np.int64]:
    entries = np.bitwise_count(world.jobs["clusters"].astype(np.uint64)).astype(np.int64)
    return np.repeat(np.arange(len(world.jobs), dtype=np.int64), entries)


def _copy_of(stage: Stage) -> Stage:
    """A play that goes its own way from here; what was said so far is left behind."""
    board = type(stage.board)(*[np.copy(table) for table in stage.board])
    playing = stage.playing._replace(
        loops=stage.playing.loops.copy(),
        work=stage.playing.work.copy(),
        alarms=stage.playing.alarms.copy(),
        clock=stage.playing.clock.copy(),
    )
    return Stage(stage.lab, board, playing, stage.policy, stage.rule)


def _play_to(stage: Stage, until_s: int, *, turns: int | None = None) -> int:
    """Play on to that second, or so many turns."""
    stage.playing.clock["until_s"] = until_s
    return advance(stage, turns=turns)


def _events(stage: Stage) -> Any:
    """What was said since the play was copied."""
    said = stage.board.out[: int(stage.board.counts["n_out"][0])].copy()
    said["nodes_at"][said["n_nodes"] > 0] += stage.n_placed
    return np.concatenate([*stage.chunks, said])


def _placements(stage: Stage) -> Any:
    """The nodes that `_events` speak of."""
    placed = stage.board.placed[: int(stage.board.counts["n_placed"][0])]
    return np.concatenate([*stage.placements, placed])


def _forget(stage: Stage) -> None:
    """Leave behind what was said so far; its consequences are wound up."""
    stage.chunks.clear()
    stage.placements.clear()
    stage.n_placed = 0
    stage.board.counts["n_out"] = stage.board.counts["n_placed"] = 0
    stage.playing.clock["n_seen"] = 0
