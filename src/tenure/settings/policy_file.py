"""The knobs of the rule: their keys in files, units, ranges and meaning, one row each.

`KNOBS` is the one place that knows how a knob is written; a test holds it against `core.policy.Policy`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from tenure.core.policy import Order, Policy
from tenure.core.words import NEVER_S
from tenure.settings.errors import BadInput, dotted, nearest, shown
from tenure.settings.units import duration_text, flag, number, one_of, whole, within

HOUR_S, DAY_S = 3600, 86400
MOST_GPUS = 1_000_000
ORDERS = {"targets": Order.TARGETS, "window": Order.WINDOW}


class Knob(NamedTuple):
    key: str  #: as written under `policy:`; a dot is a level
    field: str  #: of core.policy.Policy
    kind: str  #: duration | off (or `off`) | part | count | auto (or `auto`) | flag | order
    low: int
    high: int
    meaning: str


#: `part` is in parts per thousand; durations are in seconds.
KNOBS = (
    Knob(
        "order",
        "order",
        "order",
        0,
        1,
        "what ranks accounts: targets (entitlement and debt) or window (plain use)",
    ),
    Knob("lookback", "lookback_s", "duration", 60, 366 * DAY_S, "how far back use counts, second by second"),
    Knob(
        "half_life",
        "half_life_s",
        "off",
        60,
        366 * DAY_S,
        "instead of the lookback: age at which use counts half",
    ),
    Knob(
        "max_protected",
        "max_protected_s",
        "duration",
        0,
        30 * DAY_S,
        "longest protection of an attempt, whatever its min_runtime",
    ),
    Knob(
        "grace.budgeted",
        "grace_budgeted_s",
        "duration",
        0,
        DAY_S,
        "from the stop signal to the kill, budgeted work",
    ),
    Knob("grace.unbudgeted", "grace_unbudgeted_s", "duration", 0, DAY_S, "the same, unbudgeted work"),
    Knob(
        "notice",
        "notice_s",
        "duration",
        0,
        DAY_S,
        "warning before a job with a challenger can be interrupted",
    ),
    Knob("hold", "hold_s", "duration", 0, DAY_S, "how long GPUs cleared for a job are kept for it"),
    Knob("repay.over", "repay_s", "duration", 60, 366 * DAY_S, "a debt is repaid over so long"),
    Knob(
        "repay.part",
        "repay_bound_pm",
        "part",
        0,
        1000,
        "and moves a target by at most this part of the entitlement",
    ),
    Knob(
        "repay.gpus",
        "repay_bound_gpus",
        "auto",
        0,
        MOST_GPUS,
        "or by so many GPUs; auto: two nodes from 512 GPUs on, else one",
    ),
    Knob("round.part", "round_pm", "part", 0, 1000, "a job may exceed its target by this part of itself"),
    Knob(
        "round.gpus",
        "round_bound_gpus",
        "auto",
        0,
        MOST_GPUS,
        "and by at most so many GPUs (or a tenth of the entitlement)",
    ),
    Knob(
        "quick.runtime",
        "quick_runtime_s",
        "duration",
        0,
        DAY_S,
        "longest min_runtime of a quick job; 0: no quick lane",
    ),
    Knob("quick.gpus", "quick_gpus", "count", 0, MOST_GPUS, "most GPUs of a quick job"),
    Knob(
        "quick.beyond",
        "quick_bound_gpus",
        "auto",
        0,
        MOST_GPUS,
        "quick GPUs an account may run beyond its target",
    ),
    Knob(
        "pool.nodes",
        "pool_nodes",
        "auto",
        0,
        100_000,
        "nodes for quick and unbudgeted work only; auto: one in 64",
    ),
    Knob(
        "plan.above",
        "plan_above_gpus",
        "auto",
        0,
        MOST_GPUS,
        "jobs of more GPUs get a plan; auto: a sixteenth of the cluster",
    ),
    Knob(
        "plan.debt",
        "plan_debt_pm",
        "part",
        0,
        1000,
        "any job gets a plan once its account is owed this part of what a lookback entitles it to",
    ),
    Knob("plan.most", "max_plans", "count", 0, 64, "plans at once"),
    Knob(
        "saved",
        "saved_pm",
        "part",
        0,
        1000,
        "part of what a job will hold beyond its due that is saved up first",
    ),
    Knob(
        "gang.wait_for_own",
        "wait_for_own",
        "flag",
        0,
        1,
        "a promise also waits for enough of its account's own work; false: by nodes alone",
    ),
    Knob(
        "patience.wait",
        "patience_s",
        "duration",
        0,
        30 * DAY_S,
        "how long a claim that loses much work waits for a cheaper moment",
    ),
    Knob(
        "patience.loss",
        "patience_loss_s",
        "duration",
        0,
        30 * DAY_S,
        "work lost for each claimed GPU that counts as much",
    ),
    Knob(
        "patience.session",
        "session_patience_s",
        "duration",
        0,
        30 * DAY_S,
        "who takes a session past protection has waited so long",
    ),
    Knob("depth", "depth", "count", 1, 100_000, "waiting jobs of an account that a turn looks at"),
    Knob(
        "restart_penalty",
        "restart_penalty_s",
        "duration",
        0,
        30 * DAY_S,
        "cost of stopping budgeted work, for each GPU and stay so far",
    ),
    Knob(
        "back_off",
        "back_off_s",
        "duration",
        0,
        30 * DAY_S,
        "an unbudgeted job stopped k times rests k times so long",
    ),
    Knob(
        "lengthen_weight",
        "lengthen_weight",
        "count",
        0,
        1000,
        "placement: GPUs' worth of an hour added to a node's protection",
    ),
    Knob(
        "window_margin",
        "window_margin_pm",
        "part",
        0,
        1000,
        "order window: by how much the victim's ratio exceeds the taker's",
    ),
    Knob(
        "loans",
        "loans",
        "flag",
        0,
        1,
        "what nobody else can use goes to any budgeted job that fits; false: only to unbudgeted work",
    ),
    Knob("tick", "tick_s", "duration", 1, DAY_S, "a turn happens at least so often"),
)
BY_KEY = {knob.key: knob for knob in KNOBS}
GROUPS = {knob.key.split(".")[0] for knob in KNOBS if "." in knob.key}


class NamedPolicy(NamedTuple):
    """What a policy's name stands for: the rule that decides, and what it changes in the knobs."""

    rule: str
    changes: Mapping[str, Any]
    meaning: str


