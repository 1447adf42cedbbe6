"""How does a run come to its gang? Wait for the start, launch into what is reserved, test, begin.

Nothing is launched before a window is active. What is reserved is filled first, across all its windows; nodes
on demand are asked for only where the file says so: as many as `spill` beside a reservation that is short, or
the whole gang where no window is left.
"""

from __future__ import annotations

from itertools import takewhile

from tenure.providers.protocol import ON_DEMAND, Window
from tenure.runs.deciding import Deciding
from tenure.runs.gang import Patience, asks_of_windows, held, hold_ends
from tenure.runs.look import Gate, Launch, StartTrainer
from tenure.runs.state import ASSEMBLING, DONE, FAILED, PAUSED, RUNNING, STALLED, WAITING

SHORT_S = 600.0  #: a reservation that has too few nodes for so long is short
CRASHES, LONGEST_WAIT_S = 3, 3600.0  #: attempts without a step in a row, until a pause is made
GATE_AGAIN_S = 600.0
SOON_S = 60.0  #: while nodes come or go, it is looked again after so long


def wait(d: Deciding) -> None:
    """In `waiting` and `stalled`: is there a place, or one to come?"""
    if _needs_no_gang(d):
        return
    if d.look.windows is None or d.look.kept is None:
        return  # nobody knows: nothing is begun
    places, coming = d.places(), d.coming()
    if places:
        d.enter(ASSEMBLING, f"window {places[0].id} is active", on_demand=False)
    elif coming and _across(d, coming[0]):
        d.enter(ASSEMBLING, f"on demand until window {coming[0].id} starts: it pays", on_demand=True)
    elif coming:
        _between(d, coming[0])
        if d.state.phase == STALLED:
            d.enter(WAITING, f"window {coming[0].id} starts")
    elif not d.state.windows:
        d.alarm("no window", "no window is bought: buy one, and the run starts with it")
    elif d.pending_extension():
        d.alarm("extension pending", "an extension is bought and not yet paid: no place until it is")
    elif d.run.file.fallback == "on-demand":
        d.enter(ASSEMBLING, "no window is left: the rest on demand", on_demand=True)
    elif d.state.phase != STALLED:
        d.enter(STALLED, "work is left and no window: buy one, extend, or allow on-demand")
    if d.state.phase == STALLED and not (places or coming):
        d.alarm("nowhere to go", "work is left and no window: buy one, extend, or allow on-demand")


def _between(d: Deciding, coming: Window) -> None:
    """Nothing trains until the next window starts; once the run has begun, people are told how long."""
    d.wake_at(coming.start)
    if d.state.attempts and coming.start - d.now >= SHORT_S:
        text = f"nothing trains for {(coming.start - d.now) / 3600:.1f} h, until window {coming.id} starts"
        d.alarm("between windows", text, coming.start)


def _across(d: Deciding, coming: Window) -> bool:
    """
    Whether the run, once begun, is carried on demand until its next window starts.

    Only where the file says so (`fallback`), and only where a day without training (the plan's
    `stall_per_day`) costs so much more than one on demand that the time pays for moving there and back.
    """
    stall, priced = d.run.plan.overrun.stall_per_day, d.run.on_demand_node_hour * d.run.nodes * 24
    if d.run.file.fallback != "on-demand" or stall is None or not d.state.attempts:
        return False
    usable_s = coming.start - d.now - d.run.file.deadlines.least
    return (stall - priced) * usable_s / 86400 > 2 * d.run.plan.overrun.move


def _needs_no_gang(d: Deciding) -> bool:
    """Whether a person's drain or the end of the work has settled where the run goes."""
    if d.state.drain_asked:
        d.enter(PAUSED, "a person asked it to drain")
        return True
    if d.complete:
        finish(d)
        return True
    return False


