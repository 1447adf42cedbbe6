"""The story of what the real scheduler did, with the same lab, accounts, shares and jobs as Tenure's own.

Of Tenure's story it keeps what nobody decided (submissions, nodes, shares, holds); starts and ends are
those that were seen there. Reasons are empty: they gave none. What no job of the story ran is counted apart.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

KEPT = ("submitted", "node", "share", "held", "released")
THEIRS = "theirs"

Line = dict[str, Any]


class Run(NamedTuple):
    """One attempt there; instants in seconds since the record's start, None where it goes on."""

    job: str
    attempt: int
    started: float
    nodes: dict[str, int]
    ended: float | None
    end: str
    again: bool  #: it waited again afterwards


class TheirStory(NamedTuple):
    """Its lines, and what could not be told in it."""

    lines: list[str]
    unknown: list[Run]  #: of jobs that Tenure's record does not have, or on no node of the lab


def their_story(ours: Iterable[str], facts: Iterable[Line], start: float, until_t: int) -> TheirStory:
    """From the lines of Tenure's story and the facts until `until_t`; `start`: epoch second of t = 0."""
    told = iter(ours)
    head: Line = json.loads(next(told))
    sizes = {node["name"]: (node["cluster"], int(node["gpus"])) for node in head["nodes"]}
    jobs: dict[str, Line] = {}
    placed: list[tuple[float, int, Line]] = []
    for text in told:
        if not any(word in text[:32] for word in KEPT):
            continue
        line = json.loads(text)
        if line["event"] in KEPT:
            placed.append((line["t"], 0, line))
            if line["event"] == "submitted":
                jobs.setdefault(line["job"], line)
    unknown: list[Run] = []
    left: dict[str, float] = {}
    runs: dict[str, list[Run]] = {}
    for run in _runs(facts, start, until_t + 1, left):
        nodes = {name: min(gpus, sizes[name][1]) for name, gpus in run.nodes.items() if name in sizes}
        if run.job not in jobs or not nodes:
            unknown.append(run)
        else:
            runs.setdefault(run.job, []).append(run._replace(nodes=nodes))
    for job, its in runs.items():
        for run in _one_after_another(its, jobs[job]["t"]):
            placed += _told(run, jobs[job], sizes[next(iter(run.nodes))][0])
    for job, at in left.items():
        if job in jobs and (job not in runs or runs[job][-1].again):
            line = {**_who(jobs[job]), "event": "cancelled", "by": None, "reason": "it was taken back there"}
            placed.append((max(at, jobs[job]["t"]), 4, line))
    placed.sort(key=lambda one: (int(one[0]), one[1] > 0, one[0], one[1]))
    lines = [json.dumps(head | {"n": 1})]
    for n, (t, _, line) in enumerate(placed, 2):
        lines.append(json.dumps({"event": line["event"], "t": int(t), "n": n} | _less(line)))
    return TheirStory([f"{line}\n" for line in lines], unknown)


def _less(line: Line) -> Line:
    return {key: value for key, value in line.items() if key not in ("event", "t", "n")}


def _who(submitted: Line) -> Line:
    return {"job": submitted["job"], "account": submitted["account"]}


def _runs(facts: Iterable[Line], start: float, before_t: float, left: dict[str, float]) -> Iterator[Run]:
    """Each run once, in order of its start; `left` is filled with who was taken back, and when."""
    found: dict[tuple[str, int], Run] = {}
    for fact in facts:
        at = fact["at"] - start
        if at >= before_t or fact["event"] == "looked":
            continue
        if fact["event"] == "left":
            left.setdefault(fact["job"], at)
            continue
        key = (fact["job"], fact["attempt"])
        if fact["event"] == "started":
            found.setdefault(key, Run(*key, at, fact["nodes"], None, "", False))
        elif key in found and found[key].ended is None:
            found[key] = found[key]._replace(ended=at, end=fact["end"], again=fact["again"])
    yield from sorted(found.values(), key=lambda run: run.started)


def _one_after_another(runs: list[Run], submitted_t: int) -> Iterator[Run]:
    """Whoever ran once more had waited again. What was over before the job was known is left out."""
    for run, then in pairwise(runs):
        ended = then.started if run.ended is None else min(run.ended, then.started)
        if ended > submitted_t:
            yield run._replace(ended=ended, end=run.end or "preempted", again=True)
    yield runs[-1]


def _told(run: Run, submitted: Line, cluster: str) -> Iterator[tuple[float, int, Line]]:
    """(second, place within it, line): in one instant whoever leaves goes before whoever comes."""
    who, gpus = _who(submitted), sum(run.nodes.values())
    t = max(run.started, float(submitted["t"]))  # some begin there before they are seen to wait
    yield t, 3, {
        **who, "event": "started", "attempt": run.attempt, "cluster": cluster, "nodes": run.nodes,
        "protected_until_s": int(t), "reason": None,
    }  # fmt: skip
    if run.ended is None:
        return
    ended = max(run.ended, t)
    held_gpu_s = (int(ended) - int(t)) * gpus
    lost = held_gpu_s if run.again and not submitted["resumable"] else 0
    place = 1 if ended > t else 4
    yield ended, place, {
        **who, "event": "stopped", "attempt": run.attempt, "end": run.end, "held_gpu_s": held_gpu_s,
        "lost_gpu_s": lost,
    }  # fmt: skip
    if run.again:
        yield ended, place + 1, {**who, "event": "requeued", "attempt": run.attempt}


__all__ = ["THEIRS", "Run", "TheirStory", "their_story"]
