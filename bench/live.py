"""The running scheduler under load: a real server, real questions over HTTP, a cluster in memory.

`bench/live.py` serves 1,024 nodes of 8 GPUs with the engine `fake`, submits until 2,000 jobs run and 10,000
wait, and measures: submissions a second, turns, questions, a debug job's wait, the server's memory. Then the
same over a record of 30 days with a million events. Writes docs/speed-live.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tenure.client import Client, ClientError

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PAGE = ROOT / "docs" / "speed-live.md"
TENURE = Path(sys.executable).with_name("tenure")
NODES, NODE_GPUS = 1024, 8
TEAMS, PEOPLE = 10, 4
WAITING, RUNNING = 10_000, 2_000
PEOPLE_AT_ONCE = 64  #: who submit at the same time; each waits for its answer
SIZES, PARTS = (1, 2, 4, 8, 16), (0.25, 0.25, 0.25, 0.15, 0.10)
HISTORY_EVENTS, HISTORY_DAYS = 1_000_000, 30
STEPS = (  # of a job of the past
    ("submitted", '"gpus":4,"min_runtime_s":1800,"resumable":true,"kind":"batch"'),
    ("started", '"attempt":1,"cluster":"big","nodes":{"big-0000":4},"protected_until_s":1,"reason":"owed"'),
    ("notice", '"attempt":1,"interruptible_at_s":1,"by":null'),
    ("stopped", '"attempt":1,"end":"finished","held_gpu_s":3600,"lost_gpu_s":0'),
    ("requeued", '"attempt":1'),
)
GRACE_S = {"budgeted": 5, "unbudgeted": 2}
BOUNDS = {
    "turn p99, ms": 200.0,
    "CPU of a turn, p99, ms": 200.0,
    "queue, s": 0.3,
    "memory, MB": 500.0,
    "debug job runs after, s": 2.0 + GRACE_S["unbudgeted"],
}
LEAST = {"submissions a second": 200.0}


def lab_of_bench() -> dict[str, Any]:
    """1,024 nodes and forty people in ten teams."""
    people = {f"team{i}": [f"t{i}p{j}" for j in range(PEOPLE)] for i in range(TEAMS)}
    return {
        "lab": "bench",
        "clusters": {"big": {"nodes": NODES, "gpus_per_node": NODE_GPUS, "nodes_per_rack": 64}},
        "accounts": {team: {"share": "10%", "researchers": names} for team, names in people.items()},
        "policy": {"grace": {key: f"{value}s" for key, value in GRACE_S.items()}},
    }


class Jobs:
    """Drawn jobs, one after the other. A fifth is unbudgeted; none is a debug job."""

    def __init__(self, seed: int) -> None:
        self._chance = np.random.default_rng(seed)
        self._lock = threading.Lock()

    def next(self) -> dict[str, Any]:
        with self._lock:
            draw = self._chance
            team, person = int(draw.integers(TEAMS)), int(draw.integers(PEOPLE))
            minimum = int(draw.choice([0, 1800, 7200, 14400], p=[0.2, 0.3, 0.3, 0.2]))
            return {
                "account": f"team{team}/t{team}p{person}",
                "gpus": int(draw.choice(SIZES, p=PARTS)),
                "min_runtime": minimum,
                "command": ["sleep", str(int(draw.integers(300, 1500)))],
                "env": {"RUN": f"sweep-{int(draw.integers(10**6))}", "DATA": "/data/tokens/shard"},
            }


class Server:
    """`tenure serve` in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        (folder / "lab.yaml").write_text(yaml.safe_dump(lab_of_bench()))
        self.log = (folder / "server.log").open("ab")
        words = [str(TENURE), "serve", str(folder / "lab.yaml"), "--engine", "fake"]
        words += ["--data", str(folder / "data"), "--port", str(self.port)]
        began = time.monotonic()
        self.process = subprocess.Popen(words, stdout=self.log, stderr=self.log, start_new_session=True)
        self.url = f"http://127.0.0.1:{self.port}"
        self.client: Client = self._client_when_ready(began + 300)
        self.ready_s = time.monotonic() - began

    def _client_when_ready(self, deadline: float) -> Client:
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                client = self.new_client()
                client.queue(limit=1)
                return client
            except (OSError, ClientError):
                time.sleep(0.1)
        raise SystemExit(f"the server did not answer:\n{(self.folder / 'server.log').read_text()[-3000:]}")

    def new_client(self) -> Client:
        return Client(self.url, (self.folder / "data" / "admin.token").read_text().strip(), timeout_s=60)

    def metrics(self) -> dict[str, float]:
        """Every sample by its name and labels."""
        import httpx

        page = httpx.get(f"{self.url}/metrics", timeout=30, trust_env=False).text
        found = {}
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
                found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
        return found

    def memory_mb(self) -> float:
        return psutil.Process(self.process.pid).memory_info().rss / 1e6

    def cpu_s(self) -> float:
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


