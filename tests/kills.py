"""A server killed again and again by SIGKILL, at instants nobody chose, while real work runs.

    python tests/kills.py local 400 [URL]     400 kills over this machine's own engine
    python tests/kills.py fake 400            … over a cluster that lives in a file

Each server is a process of its own (forked from one that has everything loaded, so that hundreds fit into
minutes); what it started outlives it. In the end every job must have ended once and as without the kills: no
GPU held twice, no process left, charge as long as what ran. Prints what broke, and how often it was killed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import structlog

from tenure.daemon.run import Daemon
from tenure.engines.clock import RealClock
from tenure.ledger.ledger import Ledger, open_ledger
from tenure.ledger.records import Asked
from tenure.service.live.engines import open_engine
from tenure.settings.lab import Lab, lab_of

QUIET = structlog.wrap_logger(None, processors=[lambda *_: (_ for _ in ()).throw(structlog.DropEvent)])
LAB = {
    "lab": "killed",
    "clusters": {"here": {"nodes": 3, "gpus_per_node": 4}},
    "accounts": {"red": {"share": "50%"}, "blue": {"share": "50%"}},
    "policy": {"grace": {"budgeted": "2s", "unbudgeted": "1s"}, "max_protected": "10s", "back_off": "0s"},
}
SOONEST_S, LATEST_S = 0.02, 0.5  #: a server lives for so long
AT_ONCE = 14  #: jobs that wait or run at one time
REST_S = 600.0  #: until the last job has ended, once nothing is killed any more
#: What a job does: says where it runs, works, says that it is done. `exit 3` fails.
SCRIPT = (
    'echo "b $TENURE_JOB $TENURE_ATTEMPT $$ $(date +%s.%N) $CUDA_VISIBLE_DEVICES" >> {journal}; '
    'sleep {work}; echo "e $TENURE_JOB $TENURE_ATTEMPT $$ $(date +%s.%N)" >> {journal}; exit {code}'
)


class Killing:
    """`engine`: local or fake. Everything lies in `folder`."""

    def __init__(self, engine: str, kills: int, folder: Path, url: str | None = None, seed: int = 0) -> None:
        self.engine, self.kills, self.folder = engine, kills, folder
        self.url = url or str(folder / "record.sqlite")
        self.journal = folder / "journal"
        self.rng = random.Random(seed or None)
        self.lab: Lab = lab_of(LAB)
        self.asked = 0
        self.done = 0
        self.wrongs: list[str] = []

    # --- the server ---------------------------------------------------------------------------------------
    def _serve(self) -> int:
        """A server in a process of its own."""
        child = os.fork()
        if child:
            return child
        try:
            clock = RealClock()
            engine = open_engine(self.engine, self.lab, self.folder, clock)
            ledger = open_ledger(self.url)
            daemon = Daemon(self.lab, ledger, engine, clock, name="server", lease_s=0.5, log=QUIET)
            daemon.start()
            signal.pause()
        finally:
            os._exit(1)

    def _load(self) -> None:
        """Have everything loaded, and compiled, before the first server is forked."""
        with tempfile.TemporaryDirectory() as folder:
            ledger = open_ledger(Path(folder) / "record.sqlite")
            engine = open_engine("fake", self.lab, Path(folder), RealClock())
            daemon = Daemon(self.lab, ledger, engine, RealClock(), log=QUIET)
            spec = {"account": "red", "gpus": 1, "min_runtime": 1, "command": ["true"]}
            ledger.ask([Asked("ann", "submit", "", {"spec": spec}, time.time())])
            for _ in range(3):
                daemon.turn_now()
            ledger.close()
            engine.close()

    def run(self) -> list[str]:
        """Kill so often; then let the rest be; the promises broken."""
        self._load()
        ledger = open_ledger(self.url)
        while self.done < self.kills:
            self._submit(ledger)
            server = self._serve()
            time.sleep(SOONEST_S + self.rng.random() ** 2 * (LATEST_S - SOONEST_S))
            os.kill(server, signal.SIGKILL)
            os.waitpid(server, 0)
            self.done += 1
        server = self._serve()
        until = time.monotonic() + REST_S
        while time.monotonic() < until and not self._at_rest(ledger):
            time.sleep(0.2)
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)
        self._judge(ledger)
        ledger.close()
        return self.wrongs

    def _at_rest(self, ledger: Ledger) -> bool:
        left = [row for row in ledger.jobs(limit=100_000) if row.phase != "ended"]
        return not left and not ledger.unanswered(1) and not ledger.open_orders()

    def _submit(self, ledger: Ledger) -> None:
        """Keep so many jobs about; now and then cancel one, or ask the same again."""
        rng, about = self.rng, len([row for row in ledger.jobs(limit=100_000) if row.phase != "ended"])
        pending = len(ledger.unanswered(100))
        for _ in range(max(0, AT_ONCE - about - pending)):
            work, code = round(rng.uniform(0.1, 2.0), 2), 3 if rng.random() < 0.1 else 0
            script = SCRIPT.format(journal=self.journal, work=work, code=code)
            if self.engine == "fake":
                script = f"sleep {work}; exit {code}"
            spec = {
                "account": rng.choice(["red", "blue"]),
                "gpus": rng.choice([1, 1, 2, 4, 8]),
                "min_runtime": rng.choice([0, 1, 5]),
                "command": ["sh", "-c", script],
                "checkpoint_every": 0,
            }
            self.asked += 1
            asked = Asked("ann", "submit", "", {"spec": spec}, time.time(), key=f"job-{self.asked}")
            for _ in range(rng.choice([1, 1, 2])):
                ledger.ask([asked])
        if rng.random() < 0.1 and self.asked > 3:
            job = str(rng.randint(1, self.asked))
            ledger.ask([Asked("ann", "cancel", job, {}, time.time(), key=f"cancel-{self.done}")])

    # --- what must hold -----------------------------------------------------------------------------------
    def _judge(self, ledger: Ledger) -> None:
        jobs = ledger.jobs(limit=100_000)
        if len(jobs) != self.asked:
            self.wrongs.append(f"{self.asked} jobs were asked for, {len(jobs)} are recorded")
        for row in jobs:
            if row.phase != "ended":
                self.wrongs.append(f"job {row.job} is {row.phase} in the end: {row.detail}")
        lines = [json.loads(line) for line in ledger.story_lines()]
        self._judge_story(lines)
        if self.engine == "local":
            self._judge_processes(jobs, lines)
        else:
            self._judge_fake(ledger)

    def _judge_story(self, lines: list[dict[str, Any]]) -> None:
        """Each job submitted once, one attempt at a time, no GPU twice."""
        submitted = Counter(line["job"] for line in lines if line["event"] == "submitted")
        if any(n != 1 for n in submitted.values()):
            self.wrongs.append(f"submitted twice: {submitted.most_common(3)}")
        running: dict[str, dict[str, int]] = {}
        for line in lines:
            if line["event"] == "started":
                if line["job"] in running:
                    self.wrongs.append(f"line {line['n']}: {line['job']} beside itself")
                running[line["job"]] = line["nodes"]
                used: Counter[str] = Counter()
                for nodes in running.values():
                    used.update(nodes)
                if max(used.values()) > 4:
                    self.wrongs.append(f"line {line['n']}: {used}")
            elif line["event"] == "stopped" and running.pop(line["job"], None) is None:
                self.wrongs.append(f"line {line['n']}: {line['job']} stopped and did not run")

    def _judge_processes(self, jobs: list[Any], lines: list[dict[str, Any]]) -> None:
        """What the jobs themselves say: once at a time on each GPU, ended as told, gone."""
        begun: dict[tuple[str, int], tuple[float, str, int]] = {}
        over: dict[tuple[str, int], float] = {}
        for text in self.journal.read_text().splitlines():
            kind, job, attempt, pid, at, *gpus = text.split()
            key = (job, int(attempt))
            if kind == "e":
                over[key] = float(at)
                continue
            if key in begun:
                self.wrongs.append(f"attempt {key} was started twice")
            begun[key] = (float(at), gpus[0] if gpus else "", int(pid))
        told: dict[tuple[str, int], dict[str, Any]] = {}
        for line in lines:
            if line["event"] in ("started", "stopped"):
                told.setdefault((line["job"], line["attempt"]), {})[line["event"]] = line
        zero = next(line for line in lines if line["event"] == "began").get("start")
        for key, (_, _, pid) in begun.items():
            if key not in told:
                self.wrongs.append(f"attempt {key} ran and is not told")
            with suppress(psutil.NoSuchProcess):
                if f"TENURE_JOB={key[0]}" in "".join(
                    f"{k}={v}" for k, v in psutil.Process(pid).environ().items()
                ):
                    self.wrongs.append(f"attempt {key} is running yet, as {pid}")
        ends = {row.job: row.end for row in jobs}
        last = {job: max(n for j, n in begun if j == job) for job, _ in begun}
        for job, end in ends.items():
            if end == "finished" and (job, last.get(job, 0)) not in over:
                self.wrongs.append(f"job {job} is told to have finished, and has not said so")
        self._judge_spans(told, over, zero)

    def _judge_spans(self, told: dict[Any, Any], over: dict[Any, float], zero: str | None) -> None:
        """Charge: an attempt is told to have stopped in the second in which it did."""
        from datetime import datetime

        start = datetime.fromisoformat(zero).timestamp() if zero else None
        for key, at in over.items():
            line = told.get(key, {}).get("stopped")
            if line is None or start is None:
                continue
            late = line["t"] - (at - start)
            if not -1.0 <= late <= 1.5:
                self.wrongs.append(
                    f"attempt {key}: ran to {at - start:.2f}, told to have stopped at {line['t']}"
                )

    def _judge_fake(self, ledger: Ledger) -> None:
        cluster: Any = open_engine("fake", self.lab, self.folder, RealClock())
        self.wrongs += cluster.wrongs
        if running := cluster.running():
            self.wrongs.append(f"orphans: {[(one.job, one.attempt) for one in running]}")
        seen = Counter((one.job, one.attempt) for one in cluster.attempts())
        if twice := [key for key, n in seen.items() if n > 1]:
            self.wrongs.append(f"ran twice: {twice}")
        cluster.close()


def killed(engine: str, kills: int, url: str | None = None, seed: int = 0) -> Killing:
    """A lab whose server is killed so often."""
    with tempfile.TemporaryDirectory(prefix="tenure-kills-") as folder:
        killing = Killing(engine, kills, Path(folder), url, seed)
        try:
            killing.run()
        finally:
            _sweep(folder)
        return killing


def _sweep(folder: str) -> None:
    """Whatever went wrong, nothing is left running."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid != os.getpid() and folder in " ".join(process.cmdline()):
                process.kill()


def main(argv: list[str]) -> int:
    killing = killed(argv[0], int(argv[1]), argv[2] if len(argv) > 2 else None)
    for wrong in killing.wrongs[:20]:
        print(wrong)
    print(f"{killing.done} kills, {killing.asked} jobs, {len(killing.wrongs)} promises broken")
    return 1 if killing.wrongs else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