NAMED = {
    "budget": NamedPolicy("budget", {}, "targets, protections and plans: the rule of the lab's file"),
    "window": NamedPolicy("budget", {"order": "window"}, "the same, ranked by use over the lookback alone"),
    "fifo": NamedPolicy("fifo", {}, "first come, first served, strictly: nobody passes the head"),
    "fifo-backfill": NamedPolicy(
        "fifo-backfill", {}, "the same, and shorter work fills gaps (EASY, on max_runtime)"
    ),
    "priority": NamedPolicy("priority", {}, "by priority, then by arrival"),
}


def named(policy: str) -> NamedPolicy:
    """The policy of that name. Raises BadInput for an unknown one."""
    if policy not in NAMED:
        raise BadInput("--policy", "", shown(policy), nearest(policy, NAMED))
    return NAMED[policy]


def policy_of(
    written: Mapping[str, Any] | None,
    overrides: Mapping[str, Any] | None = None,
    *,
    file: str = "policy",
    at: tuple[str, ...] = (),
) -> Policy:
    """
    The knobs of a `policy:` mapping (levels or dotted keys), then `overrides` (dotted keys, from `--set`).

    Raises BadInput for an unknown key, a wrong unit or a value out of range.
    """
    values: dict[str, int] = {}
    for key, value in _flat(written or {}, (), file, at):
        _put(values, key, value, file=file, at=at)
    for key, value in (overrides or {}).items():
        values.pop(key.removeprefix("policy."), None)
        _put(values, key.removeprefix("policy."), value, file="--set", at=("policy",))
    return Policy(**{BY_KEY[key].field: value for key, value in values.items()})


