"""What stands in each section of the page about one story."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from tenure.audit.span import Span
from tenure.core.policy import Order
from tenure.core.words import NEVER_S
from tenure.report import told
from tenure.report.bars import Bars, stacked
from tenure.report.colours import account_colours
from tenure.report.figures import MOST_FRAMES, account_frames, occupancy_frame, step_text, wait_frames
from tenure.report.frames import number, parse_start, percent, seconds
from tenure.report.imported import imported_facts, imported_sheet
from tenure.report.misuse import signal_sheet
from tenure.report.picture import Picture
from tenure.report.preemptions import ledger_of
from tenure.report.sheets import (
    Sheet,
    account_sheet,
    plain_sheet,
    said_of,
    wait_sheet,
)
from tenure.report.waiting import waited_by_reason
from tenure.story.columns import Story


def all_sections(
    story: Story, measures: Mapping[str, Any], picture: Picture, import_report: Mapping[str, Any] | None
) -> dict[str, Any]:
    colours = account_colours(story)
    accounts = measures["delivered"]["accounts"]
    found = told.examination_of(story, measures)
    record, hours = found.record, told.hours_of(found.series)
    ratios = {path: row.get("ratio") for path, row in accounts.items()}
    frames = account_frames(hours, colours, ratios, story.start)
    largest = sorted(frames, key=lambda f: -(accounts.get(f.title, {}).get("owed_gpu_h") or 0))[:MOST_FRAMES]
    ledger, line, rules = ledger_of(story, picture, record.span)
    return {
        "account_sheet": account_sheet(accounts, colours, found.ledger["accounts"]),
        "account_frames": [frame for frame in frames if frame in largest],
        "frames_left_out": max(0, len(frames) - len(largest)),
        "step": step_text(hours.smoothed()),
        "shortfall": shortfall_bars(found.shortfall),
        "wait_frames": wait_frames(told.waits_of(record)),
        "wait_sheets": wait_sheets(measures),
        "hours_line": hours_line(measures),
        "costs_line": costs_line(found.ledger.get("costs")),
        "occupancy": occupancy_frame(hours, story.start),
        "reasons": reason_bars(story, record.span),
        "ledger": ledger,
        "ledger_line": line,
        "ledger_rules": rules,
        "rule_column": [column.name for column in ledger.columns].index("rule"),
        "signals": signal_sheet(found.signals),
        "imported": imported_sheet(import_report),
        "imported_facts": imported_facts(import_report),
        "knobs": knob_sheet(story),
    }


def subtitle(story: Story, measures: Mapping[str, Any]) -> str:
    """Policy, seed, span and the lookback in force."""
    zero, end_s = parse_start(story.start), told.end_s(story)
    start_s = end_s - int(measures["span_s"])
    gpus = sum(node.gpus for node in story.nodes)
    parts = [
        f"policy {story.policy.get('name', 'budget')}",
        f"seed {story.seed}",
        f"{number(gpus)} GPUs on {number(len(story.nodes))} nodes",
        f"{seconds(end_s - start_s)} measured" + (f" after {seconds(start_s)} of warm-up" if start_s else ""),
    ]
    if zero is not None:
        first, last = zero + timedelta(seconds=start_s), zero + timedelta(seconds=end_s)
        parts.append(f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC")
    if story.policy.get("lookback_s"):
        parts.append(f"lookback {seconds(story.policy['lookback_s'])}")
    return " · ".join(parts)


def hours_line(measures: Mapping[str, Any]) -> str:
    hours = measures["gpu_hours"]
    whole = hours["capacity"] or 1
    return f"{number(hours['capacity'])} GPU-hours = " + " + ".join(
        f"{name} {number(hours[name])} ({percent(hours[name] / whole)})"
        for name in ("budgeted", "unbudgeted", "idle", "down")
    )


def costs_line(costs: Mapping[str, float] | None) -> str:
    """What the GPU-hours cost, where the lab gives prices."""
    if not costs:
        return ""
    parts = (f"{name} {number(costs[name])}" for name in ("budgeted", "unbudgeted", "idle", "down"))
    return f"At the lab's prices: {number(costs['capacity'])} = " + " + ".join(parts) + "."


def wait_sheets(measures: Mapping[str, Any]) -> list[Sheet]:
    titles = (
        ("wait_s", "Submission or requeue to start, a value for each start in the span."),
        (
            "first_wait_s",
            "Submission to first start, of jobs submitted in the span, old waiting ones counted so far.",
        ),
    )
    return [
        wait_sheet(title, key.replace("_", "-"), measures[key]) for key, title in titles if key in measures
    ]


def shortfall_bars(shortfall: Mapping[str, Any]) -> Bars | None:
    """What stood in the way of the owed hours that were missed, an account a row."""
    parts = {
        path: {said_of(cause): gpu_h for cause, gpu_h in row["causes"].items()}
        for path, row in shortfall["accounts"].items()
    }
    return stacked(parts, "GPU-hours owed and missed, by account and cause")


def reason_bars(story: Story, span: Span) -> Bars | None:
    parts = waited_by_reason(story, span)
    return stacked(parts, "GPU-hours waited, by account and reason") if parts else None


def knob_sheet(story: Story) -> Sheet:
    """Every knob as people write it, and as the record holds it."""
    rows = [(key, knob_text(key, value), str(value)) for key, value in sorted(story.policy.items())]
    return plain_sheet("knobs", "Policy in force", ["knob", "value", "as recorded"], rows)


def knob_text(key: str, value: Any) -> str:
    """Seconds as a duration, parts per thousand as percent, −1 as what it stands for."""
    if isinstance(value, bool) or not isinstance(value, int):
        return str(value)
    if value >= NEVER_S:
        return "off"
    if value == -1:
        return "follows the size of the cluster"
    if key == "order":
        return {Order.TARGETS: "targets", Order.WINDOW: "window"}.get(value, str(value))
    if key.endswith("_s"):
        return seconds(value)
    return percent(value / 1000) if key.endswith("_pm") else str(value)


def facts(story: Story, measures: Mapping[str, Any], version: str) -> list[tuple[str, str]]:
    """Enough to play it again, and how fast it was played."""
    jobs, speed = measures.get("jobs", {}), measures.get("speed") or {}
    found = [
        ("lab", story.lab),
        ("policy", str(story.policy.get("name", "budget"))),
        ("seed", str(story.seed)),
        ("version", f"tenure {version}"),
        (
            "span",
            f"second {told.end_s(story) - int(measures['span_s'])} to {told.end_s(story)}"
            + (f", second 0 = {story.start}" if story.start else ""),
        ),
        ("jobs", ", ".join(f"{number(value)} {name}" for name, value in jobs.items())),
    ]
    if speed.get("wall_s"):
        found.append(
            ("played in", f"{seconds(speed['wall_s'])}, {number(speed.get('jobs_per_s'))} jobs a second")
        )
    return [(name, value) for name, value in found if value]
