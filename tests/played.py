"""A scenario played through the command, and questions about what happened in it."""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

SCENARIOS = Path(__file__).parent / "scenarios"
HOUR = 3600


@dataclass
class Played:
    """Lines of the story, the measures, and the scenario they came from."""

    scenario: Mapping[str, Any]
    lines: list[dict[str, Any]]
    measures: dict[str, Any]

    @property
    def asked(self) -> dict[str, Mapping[str, Any]]:
        """What each job of the scenario asks for, by its id."""
        jobs = {}
        for job in self.scenario.get("jobs") or []:
            count = int(job.get("count", 1))
            for name in [job["id"]] if count == 1 else [f"{job['id']}-{i}" for i in range(count)]:
                jobs[name] = job
        return jobs

    @property
    def until_s(self) -> int:
        return self.lines[0]["until_s"]

    def events(self, event: str, job: str | None = None) -> list[dict[str, Any]]:
        """Lines of one event; of one job, or of copies `job-0`, `job-1` … where its id has them."""
        return [x for x in self.lines if x["event"] == event and (job is None or x.get("job") == job)]

    def starts(self, job: str) -> list[int]:
        return [x["t"] for x in self.events("started", job)]

    def stops(self, job: str) -> list[dict[str, Any]]:
        return self.events("stopped", job)

    def attempts(self, account: str | None = None) -> list[tuple[dict[str, Any], int]]:
        """(its start, when it ended or the story did) of each attempt, of an account and all below it."""
        found: list[tuple[dict[str, Any], int]] = []
        running: dict[str, dict[str, Any]] = {}
        for line in self.lines:
            path = line.get("account", "")
            if account is not None and path != account and not path.startswith(f"{account}/"):
                continue
            if line["event"] == "started":
                running[line["job"]] = line
            elif line["event"] == "stopped":
                found.append((running.pop(line["job"]), line["t"]))
        return found + [(line, self.until_s) for line in running.values()]

    def gpu_s(self, account: str | None, begin_s: int = 0, end_s: int | None = None, **where: str) -> int:
        """GPU-seconds held in [begin, end) by an account and all below it; `cluster=` counts one only."""
        end_s = self.until_s if end_s is None else end_s
        total = 0
        for start, stopped_s in self.attempts(account):
            if where and start["cluster"] != where["cluster"]:
                continue
            gpus = sum(start["nodes"].values())
            total += gpus * max(0, min(stopped_s, end_s) - max(start["t"], begin_s))
        return total

    def mean_gpus(self, account: str | None, begin_h: float, end_h: float, **where: str) -> float:
        begin_s, end_s = round(begin_h * HOUR), round(end_h * HOUR)
        return self.gpu_s(account, begin_s, end_s, **where) / (end_s - begin_s)

    def reason_at(self, job: str, t: int) -> str | None:
        """The reason last told of a job that waits at `t` (what happens at `t` included)."""
        reason = None
        for line in self.lines:
            if line["t"] > t:
                break
            if line.get("job") == job:
                reason = line["reason"] if line["event"] == "waiting" else reason
                reason = None if line["event"] in ("started", "cancelled", "submitted") else reason
        return reason

    def account(self, path: str) -> dict[str, Any]:
        return self.measures["delivered"]["accounts"][path]


def scenario(name: str) -> dict[str, Any]:
    """The one scenario file whose name begins so, as a mapping."""
    (path,) = SCENARIOS.glob(f"{name}*.yaml")
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def expectations(path: Path) -> list[dict[str, Any]]:
    """`#? {job, at, reason}` lines of a scenario: the reason a job waits for at an instant."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [yaml.safe_load(line[2:]) for line in lines if line.startswith("#?")]


def changed(mapping: Mapping[str, Any], *path: Any, to: Any) -> dict[str, Any]:
    """A copy with the value at a path changed."""
    whole = copy.deepcopy(dict(mapping))
    inner: Any = whole
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = to
    return whole


def command(*words: str) -> tuple[int, str, str]:
    """Run `tenure` in this process: exit status, standard output, standard error."""
    from typer.testing import CliRunner

    from tenure.cli.main import app

    result = CliRunner().invoke(app, list(words))
    return result.exit_code, result.stdout, result.stderr


def play(
    source: Mapping[str, Any] | Path,
    *,
    policy: str | None = None,
    set_: Sequence[str] = (),
    seed: int | None = None,
    log_waits: bool = True,
) -> Played:
    """Play a scenario (a file, or a mapping) by `tenure simulate`; fails with its message if refused."""
    with tempfile.TemporaryDirectory() as folder:
        path = source if isinstance(source, Path) else Path(folder) / "scenario.yaml"
        if not isinstance(source, Path):
            path.write_text(yaml.safe_dump(dict(source), sort_keys=False), encoding="utf-8")
        log, measures = Path(folder) / "story.jsonl", Path(folder) / "measures.json"
        words = ["simulate", str(path), "--log", str(log), "--json", str(measures)]
        words += ["--log-waits"] if log_waits else []
        words += ["--policy", policy] if policy else []
        words += ["--seed", str(seed)] if seed is not None else []
        for assignment in set_:
            words += ["--set", assignment]
        status, out, err = command(*words)
        assert status == 0, f"tenure {' '.join(words)}: exit {status}\n{out}\n{err}"
        told = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        mapping = yaml.safe_load(path.read_text(encoding="utf-8"))
        return Played(mapping, told, json.loads(measures.read_text(encoding="utf-8")))