def finish(d: Deciding) -> None:
    """All work is done and verified: nothing is launched any more."""
    kept = d.kept
    d.event("run_finished", {"step": kept.step, "tokens": kept.tokens, "verified": True})
    d.enter(DONE, f"all tokens are in the verified checkpoint of step {kept.step}")


def assemble(d: Deciding) -> None:
    """In `assembling`: ask for what is missing; when all are up, test them and begin."""
    if _needs_no_gang(d):
        return
    if d.look.windows is None or d.look.nodes is None:
        return
    places = d.places()
    if d.state.on_demand and places:
        d.enter(ASSEMBLING, f"window {places[0].id} is active: it is filled first", on_demand=False)
        return
    if not d.state.on_demand and not places:
        d.enter(WAITING, "what is left of the window is too short to begin in")
        return
    coming = d.coming()
    if d.state.on_demand and coming and not _across(d, coming[0]):
        d.enter(WAITING, f"window {coming[0].id} starts so soon that on demand no longer pays")
        return
    here = {place.id for place in places} | ({""} if d.state.on_demand or d.run.file.gang.spill else set())
    if d.state.refusal:
        left = d.ladder(places[0]).drain if places else None
        d.alarm(
            "launch refused", f"{d.state.refusal}; asked again {_minutes(d.run.file.gang.retry)} later", left
        )
    unknown = d.state.open_launches
    abandon(d, [one.token for one in unknown if one.window not in here])
    again = [Launch(one.token, one.nodes, one.at_least, one.window) for one in unknown if one.window in here]
    if again:  # sent, answer lost, or never sent: the same token launches once
        d.acts += again
        return
    if d.state.on_demand:
        _on_demand(d)
    else:
        _reserved(d, places)


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min"


def abandon(d: Deciding, tokens: list[str]) -> None:
    """Never send these again; nodes that come of them nevertheless are let go, whoever finds them."""
    for token in tokens:
        d.event("launch_refused", {"token": token, "code": "abandoned", "message": "no longer wanted"})


def _due(d: Deciding) -> bool:
    """Whether the next round of launches may be made; at once by a controller that began after a refusal."""
    if d.state.refusal and d.look.since > d.state.last_round:
        return True
    due = d.state.last_round + d.run.file.gang.retry if d.state.rounds else float("-inf")
    d.wake_at(due)
    return d.now >= due


def _launch(d: Deciding, nodes: int, at_least: int, window: str, place: int = 0) -> None:
    token = f"{d.run.file.run}-{len(d.state.launches) + 1 + place}"
    body = {"token": token, "count": nodes, "at_least": at_least, "window": window}
    d.event("launch_intended", body, f"launch/{token}")
    d.acts.append(Launch(token, nodes, at_least, window))


def _reserved(d: Deciding, places: list[Window]) -> None:
    gang = d.run.file.gang
    mine = held(d.of_gang())
    missing = d.run.nodes - mine.taken - d.unseen()
    if missing <= 0:
        _begin_when_up(d)
        return
    nodes = d.look.nodes or ()
    asked, short = asks_of_windows(missing, places, nodes, d.look.free, rounds=d.state.rounds)
    spill = 0
    if short > 0:
        room = gang.spill - len(d.of_market(d.alive(), reserved=False))
        have = d.run.nodes - short
        d.wake_at(d.now + SOON_S)  # a place takes some minutes of clean-up after its node is gone
        if short <= room:
            spill = short
        elif d.now - d.state.assembling_since >= SHORT_S:
            text = f"{have} of {d.run.nodes} nodes are free in {_named(places)}; spill allows {gang.spill}"
            d.alarm("reservation short", text, d.ladder(places[0]).drain)
    if not _due(d):
        return
    for place, ask in enumerate(asked):
        _launch(d, ask.nodes, ask.at_least, ask.window, place)
    if spill:
        _launch(d, spill, spill, "", len(asked))


def _named(windows: list[Window]) -> str:
    return ", ".join(window.id for window in windows)


