"""Which jobs to cap, and how far, so that every breaker of a tree holds, for the least loss of work.

One limit a job: a synchronous job is as slow as its slowest rack, so its other racks may be lowered with it
for nothing, which spares the breakers they hang on. Each job's loss over the watts it gives up is taken as
its convex hull, and the least sum of them under all breakers is a linear program, exact for curves that
flatten towards the top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tenure.planner.capping import CannotShed
from tenure.planner.power_curves import Curve

Array = NDArray[np.float64]
LEVELS = 400  #: limits between floor and base that a job may be given
WITHIN = 1e-6  #: of its limit: what a breaker may be passed by through rounding


@dataclass(frozen=True)
class Breaker:
    """`limit_w` of it; `under`: the row of the one above, or -1."""

    name: str
    limit_w: float
    under: int


@dataclass(frozen=True)
class Placed:
    """A synchronous job. `at`: its racks by row of the breaker they hang on."""

    name: str
    at: Mapping[int, int]

    @property
    def racks(self) -> int:
        return sum(self.at.values())


@dataclass(frozen=True)
class Tree:
    """Breakers (each after the one above it), jobs, and what a rack draws at a limit.

    A rack draws gpus · multiplier · (limit + overhead) at its breaker and at all above it.
    """

    breakers: Sequence[Breaker]
    jobs: Sequence[Placed]
    gpus: int
    overhead_w: float
    multiplier: float = 1.0

    def below(self) -> NDArray[np.int64]:
        """(breakers, jobs): racks of each job that hang on each breaker or below it."""
        found = np.zeros((len(self.breakers), len(self.jobs)), np.int64)
        for column, job in enumerate(self.jobs):
            for row, racks in job.at.items():
                while row >= 0:
                    found[row, column] += racks
                    row = self.breakers[row].under
        return found

    def rack_w(self, cap_w: float | Array) -> Array:
        """What a rack draws with its accelerators at a limit, all of it used."""
        return np.asarray(self.gpus * self.multiplier * (cap_w + self.overhead_w))

    def drawn_w(self, caps_w: Array) -> Array:
        """What each breaker carries with the jobs at such limits."""
        return np.asarray(self.below() @ self.rack_w(caps_w))

    @property
    def limits_w(self) -> Array:
        return np.array([breaker.limit_w for breaker in self.breakers])


def lost_racks(tree: Tree, curve: Curve, base_w: float, caps_w: Array) -> float:
    """Racks' work lost with the jobs at such limits."""
    racks = np.array([job.racks for job in tree.jobs])
    return float(racks @ (1.0 - curve.at(caps_w) / curve(base_w)))


def least_caps(
    tree: Tree, curve: Curve, base_w: float, floor_w: float, limits_w: Array | None = None
) -> Array:
    """The limit of each job with the least loss. CannotShed where the floors do not relieve every breaker."""
    limits_w = tree.limits_w if limits_w is None else limits_w
    floor_w = max(floor_w, curve.low_w)
    lowest = tree.drawn_w(np.full(len(tree.jobs), floor_w))
    over = np.flatnonzero(lowest > limits_w * (1.0 + WITHIN))
    if len(over):
        name = tree.breakers[int(over[0])].name
        raise CannotShed(f"breaker {name} is passed even with every job at its floor of {floor_w:g} W")
    if (tree.drawn_w(np.full(len(tree.jobs), base_w)) <= limits_w).all():
        return np.full(len(tree.jobs), base_w)
    from scipy.optimize import linprog

    given_w, slopes = _hull(curve, base_w, floor_w)
    racks, below = np.array([job.racks for job in tree.jobs]), tree.below()
    cost = np.outer(racks, slopes * given_w).ravel()  # parts of each step given up, in the order of steps
    a_rack_w = float(tree.gpus * tree.multiplier)
    relief = np.hstack([np.outer(below[:, job], given_w * a_rack_w) for job in range(len(racks))])
    need_w = tree.drawn_w(np.full(len(racks), base_w)) - limits_w
    tight = need_w > 0
    solved = linprog(cost, A_ub=-relief[tight], b_ub=-need_w[tight], bounds=(0.0, 1.0), method="highs")
    if solved.x is None:  # it has an answer: the floors hold
        raise CannotShed(str(solved.message))
    return np.asarray(base_w - solved.x.reshape(len(racks), len(given_w)) @ given_w)


def _hull(curve: Curve, base_w: float, floor_w: float) -> tuple[Array, Array]:
    """Steps down from base to floor: (watts given up in each, part of a rack's work lost a watt).

    Steps grow steeper downwards: the loss's lower convex hull, so that no step is taken before the one above.
    """
    caps_w = np.linspace(base_w, floor_w, LEVELS + 1)
    lost = 1.0 - curve.at(caps_w) / curve(base_w)
    kept = [0]
    for point in range(1, LEVELS + 1):
        while len(kept) > 1:
            a, b = kept[-2:]
            before = (lost[b] - lost[a]) / (caps_w[a] - caps_w[b])
            if before <= (lost[point] - lost[b]) / (caps_w[b] - caps_w[point]):
                break
            kept.pop()
        kept.append(point)
    given_w = -np.diff(caps_w[kept])
    return given_w, np.diff(lost[kept]) / given_w
