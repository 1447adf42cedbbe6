"""Why jobs waited: GPU-hours by account and reason, where the story tells its reasons (`--log-waits`)."""

from __future__ import annotations

import numpy as np

from tenure.audit.span import Span
from tenure.core.words import Happened, Reason
from tenure.story.columns import Story

#: A reason stands until the next of these.
ENDS_A_REASON = (
    Happened.WAITING,
    Happened.STARTED,
    Happened.CANCELLED,
    Happened.HELD,
    Happened.RELEASED,
)


def waited_by_reason(story: Story, span: Span) -> dict[str, dict[str, float]]:
    """Account path -> reason -> GPU-hours (GPUs asked for × time the reason stood), in the span."""
    events = story.events[np.isin(story.events["event"], ENDS_A_REASON)]
    if not (events["event"] == Happened.WAITING).any():
        return {}
    events = events[np.argsort(events["job"], kind="stable")]
    until = np.full(len(events), span.end_s, np.int64)
    same = events["job"][1:] == events["job"][:-1]
    until[:-1][same] = events["t"][1:][same]
    told = events["event"] == Happened.WAITING
    events, until = events[told], until[told]
    stood = np.maximum(0, np.minimum(until, span.end_s) - np.maximum(events["t"], span.start_s))
    gpu_h = stood * story.jobs["gpus"][events["job"]] / 3600
    account = story.jobs["account"][events["job"]].astype(np.int64)
    cell = account * len(Reason) + events["rule"]
    sums = np.bincount(cell, weights=gpu_h)
    found: dict[str, dict[str, float]] = {}
    for at in np.flatnonzero(sums).tolist():
        row, reason = divmod(at, len(Reason))
        name = Reason(reason).name.lower().replace("_", " ")
        by_reason = found.setdefault(story.accounts[row].path, {})
        by_reason[name] = by_reason.get(name, 0.0) + float(sums[at])
    return found
