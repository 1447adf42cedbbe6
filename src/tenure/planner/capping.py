"""Whom to cap when a breaker's racks must shed power, for the least loss of work over all jobs.

A synchronous job is as slow as its slowest rack: capping one rack of 512 holds up all 512. A job's loss is
therefore its racks times (1 - speed at the cap ÷ speed at the base limit), wherever its other racks stand.
This is a model of the idea, not anybody's algorithm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tenure.planner.power_curves import Curve

STEPS = 2000  #: pieces in which power is shed, each where it costs least


class CannotShed(ValueError):
    """Even with every job at its floor the racks draw too much."""


@dataclass(frozen=True)
class Job:
    """A synchronous job: `racks` of it in all, `here` of them under this breaker."""

    name: str
    racks: int
    here: int


@dataclass(frozen=True)
class Option:
    """`loss`: racks' work, of all jobs. `within`: no cap lies outside the curve, as it must not."""

    name: str
    caps_w: Mapping[str, float]
    loss: float
    within: bool


def loss_of(curve: Curve, base_w: float, job: Job, cap_w: float) -> float:
    """Racks' work lost with a job capped. Outside the curve only what its formula would say: see `within`."""
    return job.racks * (1.0 - float(curve.at(np.asarray(cap_w))) / curve(base_w))


def uniform(curve: Curve, base_w: float, jobs: Sequence[Job], shed: float) -> Option:
    """Every rack under the breaker gives up the same part `shed` of its accelerators' power."""
    return _option("uniform", curve, base_w, jobs, {job.name: base_w * (1.0 - shed) for job in jobs})


def only(curve: Curve, base_w: float, jobs: Sequence[Job], shed: float, name: str) -> Option:
    """One job's racks here give up all of it."""
    job = next(job for job in jobs if job.name == name)
    cap_w = base_w * (1.0 - shed * sum(j.here for j in jobs) / job.here)
    return _option(f"only {name}", curve, base_w, jobs, {name: cap_w})


def least(curve: Curve, base_w: float, jobs: Sequence[Job], shed: float, floor_w: float = 0.0) -> Option:
    """The caps that lose least: watt by watt from the job that loses least by it, none below floor or curve.

    CannotShed where all floors together do not shed enough.
    """
    floor_w = max(floor_w, curve.low_w)
    need_w = shed * base_w * sum(job.here for job in jobs)
    if need_w > (base_w - floor_w) * sum(job.here for job in jobs) * (1.0 + 1e-12):
        raise CannotShed(f"every job at its floor of {floor_w:g} W sheds less than {shed:.1%}")
    caps_w = {job.name: base_w for job in jobs if job.here}
    of = {job.name: job for job in jobs}
    piece_w, left_w = need_w / STEPS, need_w

    def price(name: str) -> float:
        job = of[name]
        lower = max(floor_w, caps_w[name] - piece_w / job.here)
        given_w = (caps_w[name] - lower) * job.here
        if given_w <= 1e-12 * base_w:
            return math.inf
        return (loss_of(curve, base_w, job, lower) - loss_of(curve, base_w, job, caps_w[name])) / given_w

    while left_w > 1e-9 * need_w:
        name = min(caps_w, key=price)
        lower = max(floor_w, caps_w[name] - min(piece_w, left_w) / of[name].here)
        left_w -= (caps_w[name] - lower) * of[name].here
        caps_w[name] = lower
    return _option("least", curve, base_w, jobs, caps_w)


def racks_to_move(base_w: float, jobs: Sequence[Job], shed: float) -> int:
    """Racks that would have to be moved to spares under another breaker so that nobody need be capped."""
    return math.ceil(shed * sum(job.here for job in jobs) - 1e-9)


def _option(
    name: str, curve: Curve, base_w: float, jobs: Sequence[Job], caps_w: Mapping[str, float]
) -> Option:
    loss = sum(loss_of(curve, base_w, job, caps_w[job.name]) for job in jobs if job.name in caps_w)
    return Option(name, dict(caps_w), loss, all(curve.holds(cap_w) for cap_w in caps_w.values()))


# --- a small controller ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Controller:
    """Two thresholds in parts of the breaker's limit, a floor, and what to do when readings stop.

    Above `high` the cap falls at once so that the draw comes to `low`; below `low` it rises by `rise_w` every
    `every` readings, so that it does not swing. After `patience` readings missed it goes to the floor.
    """

    limit_w: float
    base_w: float
    floor_w: float
    high: float = 0.98
    low: float = 0.94
    rise_w: float = 5.0
    every: int = 10
    patience: int = 3


def control(
    controller: Controller, wanted_w: NDArray[np.float64], fixed_w: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(cap, draw) a reading.

    `wanted_w`: what all accelerators would draw at the base limit; nan where the reading is lost, while they
    go on drawing the last value. `fixed_w`: what does not follow the cap.
    """
    cap_w, missed, since = controller.base_w, 0, 0
    caps, draws = np.empty(len(wanted_w)), np.empty(len(wanted_w))
    last = 0.0
    for step, wanted in enumerate(wanted_w):
        last = last if math.isnan(wanted) else float(wanted)
        follows = last / controller.base_w
        draw = follows * cap_w + float(fixed_w[step])
        caps[step], draws[step] = cap_w, draw
        since += 1
        if math.isnan(wanted):
            missed += 1
            cap_w = controller.floor_w if missed > controller.patience else cap_w
            continue
        missed = 0
        if draw > controller.high * controller.limit_w:
            fitting = (controller.low * controller.limit_w - float(fixed_w[step])) / follows
            cap_w, since = max(controller.floor_w, min(cap_w, fitting)), 0
        elif draw < controller.low * controller.limit_w and since >= controller.every:
            cap_w, since = min(controller.base_w, cap_w + controller.rise_w), 0
    return caps, draws
