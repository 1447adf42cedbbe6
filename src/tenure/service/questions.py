"""What people ask of a scheduler at an instant: would this job start, and who is stopped next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from tenure.core.words import NEVER_S
from tenure.service.stage import Script
from tenure.settings.errors import BadInput
from tenure.settings.job import JobFile
from tenure.settings.scenario_file import ScenarioJob
from tenure.settings.units import duration_s, duration_text, instant

ASKED = "the job asked about"  #: ids of the rows that never come are this and a number
QUICK_S = 900
NEAR_S = 60  #: a start so much earlier is no reason to change a job
FEWEST_PARTS = (2, 4, 8)


class Chosen(NamedTuple):
    """Under which policy, settings and seed a scenario is played up to the instant."""

    policy: str | None = None
    set_: Mapping[str, str] | None = None
    seed: int | None = None


class Candidate(NamedTuple):
    """A job to ask about: the one asked for, or one that differs from it in one way."""

    job: JobFile
    change: dict[str, Any]  #: keys that differ, as they are written in a file; empty for the job itself


def candidates(job: JobFile, script: Script) -> Iterator[Candidate]:
    """The job, then what might start earlier: a smaller minimum, fewer GPUs, more places."""
    yield Candidate(job, {})
    for min_runtime_s in _smaller_minimums(job):
        yield _changed(job, min_runtime=min_runtime_s)
    for gpus in _fewer_gpus(job, script):
        yield _changed(job, gpus=gpus)
    if job.clusters is not None:
        for cluster in script.scenario.lab.clusters:
            if cluster not in job.clusters:
                yield _changed(job, clusters=[cluster])
    if job.gpu is not None:
        yield _changed(job, gpu=None)
    if job.same_rack:
        yield _changed(job, same_rack=False)


def _changed(job: JobFile, **keys: Any) -> Candidate:
    told = {key: duration_text(value) if key == "min_runtime" else value for key, value in keys.items()}
    return Candidate(job.model_copy(update=keys), told)


def _smaller_minimums(job: JobFile) -> list[int]:
    """Smaller minimums worth asking for: its own limit, halves, the quick lane's, none at all."""
    asked_s = job.min_runtime
    worth = [] if job.max_runtime is None else [job.max_runtime]
    worth += [max(60, asked_s // (60 * part) * 60) for part in FEWEST_PARTS[:2]] + [QUICK_S, 0]
    return [s for s in dict.fromkeys(worth) if s < asked_s]


def _fewer_gpus(job: JobFile, script: Script) -> list[int]:
    """Smaller sizes worth asking for: parts of it that some node, or whole nodes, can hold."""
    sizes = {node.gpus for node in script.scenario.lab.nodes}
    fewer = []
    for part in FEWEST_PARTS:
        gpus = job.gpus // part
        if gpus >= 1 and (gpus <= max(sizes) or any(gpus % size == 0 for size in sizes)):
            fewer.append(gpus)
    return fewer


class Lived(NamedTuple):
    """What became of a candidate when the scenario was played with it."""

    wait_s: int | None  #: None: it had not started at the end
    watched_s: int  #: how long it was watched
    reason: (
        str | None
    )  #: words.Reason in lower case, as told at its submission; None where it started at once
    need: int | None
    have: int | None


def instant_of(text: str, script: Script, start: str | None) -> int:
    """The second that `--at` names: a duration after the start, or a date where the start is known."""
    try:
        at_s = duration_s(text)
    except ValueError as refused:
        try:
            when = instant(text)
        except ValueError:
            raise BadInput("--at", "", repr(text), f"{refused}; or a date and time") from None
        if start is None:
            raise BadInput("--at", "", repr(text), "a duration: the scenario names no start") from None
        at_s = int((when - instant(start)).total_seconds())
    until_s = script.scenario.until_s
    if not 0 <= at_s < until_s:
        last = "" if until_s >= NEVER_S else f" and before the end ({duration_text(until_s)})"
        raise BadInput("--at", "", repr(text), f"an instant from the start on{last}")
    return at_s


def with_job(script: Script, job: JobFile, at_s: int, runtime_s: int) -> Script:
    """The script of a scenario in which this job, too, is submitted at `at_s`."""
    keys = job.model_dump(exclude_none=True)
    asked = ScenarioJob.model_validate({**keys, "id": ASKED, "submit": at_s, "runtime": runtime_s})
    written = script.scenario.written.model_copy(update={"jobs": [*script.scenario.written.jobs, asked]})
    return script._replace(scenario=replace(script.scenario, written=written))
