"""What does a live queue look like to Tenure? The same reading, of whole sites, and never a hand on it.

For `serve --shadow`: all jobs of the named partitions (of all, where none is named), whoever started them;
what they ask for, their nodes, their ends. An order is a mistake of ours, and said so.
"""

from __future__ import annotations

from collections.abc import Sequence

from tenure.engines.clock import Clock
from tenure.engines.protocol import EngineError, Order
from tenure.engines.slurm.engine import SlurmEngine
from tenure.engines.slurm.programs import Programs
from tenure.engines.slurm.settings import SlurmSettings
from tenure.engines.slurm.sight import Sight


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

    def carry_out_many(self, orders: Sequence[Order]) -> list[EngineError | None]:
        """Never: raises EngineError."""
        raise EngineError("shadow mode only reads: nothing may be ordered")

    def _press_on(self, sight: Sight, at: float) -> None:
        """Nothing was ordered, and nothing is."""
