"""S21, S22: sentences. The one place of the core where decisions become words.

A sentence is a template over the facts that `facts` names; a reason has one, a rule has one for what it
starts or stops. Whoever knows what rows are called gives the facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenure.core.words import Reason, Rule

#: Why a job waits. `docs/reasons.md` has the same list with what would change it.
SENTENCES: Mapping[Reason, str] = {
    Reason.HELD: "waits: somebody put it on hold",
    Reason.RESTING: "waits: unbudgeted work that was stopped rests a while, {have_s} of {need_s} so far",
    Reason.CANNOT_FIT: (
        "waits: {have} of the {need} GPUs it needs together are in service where it may run; even empty they"
        " could not hold it"
    ),
    Reason.OWN_LIMIT: "waits: {limited} holds {holds} of its limit of {limit} GPUs and this job needs {need}",
    Reason.CLAIMING: "waits: its place is being cleared, {have} of its {need} GPUs are free",
    Reason.PROMISED: "waits: its start is promised for {at}; {have} of its {need} nodes could be taken now",
    Reason.SAVING_UP: (
        "waits: its {gpus} GPUs are more than {account} may hold by right ({target} GPUs), so it saves up:"
        " it is owed {have_gpu_h} of {need_gpu_h} GPU-hours"
    ),
    Reason.BEHIND_OWN: "waits: {other}, of its own account, comes first",
    Reason.OVER_TARGET: (
        "waits: {account} holds {running} of its target of {target} GPUs and this job needs {need}"
    ),
    Reason.ORDER: (
        "waits: others come first: {before} with {before_gpus} GPUs, {other} before all;"
        " {have} of the {need} GPUs that they and this job need are free"
    ),
    Reason.HELD_FOR_GANG: (
        "waits: GPUs that would do are kept for {other}, and this job could neither end nor be stopped in"
        " time; {have} of the {need} it needs are free elsewhere"
    ),
    Reason.PATIENCE: (
        "waits: taking its place now would destroy much work of {other}; it waits for a cheaper moment,"
        " {have_s} of at most {need_s} so far"
    ),
    Reason.NO_PLACE: (
        "waits: {have} of the {need} GPUs it needs together could be freed; all else may not be stopped"
    ),
    Reason.SHAPE: "waits: enough GPUs are free, but only {have} of the {need} it needs are together",
    Reason.NO_FREE_GPUS: "waits: {have} of the {need} GPUs it needs are free",
    Reason.NOT_REACHED: (
        "waits: {place} before it in its list; the turn looked {depth} deep, and before a place was there"
    ),
    Reason.CLOSING: (
        "waits: GPUs that would do are on nodes that are going to close before its protection would end,"
        " first {closing} at {closes}; {have} of the {need} it needs are free elsewhere"
    ),
}

#: What the instant means that a sentence ends with, where one is known.
UNTIL: Mapping[Reason, str] = {
    Reason.RESTING: "until {at}",
    Reason.CLAIMING: "by {at} at the latest",
    Reason.ORDER: "a place could be made from {at}",
    Reason.HELD_FOR_GANG: "a place could be made from {at}",
    Reason.PATIENCE: "until {at} at the latest",
    Reason.NO_PLACE: "no place can be made before {at}",
    Reason.CLOSING: "a place could be made elsewhere from {at}",
}

STARTED: Mapping[Rule, str] = {
    Rule.OWED: "starts: {account} is owed the GPUs, at {mine} of its entitlement",
    Rule.QUICK: "starts in the quick lane: short and small",
    Rule.PLANNED: "starts on its promise",
    Rule.CROSSING: "starts: one job over its account's target, where nobody is owed the GPUs",
    Rule.UNBUDGETED: "starts unbudgeted: it may be stopped at any moment",
    Rule.LOAN: "starts on idle GPUs that nobody else could use",
    Rule.FIRST_COME: "starts: it came first",
    Rule.BACKFILL: "starts beside a waiting job without delaying it",
    Rule.LEVEL: "starts by its level",
}

STOPPED: Mapping[Rule, str] = {
    Rule.FREE_WORK: "unbudgeted: stopped for {taker}",
    Rule.ABOVE_TARGET: (
        "past its protection, and {account} stays at its target without it: stopped for {taker}"
    ),
    Rule.SAVED_UP: (
        "past its protection, and {account} had more than it was owed: stopped for {taker},"
        " for which its account saved up"
    ),
    Rule.OWN_GANG: "past its protection: stopped for {taker}, its own account's planned gang",
    Rule.DISPLACED: "past its protection, on a node promised to {taker}",
    Rule.WINDOW_RATIO: "past its protection, and {account} has used more than its part: stopped for {taker}",
    Rule.DRAINING: "past its protection, on a draining node",
    Rule.OVER_LIMIT: "unbudgeted: makes way for {taker} under the limit of {account}",
    Rule.LOWER_LEVEL: "beyond its team's quota: stopped for {taker}",
    Rule.OWNER: "stopped by its owner",
    Rule.OPERATOR: "stopped by a manager",
    Rule.RUNTIME_LIMIT: "stopped at its own max_runtime",
    Rule.DEAD_NODE: "ended with its node",
    Rule.SHARE_CUT: "stopped by a budget cut",
}
RATIOS = " (ratio {mine} against {theirs})"


def explain(reason: Reason, facts: Mapping[str, Any]) -> str:
    """The sentence of a reason, with the instant by which it passes where `facts` has one (`at`, text)."""
    until = UNTIL.get(reason)
    sentence = (
        SENTENCES[reason] if until is None or facts.get("at") is None else f"{SENTENCES[reason]} ({until})"
    )
    return sentence.format_map(facts)


def explain_start(rule: Rule, facts: Mapping[str, Any]) -> str:
    """Why a job starts. Facts: account, mine (its ratio)."""
    return STARTED[rule].format_map(facts)


def explain_stop(rule: Rule, facts: Mapping[str, Any]) -> str:
    """S22: why an attempt is stopped: the taker, the rule, both ratios (mine the taker's, theirs its own)."""
    ratios = RATIOS if facts.get("mine") is not None else ""
    return (STOPPED[rule] + ratios).format_map(facts)


def span_text(seconds: int) -> str:
    """`90` → `90 s`, `1800` → `30 min`, `7200` → `2 h`."""
    for unit_s, name in ((3600, "h"), (60, "min")):
        if seconds >= unit_s and (seconds >= 2 * unit_s or seconds % unit_s == 0):
            return f"{seconds / unit_s:.1f}".removesuffix(".0") + f" {name}"
    return f"{seconds} s"


def moment_text(second: int) -> str:
    """A second of the record as people say it: `14:20`, `3 d 14:20`, `14:20:05`."""
    days, rest = divmod(second, 86400)
    text = f"{rest // 3600:02}:{rest % 3600 // 60:02}" + (f":{rest % 60:02}" if rest % 60 else "")
    return f"{days} d {text}" if days else text


def jobs_text(count: int) -> str:
    """`1 job`, `12 jobs`."""
    return "1 job" if count == 1 else f"{count:,} jobs"
