"""Is the window what the run needs? Its state, place, size and platform; and one node launched and let go.

The test node is launched with the window named, read back, and terminated whatever was found: a node that
cannot be let go is a failure with its id, since it bills on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

from tenure.providers.protocol import (
    ACTIVE,
    GONE,
    PAYMENT_PENDING,
    RESERVED,
    RUN_TAG,
    SCHEDULED,
    STOPPING,
    Node,
    Offer,
    Provider,
    ProviderError,
    Window,
)
from tenure.runs.preflight import FAIL, PASS, UNKNOWN, Outcome, told_too_little

PREFLIGHT_TAG = "tenure:preflight"
CHECK_EVERY_S = 5.0
CLEAN_UP_S = 600.0  #: a terminated node holds its place in a window for minutes


def quota(allowed: int | None, most_in_window: int | None, nodes: int) -> Outcome:
    """`allowed`: nodes, as the provider's console shows; `most_in_window`: of its record."""
    if most_in_window is not None and nodes > most_in_window:
        return Outcome(FAIL, f"{nodes} nodes wanted, a window of this provider holds {most_in_window}")
    if allowed is None:
        return told_too_little("preflight.quota")
    short = nodes - allowed
    text = f"{allowed} nodes allowed, {nodes} wanted"
    return Outcome(FAIL if short > 0 else PASS, text + (f": {short} short" if short > 0 else ""))


def reservation(provider: Provider, windows: Sequence[Window], nodes: int, now: float) -> Outcome:
    """State, count, place and platform of all windows the run may use."""
    usable = [one for one in windows if one.state in (SCHEDULED, ACTIVE) and one.end > now]
    if not usable:
        said = "; ".join(f"{one.id} is {one.said or one.state}" for one in windows[:4])
        state = UNKNOWN if any(one.state == PAYMENT_PENDING for one in windows) else FAIL
        return Outcome(state, said or "no window is bought or named")
    wrong: list[str] = []
    for window in usable:
        if window.nodes < nodes:
            wrong.append(f"{window.id} holds {window.nodes} nodes, {nodes} are wanted")
        wrong += [f"{window.id}: {line}" for line in provider.against(_as_offer(provider, window))]
        if window.state == ACTIVE:
            health = provider.health(window)
            if health.interconnect == "impaired":
                wrong.append(f"{window.id}: the provider says that its interconnect is impaired")
            if health.broken:
                wrong.append(f"{window.id}: {health.broken} nodes failed the provider's own check")
    first = min(usable, key=lambda one: one.start)
    numbers = {"window": first.id, "state": first.state, "zone": first.zone, "nodes": first.nodes}
    if wrong:
        return Outcome(FAIL, "; ".join(wrong[:4]), {**numbers, "wrong": wrong})
    return Outcome(PASS, f"{first.id}: {first.nodes} nodes in {first.zone}, {first.state}", numbers)


def _as_offer(provider: Provider, window: Window) -> Offer:
    """As its provider judges what it sells."""
    return Offer(
        id=window.id,
        provider=provider.name,
        instance_type=window.instance_type,
        nodes=window.nodes,
        gpus_per_node=window.gpus_per_node,
        zone=window.zone,
        start=window.start,
        end=window.end,
        fee=window.fee if window.fee is not None else Decimal(0),
        currency=window.currency,
        platform=window.platform,
    )


def launch_one(
    provider: Provider,
    window: Window | None,
    run: str,
    token: str,
    wait: Callable[[float], None],
    bound_s: float,
) -> Outcome:
    """One node into the window: right reservation, right market, gone again."""
    if window is None:
        return Outcome(UNKNOWN, "no window is active: a node can be launched once one is")
    tags = {RUN_TAG: run, PREFLIGHT_TAG: token}
    seen: dict[str, Node] = {}
    try:
        for node in provider.launch(token, 1, 1, window, tags):
            seen[node.id] = node
        for node in provider.nodes((PREFLIGHT_TAG, token)):  # what *is*, not what was answered
            seen[node.id] = node
        outcome = _judged(seen, window)
    except ProviderError as no:
        outcome = Outcome(FAIL, f"no node could be launched into {window.id}: {no}")
    left = _let_go(provider, token, seen, wait, bound_s)
    if left:
        return Outcome(FAIL, f"{', '.join(left)} could not be let go and bills on", {"nodes": left})
    return outcome


def _judged(seen: Mapping[str, Node], window: Window) -> Outcome:
    if len(seen) != 1:
        return Outcome(FAIL, f"one node was asked for, {len(seen)} came: {', '.join(seen)}")
    (node,) = seen.values()
    if node.market != RESERVED or node.window != window.id:
        where = f"into {node.window}" if node.window else "outside every reservation"
        return Outcome(FAIL, f"{node.id} came up {where} ({node.market}), not in {window.id}")
    if node.zone != window.zone:
        return Outcome(FAIL, f"{node.id} is in {node.zone}, the window in {window.zone}")
    text = f"{node.id} came up in {window.id} and was let go; its place is free again within minutes"
    return Outcome(PASS, text, {"node": node.id, "reservation": node.reservation})


def _let_go(
    provider: Provider, token: str, seen: Mapping[str, Node], wait: Callable[[float], None], bound_s: float
) -> list[str]:
    """The ids of nodes that are not on their way out when the time is over. Asked again and again."""
    left: list[str] = list(seen)
    waited = 0.0
    while True:
        try:
            there = provider.nodes((PREFLIGHT_TAG, token))
            left = [node.id for node in there if node.state not in (STOPPING, GONE)]
            if not left:
                return []
            provider.terminate(left)
        except ProviderError:
            pass  # it does not answer: asked again
        if waited >= bound_s:
            return left
        wait(CHECK_EVERY_S)
        waited += CHECK_EVERY_S


def window_of(windows: Sequence[Window], now: float) -> Window | None:
    """The active window that lasts longest."""
    active = [one for one in windows if one.state == ACTIVE and one.end > now]
    return max(active, key=lambda one: one.end, default=None)


def first_start(windows: Sequence[Window], now: float) -> float | None:
    """When the first window begins that is not over, epoch seconds."""
    coming = [
        one.start for one in windows if one.end > now and one.state in (SCHEDULED, ACTIVE, PAYMENT_PENDING)
    ]
    return min(coming, default=None)
