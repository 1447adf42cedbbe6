"""One instant of a play, and what people ask of it: would this job start, when, and who is stopped next?

A question changes nothing: it is put to a copy of the play as it stood before the instant, in which the job
arrives as any other does, and the same code decides that decides for everybody.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tenure.core.board import LANES, QUICK, UNBUDGETED, as_kernels_want
from tenure.core.columns import UGPU
from tenure.core.explain import (
    explain,
    explain_start,
    explain_stop,
    jobs_text,
    moment_text,
    span_text,
)
from tenure.core.order import FAR
from tenure.core.outlook import LOOK, VERDICT, judge_entry, look_entry
from tenure.core.policy import Policy
from tenure.core.tables import columns, empty
from tenure.core.words import NEVER_S, NONE, Happened, Phase, Reason, Rule
from tenure.simulator.clockwork import DONE
from tenure.simulator.simulate import Stage, advance, set_stage
from tenure.simulator.world import Names, World

PPM = 1_000_000
LOW_HALF = (1 << 32) - 1
BY_ACCOUNT = (Reason.OWN_LIMIT, Reason.SAVING_UP, Reason.OVER_TARGET)  #: their evidence is an account
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
        cluster = int(stage.board.stays["cluster"][self.row])
        answer: dict[str, Any] = {
            "starts_now": phase == Phase.RUNNING,
            "reason": None,
            "need": None,
            "have": None,
        }
        told = _events(stage)
        mine = told[(told["job"] == self.row) & (told["t"] == self.at_s)]
        if phase == Phase.RUNNING:
            started = mine[mine["event"] == Happened.STARTED][-1]
            answer |= self._placed(stage, started)
            facts = {
                "account": self._account(stage),
                "mine": _percent(self._standing(stage, cluster)["ratio"]),
            }
            answer["sentence"] = explain_start(Rule(int(started["rule"])), facts)
            answer["earliest_start"] = {"earliest_s": self.at_s, "latest_s": self.at_s}
        else:
            answer |= self._waits(stage)
        if phase == Phase.CLAIMING:
            answer |= self._placed(stage, mine[mine["event"] == Happened.CLAIMED][-1])
        answer["stops"] = self._stops(stage, told)
        return answer

    def _placed(self, stage: Stage, event: Any) -> dict[str, Any]:
        """Where it is put, and by which rule."""
        placed = np.concatenate(
            [*stage.placements, stage.board.placed[: int(stage.board.counts["n_placed"][0])]]
        )
        rows = placed[int(event["nodes_at"]) : int(event["nodes_at"]) + int(event["n_nodes"])]
        nodes = {self.names.nodes[int(row["node"])]: int(row["gpus"]) for row in rows}
        return {"rule": Rule(int(event["rule"])).name.lower(), "nodes": nodes}

    def _waits(self, stage: Stage) -> dict[str, Any]:
        """Its reason with numbers, what stands before it, and the earliest start."""
        look = empty(1, LOOK, evidence=NONE)
        after = _copy_of(stage)
        lab = as_kernels_want(after.lab)
        look_entry(lab, as_kernels_want(after.board), after.policy, self.row, self.at_s, columns(look))
        seen, reason = look[0], Reason(int(look["reason"][0]))
        known_s = int(seen["known_by_s"])
        facts = self._facts(after, seen, reason)
        cluster = int(seen["cluster"])
        return {
            "reason": reason.name.lower(),
            "need": int(seen["need"]),
            "have": int(seen["have"]),
            "sentence": explain(reason, facts),
            "evidence": facts["limited"] if reason in BY_ACCOUNT else facts["other"],
            "numbers": self._standing(after, cluster) | self._before(after, seen),
            "earliest_start": _bounds(after, reason, known_s, self.at_s),
        }

    def _facts(self, stage: Stage, seen: Any, reason: Reason) -> dict[str, Any]:
        """Everything a sentence may speak of, as text."""
        evidence, known_s = int(seen["evidence"]), int(seen["known_by_s"])
        standing = self._standing(stage, int(seen["cluster"]))
        limited = evidence if reason in BY_ACCOUNT else NONE
        need, have = int(seen["need"]), int(seen["have"])
        return {
            "need": need,
            "have": have,
            "need_s": span_text(need),
            "have_s": span_text(have),
            "need_gpu_h": f"{need / 3600:,.1f}",
            "have_gpu_h": f"{have / 3600:,.1f}",
            "gpus": int(stage.board.stays["gpus"][self.row]),
            "account": standing["account"],
            "running": standing["running"],
            "target": f"{standing['target']:.1f}".removesuffix(".0"),
            "limited": self._path(limited) if limited != NONE else None,
            "holds": int(stage.board.purses["held"][limited]) if limited != NONE else None,
            "limit": int(stage.lab.accounts["max_gpus"][limited]) if limited != NONE else None,
            "other": str(self.names.jobs[evidence])
            if reason not in BY_ACCOUNT and evidence != NONE
            else None,
            "before": jobs_text(int(seen["before"]) or int(seen["place"])),
            "before_gpus": need - int(stage.board.stays["gpus"][self.row])
            if reason == Reason.ORDER
            else None,
            "place": jobs_text(int(seen["place"])),
            "depth": stage.policy.depth,
            "at": self.when(known_s) if known_s < NEVER_S else None,
        }

    def when(self, second: int) -> str:
        """A second of the play as people say it."""
        return moment_text(second)

    def _path(self, account: int) -> str:
        row = self.names.accounts[account]
        return self.names.accounts[account if row.own_leaf_of is None else row.own_leaf_of].path

    def _account(self, stage: Stage) -> str:
        return self._path(int(stage.board.stays["account"][self.row]))

    def _standing(self, stage: Stage, cluster: int, account: int | None = None) -> dict[str, Any]:
        """How an account stands on a cluster: that of the job asked about, or another."""
        account = int(stage.board.stays["account"][self.row]) if account is None else account
        row = stage.board.standings[cluster * len(stage.lab.accounts) + account]
        return {
            "account": self._path(account),
            "cluster": self.names.clusters[cluster],
            "ratio": float(row["ratio"]) if row["ratio"] < FAR else None,
            "entitlement": float(row["entitled_ugpu"]) / UGPU,
            "target": float(row["target"]),
            "running": int(row["running"]),
            "debt_gpu_h": float(row["debt"]) / 3600,
        }

    def _before(self, stage: Stage, seen: Any) -> dict[str, Any]:
        """Rank of its account, and what stands before the job: of accounts ahead, and of its own."""
        board, cluster = stage.board, int(seen["cluster"])
        mine = int(board.stays["account"][self.row])
        listed = self._ahead_in_list(stage, cluster, int(seen["place"]))
        own = listed[board.stays["account"][listed] == mine]
        own_gpus = int(board.stays["gpus"][own].sum())
        ahead = []
        for account, n_jobs, gpus in self._accounts_ahead(stage, seen, listed):
            told = self._standing(stage, cluster, account)
            kept = {key: told[key] for key in ("account", "ratio", "target", "running")}
            ahead.append(kept | {"jobs": n_jobs, "gpus": gpus})
        return {
            "rank": len(ahead) + 1,
            "accounts_ahead": ahead,
            "own_jobs_before": len(own),
            "own_gpus_before": own_gpus,
            "jobs_before": len(own) + sum(one["jobs"] for one in ahead),
            "gpus_before": own_gpus + sum(one["gpus"] for one in ahead),
        }

    def _accounts_ahead(
        self, stage: Stage, seen: Any, listed: NDArray[np.int64]
    ) -> Iterator[tuple[int, int, int]]:
        """(account, waiting jobs, their GPUs) of those asked before its own, in order."""
        board, n = stage.board, len(stage.lab.accounts)
        mine = int(board.stays["account"][self.row])
        if board.counts["one_list"][0]:  # no accounts are asked: whoever stands before it in the one list
            accounts, gpus = board.stays["account"][listed], board.stays["gpus"][listed]
            for account in dict.fromkeys(accounts.tolist()):
                if account != mine:
                    theirs = accounts == account
                    yield account, int(theirs.sum()), int(gpus[theirs].sum())
            return
        for row in board.walk[: int(seen["leaves"])].tolist():
            if row % n == mine:
                return
            lists = board.queues[row * LANES + QUICK : row * LANES + UNBUDGETED]
            if int(lists["n"].sum()):
                yield row % n, int(lists["n"].sum()), int(lists["gpus"].sum())

    def _ahead_in_list(self, stage: Stage, cluster: int, place: int) -> NDArray[np.int64]:
        """The jobs before it in its own list, first come first."""
        entries = stage.board.entries
        first = int(stage.lab.jobs["first_entry"][self.row])
        rows = range(first, first + int(stage.lab.jobs["clusters"][self.row]).bit_count())
        n = len(stage.lab.accounts) * LANES
        entry = next((row for row in rows if int(entries["queue"][row]) // n == cluster), NONE)
        jobs: list[int] = []
        while entry != NONE and len(jobs) < place:
            entry = int(entries["prev"][entry])
            jobs.append(int(entries["job"][entry]))
        return np.array(jobs[::-1], np.int64)

    def _stops(self, stage: Stage, told: Any) -> list[dict[str, Any]]:
        """Whom it stops now: by which rule, both ratios, and what is lost."""
        stops = told[
            (told["event"] == Happened.STOPPING) & (told["by"] == self.row) & (told["t"] == self.at_s)
        ]
        return [self._stop(stage, one) for one in stops]

    def _stop(self, stage: Stage, event: Any) -> dict[str, Any]:
        job, rule = int(event["job"]), Rule(int(event["rule"]))
        mine, theirs = (int(event["y"]) >> 32) / PPM, (int(event["y"]) & LOW_HALF) / PPM
        taker = int(event["by"])
        account = self._path(int(stage.board.stays["account"][job]))
        facts = {
            "taker": "this job" if taker == self.row else str(self.names.jobs[taker]),
            "account": account,
        }
        facts |= {"mine": f"{mine:.2f}", "theirs": f"{theirs:.2f}"}
        return {
            "job": str(self.names.jobs[job]),
            "account": account,
            "attempt": int(event["attempt"]),
            "gpus": int(stage.board.stays["gpus"][job]),
            "rule": rule.name.lower(),
            "mine": mine,
            "theirs": theirs,
            "lost_gpu_s": None,
            "sentence": explain_stop(rule, facts),
        }

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
        owner = self._standing(stage, cluster, account)
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
            "for_account": None if taker == NONE else self._path(int(stays["account"][taker])),
            "rule": None,
            "mine": None,
            "theirs": owner["ratio"],
            "lost_gpu_s": int(verdict["lost_gpu_s"]),
            "order": (max(from_s, self.at_s), float(verdict["cost"]), job),
        }
        if stopping:
            rule = self._rule_of_stop(stage, job)
        if taker != NONE:
            told["mine"] = self._standing(stage, cluster, int(stays["account"][taker]))["ratio"]
            told["rule"] = Rule(rule).name.lower()
        told["sentence"] = self._say_verdict(stage, told, rule)
        return told

    def _say_verdict(self, stage: Stage, told: dict[str, Any], rule: int) -> str:
        from_s = told["interruptible_from_s"]
        since = "" if from_s is None or from_s <= self.at_s else f"protected until {self.when(from_s)}; then "
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


def _forget(stage: Stage) -> None:
    """Leave behind what was said so far; its consequences are wound up."""
    stage.chunks.clear()
    stage.placements.clear()
    stage.n_placed = 0
    stage.board.counts["n_out"] = stage.board.counts["n_placed"] = 0
    stage.playing.clock["n_seen"] = 0


def _bounds(stage: Stage, reason: Reason, known_s: int, at_s: int) -> dict[str, int | None]:
    """The earliest start as a range, by what is known now: work may end early, protections bound it above."""
    if known_s >= NEVER_S or reason == Reason.RESTING:
        return {"earliest_s": min(known_s, at_s) if reason != Reason.RESTING else known_s, "latest_s": None}
    grace_s = 0 if reason == Reason.CLAIMING else stage.policy.grace_budgeted_s
    late_s = None if reason == Reason.ORDER else known_s + grace_s + stage.policy.tick_s
    return {"earliest_s": known_s if reason == Reason.PROMISED else at_s, "latest_s": late_s}


def _percent(part: float | None) -> str:
    return "0 %" if part is None else f"{100 * part:.0f} %"
