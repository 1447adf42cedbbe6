"""Runs of two parts: reinforcement learning, which rolls out with many engines and trains with one job.

A failure while rolling out keeps one replica away (its samples are drawn anew); one while training stops
the whole trainer. In lockstep, on the same nodes or on nodes of their own, a step is rollouts and then
training: times add, so the part of time that goes on is harmonic. Overlapped, the slower part decides.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenure.planner.groups import Groups

LOCKSTEP, OVERLAPPED = "lockstep", "overlapped"
MEANING = {
    "reinforcement.rollout": "replicas that come and go by chance: overlap, L = stall + (away - stall)/count",
    "reinforcement.training": "the trainer, by the leading convention",
    "reinforcement.goodput": "lockstep: 1/(f/rollout + (1 - f)/training), f the part of a failure-free step "
    "spent in rollouts; overlapped: the lesser of the two. A lost replica's samples are drawn anew; no loss "
    "of quality",
}


@dataclass(frozen=True)
class Rollout:
    """`part`: of a step without failures spent in rollouts; `mtbf`: of the nodes that roll out."""

    part: float
    replicas: Groups
    mtbf: float
    mode: str = LOCKSTEP

    @property
    def works(self) -> float:
        """The part of rollout work that goes on."""
        return self.replicas.overlap(self.mtbf)

    def with_training(self, training: float) -> float:
        """Steps done, in parts of those without failures, while the trainer works `training` of its time."""
        if training <= 0.0 or self.works <= 0.0:
            return 0.0
        if self.mode == OVERLAPPED:
            return min(self.works, training)
        return 1.0 / (self.part / self.works + (1.0 - self.part) / training)
