"""Owed and delivered, of a story: played just now, or read from a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tenure.audit.examine import examine
from tenure.audit.span import AuditError
from tenure.core.columns import WHOLE
from tenure.core.policy import Policy
from tenure.core.words import NEVER_S
from tenure.service.outputs import placed, plain
from tenure.settings.errors import BadInput
from tenure.settings.units import duration_s, duration_text
from tenure.story.columns import Story
from tenure.story.jsonl import StoryError, read_story


@dataclass(frozen=True)
class Audited:
    """A story and its measures (plain values, as `--json` writes them), and what a table needs besides."""

    story: Story
    measures: dict[str, Any]
    heading: dict[str, Any]  #: lab, policy, seed, span_s, warmup_s, lookback
    shares: dict[str, float]  #: share of the parent's at the start, by account path
    warnings: list[str] = field(default_factory=list)
    import_report: dict[str, Any] | None = None  #: of the trace that was played, if one was
    scenario: str | None = None  #: text of its file, so that it can be played again


def audit(path: Path, *, since: str | None = None) -> Audited:
    """Measure a story's file and explain the measures; `since`: only so long before its end.

    Raises BadInput where it is no whole story.
    """
    try:
        story = read_story(path)
        since_s = None if since is None else since_second(story, since)
        found = examine(story, since_s=since_s)
        more = {"shortfall": found.shortfall, "ledger": found.ledger, "signals": found.signals}
        return audited(story, {**found.measures.to_dict(), **more})
    except (StoryError, AuditError) as wrong:
        said = str(wrong).removeprefix(str(path)).lstrip(",: ")
        raise BadInput(str(path), "", said, "a whole story, as `tenure simulate --log` writes it") from None


def since_second(story: Story, since: str) -> int:
    """The second from which so long before its end is left. BadInput where it is no duration."""
    try:
        length_s = duration_s(since)
    except ValueError as wrong:
        raise BadInput("--since", "", repr(since), str(wrong)) from None
    if length_s == 0:
        raise BadInput("--since", "", repr(since), "a duration above 0, such as 30d")
    last_s = int(story.events["t"][-1]) if len(story.events) else 0
    end_s = last_s if story.until_s >= NEVER_S else story.until_s
    return max(0, end_s - length_s)


def audited(story: Story, measures: Mapping[str, Any]) -> Audited:
    """Measures with the words that go with them."""
    told = plain(measures)
    return Audited(story, told, heading_of(story, told), shares_of(story))


def heading_of(story: Story, measures: Mapping[str, Any]) -> dict[str, Any]:
    """What every table and page says first."""
    return {
        "lab": story.lab,
        "policy": story.policy.get("name", "unnamed"),
        "seed": story.seed,
        "span_s": measures["span_s"],
        "warmup_s": story.warmup_s,
        "lookback": lookback_of(story.policy),
        "start": story.start,
    }


def lookback_of(policy: Mapping[str, Any]) -> str:
    """How far back use counted, and whether anybody had said so."""
    half_life_s = policy.get("half_life_s")
    if half_life_s is not None and half_life_s < NEVER_S:
        return f"half-life {duration_text(int(half_life_s))}, no lookback"
    lookback_s = int(policy.get("lookback_s", Policy().lookback_s))
    given = policy.get("lookback_given", "lookback_s" in policy)
    return f"lookback {duration_text(lookback_s)}" + ("" if given else " (the default: none was given)")


def shares_of(story: Story) -> dict[str, float]:
    """Share of the parent's at the start by path: where clusters differ, their mean weighted by GPUs."""
    gpus = [0] * len(story.clusters)
    for node in story.nodes:
        gpus[node.cluster] += node.gpus
    whole = sum(gpus) * WHOLE or 1
    return {
        account.path: sum(share * of for share, of in zip(account.shares, gpus, strict=True)) / whole
        for account in story.accounts
        if account.path and account.own_leaf_of is None
    }


def write_page(audited: Audited, path: Path) -> None:
    """Write the report about a story as one HTML page."""
    from tenure.report.page import write_report

    with placed(path) as draft:
        write_report(
            audited.story,
            audited.measures,
            draft,
            import_report=_counted(audited.import_report),
            scenario=audited.scenario,
        )


def _counted(report: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The import report with a number for each reason: its first line is for the terminal."""
    if report is None:
        return None
    return {
        key: {reason: found["count"] for reason, found in value.items()}
        if isinstance(value, Mapping)
        else value
        for key, value in report.items()
    }
