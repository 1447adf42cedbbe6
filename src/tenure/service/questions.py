"""What people ask of a scheduler at an instant: would this job start, and who is stopped next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from tenure.core.words import NEVER_S, Reason
from tenure.service import stage
from tenure.service.outputs import plain
from tenure.service.stage import ProgressCall, Script, Source, Stage
from tenure.settings.errors import BadInput
from tenure.settings.job import JobFile, advice, job_of
from tenure.settings.lab_tables import Holder
from tenure.settings.scenario_file import ScenarioJob
from tenure.settings.units import duration_s, duration_text, instant
from tenure.settings.yaml_file import parse_yaml
from tenure.simulator.moment import WATCHED_S, Asked, Moment, play_until
from tenure.simulator.scenario_work import constructed, joined

ASKED = "the job asked about"  #: id of the row that stands for it in the world
RUNTIME_S = 3600  #: its work, once it has started: no answer depends on it
QUICK_S = 900
PARTS = (2, 4, 8)
NEAR_S = 60  #: a start so little earlier is no reason to change a job

#: What stands in a job's way, in one word.
IN_THE_WAY = {
    Reason.HELD: "hold",
    Reason.RESTING: "rest",
    Reason.CANNOT_FIT: "shape",
    Reason.OWN_LIMIT: "limit",
    Reason.CLAIMING: "clearing",
    Reason.PROMISED: "promise",
    Reason.SAVING_UP: "budget",
    Reason.BEHIND_OWN: "order",
    Reason.OVER_TARGET: "budget",
    Reason.ORDER: "order",
    Reason.HELD_FOR_GANG: "gang",
    Reason.PATIENCE: "patience",
    Reason.NO_PLACE: "place",
    Reason.SHAPE: "shape",
    Reason.NO_FREE_GPUS: "place",
    Reason.NOT_REACHED: "order",
}


class Chosen(NamedTuple):
    """Under which policy, settings and seed a scenario is played up to the instant."""

    policy: str | None = None
    set_: Mapping[str, str] | None = None
    seed: int | None = None


class Candidate(NamedTuple):
    """A job to ask about: the one asked for, or one that differs from it in one way."""

    job: JobFile
    change: dict[str, Any]  #: the keys that differ, as a file writes them; empty for the job itself


def what_if(
    source: Source,
    *,
    at: str,
    job: str | Mapping[str, Any],
    chosen: Chosen | None = None,
    progress: ProgressCall | None = None,
) -> dict[str, Any]:
    """Would this job start if it were submitted at that instant; if not why, when, and what would change it.

    `earliest_start` is what could be known then, as a range; `starts_at_s` what comes of it in this scenario.
    `would_change` asks again with one key changed, and holds what then starts earlier.
    Raises BadInput where the scenario, the instant or the job is wrong.
    """
    asked = job_of(parse_yaml(job, file="--job") if isinstance(job, str) else job)
    script = stage.read(source, *(chosen or Chosen()))
    at_s, start = instant_of(at, script)
    ready = _with_job(script, asked, at_s, _part(progress, 0.0))
    moment = _moment(ready, at_s, row=list(ready.names.jobs).index(ASKED), progress=progress)
    watch_s = min(WATCHED_S, script.scenario.until_s - at_s)
    answer = moment.ask(_asked(asked, ready), watch_s=watch_s)
    wait_s = None if answer["starts_at_s"] is None else answer["starts_at_s"] - at_s
    others = list(candidates(asked, Holder(script.scenario.lab))) if wait_s is None or wait_s > NEAR_S else []
    changes = []
    for index, other in enumerate(others):
        if progress is not None:
            progress(0.5 + 0.5 * index / len(others), f"asking again: {changed_words(other.change)}")
        again = moment.ask(_asked(other.job, ready), watch_s=watch_s if wait_s is None else wait_s)
        if again["starts_at_s"] is not None:
            changes.append({"change": other.change, "wait_s": again["starts_at_s"] - at_s, **again})
    reason = answer["reason"]
    return plain(
        {
            **_heading(script, at_s, start),
            "job": asked.model_dump(exclude_none=True),
            **answer,
            "in_the_way": None if reason is None else IN_THE_WAY[Reason[reason.upper()]],
            "wait_s": wait_s,
            "would_change": [one for one in changes if wait_s is None or one["wait_s"] < wait_s - NEAR_S],
            "warnings": [*ready.warnings, *_warnings(asked, wait_s, changes)],
        }
    )


def next_preempted(
    source: Source, *, at: str, chosen: Chosen | None = None, progress: ProgressCall | None = None
) -> dict[str, Any]:
    """Who would be stopped next at that instant: for whom, from when on, by which rule.

    `attempts` are in the order in which they would be stopped; `nobody_before_s` where nobody can be now.
    Raises BadInput where the scenario or the instant is wrong.
    """
    script = stage.read(source, *(chosen or Chosen()))
    at_s, start = instant_of(at, script)
    ready = stage.build(script, _part(progress, 0.0))
    answer = _moment(ready, at_s, progress=progress).next_preempted()
    return plain({**_heading(script, at_s, start), **answer, "warnings": ready.warnings})


def instant_of(text: str, script: Script) -> tuple[int, str | None]:
    """The second that `--at` names, a duration after the start or a date; and the start, where it is known.

    Raises BadInput for what is neither, lies outside the scenario, or is a date where no start is known.
    """
    written = script.scenario.written
    start = None if written.start is None else written.start.isoformat()
    try:
        at_s = duration_s(text)
    except ValueError as refused:
        try:
            when = instant(text)
        except ValueError:
            raise BadInput("--at", "", repr(text), f"{refused}; or a date and time") from None
        if start is None and written.trace is not None:
            start = stage.build(script).names.start  # the trace's own first date
        if start is None:
            raise BadInput("--at", "", repr(text), "a duration: this scenario has no start") from None
        at_s = int((when - instant(start)).total_seconds())
    until_s = script.scenario.until_s
    if not 0 <= at_s < until_s:
        last = "" if until_s >= NEVER_S else f" and before its end, {duration_text(until_s)}"
        raise BadInput("--at", "", repr(text), f"an instant from the start on{last}")
    return at_s, start


def candidates(job: JobFile, holder: Holder) -> Iterator[Candidate]:
    """What might start earlier: a smaller minimum, fewer GPUs, other places; one thing changed at a time."""
    for min_runtime_s in smaller_minimums(job):
        yield _changed(job, min_runtime=min_runtime_s)
    for part in PARTS:
        if job.gpus // part and holder.clusters(job.gpus // part, gpu=job.gpu, same_rack=job.same_rack):
            yield _changed(job, gpus=job.gpus // part)
    if job.clusters is not None:
        for row, cluster in enumerate(holder.lab.clusters):
            held = holder.clusters(job.gpus, gpu=job.gpu, same_rack=job.same_rack)
            if cluster not in job.clusters and held >> row & 1:
                yield _changed(job, clusters=[cluster])
    if job.gpu is not None:
        yield _changed(job, gpu=None)
    if job.same_rack:
        yield _changed(job, same_rack=False)


def smaller_minimums(job: JobFile) -> list[int]:
    """Smaller minimums worth asking for: its own limit, a half, a quarter, the quick lane's, none at all."""
    worth = [] if job.max_runtime is None else [job.max_runtime]
    worth += [max(60, job.min_runtime // (60 * part) * 60) for part in PARTS[:2]] + [QUICK_S, 0]
    return [min_runtime_s for min_runtime_s in dict.fromkeys(worth) if min_runtime_s < job.min_runtime]


def _changed(job: JobFile, **keys: Any) -> Candidate:
    told = {key: duration_text(value) if key == "min_runtime" else value for key, value in keys.items()}
    return Candidate(job.model_copy(update=keys), told)


def changed_words(change: Mapping[str, Any]) -> str:
    """`min_runtime 2h`, `gpus 16`, `clusters mars`, `any gpu`."""
    ((key, value),) = change.items()
    if value is None or value is False:
        return f"any {key}" if value is None else f"without {key}"
    return f"{key} {value[0] if isinstance(value, list) else value}"


def _warnings(job: JobFile, wait_s: int | None, changes: list[dict[str, Any]]) -> list[str]:
    """What is legal and surely not meant, with both waits where a better value is known (case 18)."""
    told = advice(job, "--job")
    if told is None:
        return []
    better = next((one for one in changes if "min_runtime" in one["change"]), None)
    waits = (
        "" if better is None else f"; predicted waits: {_wait(wait_s)} as asked, {_wait(better['wait_s'])} so"
    )
    return [told + waits]


def _wait(wait_s: int | None) -> str:
    return "not in sight" if wait_s is None else duration_text(wait_s)


def _heading(script: Script, at_s: int, start: str | None) -> dict[str, Any]:
    return {
        "lab": script.scenario.lab.name,
        "policy": script.policy,
        "seed": script.seed,
        "lookback": f"lookback {script.lookback}" + ("" if script.lookback_given else " (the default)"),
        "at_s": at_s,
        "start": start,
    }


def _moment(ready: Stage, at_s: int, *, row: int = -1, progress: ProgressCall | None) -> Moment:
    if progress is not None:
        progress(0.0, f"playing up to {duration_text(at_s)}")
    script = ready.script
    return play_until(ready.world, ready.names, script.knobs, rule=script.rule, at_s=at_s, row=row)


def _part(progress: ProgressCall | None, part: float) -> ProgressCall | None:
    """The same bar, kept at one place."""
    return None if progress is None else lambda _, doing: progress(part, doing)


def _with_job(script: Script, job: JobFile, at_s: int, progress: ProgressCall | None) -> Stage:
    """The stage of a world with one job more, which arrives at that instant. BadInput speaks of --job."""
    written = script.scenario.written
    more = written.model_copy(update={"jobs": [*written.jobs, _row(job, at_s)]})
    script = script._replace(scenario=replace(script.scenario, written=more))
    mine = f"jobs[{len(written.jobs)}]."
    try:
        return stage.build(script, progress)
    except BadInput as wrong:
        if not wrong.key_path.startswith(mine):
            raise
        raise BadInput("--job", wrong.key_path.removeprefix(mine), wrong.found, wrong.allowed) from None


def _row(job: JobFile, at_s: int = 0) -> ScenarioJob:
    keys = job.model_dump(exclude_none=True)
    return ScenarioJob.model_validate({**keys, "id": ASKED, "submit": at_s, "runtime": RUNTIME_S})


def _asked(job: JobFile, ready: Stage) -> Asked:
    """The job in the core's words; its account is that of the row that stands for it."""
    holder = Holder(ready.script.scenario.lab)
    work = joined([constructed([_row(job)], holder, {job.account: 0}, ready.names.gpu_types, "--job")])
    return Asked(**{name: work.jobs[name][0].item() for name in Asked._fields})
