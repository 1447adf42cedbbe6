"""What is wrong that nobody asked about? Nodes nobody wants, idle reservations, silence, late starts."""

from __future__ import annotations

from tenure.providers.protocol import ACTIVE, FAILED, GONE, RUNNING, STOPPING, UNKNOWN, Node
from tenure.runs.assembling import abandon
from tenure.runs.deciding import Deciding
from tenure.runs.look import Release
from tenure.runs.state import ASSEMBLING, DONE, DRAINING, PAUSED, STALLED
from tenure.runs.state import RUNNING as TRAINING
from tenure.runs.training import has_stepped

RELEASE_S = 900.0  #: a node that was told to stop is gone by then, or a person is called
REPEAT_S = 120.0
FAR_OFF_SD = 2.0  #: from what the plan believes
TRAP = 0.5  #: chance of an overrun from which a window was bought for the median, or less
IN_USE = (ASSEMBLING, TRAINING, DRAINING)


def note_windows(d: Deciding) -> None:
    """Write down windows as they change: deadlines hang from them while the provider is silent."""
    listed = {window.id for window in d.look.windows or ()}
    for which in d.run.file.given:
        if d.look.windows is not None and which not in listed and which not in d.state.windows:
            d.alarm(
                "window unknown", f"{which}, as the run's file names it: the provider has none of that name"
            )
    for window in d.windows():
        known = d.state.windows.get(window.id)
        if known is None or known != window:
            body = window._asdict() | {
                "fee": None if window.fee is None else str(window.fee),
                "tags": dict(window.tags),
                "reservations": list(window.reservations),
            }
            d.event("window_seen", body)
        if window.state == UNKNOWN:
            d.alarm("window unknown", f"the provider says '{window.said}' of {window.id}: not used")
        elif window.state == FAILED:
            d.alarm("window failed", f"{window.id} failed ({window.said}): it will not start")


def note_nodes(d: Deciding) -> None:
    """From when to when nodes on demand are billed, and what has gone that was to go."""
    if d.look.nodes is None:
        return
    seen = {node.id: node for node in d.look.nodes if node.state != GONE}
    for node in d.of_market(list(seen.values()), reserved=False):
        hours = d.state.node_hours.get(node.id)
        if hours is None or hours[1] is not None:
            d.event("node_billed", {"node": node.id, "launched": node.launched})
    open_ones = {node for node, (_, gone) in d.state.node_hours.items() if gone is None}
    for which in sorted((open_ones | set(d.state.releasing)) - set(seen)):
        d.event("node_gone", {"node": which})


def release_unwanted(d: Deciding) -> None:
    """Level, not edge: whatever carries the run's tag and is not wanted is let go, until it is gone."""
    if d.look.nodes is None:
        return
    if d.state.phase not in IN_USE:
        abandon(d, [one.token for one in d.state.open_launches])
    unwanted = [node for node in d.alive() if not _wanted(d, node)]
    new = [node.id for node in unwanted if node.id not in d.state.releasing and node.state != STOPPING]
    if new:
        d.event("release_intended", {"nodes": new})
    again = [
        node.id
        for node in unwanted
        if node.state != STOPPING and (node.id in new or d.now - d.state.releasing[node.id] >= REPEAT_S)
    ]
    if again:
        d.acts.append(Release(tuple(again)))
    stuck = [node.id for node in d.alive() if d.now - d.state.releasing.get(node.id, d.now) >= RELEASE_S]
    if stuck:
        d.alarm("node not released", f"{', '.join(stuck[:4])} bills on though it was told to stop")
    if unwanted:
        d.wake_at(d.now + 60)


def _wanted(d: Deciding, node: Node) -> bool:
    """Whether a node has a place in what the run does now."""
    if node.id in d.state.releasing:
        return False
    live = d.live
    if live is not None and node.id in live.nodes:
        return True
    window = d.window(node.window) if node.window else None
    if d.state.phase == ASSEMBLING:
        if node.state == RUNNING and (node.healthy is False or node.id in d.state.slow):
            return False
        if window is not None:
            return not d.state.on_demand and d.worth(window)
        if d.state.on_demand:
            return d.now >= d.state.paused_until
        return d.run.file.gang.spill > 0
    if d.state.phase in (DONE, PAUSED):
        return False
    # drained: nodes of a window whose extension may yet be paid are kept until it ends
    return window is not None and d.pending_extension() and d.now < d.ladder(window).term


def watch(d: Deciding) -> None:
    """Alarms that no phase raises of itself."""
    if d.look.windows is None or d.look.nodes is None:
        d.alarm("provider silent", "the provider does not answer: nothing is launched or let go")
    if d.look.shelf_says:
        d.alarm("nothing usable", d.look.shelf_says)
    elif d.look.kept is None:
        d.alarm("store silent", "the store does not answer: nothing is started")
    if d.look.hook_says:
        text = f"the trainer cannot be told: {d.look.hook_says}; it holds the deadlines that it knows"
        d.alarm("hook silent", text)
    _idle_reserved(d)
    _late_start(d)
    _beliefs(d)
    _clock(d)


def _idle_reserved(d: Deciding) -> None:
    """Reserved nodes that nobody uses while nodes on demand are billed, or while work waits."""
    outside = d.of_market(d.alive(), reserved=False)
    if d.look.nodes is None or not outside:
        return
    for window in d.places():
        inside = sum(node.window == window.id for node in d.alive())
        idle = min(window.nodes - inside, d.look.free.get(window.id, window.nodes))
        if idle > 0 and (d.state.phase != ASSEMBLING or d.state.on_demand or inside):
            text = f"{idle} reserved nodes of {window.id} are idle while {len(outside)} bill on demand"
            d.alarm("idle reserved", text, d.ladder(window).drain)


def _late_start(d: Deciding) -> None:
    after = d.run.file.alarms.late_start
    if d.live is not None and (d.live.first_beat is not None or has_stepped(d)):
        return  # its first step may be as new as this look
    if d.state.phase in (DONE, PAUSED, STALLED):
        return
    for window in d.windows():
        if window.state != ACTIVE or window.soft or not d.worth(window):
            continue
        used = any(window.id in attempt.windows and attempt.first_beat for attempt in d.state.attempts)
        d.wake_at(window.start + after)
        if not used and d.now >= window.start + after:
            text = f"{window.id} has been paid for {(d.now - window.start) / 3600:.1f} h without a step"
            d.alarm("late start", text, d.ladder(window).drain)


def _beliefs(d: Deciding) -> None:
    """What the newest forecast says of the plan itself: a pilot that lied, a window bought for the median."""
    told = next(reversed(d.state.forecasts.values()), None)
    if told is None or "cannot" in told:
        return
    if told["away_sd"] > FAR_OFF_SD:
        speed = f"{told['speed']:,.0f} tokens per second per GPU"
        d.alarm("pilot that lied", f"{speed} is {told['away_sd']:.1f} sd from the plan: plan again")
    if told["plan_p_overrun"] > TRAP:
        text = f"by the plan itself its windows are overrun with chance {told['plan_p_overrun']:.0%}"
        d.alarm("median trap", text)


def _clock(d: Deciding) -> None:
    """Clocks that differ eat the margin."""
    if not d.look.beats:
        return
    ahead = max(beat.at for beat in d.look.beats.values()) - d.now
    margin = d.run.file.deadlines.margin
    if ahead > margin / 2:
        d.alarm("clocks differ", f"the trainer's clock is {ahead:.0f} s ahead; the margin is {margin:.0f} s")