def _flat(written: Any, above: tuple[str, ...], file: str, at: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    if not isinstance(written, Mapping):
        raise BadInput(file, dotted([*at, *above]), shown(written), "a mapping (key: value)")
    for part, value in written.items():
        key = ".".join((*above, str(part)))
        if key in GROUPS:
            yield from _flat(value, (*above, str(part)), file, at)
        else:
            yield key, value


def _put(values: dict[str, int], key: str, value: Any, *, file: str, at: tuple[str, ...]) -> None:
    where = dotted([*at, key])
    if key not in BY_KEY:
        raise BadInput(file, where, f"the unknown key {shown(key)}", nearest(key, BY_KEY, most=40))
    if key in values:
        raise BadInput(file, where, "the same key again", "each key once")
    try:
        values[key] = read_knob(BY_KEY[key], value)
    except ValueError as refused:
        raise BadInput(file, where, shown(value), str(refused)) from None


def read_knob(knob: Knob, value: Any) -> int:
    """The knob's number. Raises ValueError with what is allowed."""
    if knob.key == "lookback" and _is_zero(value):
        raise ValueError(
            "a duration from 60s to 366d: with no lookback nobody's use would count;"
            " leave the key out for 7d, or write policy.order: window with a short one such as 1h"
        )
    if knob.kind == "off" and value in ("off", False):
        return NEVER_S
    if knob.kind == "auto" and value == "auto":
        return -1
    return _readers(knob)(value)


def _readers(knob: Knob) -> Callable[[Any], int]:
    if knob.kind == "order":
        return lambda value: ORDERS[one_of(*ORDERS)(value)]
    if knob.kind == "flag":
        return flag
    if knob.kind == "part":
        return lambda value: _part_pm(value, knob)
    if knob.kind in ("duration", "off"):
        return _or("off", within(knob.low, knob.high)) if knob.kind == "off" else within(knob.low, knob.high)
    counts = whole(knob.low, knob.high, "a whole number")
    return _or("auto", counts) if knob.kind == "auto" else counts


def _or(word: str, read: Callable[[Any], int]) -> Callable[[Any], int]:
    """As `read`, with one more word named in what is allowed."""

    def reader(value: Any) -> int:
        try:
            return read(value)
        except ValueError as refused:
            raise ValueError(f"{word}, or {refused}") from None

    return reader


def _part_pm(value: Any, knob: Knob) -> int:
    allowed = f"a part from {knob.low / 10:g}% to {knob.high / 10:g}%, such as 25% or 0.25, in steps of 0.1%"
    per_mille = 1000
    if isinstance(value, str) and value.rstrip().endswith("%"):
        value, per_mille = value.rstrip()[:-1].rstrip(), 10
    exact = number(value, allowed)
    if abs(exact) > 100 * knob.high or not knob.low <= exact * per_mille <= knob.high:
        raise ValueError(allowed)
    if exact * per_mille != (exact * per_mille).to_integral_value():
        raise ValueError(allowed)
    return int(exact * per_mille)


def _is_zero(value: Any) -> bool:
    try:
        return within(0, 0)(value) == 0
    except ValueError:
        return False


def written(knob: Knob, value: int) -> str:
    """A knob's number as it is written in a file."""
    if knob.kind == "order":
        return next(word for word, row in ORDERS.items() if row == value)
    if knob.kind == "off" and value == NEVER_S:
        return "off"
    if knob.kind == "auto" and value < 0:
        return "auto"
    if knob.kind in ("duration", "off"):
        return duration_text(value)
    if knob.kind == "flag":
        return "true" if value else "false"
    return f"{value / 10:g}%" if knob.kind == "part" else str(value)


class Described(NamedTuple):
    """One row of `tenure policy show`."""

    key: str
    value: str
    default: str
    meaning: str


def describe(policy: Policy = Policy()) -> list[Described]:  # noqa: B008 - an immutable default
    """Every knob with its value, its default and its meaning, in the order of `KNOBS`."""
    default = Policy()
    return [
        Described(
            knob.key,
            written(knob, getattr(policy, knob.field)),
            written(knob, getattr(default, knob.field)),
            knob.meaning,
        )
        for knob in KNOBS
    ]


def as_mapping(policy: Policy) -> dict[str, Any]:
    """The knobs by their keys in levels, as a file would say them: `policy_of` gives the same policy back."""
    told: dict[str, Any] = {}
    for row in describe(policy):
        first, _, second = row.key.partition(".")
        if second:
            told.setdefault(first, {})[second] = row.value
        else:
            told[first] = row.value
    return told
