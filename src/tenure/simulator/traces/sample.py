"""Small made-up traces that look like the originals, in each format: for tests, examples and the docs.

The jobs are drawn (log-normal runtimes, mostly small sizes, working hours) and belong to nobody; headers,
column order and oddities are those of the real files. The same seed gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from tenure.settings.errors import BadInput, nearest

MONDAY = datetime(2024, 3, 4, tzinfo=UTC)
SIZES, SIZE_ODDS = (1, 2, 4, 8, 16, 32, 64), (0.52, 0.12, 0.12, 0.15, 0.05, 0.03, 0.01)
HOURS = np.array([2, 1, 1, 1, 1, 2, 3, 5, 8, 10, 11, 10, 8, 9, 11, 11, 10, 9, 7, 5, 4, 4, 3, 3], float)
NODE_GPUS = 8


@dataclass(frozen=True)
class Drawn:
    """One made-up job. Times are seconds after MONDAY; `state` is one of Slurm's."""

    row: int
    submit: int
    wait: int
    runtime: int
    gpus: int
    user: int
    team: int
    limit: int
    state: str

    @property
    def start(self) -> int:
        return self.submit + self.wait

    @property
    def end(self) -> int:
        return self.start + self.runtime

    @property
    def nodes(self) -> int:
        return -(-self.gpus // NODE_GPUS)


def draw(jobs: int, seed: int, *, days: int = 7) -> list[Drawn]:
    """`jobs` jobs of a busy week, in order of submission; the first asks for no GPU."""
    chance = np.random.default_rng(seed)
    hours = chance.choice(24, jobs, p=HOURS / HOURS.sum())
    submit = np.sort(chance.integers(0, days, jobs) * 86400 + hours * 3600 + chance.integers(0, 3600, jobs))
    gpus = chance.choice(SIZES, jobs, p=SIZE_ODDS)
    runtime = np.clip(np.exp(chance.normal(6.8 + 0.25 * np.log2(gpus), 1.9, jobs)), 5, 5 * 86400).astype(int)
    wait = np.where(chance.random(jobs) < 0.6, chance.integers(0, 5, jobs), chance.exponential(1800, jobs))
    state = chance.choice(["COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"], jobs, p=[0.6, 0.22, 0.16, 0.02])
    user, team = chance.integers(0, 12, jobs), chance.integers(0, 4, jobs)
    told = []
    for k in range(jobs):
        ran = int(runtime[k])
        limit = ran if state[k] == "TIMEOUT" else -(-ran * 2 // 3600) * 3600
        size = 0 if k == 0 else int(gpus[k])
        told.append(
            Drawn(
                k, int(submit[k]), int(wait[k]), ran, size, int(user[k]), int(team[k]), limit, str(state[k])
            )
        )
    return told


def write_sample(folder: Path, format: str, *, jobs: int = 200, seed: int = 1) -> Path:
    """Write a sample as the format names its files; what `read_trace` wants is returned (pai: the folder)."""
    if format not in WRITERS:
        raise BadInput("", "format", repr(format), nearest(format, WRITERS))
    folder.mkdir(parents=True, exist_ok=True)
    files = WRITERS[format](draw(jobs, seed))
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8", newline="")
    return folder if len(files) > 1 else folder / next(iter(files))


def _clock(second: int, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    return (MONDAY + timedelta(seconds=second)).strftime(form)


def _table(header: str, rows: list[list[object]]) -> str:
    return "\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n"


def _csv(jobs: list[Drawn]) -> dict[str, str]:
    rows: list[list[object]] = [
        [f"job-{j.row}", float(j.submit), float(j.runtime), j.gpus, f"team-{j.team}"] for j in jobs
    ]
    return {"jobs.csv": _table("job_id,arrival_s,service_sec,gpu_count,tenant", rows)}


def _helios(jobs: list[Drawn]) -> dict[str, str]:
    header = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"
    rows: list[list[object]] = []
    for j in jobs:
        never = j.state == "CANCELLED" and j.row % 7 == 0
        times = ["None", _clock(j.start)] if never else [_clock(j.start), _clock(j.end)]
        row = [1_400_000 + j.row, f"u{j.user:04x}", f"vc{j.team:03x}", j.gpus, 4 * max(j.gpus, 1)]
        rows.append(
            [*row, max(j.nodes, 1), j.state, _clock(j.submit), *times, 0 if never else j.runtime, j.wait]
        )
    return {"cluster_log.csv": _table(header, rows)}


def _acme(jobs: list[Drawn]) -> dict[str, str]:
    kinds = ("Other", "Pretrain", "Evaluation", "Debug", "SFT")
    seren = (
        "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,"
        "gpu_time"
    )
    rows: list[list[object]] = []
    for j in jobs:
        times = [_clock(t, "%Y-%m-%d %H:%M:%S+08:00") for t in (j.submit, j.start, j.end)]
        row = [5_770_000 + j.row, f"u{j.user:04d}", max(j.nodes, 1), j.gpus, 16 * max(j.gpus, 1)]
        rows.append([*row, kinds[j.team], j.state, *times, j.runtime, j.wait, float(j.runtime * j.gpus)])
    return {"trace_seren.csv": _table(seren, rows)}


def _kalos(jobs: list[Drawn]) -> dict[str, str]:
    """As the real one, its `duration` holds the wait too."""
    header = (
        "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,"
        "start_time,end_time,fail_time,stop_time,duration,queue,gpu_time"
    )
    rows: list[list[object]] = []
    for j in jobs:
        submit, start, end = (_clock(t, "%Y-%m-%d %H:%M:%S+00:00") for t in (j.submit, j.start, j.end))
        failed = end if j.state == "FAILED" else ""
        stopped = end if j.state == "CANCELLED" else ""
        row = [
            f"dlc{j.row:013x}",
            f"uf{j.user:03d}",
            max(j.nodes, 1),
            j.gpus,
            15 * max(j.gpus, 1),
            1000,
            100.0,
        ]
        held = j.wait + j.runtime
        tail = [failed, stopped, held, float(j.wait), float(held * j.gpus)]
        rows.append([*row, "Other", j.state, submit, start, end, *tail])
    return {"trace_kalos.csv": _table(header, rows)}


def _swf(jobs: list[Drawn]) -> dict[str, str]:
    codes = {"COMPLETED": 1, "FAILED": 0, "CANCELLED": 5, "TIMEOUT": 0}
    lines = [
        "; Version: 2.2",
        "; Computer: made up",
        "; Note: drawn, not recorded",
        f"; MaxJobs: {len(jobs)}",
        f"; UnixStartTime: {int(MONDAY.timestamp())}",
        "; TimeZoneString: UTC",
        "; MaxProcs: 128",
        ";",
    ]
    for j in jobs:
        cells = [j.row + 1, j.submit, j.wait, j.runtime, j.gpus or -1, -1, -1, j.gpus or -1, j.limit, -1,
                 codes[j.state], j.user + 1, j.team + 1, -1, 1, -1, -1, -1]  # fmt: skip
        lines.append(" ".join(f"{cell:>6}" for cell in cells))
    return {"made-up.swf": "\n".join(lines) + "\n"}


def _philly(jobs: list[Drawn]) -> dict[str, str]:
    import json

    states = {"COMPLETED": "Pass", "FAILED": "Failed", "CANCELLED": "Killed", "TIMEOUT": "Killed"}
    members = []
    for j in jobs:
        cut = j.runtime // 3 if j.row % 10 == 5 else 0  # some have two attempts
        spans = [(j.start, j.start + cut), (j.start + cut + 20, j.end + 20)] if cut else [(j.start, j.end)]
        attempts = [
            {"start_time": _clock(a), "end_time": _clock(b), "detail": _machines(j)}
            for a, b in spans
            if j.gpus
        ]
        members.append(
            {
                "status": states[j.state],
                "vc": f"{j.team + 1:06x}",
                "jobid": f"application_1506638472019_{10000 + j.row}",
                "attempts": attempts,
                "submitted_time": _clock(j.submit),
                "user": f"{j.user + 100:06x}",
            }
        )
    return {"cluster_job_log": json.dumps(members, indent=4) + "\n"}


def _machines(job: Drawn) -> list[dict[str, object]]:
    left = job.gpus
    told: list[dict[str, object]] = []
    for k in range(job.nodes):
        here = min(left, NODE_GPUS)
        told.append({"ip": f"m{(job.row + k) % 100}", "gpus": [f"gpu{g}" for g in range(here)]})
        left -= here
    return told


def _pai(jobs: list[Drawn]) -> dict[str, str]:
    """Without headers, as the originals; some jobs want half a GPU, some have a parameter server."""
    words = {"COMPLETED": "Terminated", "FAILED": "Failed", "CANCELLED": "Failed", "TIMEOUT": "Terminated"}
    job_rows, task_rows, instance_rows = [], [], []
    for j in jobs:
        name, word = f"{j.row:024x}", words[j.state]
        start, end = float(j.start + 1_000_000), float(j.end + 1_000_000)
        submit = float(j.submit + 1_000_000)
        job_rows.append([name, f"{j.row:060x}", f"{j.user:012x}", word, submit, end])
        half = 50.0 if j.gpus == 1 and j.row % 2 else 100.0
        plan = "" if j.gpus == 0 else half
        task_rows.append(
            [name, "worker", float(max(j.gpus, 1)), word, start, end, 600.0, 29.296875, plan, "MISC"]
        )
        if j.gpus > 4:
            task_rows.append([name, "ps", 1.0, word, start - 5, end + 5, 400.0, 10.0, "", ""])
        instance_rows.append(
            [name, "worker", f"i{j.row}", f"w{j.row}", f"{j.row:060x}", word, start, end, "m1"]
        )
    return {
        "pai_job_table.csv": _bare(job_rows),
        "pai_task_table.csv": _bare(task_rows),
        "pai_instance_table.csv": _bare(instance_rows),
    }


def _bare(rows: list[list[object]]) -> str:
    return "".join(",".join(map(str, row)) + "\n" for row in rows)


def _elapsed(seconds: int) -> str:
    days, rest = divmod(seconds, 86400)
    text = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days}-{text}" if days else text


def _sacct(jobs: list[Drawn]) -> dict[str, str]:
    header = (
        "JobID|JobName|Account|User|Partition|QOS|State|Submit|Start|End|Elapsed|Timelimit|NNodes|AllocTRES"
    )
    lines = [header]
    for j in jobs:
        form = "%Y-%m-%dT%H:%M:%S"
        job = f"{9000 + j.row // 4 * 4}_{j.row % 4}" if j.row % 11 == 3 else str(20_000 + j.row)
        state = "CANCELLED by 1000" if j.state == "CANCELLED" else j.state
        gpu = f",gres/gpu={j.gpus},gres/gpu:a100={j.gpus}" if j.gpus else ""
        cpus = 16 * max(j.gpus, 1)
        tres = f"billing={cpus},cpu={cpus},mem={4 * cpus}G{gpu},node={max(j.nodes, 1)}"
        times = (
            f"{_clock(j.submit, form)}|{_clock(j.start, form)}|{_clock(j.end, form)}|{_elapsed(j.runtime)}"
        )
        who = f"train.sh|team{j.team}|user{j.user}|gpu|normal"
        lines.append(f"{job}|{who}|{state}|{times}|{_elapsed(j.limit)}|{max(j.nodes, 1)}|{tres}")
        step = f"team{j.team}|||"
        for name in ("batch", "extern", "0"):
            ended = "COMPLETED" if name == "extern" else j.state
            lines.append(f"{job}.{name}|{name}|{step}|{ended}|{times}||{max(j.nodes, 1)}|{tres}")
    return {"sacct.txt": "\n".join(lines) + "\n"}


def _tenure(jobs: list[Drawn]) -> dict[str, str]:
    import json

    events: list[tuple[int, dict[str, object]]] = []
    ends = {"COMPLETED": "finished", "FAILED": "failed", "CANCELLED": "cancelled", "TIMEOUT": "timed_out"}
    for j in jobs:
        if not j.gpus:
            continue
        who = {"job": f"job-{j.row}", "account": f"team-{j.team}"}
        nodes = {f"jupiter-{k:04d}": min(j.gpus, NODE_GPUS) for k in range(j.nodes)}
        asked = {"gpus": j.gpus, "min_runtime_s": j.limit // 4, "resumable": True}
        events.append((j.submit, {"event": "submitted", **who, **asked}))
        began = {
            "attempt": 1,
            "cluster": "jupiter",
            "nodes": nodes,
            "protected_until_s": j.start,
            "reason": "OWED",
        }
        events.append((j.start, {"event": "started", **who, **began}))
        held = {"attempt": 1, "end": ends[j.state], "held_gpu_s": j.runtime * j.gpus, "lost_gpu_s": 0}
        events.append((j.end, {"event": "stopped", **who, **held}))
    events.sort(key=lambda pair: pair[0])
    until = events[-1][0] if events else 0
    first = {"event": "began", "lab": "made up", "policy": {}, "seed": 1, "warmup_s": 0, "until_s": until}
    lines = [json.dumps({"n": 1, "t": 0, **first})]
    lines += [json.dumps({"n": n, "t": t, **event}) for n, (t, event) in enumerate(events, 2)]
    return {"story.jsonl": "\n".join(lines) + "\n"}


WRITERS: Mapping[str, Callable[[list[Drawn]], dict[str, str]]] = {
    "csv": _csv,
    "helios": _helios,
    "philly": _philly,
    "pai": _pai,
    "acme": _acme,
    "kalos": _kalos,  # the other file of acme
    "swf": _swf,
    "sacct": _sacct,
    "tenure": _tenure,
}
