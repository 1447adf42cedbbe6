"""What a plan's file asks, in the planner's nouns: a run, its length, prices, what is lost of a window."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tenure.planner.lengths import Atoms, Length, Lognormal, Normal, ShiftedExponential, Uniform
from tenure.planner.pilots import Fitted, Pilot, fit
from tenure.planner.run_model import HOURS, Loss, Rate, RunModel, Speed
from tenure.planner.terms import Overrun, State, Terms
from tenure.providers.capability import capability
from tenure.settings.plan_units import DAY_S
from tenure.settings.window_file import DurationFile, PriorFile, SeenFailures, WindowFile

HOUR_S = DAY_S / HOURS


def run_of(file: WindowFile) -> tuple[RunModel, Fitted | None]:
    """The run's model, and the fit of its speed where pilots tell it."""
    assert file.tokens is not None
    assert file.nodes is not None
    assert file.recovery is not None
    fitted = None
    if file.pilots:
        fitted = fit([Pilot(pilot.nodes, pilot.mean, pilot.sd) for pilot in file.pilots], file.nodes)
        speed = fitted.speed
    else:
        assert file.throughput is not None
        told = file.throughput
        speed = Speed(told.mean, told.sd, told.distribution == "lognormal")
    recovery = file.recovery
    if recovery.hours_lost is not None:
        loss = Loss(fixed=recovery.hours_lost)
    else:
        assert recovery.checkpoint_every is not None
        hours = (recovery.restart, recovery.checkpoint_every, recovery.stall)
        loss = Loss(None, *(part / HOUR_S for part in hours))
    rate = rate_of(file)
    overhead = file.overhead or 0.0
    run = RunModel(file.tokens, file.nodes, file.gpus_per_node, speed, rate, loss, overhead, file.model)
    return run, fitted


def rate_of(file: WindowFile) -> Rate:
    """Failures per node-day: known, or what was seen (else by the pilots) leaves of a prior."""
    told = file.failures
    if told is not None and told.per_node_day is not None:
        return Rate(told.per_node_day)
    seen, prior = failures_seen(file)
    return Rate.posterior(seen.events, seen.node_days, prior.shape, prior.node_days)


def failures_seen(file: WindowFile) -> tuple[SeenFailures, PriorFile]:
    """What was seen of failures, and the prior it is added to."""
    told = file.failures
    prior = told.prior if told is not None else PriorFile()
    if told is not None and told.seen is not None:
        return told.seen, prior
    events = sum(pilot.failures for pilot in file.pilots)
    node_days = sum(pilot.nodes * pilot.hours / HOURS for pilot in file.pilots)
    return SeenFailures(events=events, node_days=node_days), prior


def length_of(told: DurationFile, samples: Sequence[float] | None = None) -> Length:
    """A length given as a distribution of its own."""

    def days(seconds: float | None) -> float:
        return (seconds or 0.0) / DAY_S

    made: dict[str, Callable[[], Length]] = {
        "uniform": lambda: Uniform(days(told.low), days(told.high)),
        "normal": lambda: Normal(days(told.mean), days(told.sd)),
        "lognormal": lambda: Lognormal(days(told.mean), days(told.sd)),
        "shifted-exponential": lambda: ShiftedExponential(days(told.shift), days(told.scale)),
        "atoms": lambda: Atoms(np.array(list(told.atoms or {})), np.array(list((told.atoms or {}).values()))),
        "samples": lambda: Atoms(np.array(samples)),
    }
    return made[told.distribution]()


def terms_of(file: WindowFile) -> Terms:
    """Prices, states of the market, and what of a window cannot be used."""
    on_demand = file.prices.day("on_demand", file.nodes) or 0.0
    reserved = file.prices.day("reserved", file.nodes)
    lead_days = sum(lead_s(file).values()) / DAY_S
    extension = file.extension
    if extension is None:
        states: tuple[State, ...] = (State(1.0, overrun_of(file, on_demand)),)
    else:
        price = extension.per_day if extension.per_day is not None else reserved
        bought = (extension.days, (price or 0.0) * extension.days)
        if extension.states:
            states = tuple(
                State(
                    state.p,
                    overrun_of(file, on_demand * state.on_demand_factor, state.p_fallback),
                    state.p_extension,
                    *bought,
                )
                for state in extension.states
            )
        else:
            states = (State(1.0, overrun_of(file, on_demand), extension.p or 0.0, *bought),)
    return Terms(reserved, states, lead_days, file.salvage_per_day)


def overrun_of(file: WindowFile, on_demand_day: float, p_fallback: float | None = None) -> Overrun:
    """What comes after the window. `p_fallback` of a market state replaces the file's."""
    told = file.overrun
    if told.per_day is not None:
        return Overrun(told.per_day, told.move)
    return Overrun.mixture(
        move=told.move,
        on_demand_day=on_demand_day,
        stall_day=told.stall_per_day or 0.0,
        p_fallback=told.p_on_demand if p_fallback is None else p_fallback,
    )


def lead_s(file: WindowFile) -> dict[str, float]:
    """Seconds of a window that cannot be used: start-up, the provider's termination, the final save."""
    lead = file.lead
    termination = lead.termination
    if termination is None:
        termination = capability(file.lattice).terminates_s if file.lattice else 0.0
    drain = lead.drain
    if drain is None:
        drain = final_save_s(file) or 0.0
    return {"startup": lead.startup or 0.0, "termination": termination, "drain": drain}


def final_save_s(file: WindowFile) -> float | None:
    """How long the last save takes: all parameters and their optimizer's state over the store's bandwidth."""
    if file.params is None or file.store is None:
        return None
    return file.params * file.store.bytes_per_param / (file.store.gb_per_s * 1e9)
