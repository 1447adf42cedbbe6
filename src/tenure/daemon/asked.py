"""Can this lab hold what a submission asks for, and what row does the core read of it?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tenure.core.words import NEVER_S, NONE, Kind
from tenure.daemon.reconcile import ENGINE
from tenure.settings.errors import BadInput, nearest
from tenure.settings.job import DEBUG_GPUS, DEBUG_RUNTIME_S, KINDS, advice
from tenure.settings.lab import Lab
from tenure.settings.lab_tables import Holder
from tenure.settings.live_job import Submission

AFTER = "after"  #: who holds a job back while others must end first
ARRAY = "array"  #: … while enough elements of its array are under way
HELD_BACK = (AFTER, ARRAY, ENGINE)  #: who is nobody's to overrule
HELD_THERE = "is held at the engine: release it there"  #: what is told of a job that is
THROTTLED = "waits until fewer elements of its array are under way"  #: … of one that its engine counts


class Dependency(NamedTuple):
    """A job that must have ended before: in success (`ok`), or in any way."""

    job: str
    how: str

    @property
    def text(self) -> str:
        """As people write it."""
        return f"{self.job}:{self.how}"

    @classmethod
    def of(cls, text: str) -> Dependency:
        """`12:ok` or `13:any`."""
        job, _, how = text.rpartition(":")
        return cls(job, how)


def after_text(open_ones: Sequence[Dependency]) -> str:
    """What a job that waits for others waits for."""
    return "waits until these have ended: " + ", ".join(one.text for one in open_ones)


def array_text(limit: int) -> str:
    """What an element of an array waits for."""
    return f"waits until fewer than {limit} elements of its array are under way"


class Door:
    """Checks what is asked for against one lab. `leaf_of`: row of the leaf where the work of a path runs."""

    def __init__(self, lab: Lab, gpu_types: Sequence[str], leaf_of: Mapping[str, int]) -> None:
        self.lab = lab
        self.gpu_types = list(gpu_types)
        self.leaf_of = leaf_of
        self.holder = Holder(lab)

    def columns(self, job: Submission) -> dict[str, int]:
        """The columns of core.columns.JOB, `first_entry` and `submit_s` aside. Raises BadInput."""
        if job.account not in self.leaf_of:
            known = [path for path in self.leaf_of if path]
            raise BadInput(
                "job", "account", f"the unknown account '{job.account}'", nearest(job.account, known)
            )
        small = job.gpus <= DEBUG_GPUS and 0 < job.min_runtime <= DEBUG_RUNTIME_S
        kind = Kind.DEBUG if small else KINDS[job.kind]
        if kind == Kind.DEBUG and not small:
            kind = Kind.BATCH
        return {
            "min_runtime_s": job.min_runtime,
            "max_runtime_s": NEVER_S if job.max_runtime is None else job.max_runtime,
            "clusters": self._clusters(job),
            "account": self.leaf_of[job.account],
            "gpus": job.gpus,
            "priority": job.priority,
            "save_every_s": job.checkpoint_every,
            "restart_s": job.restart,
            "gpu_type": NONE if job.gpu is None else self.gpu_types.index(job.gpu),
            "kind": int(kind),
            "resumable": int(job.resumable),
            "saves_when_asked": int(job.saves),
            "same_rack": int(job.same_rack),
        }

    def _clusters(self, job: Submission) -> int:
        """Bits of the clusters that may and can hold the job."""
        lab, asked = self.lab, list(range(len(self.lab.clusters)))
        for name in job.clusters or ():
            if name not in lab.clusters:
                found = f"the unknown cluster '{name}'"
                raise BadInput("job", "clusters", found, nearest(name, lab.clusters))
        if job.clusters is not None:
            asked = [lab.clusters.index(name) for name in dict.fromkeys(job.clusters)]
        if job.gpu is not None and job.gpu not in self.gpu_types:
            raise BadInput(
                "job", "gpu", f"the unknown GPU type '{job.gpu}'", nearest(job.gpu, self.gpu_types)
            )
        bits = self.holder.clusters(job.gpus, gpu=job.gpu, same_rack=job.same_rack)
        bits &= sum(1 << cluster for cluster in asked)
        if not bits:
            allowed = self.holder.allowed(asked, gpu=job.gpu, same_rack=job.same_rack)
            raise BadInput("job", "gpus", f"{job.gpus}, which no cluster can hold", allowed)
        return bits

    def remarks(self, job: Submission) -> list[str]:
        """What is legal and surely not meant, or easily overlooked."""
        told = [advice(job, job.name or "this job")]
        if job.min_runtime == 0:
            told.append("min_runtime is 0: it is not charged, and may be stopped at any moment")
        row = self.lab.rows()[job.account]
        while row > 0:
            account = self.lab.accounts[row]
            if account.max_gpus is not None and job.gpus > account.max_gpus:
                told.append(
                    f"its {job.gpus} GPUs are more than max_gpus {account.max_gpus} of {account.path}:"
                    " it will never start"
                )
            row = account.parent
        return [sentence for sentence in told if sentence is not None]


__all__ = [
    "AFTER",
    "ARRAY",
    "HELD_BACK",
    "HELD_THERE",
    "THROTTLED",
    "Dependency",
    "Door",
    "after_text",
    "array_text",
]
