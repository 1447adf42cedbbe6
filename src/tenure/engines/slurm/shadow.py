"""What does a live queue look like to Tenure? The same reading, of whole sites, and never a hand on it.

For `serve --shadow`: all jobs of the named partitions (of all, where none is named), whoever started them;
what they ask for, their nodes, their ends. An order is a mistake of ours, and said so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tenure.engines.clock import Clock
from tenure.engines.protocol import EngineError, Order, SeenArrival
from tenure.engines.slurm.engine import SlurmEngine
from tenure.engines.slurm.programs import Programs
from tenure.engines.slurm.rows import WAITS, Job
from tenure.engines.slurm.settings import SlurmSettings
from tenure.engines.slurm.sight import Sight, arrival_of


class ShadowSlurm(SlurmEngine):
    """Reads, and refuses to do anything."""

    name = "slurm, only read"

    def __init__(
        self,
        settings: SlurmSettings | None = None,
        clock: Clock | None = None,
        programs: Programs | None = None,
    ) -> None:
        told = settings or SlurmSettings()
        watched = ",".join(told.watched) if told.watched is not None else told.partition
        super().__init__(told.model_copy(update={"partition": watched}), clock, programs)
        self._ran: dict[str, SeenArrival] = {}

    def known(self) -> Mapping[str, SeenArrival]:
        """What the jobs ask for that run, or ran a moment ago: some are never seen waiting."""
        return self._ran

    def _know(self, jobs: Sequence[Job]) -> None:
        ran = [job for job in jobs if job.state not in WAITS and job.nodes]
        self._ran = {job.id: self._ran.get(job.id) or arrival_of(job, self._reader(job)) for job in ran}

    def carry_out_many(self, orders: Sequence[Order]) -> list[EngineError | None]:
        """Never: raises EngineError."""
        raise EngineError("shadow mode only reads: nothing may be ordered")

    def _press_on(self, sight: Sight, at: float) -> None:
        """Nothing was ordered, and nothing is."""