@contextmanager
def served(folder: Path) -> Iterator[Server]:
    server = Server(folder)
    try:
        yield server
    finally:
        server.close()


# --- what is measured -------------------------------------------------------------------------------


def submit_many(
    server: Server, jobs: Jobs, count: int, *, receipt: bool, threads: int = PEOPLE_AT_ONCE
) -> float:
    """Submissions a second, from so many people at once."""
    mine = threading.local()

    def one(_: int) -> None:
        if not hasattr(mine, "client"):
            mine.client = server.new_client()
        mine.client.submit(receipt=receipt, **jobs.next())

    began = time.monotonic()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(one, range(count)))
    return count / (time.monotonic() - began)


def warm_up(server: Server) -> None:
    """One job through everything, so that no compiling is measured."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        try:
            job = server.client.submit(account="team0/t0p0", gpus=1, min_runtime=600, command=["true"]).job
            server.client.why_if(account="team0/t0p0", gpus=8)
            while server.client.show(job).phase != "ended":
                time.sleep(0.1)
            return
        except ClientError:
            time.sleep(1)


def quantile_of_turns(
    before: dict[str, float], after: dict[str, float], part: float, which: str = "tenure_turn_seconds"
) -> float:
    """Upper bound of the bucket, in seconds, within which this part of the turns between two pages lies."""
    rows = []
    for name, value in after.items():
        if name.startswith(f"{which}_bucket{{le="):
            bound = float(name.split("=")[1].rstrip("}"))
            rows.append((bound, value - before.get(name, 0.0)))
    rows.sort()
    whole = rows[-1][1]
    return next((bound for bound, count in rows if count >= part * whole), float("inf"))


def seconds_of(call: Callable[[], Any], times: int) -> list[float]:
    found = []
    for _ in range(times):
        began = time.monotonic()
        call()
        found.append(time.monotonic() - began)
    return found


def debug_wait_s(server: Server, team: int) -> float:
    """From `submit` to running, of a job of one GPU and ten minutes."""
    began = time.monotonic()
    job = server.client.submit(
        receipt=False, account=f"team{team}/t{team}p0", gpus=1, min_runtime=600, command=["sleep", "20"]
    ).job
    while time.monotonic() - began < 60:
        if server.client.show(job).phase != "waiting":
            return time.monotonic() - began
        time.sleep(0.05)
    return float("inf")


def command_s(server: Server, *words: str) -> float:
    environment = {**os.environ, "TENURE_URL": server.url, "TENURE_TOKEN": server.client.place.token or ""}
    began = time.monotonic()
    subprocess.run([TENURE, *words], env=environment, capture_output=True, check=True)
    return time.monotonic() - began


def measured(server: Server, steady_s: float, *, scale: float) -> dict[str, float]:
    """All figures of one server, from an empty queue on."""
    jobs, found = Jobs(1), {}
    warm_up(server)
    total = int((WAITING + RUNNING) * scale)
    found["start, s"] = server.ready_s
    found["memory empty, MB"] = server.memory_mb()
    cpu = server.cpu_s()
    found["submissions a second"] = submit_many(server, jobs, total, receipt=False)
    found["CPU of the server for a submission, ms"] = 1e3 * (server.cpu_s() - cpu) / total
    time.sleep(5)
    found["submissions a second, with receipts, at full load"] = submit_many(
        server, jobs, int(400 * scale), receipt=True
    )
    found["submissions a second, at full load"] = submit_many(server, jobs, int(2000 * scale), receipt=False)
    before, cpu, began = server.metrics(), server.cpu_s(), time.monotonic()
    queue: list[float] = []
    debug: list[float] = []
    why: list[float] = []
    turn = 0
    while time.monotonic() - began < steady_s:
        queue += seconds_of(lambda: server.client.queue(limit=1000), 1)
        waiting = server.client.queue(state="waiting", limit=50).jobs
        why += seconds_of(partial(server.client.why, waiting[-1].job), 1) if waiting else []
        debug.append(debug_wait_s(server, turn % TEAMS))
        submit_many(server, jobs, 20, receipt=False, threads=2)
        turn += 1
    took = time.monotonic() - began
    after = server.metrics()
    turns = after["tenure_turn_seconds_count"] - before["tenure_turn_seconds_count"]
    found |= {
        "running jobs": after["tenure_jobs{phase=running}"],
        "waiting jobs": after["tenure_jobs{phase=waiting}"],
        "turns a second": turns / took,
        "turn mean, ms": 1e3
        * (after["tenure_turn_seconds_sum"] - before["tenure_turn_seconds_sum"])
        / max(turns, 1),
        "turn p99, ms": 1e3 * quantile_of_turns(before, after, 0.99),
        "CPU of a turn, mean, ms": 1e3
        * (after["tenure_turn_cpu_seconds_sum"] - before["tenure_turn_cpu_seconds_sum"])
        / max(turns, 1),
        "CPU of a turn, p99, ms": 1e3 * quantile_of_turns(before, after, 0.99, "tenure_turn_cpu_seconds"),
        "queue, s": statistics.median(queue),
        "queue longest, s": max(queue),
        "why, s": statistics.median(why) if why else float("nan"),
        "`tenure queue`, s": min(command_s(server, "queue") for _ in range(3)),
        "debug job runs after, s": statistics.median(debug),
        "debug job longest, s": max(debug),
        "CPU of the server, cores": (server.cpu_s() - cpu) / took,
        "memory, MB": server.memory_mb(),
        "load average of the machine": os.getloadavg()[0],
    }
    return found


# --- a record of 30 days ------------------------------------------------------------------------------


def fill_history(folder: Path, events: int) -> None:
    """Jobs that came, ran and ended over 30 days, as rows of the record, before the server knows of any."""
    path = next((folder / "data").glob("*.db"))
    db = sqlite3.connect(path)
    start = json.loads(db.execute("select value from meta where key = 'identity'").fetchone()[0])["start"]
    shift = HISTORY_DAYS * 86400
    told = {"lab": "bench", "start": start - shift}
    db.execute("update meta set value = ? where key = 'identity'", (json.dumps(told),))
    jobs = events // len(STEPS)
    step = shift / jobs
    last = dict(db.execute("select name, last from counters"))
    n, seq = last.get("events", 0), last.get("jobs", 0)

    def lines() -> Iterator[dict[str, Any]]:
        for i in range(jobs):
            t = int(i * step) + 1
            for k, (event, more) in enumerate(STEPS):
                who = f'"job":"h{i}","account":"team0/t0p0"'
                line = f'{{"event":"{event}","t":{t},{who},{more}}}'
                yield {"n": n + i * len(STEPS) + k + 1, "t": t, "event": event, "job": f"h{i}", "line": line}

    spec = json.dumps(Jobs(7).next())

    def ended() -> Iterator[dict[str, Any]]:
        for i in range(jobs):
            t = int(i * step) + 1
            yield {
                "job": f"h{i}",
                "seq": seq + i + 1,
                "account": "team0/t0p0",
                "user": "t0p0",
                "phase": "ended",
                "end": "finished",
                "submitted_t": t,
                "ended_t": t + 900,
                "gpus": 4,
                "min_runtime_s": 1800,
                "spec": spec,
                "detail": "",
                "array": "",
            }

    def attempts() -> Iterator[dict[str, Any]]:
        for i in range(jobs):
            t = int(i * step) + 1
            yield {
                "job": f"h{i}",
                "attempt": 1,
                "nodes": '{"big-0000":4}',
                "started_t": t,
                "stopped_t": t + 900,
                "protected_until_t": t + 600,
                "end": "finished",
                "reason": "owed",
                "held_gpu_s": 3600,
                "lost_gpu_s": 0,
                "exit_code": 0,
                "detail": "",
            }

    with db:
        for table, rows in (("events", lines), ("jobs", ended), ("attempts", attempts)):
            names = list(next(rows()))
            listed, given = ", ".join(f'"{name}"' for name in names), ", ".join(f":{name}" for name in names)
            db.executemany(f"insert into {table} ({listed}) values ({given})", rows())
        for name, value in (("events", n + events), ("jobs", seq + jobs)):
            db.execute("update counters set last = ? where name = ?", (value, name))
    db.close()


# --- the page -----------------------------------------------------------------------------------------


def figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def page_of(columns: dict[str, dict[str, float]], turns: dict[str, float]) -> str:
    names = list(next(iter(columns.values())))
    rows = []
    for name in names:
        bound = f"≤ {BOUNDS[name]:g}" if name in BOUNDS else f"≥ {LEAST[name]:g}" if name in LEAST else ""
        values = [
            f"{column[name]:,.3g}" if column[name] < 100 else f"{column[name]:,.0f}"
            for column in columns.values()
        ]
        rows.append(f"| {name} | {' | '.join(values)} | {bound} |")
    heads = " | ".join(columns)
    listed = "\n".join(f"| {name} | {figure(value)} |" for name, value in turns.items())
    cores, python = os.cpu_count(), platform.python_version()
    return f"""# How fast the running scheduler is

