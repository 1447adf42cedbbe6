"""Playing one scenario: a file in; a story, its measures and pages out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tenure.audit.measures import measure
from tenure.core.words import NEVER_S
from tenure.service import stage
from tenure.service.audits import Audited, audited
from tenure.service.outputs import placed
from tenure.service.stage import ProgressCall, Source, Stage
from tenure.simulator.simulate import Played, play
from tenure.story.jsonl import write_story

PLAYED = 0.95  #: part of the bar at which measuring begins


def simulate(
    source: Source,
    *,
    policy: str | None = None,
    set_: Mapping[str, str] | None = None,
    seed: int | None = None,
    log_waits: bool = False,
    progress: ProgressCall | None = None,
) -> Audited:
    """Play a scenario under a policy, and measure it.

    `set_`: changes by key, such as `policy.lookback`. `log_waits`: every change of the reason a job waits
    for goes into the story. Raises BadInput where a file or a setting is wrong.
    """
    ready = stage.build(stage.read(source, policy, set_, seed), progress)
    return replay(ready, log_waits=log_waits, progress=progress)


def replay(ready: Stage, *, log_waits: bool = False, progress: ProgressCall | None = None) -> Audited:
    """As `simulate`, of a scenario whose world is built already."""
    played = perform(ready, log_waits=log_waits, progress=progress)
    if progress is not None:
        progress(PLAYED, "measuring")
    speed = {
        "wall_s": played.wall_s,
        "jobs_per_s": played.jobs_seen / played.wall_s if played.wall_s > 0 else None,
        "turns": played.turns,
    }
    measures = measure(played.story, speed=speed).to_dict()
    report = ready.names.import_report
    return replace(
        audited(played.story, measures),
        warnings=ready.warnings,
        import_report=None if report is None else report.to_dict(),
        scenario=ready.script.text,
    )


def perform(ready: Stage, *, log_waits: bool = False, progress: ProgressCall | None = None) -> Played:
    """Play a stage to its end. The story says by which policy, and whether its lookback was chosen."""
    script = ready.script
    until_s = script.scenario.until_s

    def moved(now_s: int) -> None:
        assert progress is not None
        part = now_s / until_s if 0 < until_s < NEVER_S else 0.0
        progress(PLAYED * part, "playing")

    played = play(
        ready.world,
        ready.names,
        script.knobs,
        rule=script.rule,
        seed=script.seed,
        warmup_s=script.scenario.warmup_s,
        until_s=until_s,
        log_waits=log_waits,
        progress=moved if progress else None,
    )
    played.story.policy.update(name=script.policy, rule=script.rule, lookback_given=script.lookback_given)
    return played


def write_log(audited: Audited, path: Path) -> None:
    """Write the story as JSON lines, packed where the name ends in .gz or .zst."""
    with placed(path) as draft:
        write_story(audited.story, draft)
