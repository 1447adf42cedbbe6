"""An ordeal: a small lab drawn from a seed lives some hours while everything around it fails.

The live loop runs as it is, over a real record and a cluster in memory, on a chosen clock. Answers are lost
or late, orders doubled or echoed; nodes die, drain and vanish; jobs are cancelled behind its back; the record
refuses to be written before or after it was; clocks jump; and the process is killed between any two steps.
Then the faults cease, and the rest of the work is let run. `live` gives every broken promise as a sentence.

    python tests/ordeal.py SEED [URL]        one seed again, and what it broke
    python tests/ordeal.py 0-1999            many, with a count
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import structlog

from checker_sums import gpu_seconds
from tenure.core.words import NEVER_S, Phase
from tenure.daemon.run import Daemon
from tenure.engines.fake import Behaviour, ChosenClock, FakeCluster, Faults, drawn_timetable
from tenure.ledger.ledger import Ledger, open_ledger
from tenure.ledger.records import Asked, LedgerUnavailable
from tenure.settings.lab import lab_of

START = 1_767_571_200.0
HOUR = 3600
TROUBLE_S = 5 * HOUR  #: so long everything fails
PATIENCE_S = 10 * 24 * HOUR  #: and then so long at most until the last job has ended
QUIET = structlog.wrap_logger(None, processors=[lambda *_: (_ for _ in ()).throw(structlog.DropEvent)])
BY_US = ("preempted", "drain", "moved")
VERBS = ("cancel", "hold", "release", "stop", "node", "share")


class Killed(BaseException):
    """As `kill -9`: nothing after it happens."""


@dataclass
class Misfortune:
    """Chances that a step goes wrong; all 0 once the trouble is over."""

    rng: np.random.Generator
    killed: float
    unwritten: float  #: the record refuses before it writes
    unsaid: float  #: the record is written, and its answer lost
    on: bool = True

    def strikes(self, chance: float) -> bool:
        return self.on and chance > 0 and float(self.rng.random()) < chance


class Record:
    """A ledger whose calls fail, and on whose calls the process may die, before or after they are done."""

    FAILING = ("record", "settle_orders", "unanswered", "lead", "renew", "ask")

    def __init__(self, ledger: Ledger, fate: Misfortune) -> None:
        self._ledger, self._fate = ledger, fate

    def __getattr__(self, name: str) -> Any:
        call, fate = getattr(self._ledger, name), self._fate
        if name not in self.FAILING:
            return call

        def failing(*args: Any, **rest: Any) -> Any:
            if fate.strikes(fate.killed):
                raise Killed
            if fate.strikes(fate.unwritten):
                raise LedgerUnavailable("the disk is full")
            found = call(*args, **rest)
            if fate.strikes(fate.killed):
                raise Killed
            if fate.strikes(fate.unsaid):
                raise LedgerUnavailable("the connection broke")
            return found

        return failing


class Machines:
    """A cluster on whose calls the process may die, before or after they are done."""

    name, keeps_queue, limit_step_s = "fake", False, 1

    def __init__(self, cluster: FakeCluster, fate: Misfortune) -> None:
        self._cluster, self._fate = cluster, fate

    def __getattr__(self, name: str) -> Any:
        call, fate = getattr(self._cluster, name), self._fate
        if name not in ("see", "carry_out"):
            return call

        def dying(*args: Any) -> Any:
            if fate.strikes(fate.killed):
                raise Killed
            found = call(*args)
            if fate.strikes(fate.killed):
                raise Killed
            return found

        return dying


@dataclass
class Ordeal:
    """One seed. `wrongs` fills with sentences while it is lived."""

    seed: int
    url: str | Path
    wrongs: list[str] = field(default_factory=list)
    deaths: int = 0
    turns: int = 0

    def __post_init__(self) -> None:
        rng = self.rng = np.random.default_rng([self.seed, 77])
        self.n_nodes, self.node_gpus = int(rng.integers(2, 7)), int(rng.choice([4, 8]))
        self.limit = self.n_nodes * self.node_gpus * 3 // 4
        tree = {
            "red": {"share": "50%", "accounts": {"ann": {"share": "60%"}, "bo": {"share": "30%"}}},
            "blue": {"share": "30%", "max_gpus": self.limit},
            "green": {"share": "15%"},
        }
        cluster = {"nodes": self.n_nodes, "gpus_per_node": self.node_gpus}
        policy = {
            "max_protected": str(rng.choice(["20m", "1h", "2h"])),
            "lookback": str(rng.choice(["6h", "2d"])),
        }
        self.lab = lab_of({"lab": "ordeal", "clusters": {"n": cluster}, "accounts": tree, "policy": policy})
        self.behaviours: dict[str, Behaviour] = {}
        self.specs = [self._spec(k) for k in range(int(rng.integers(8, 30)))]
        self.fate = Misfortune(
            rng, *(float(rng.choice([0, worst / 4, worst])) for worst in (0.02, 0.05, 0.05))
        )
        self.clock = ChosenClock(START)
        self.names = [node.name for node in self.lab.nodes]
        self.cluster = FakeCluster(
            {node.name: node.gpus for node in self.lab.nodes},
            self.clock,
            behave=self._behave,
            faults=self._faults(),
        )
        self.ledger = open_ledger(self.url)
        self.asked: dict[str, Asked] = {}
        self.daemon = self._wake_up()
        self.ids: dict[str, str] = {}  #: job id by the key it was asked with

    # --- what is drawn --------------------------------------------------------------------------------------
    def _spec(self, k: int) -> dict[str, Any]:
        rng, node = self.rng, self.node_gpus
        sizes = [1, 1, 2, 3, node, node, 2 * node]
        gpus = int(rng.choice([size for size in sizes if size <= self.n_nodes * node]))
        minimum = int(rng.choice([0, 0, 300, 900, 3600, 7200]))
        accounts = ["red/ann", "red/bo", "red", "green"]
        if gpus <= self.limit:
            accounts.append("blue")
        spec: dict[str, Any] = {
            "account": str(rng.choice(accounts)),
            "gpus": gpus,
            "min_runtime": minimum,
            "resumable": bool(rng.random() < 0.8),
            "command": ["true"],
            "name": f"job-{k}",
        }
        if rng.random() < 0.15:
            spec["max_runtime"] = int(rng.integers(600, 3 * HOUR))
        if rng.random() < 0.1:
            spec["kind"] = "session"
        return spec

    def _behave(self, job: str, attempt: int, start: Any) -> Behaviour:
        found = self.behaviours.get(job)
        if found is None:
            rng = np.random.default_rng([self.seed, 78, int(job)])
            every_s = float(rng.choice([0, 600, 1800]))
            found = self.behaviours[job] = Behaviour(
                runtime_s=float(round(rng.lognormal(7.6, 1.2))) + 1,
                checkpoint_every_s=every_s,
                saves_when_asked=every_s == 0 or bool(rng.random() < 0.7),  # what never saves may never end
                restart_s=float(rng.choice([0, 60])),
                fails=bool(rng.random() < 0.1),
                leaves_after_s=None if rng.random() < 0.5 else float(rng.integers(0, 200)),
                starts_after_s=float(rng.choice([0, 0, 3])),
            )
        return found

    def _faults(self) -> Faults:
        rng = self.rng

        def chance(worst: float) -> float:
            return float(rng.choice([0, worst / 5, worst]))

        timetable = drawn_timetable(
            self.seed,
            self.names,
            START,
            START + TROUBLE_S,
            per_hour={
                "node_down": chance(0.6),
                "node_drain": chance(0.4),
                "node_vanishes": chance(0.5),
                "silence": chance(0.8),
                "cancel": chance(0.4),
                "skew": chance(0.3),
            },
        )
        self.skewed = any(one.what == "skew" for one in timetable)
        faults = Faults(
            seed=self.seed,
            lost_before=chance(0.1),
            lost_after=chance(0.1),
            doubled=chance(0.2),
            delayed=chance(0.05),
            echoed=chance(0.1),
            late=chance(0.1),
            refused=chance(0.05),
            timetable=timetable,
        )
        # an end that could not be seen is told when it is: what was recorded meanwhile stays in its order
        silent = any(one.what in ("silence", "node_vanishes") for one in timetable)
        self.blind = silent or bool(faults.lost_before or faults.lost_after or faults.late or faults.delayed)
        return faults

    def _asking(self) -> list[tuple[int, Asked]]:
        """What people ask, and when: every job, and now and then something else."""
        rng, found = self.rng, []
        for k, spec in enumerate(self.specs):
            at = int(rng.integers(0, TROUBLE_S * 3 // 4)) if k > 5 else 0
            found.append((at, Asked("ann", "submit", "", {"spec": spec}, 0, key=f"submit-{k}")))
        for k in range(int(rng.integers(0, 12))):
            verb = str(rng.choice(VERBS))
            subject, body = str(int(rng.integers(1, len(self.specs) + 1))), {"reason": "because"}
            if verb == "node":
                subject = str(rng.choice(self.names))
                body["state"] = str(rng.choice(["draining", "up", "up", "down", "testing"]))
            elif verb == "share":
                subject = str(rng.choice(["red", "blue", "green", "red/ann"]))
                body["share"] = float(rng.choice([0.1, 0.3]))  # type: ignore[assignment]
            found.append(
                (int(rng.integers(60, TROUBLE_S)), Asked("pia", verb, subject, body, 0, key=f"ask-{k}"))
            )
        # what was held or taken down by hand is given back in the end
        for k, name in enumerate(self.names):
            body = {"state": "up", "reason": "the trouble is over"}
            found.append((TROUBLE_S + HOUR, Asked("pia", "node", name, body, 0, key=f"up-{k}")))
        for k in range(len(self.specs)):
            found.append((TROUBLE_S + HOUR, Asked("pia", "release", str(k + 1), {}, 0, key=f"release-{k}")))
        return sorted(found, key=lambda one: (one[0], one[1].key))

    # --- living it ----------------------------------------------------------------------------------------
    def _wake_up(self) -> Daemon:
        record: Any = Record(self.ledger, self.fate)
        engine: Any = Machines(self.cluster, self.fate)
        return Daemon(
            self.lab, record, engine, self.clock, name=f"server-{self.deaths}", lease_s=15,
            keyframe_every=int(5 + self.seed % 40), log=QUIET,
        )  # fmt: skip

    def live(self) -> list[str]:
        """Live it to the end; the promises broken."""
        coming, t = self._asking(), 0
        while t <= TROUBLE_S + PATIENCE_S:
            if t >= TROUBLE_S and self.fate.on:
                self._calm()
            while coming and coming[0][0] <= t:
                if not self._ask(coming[0][1]):
                    break
                coming.pop(0)
            self._settle()
            if self.wrongs:
                break
            if not coming and t > TROUBLE_S + HOUR and self._is_over():
                break
            t = self._next(t, coming)
            self.clock.set(START + t)
        else:
            self.wrongs.append(f"after {PATIENCE_S / 86400:g} quiet days work is left: {self._left()}")
        if not self.wrongs:
            self._judge()
        self.ledger.close()
        return self.wrongs

    def _calm(self) -> None:
        """The faults cease; what the cluster was told late is over."""
        self.fate.on = False
        self.cluster.faults = Faults(seed=self.seed)
        self.cluster._room._faults = self.cluster.faults

    def _ask(self, asked: Asked) -> bool:
        """Ask until it is written down: with one key it is asked once, however often."""
        try:
            Record(self.ledger, self.fate).ask([asked])
        except (LedgerUnavailable, Killed):
            return False
        return True

    def _settle(self) -> None:
        """Turns, until nothing is due at this second; a process that dies is followed by another."""
        for _ in range(60):
            try:
                turned = self.daemon.turn_now()
            except Killed:
                self.deaths += 1
                self.daemon = self._wake_up()
                self.clock.wait(float(self.rng.choice([0, 1, 20, 400])))  # a dead leader's lease runs out
                continue
            if turned:
                self.turns += 1
                self._check_board()
            view = self.daemon.view()
            if not turned:
                if view is None:  # not leading, or the record is silent: time passes
                    self.clock.wait(5)
                    continue
                return

    def _next(self, t: int, coming: list[tuple[int, Asked]]) -> int:
        """The next second worth living: something is due, or a moment later in times of trouble."""
        t = max(t, int(self.clock.now() - START))
        due = [t + (60 if self.fate.on else 3600)]
        change = self.cluster.next_change()
        if change is not None:
            due.append(int(np.ceil(change - START)))
        view = self.daemon.view()
        if view is not None and view.next_t < NEVER_S:
            due.append(view.next_t)
        if coming:
            due.append(coming[0][0])
        return max(t + 1, min(due))

    def _is_over(self) -> bool:
        return self.ledger.last_turn() > 0 and not self._left() and not self.ledger.open_orders()

    def _left(self) -> list[str]:
        return [f"{row.job} {row.phase}" for row in self.ledger.jobs(limit=10_000) if row.phase != "ended"]

    # --- what must hold -------------------------------------------------------------------------------------
    def _check_board(self) -> None:
        """After each turn: no GPU twice, limits kept, exactly what runs is held."""
        view = self.daemon.view()
        if view is None:
            return
        board, core = view.board, view.core
        rows = np.flatnonzero(np.isin(board.stays["phase"], (Phase.RUNNING, Phase.STOPPING)))
        held = int(board.stays["gpus"][rows].sum())
        free = int(board.posts["free"].sum())
        if (board.posts["free"] < 0).any() or held + free != int(core.nodes["gpus"].sum()):
            self.wrongs.append(f"turn {view.turn}: {held} GPUs held and {free} free")
        mine = view.lab.rows()["blue"]
        blue = int(board.stays["gpus"][rows][board.stays["account"][rows] == mine].sum())
        if blue > self.limit:
            self.wrongs.append(f"turn {view.turn}: blue holds {blue} of {self.limit} GPUs")
        for wrong in self.cluster.wrongs:
            self.wrongs.append(f"turn {view.turn}: the cluster was ordered {wrong}")

    def _judge(self) -> None:
        """The whole story, once it is over."""
        lines = [json.loads(line) for line in self.ledger.story_lines()]
        self._judge_jobs(lines)
        self._judge_protections(lines)
        self._judge_sums(lines)
        self._judge_cluster(lines)

    def _judge_jobs(self, lines: list[dict[str, Any]]) -> None:
        """Every job that was asked for was submitted once, and ended once."""
        told = Counter((line["event"], line.get("job")) for line in lines)
        for asked in self.ledger.jobs(limit=10_000):
            if told["submitted", asked.job] != 1:
                self.wrongs.append(f"job {asked.job} was submitted {told['submitted', asked.job]} times")
            if asked.phase != "ended" or not asked.end:
                self.wrongs.append(f"job {asked.job} is {asked.phase} in the end")
        if told_submitted := sum(1 for event, _ in told if event == "submitted"):
            answered = sum(1 for k in range(len(self.specs)) if self._was_accepted(k))
            if answered != told_submitted:
                self.wrongs.append(f"{answered} submissions were accepted and {told_submitted} are told")
        open_: dict[str, int] = {}
        for line in lines:
            job = line.get("job")
            if line["event"] == "started":
                if job in open_:
                    self.wrongs.append(f"line {line['n']}: {job} started beside its attempt {open_[job]}")
                open_[job] = line["attempt"]
            elif line["event"] == "stopped" and open_.pop(job, None) != line["attempt"]:
                self.wrongs.append(f"line {line['n']}: {job} stopped an attempt that was not under way")
        if open_:
            self.wrongs.append(f"never stopped: {open_}")

    def _was_accepted(self, k: int) -> bool:
        """Asked once more, the very same: it is there once, and keeps its number."""
        again = Asked("ann", "submit", "", {"spec": self.specs[k]}, 0, key=f"submit-{k}")
        number = self.ledger.ask([again])[0]
        answer = self.ledger.answer(number)
        return answer is not None and answer.ok

    def _judge_protections(self, lines: list[dict[str, Any]]) -> None:
        """S10, S11: nothing but death, owner, own limit and force touches a protected attempt."""
        until: dict[str, int] = {}
        budgeted: dict[str, bool] = {}
        for line in lines:
            job = line.get("job")
            if line["event"] == "submitted":
                budgeted[job] = line["min_runtime_s"] > 0
            elif line["event"] == "started":
                until[job] = line["protected_until_s"]
            elif line["event"] == "stopping" and line["cause"] in BY_US and budgeted[job]:
                if line["t"] < until[job]:
                    self.wrongs.append(
                        f"line {line['n']}: {job} was stopped {until[job] - line['t']} s early"
                    )

    def _judge_sums(self, lines: list[dict[str, Any]]) -> None:
        """S4: charged + unbudgeted + idle + down = capacity x time; charge is GPUs x time of each attempt."""
        sums = gpu_seconds(lines)
        parts = sum(sums[name] for name in ("budgeted", "unbudgeted", "idle", "down"))
        if sums["capacity"] != parts:
            self.wrongs.append(f"S4: {sums}")
        began: dict[str, int] = {}
        gpus = {line["job"]: line["gpus"] for line in lines if line["event"] == "submitted"}
        for line in lines:
            if line["event"] == "started":
                began[line["job"]] = line["t"]
            elif line["event"] == "stopped":
                due = gpus[line["job"]] * (line["t"] - began[line["job"]])
                if line["held_gpu_s"] != due:
                    self.wrongs.append(f"line {line['n']}: {line['held_gpu_s']} GPU-s told, {due} held")

    def _judge_cluster(self, lines: list[dict[str, Any]]) -> None:
        """What ran on the cluster is what is told: nothing left over, no end before its time, none late."""
        zero = self.ledger.begin(self.lab.name, 0.0).start
        if running := self.cluster.running():
            self.wrongs.append(f"orphans: {[(one.job, one.attempt) for one in running]}")
        ran: dict[tuple[str, int], Any] = {(one.job, one.attempt): one for one in self.cluster.attempts()}
        spans: dict[tuple[str, int], list[float]] = defaultdict(list)
        lost = {(line["job"], line["attempt"]) for line in lines if line.get("end") == "node_failed"}
        for line in lines:
            if line["event"] in ("started", "stopped"):
                spans[line["job"], line["attempt"]].append(line["t"])
        for key, one in ran.items():
            if key not in spans and one.started is not None:
                self.wrongs.append(f"attempt {key} ran and is not told")
                continue
            if self.skewed or one.started is None or one.ended is None or key in lost:
                continue  # instants were shown by a clock that jumped, or a node was called dead
            started, stopped = spans[key]
            if not self.blind and (started > one.started - zero + 1 or stopped > one.ended - zero + 1):
                self.wrongs.append(
                    f"attempt {key}: told {started}–{stopped}, ran {one.started - zero}–{one.ended - zero}"
                )
            if stopped < np.floor(one.ended - zero):
                self.wrongs.append(
                    f"attempt {key}: told to have stopped at {stopped}, ran to {one.ended - zero}"
                )


def lived(seed: int, url: str | Path | None = None) -> Ordeal:
    """One seed, lived; its record in memory's file system where none is named."""
    if url is not None:
        ordeal = Ordeal(seed, url)
        ordeal.live()
        return ordeal
    shm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shm if shm.is_dir() else None) as folder:
        ordeal = Ordeal(seed, Path(folder) / "record.sqlite")
        ordeal.live()
        return ordeal


def told(seed: int, url: str | None = None) -> tuple[int, list[str], int, int]:
    ordeal = lived(seed, url)
    return seed, ordeal.wrongs, ordeal.turns, ordeal.deaths


def main(argv: list[str]) -> int:
    first, _, last = argv[0].partition("-")
    seeds = range(int(first), int(last or first) + 1)
    url = argv[1] if len(argv) > 1 else None
    broken = deaths = turns = 0
    with ProcessPoolExecutor(int(os.environ.get("WORKERS", "2")) if url is None else 1) as pool:
        for seed, wrongs, n_turns, n_deaths in pool.map(told, seeds, [url] * len(seeds)):
            broken, deaths, turns = broken + bool(wrongs), deaths + n_deaths, turns + n_turns
            for wrong in wrongs[:5]:
                print(f"seed {seed}: {wrong}", flush=True)
    print(f"{len(seeds)} ordeals, {turns} turns, {deaths} deaths, {broken} broke a promise")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