Written by `python bench/live.py --write` on {date.today()}: {cores} cores shared with the clients that ask
and with other work, Python {python}, SQLite. A server with the engine `fake` over {NODES:,} nodes of
{NODE_GPUS} GPUs and {TEAMS * PEOPLE} accounts; jobs of 1 to 16 GPUs that run 5 to 25 minutes, a fifth of
them unbudgeted.
{PEOPLE_AT_ONCE} people submit at once over HTTP, each submission a request of its own, answered once it is
on the disk and the turn that takes it up is recorded.

|  | {heads} | wanted |
|---|{"---:|" * len(columns)}---:|
{chr(10).join(rows)}

- A *turn* is measured from what is seen to what is recorded (`tenure_turn_seconds`); its p99 is the upper
  bound of the bucket it falls in.
- *CPU of a turn* is the processor time of the loop's own thread within it: what other work on the machine,
  and the questions that are answered beside it, cannot lengthen.
- *queue* is the answer to `GET /api/v1/jobs` with 1,000 jobs; `tenure queue` is the whole command, with the
  start of Python.
- A *debug job* (1 GPU, 10 minutes) finds the cluster full; it runs once an unbudgeted job has left, which may
  take its whole grace of {GRACE_S["unbudgeted"]} s here.
- *30 days* is the same server over a record of {HISTORY_EVENTS:,} events and {HISTORY_EVENTS // 5:,} ended
  jobs.
- Wall times are those of a machine that does other things too: its load average stands in the table.

## A turn by itself

CPU time of a turn (`python bench/live_turns.py`): the same nodes and jobs, one process, nobody else asking.

|  | ms |
|---|---:|
{listed}
"""


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--seconds", type=float, default=60.0, help="of the steady part")
    asked.add_argument("--scale", type=float, default=1.0, help="of the number of jobs")
    asked.add_argument("--only", choices=("fresh", "history"))
    asked.add_argument("--write", action="store_true", help="docs/speed-live.md")
    asked.add_argument("--keep", type=Path, help="work in this folder and leave it")
    given = asked.parse_args()
    columns: dict[str, dict[str, float]] = {}
    place = given.keep or Path(tempfile.mkdtemp(prefix="tenure-live-"))
    try:
        for name in ("fresh", "history"):
            if given.only not in (None, name):
                continue
            folder = place / name
            folder.mkdir(parents=True)
            if name == "history":
                with served(folder):
                    time.sleep(2)
                fill_history(folder, int(HISTORY_EVENTS * given.scale))
            with served(folder) as server:
                heading = "fresh record" if name == "fresh" else "30 days"
                columns[heading] = measured(server, given.seconds, scale=given.scale)
            for row, value in columns[heading].items():
                print(f"{heading:14} {row:52} {value:10.3f}", flush=True)
    finally:
        if given.keep is None:
            shutil.rmtree(place, ignore_errors=True)
    if given.write:
        turns = subprocess.run(
            [sys.executable, HERE / "live_turns.py"], capture_output=True, check=True, text=True
        )
        PAGE.write_text(page_of(columns, json.loads(turns.stdout)), encoding="utf-8")


if __name__ == "__main__":
    main()
