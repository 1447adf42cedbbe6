"""What would change the answer: each assumption moved on its own, and the plan worked out again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tenure.planner.of_file import failures_seen
from tenure.planner.plan_window import Plan, plan_window
from tenure.planner.run_model import Loss, NeverEnds
from tenure.settings.window_file import FailuresFile, WindowFile

Change = Callable[[WindowFile, float], dict[str, Any]]


class Assumption(NamedTuple):
    """`low` and `high`: factors (or values) it is moved to; `words`: how it is told."""

    name: str
    low: float
    high: float
    low_words: str
    high_words: str
    change: Change


class Moved(NamedTuple):
    """An assumption moved: the best window then and its cost; `kept_cost`: of the window chosen before."""

    name: str
    words: str
    days: float | None  #: None: the run never ends
    cost: float | None
    kept_cost: float | None


def tornado(plan: Plan) -> list[tuple[Moved, Moved]]:
    """Every assumption moved down and up; the widest first."""
    pairs = [
        (_moved(plan, one, one.low, one.low_words), _moved(plan, one, one.high, one.high_words))
        for one in assumptions(plan)
    ]
    return sorted(pairs, key=lambda pair: -_width(plan, pair))


def _width(plan: Plan, pair: tuple[Moved, Moved]) -> float:
    costs = [moved.kept_cost for moved in pair]
    known = [cost for cost in costs if cost is not None]
    return float("inf") if len(known) < 2 else max(abs(cost - plan.chosen.cost) for cost in known)


def _moved(plan: Plan, one: Assumption, to: float, words: str) -> Moved:
    file = plan.file.model_copy(update=one.change(plan.file, to))
    try:
        again = plan_window(file, plan.samples, plan.offers)
    except NeverEnds:
        return Moved(one.name, words, None, None, None)
    kept = next((row for row in again.rows if row.offer == plan.chosen.offer), again.chosen)
    return Moved(one.name, words, again.chosen.days, again.chosen.cost, kept.cost)


def assumptions(plan: Plan) -> Iterator[Assumption]:
    """What this plan rests on. Speeds move by their own sd where that is known; the rest by a stated part."""
    file = plan.file
    if plan.run is not None:
        speed = plan.run.speed
        step = max(speed.sd / speed.mean, 0.01)
        yield Assumption(
            "speed",
            1 - step,
            1 + step,
            f"{speed.mean * (1 - step):,.0f} tokens/s per GPU",
            f"{speed.mean * (1 + step):,.0f} tokens/s per GPU",
            _speed,
        )
        rate = plan.run.rate.per_node_day
        if rate > 0:
            yield Assumption(
                "failures",
                0.5,
                2.0,
                f"{rate / 2:.3g} per node-day",
                f"{2 * rate:.3g} per node-day",
                _failures,
            )
            yield from _of_recovery(plan.run.loss)
        overhead = file.overhead or 0.0
        yield Assumption(
            "overhead", 0.0, 2.0, "none", f"{200 * overhead or 3:.3g} %", lambda f, to: _overhead(f, to)
        )
    yield Assumption("overrun price", 0.5, 2.0, "half", "double", _overrun)
    if plan.terms.reserved_day is not None and any(offer.fee is None for offer in plan.offers):
        yield Assumption("reserved price", 0.8, 1.2, "-20 %", "+20 %", _reserved)
    yield Assumption("lost at the start", 0.0, 86_400.0, "nothing", "a day", _late)


def _of_recovery(loss: Loss) -> Iterator[Assumption]:
    def hours(name: str, told: float, change: Change) -> Assumption:
        return Assumption(name, 0.5, 2.0, f"{told / 2:.2g} h", f"{2 * told:.2g} h", change)

    if loss.fixed is not None:
        if loss.fixed > 0:
            yield hours("lost with a failure", loss.fixed, _loss)
        return
    if loss.restart > 0:
        yield hours("restart", loss.restart, _loss)
    yield hours("work between saves", loss.every, _interval)


def _speed(file: WindowFile, factor: float) -> dict[str, Any]:
    if file.pilots:
        pilots = [p.model_copy(update={"mean": p.mean * factor, "sd": p.sd * factor}) for p in file.pilots]
        return {"pilots": pilots}
    assert file.throughput is not None
    return {"throughput": file.throughput.model_copy(update={"mean": file.throughput.mean * factor})}


def _failures(file: WindowFile, factor: float) -> dict[str, Any]:
    if file.failures is not None and file.failures.per_node_day is not None:
        return {"failures": FailuresFile(per_node_day=file.failures.per_node_day * factor)}
    # as many failures in a shorter or longer time: the mean moves, the certainty stays
    seen, prior = failures_seen(file)
    moved = {
        "seen": seen.model_copy(update={"node_days": seen.node_days / factor}),
        "prior": prior.model_copy(update={"node_days": prior.node_days / factor}),
    }
    return {"failures": FailuresFile().model_copy(update=moved)}


def _loss(file: WindowFile, factor: float) -> dict[str, Any]:
    assert file.recovery is not None
    told = file.recovery
    if told.hours_lost is not None:
        return {"recovery": told.model_copy(update={"hours_lost": told.hours_lost * factor})}
    return {"recovery": told.model_copy(update={"restart": told.restart * factor})}


def _interval(file: WindowFile, factor: float) -> dict[str, Any]:
    assert file.recovery is not None
    every = (file.recovery.checkpoint_every or 0.0) * factor
    return {"recovery": file.recovery.model_copy(update={"checkpoint_every": every})}


def _overhead(file: WindowFile, factor: float) -> dict[str, Any]:
    return {"overhead": (file.overhead or 0.015) * factor}


def _overrun(file: WindowFile, factor: float) -> dict[str, Any]:
    told = file.overrun
    if told.per_day is not None:
        return {"overrun": told.model_copy(update={"per_day": told.per_day * factor})}
    prices = file.prices
    dear = {
        key: price * factor
        for key in ("on_demand_per_day", "on_demand_per_node_hour")
        if (price := getattr(prices, key)) is not None
    }
    stall = None if told.stall_per_day is None else told.stall_per_day * factor
    return {
        "prices": prices.model_copy(update=dear),
        "overrun": told.model_copy(update={"move": told.move * factor, "stall_per_day": stall}),
    }


def _reserved(file: WindowFile, factor: float) -> dict[str, Any]:
    prices = file.prices
    moved = {
        key: price * factor
        for key in ("reserved_per_day", "reserved_per_node_hour")
        if (price := getattr(prices, key)) is not None
    }
    return {"prices": prices.model_copy(update=moved)}


def _late(file: WindowFile, seconds: float) -> dict[str, Any]:
    startup = (file.lead.startup or 0.0) if seconds == 0 else (file.lead.startup or 0.0) + seconds
    return {"lead": file.lead.model_copy(update={"startup": startup if seconds else 0.0})}
