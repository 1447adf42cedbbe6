"""What did the money bring? Tokens kept for each paid GPU-hour, taken apart so that the product is the total.

    tokens kept / paid GPU-hours = token goodput x run speed x useful time x kept work x occupied share

token goodput   tokens of a GPU-hour at the plan's speed
run speed       speed while in steps, over the plan's
useful time     time in steps, over the time the trainer holds its gang (start-up, saves, waits)
kept work       tokens in the newest verified checkpoint, over all trained: what is redone counts once
                (of a day: what is not lost by its end)
occupied share  time the trainer holds its gang, over all that is paid: pre-flight, idle, broken, past the end
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tenure.runs.hook import Hook
from tenure.runs.look import computing_s
from tenure.runs.state import Attempt, State
from tenure.settings.run_file import Run

DAY_S, HOUR_S = 86400.0, 3600.0
FACTORS = ("token_goodput", "run_speed", "useful_time", "kept_work", "occupied_share")


class Sums(NamedTuple):
    """Since the run's beginning. GPU-hours; tokens."""

    paid: float = 0.0
    occupied: float = 0.0
    computing: float = 0.0
    trained: float = 0.0
    kept: float = 0.0

    def less(self, before: Sums) -> Sums:
        """What came after `before`."""
        return Sums(*(now - then for now, then in zip(self, before)))


def sums(run: Run, state: State, hook: Hook, until: float, kept: float, *, whole: bool = False) -> Sums:
    """All sums up to an instant. `whole`: windows are counted to their end, used or not."""
    gpus = run.plan.gpus_per_node
    occupied = computing = trained = 0.0
    for attempt in state.attempts:
        size = len(attempt.nodes) * gpus
        over = attempt.ended is not None
        occupied += size * _had_s(attempt, until) / HOUR_S
        if over:
            computing += size * attempt.computing_s / HOUR_S
            trained += attempt.tokens - attempt.from_tokens
        else:
            here = (
                0.0
                if attempt.waiting is not None
                else computing_s(hook.beats(attempt.number), attempt.placed)
            )
            computing += size * (attempt.computed_s + here) / HOUR_S
            trained += max(0.0, _held(hook, attempt) - attempt.from_tokens)
    return Sums(paid_gpu_hours(run, state, until, whole=whole), occupied, computing, trained, kept)


def _had_s(attempt: Attempt, until: float) -> float:
    """Seconds in which it had its gang: those in a scheduler's queue are left out."""
    last = attempt.ended if attempt.ended is not None else until
    waited = attempt.waited_s + (0.0 if attempt.waiting is None else max(0.0, until - attempt.waiting))
    return max(0.0, min(last, until) - attempt.started - waited)


def _held(hook: Hook, attempt: Attempt) -> float:
    """Tokens of the whole run that the attempt under way holds, saved or not."""
    return min((beat.tokens for beat in hook.beats(attempt.number).values()), default=attempt.from_tokens)


def paid_gpu_hours(run: Run, state: State, until: float, *, whole: bool = False) -> float:
    """
    Reserved nodes from their window's start, used or not; nodes on demand from launch to end.

    Of windows whose end is soft, which nobody has bought, what was had.
    """
    gpus, total = run.plan.gpus_per_node, 0.0
    for window in state.windows.values():
        if window.state in ("failed", "unknown") or window.soft:
            continue
        end = window.end if whole else min(until, window.end)
        total += window.nodes * gpus * max(0.0, end - window.start) / HOUR_S
    for launched, gone in state.node_hours.values():
        total += gpus * max(0.0, min(until, gone if gone is not None else until) - launched) / HOUR_S
    soft = {window.id for window in state.windows.values() if window.soft}
    for attempt in state.attempts:
        if soft.intersection(attempt.windows):
            total += len(attempt.nodes) * gpus * _had_s(attempt, until) / HOUR_S
    return total


def apart(run: Run, told: Sums) -> dict[str, float]:
    """`goodput` (tokens kept a paid GPU-hour) and its factors; their product is it. 0 where nothing is."""
    model = run.plan.throughput.mean if run.plan.throughput else run.plan.pilots[-1].mean
    ideal = model * HOUR_S

    def over(part: float, whole: float) -> float:
        return part / whole if whole > 0 else 0.0

    return {
        "goodput": over(told.kept, told.paid),
        "token_goodput": ideal,
        "run_speed": over(told.trained, told.computing * ideal),
        "useful_time": over(told.computing, told.occupied),
        "kept_work": over(told.kept, told.trained),
        "occupied_share": over(told.occupied, told.paid),
    }


def day_zero(state: State) -> float | None:
    """Days are counted from the first window's start, or from the first node where there is none."""
    starts = [window.start for window in state.windows.values() if not window.soft]
    starts += [attempt.started for attempt in state.attempts[:1]]
    starts += [launched for launched, _ in state.node_hours.values()]
    return min(starts, default=None)


def days_due(state: State, now: float) -> list[int]:
    """Days that are over and not told of yet."""
    zero = day_zero(state)
    if zero is None:
        return []
    over = int((now - zero) // DAY_S)
    return list(range(len(state.days) + 1, over + 1))


def tell_day(run: Run, state: State, hook: Hook, day: int, kept: float) -> dict[str, Any]:
    """The event of a day: its goodput apart, and all sums so far.

    What the gang holds at the day's end and has not saved yet counts as kept; if it is lost, the day of the
    loss bears it. Counted by saves alone, a day would keep what the day before has trained.
    """
    zero = day_zero(state)
    assert zero is not None
    if state.live is not None:
        kept = max(kept, _held(hook, state.live))
    now = sums(run, state, hook, zero + day * DAY_S, kept)
    before = Sums(**state.days[-1]["sums"]) if state.days else Sums()
    return {
        "day": day,
        "until": zero + day * DAY_S,
        "sums": now._asdict(),
        "of_day": apart(run, now.less(before)),
        "so_far": apart(run, now),
    }


def money(run: Run, state: State, until: float, fees: Mapping[str, float]) -> dict[str, float]:
    """What was paid: fees of windows and extensions, and node-hours on demand at the plan's price."""
    hours = sum(
        max(0.0, (gone if gone is not None else until) - launched) / HOUR_S
        for launched, gone in state.node_hours.values()
    )
    reserved = sum(fees.values())
    on_demand = hours * run.on_demand_node_hour
    return {"reserved": reserved, "on_demand": on_demand, "total": reserved + on_demand, "node_hours": hours}