def _on_demand(d: Deciding) -> None:
    gang = d.run.file.gang
    mine = held(d.of_gang())
    missing = d.run.nodes - mine.taken - d.unseen()
    if missing <= 0:
        _begin_when_up(d)
        return
    if d.now < d.state.paused_until:
        d.wake_at(d.state.paused_until)
        d.alarm("phantom gang", "the gang on demand did not come together: all were let go, a pause is made")
        return
    waiting = d.of_market(d.up(), reserved=False)
    since = d.state.assembling_since
    hours = sum(d.now - max(since, node.launched) for node in waiting) / 3600
    stalled = d.run.plan.overrun.stall_per_day or d.run.plan.overrun.per_day or 0.0
    patience = Patience(
        gang.retry,
        gang.rounds,
        gang.hold_cap,
        d.run.on_demand_node_hour,
        stalled / 24,
        min(0.999, max(0.01, gang.success)),
    )
    if waiting:
        d.wake_at(d.now + max(0.0, gang.hold_cap - hours) / len(waiting) * 3600 - 2 * d.run.file.poll)
        if hours * 2 > gang.hold_cap:
            d.alarm("phantom gang", f"{len(waiting)} nodes have billed {hours:.1f} node-hours while waiting")
    why = hold_ends(hours, len(waiting), missing, d.state.rounds, d.run.file.poll, patience)
    if not waiting and d.state.rounds >= gang.rounds:
        why = f"{d.state.rounds} rounds in a row brought nothing"
    if why:
        d.event("launching_paused", {"until": d.now + gang.pause, "why": why})
        d.alarm("phantom gang", why)
    elif _due(d):
        _launch(d, missing, missing if not waiting and d.state.rounds == 0 else 1, "")


def _crashes(d: Deciding) -> bool:
    """A trainer that ends again and again and keeps nothing is started ever more seldom."""
    kept = max(0.0, d.kept.tokens)
    crashed = list(
        takewhile(
            lambda one: one.end == FAILED and max(0.0, one.from_tokens) >= kept - 0.5,
            reversed(d.state.attempts),
        )
    )
    if len(crashed) < CRASHES:
        return False
    again = (crashed[0].ended or d.now) + min(LONGEST_WAIT_S, SOON_S * 2 ** len(crashed))
    d.alarm("does not get on", f"{len(crashed)} attempts in a row ended and kept nothing")
    d.wake_at(again)
    return d.now < again


def _test(d: Deciding, nodes: tuple[str, ...], windows: tuple[str, ...]) -> None:
    """The gang is tested before it trains; where it failed, again after a while, without nodes it named."""
    again = d.state.gate_failed + GATE_AGAIN_S
    if d.now < again:
        d.alarm("gang failed its test", d.state.gate_text)
        d.wake_at(again)
        return
    d.acts.append(Gate(nodes, windows))


def _begin_when_up(d: Deciding) -> None:
    mine = held(d.of_gang())
    d.wake_at(d.now + SOON_S)
    if mine.broken or mine.stopping or mine.coming or d.unseen() or d.look.kept is None:
        if mine.broken:
            d.alarm("broken node", f"{', '.join(node.id for node in mine.broken)}: replaced")
        return
    if _crashes(d):
        return
    nodes = tuple(sorted(node.id for node in mine.ready))
    windows = tuple(sorted({node.window for node in mine.ready if node.market != ON_DEMAND and node.window}))
    if d.state.gate_passed != nodes:
        _test(d, nodes, windows)
        return
    attempt = len(d.state.attempts) + 1
    d.event(
        "attempt_started",
        {
            "attempt": attempt,
            "nodes": list(nodes),
            "windows": list(windows),
            "from_tokens": d.kept.tokens,
            "from_step": d.kept.step,
        },
        f"attempt/{attempt}",
    )
    d.enter(RUNNING, f"attempt {attempt} on {len(nodes)} nodes, from step {max(0, d.kept.step)}")
    d.acts.append(StartTrainer(attempt, nodes))
