"""What time is it at slurmctld? All its instants are by its own clock, which need not be ours."""

from __future__ import annotations

import re

from tenure.engines.clock import Clock
from tenure.engines.protocol import EngineUnavailable
from tenure.engines.slurm.programs import Programs

MEASURED_EVERY_S = 20.0


class Skew:
    """How far slurmctld's clock is ahead of ours; measured now and then."""

    def __init__(self, programs: Programs, clock: Clock) -> None:
        self._programs, self._clock = programs, clock
        self._measured: float | None = None
        self._ahead_s = 0.0

    def now(self) -> float:
        """Epoch seconds by slurmctld's clock. Raises EngineUnavailable."""
        now = self._clock.now()
        if self._measured is None or not 0 <= now - self._measured < MEASURED_EVERY_S:
            self._measure()
        return self._clock.now() + self._ahead_s

    def ahead_s(self) -> float:
        """Seconds that slurmctld's clock is ahead of ours, 0 within its resolution. EngineUnavailable."""
        self._measure()
        return self._ahead_s

    def _measure(self) -> None:
        """It tells whole seconds only: an offset that those allow to be none is none."""
        before = self._clock.now()
        said = self._programs.told("sdiag")
        after = self._clock.now()
        found = re.search(r"sdiag output at .*\((\d+)\)", said)
        if found is None:
            raise EngineUnavailable("sdiag did not tell slurmctld's time")
        least, most = int(found[1]) - after, int(found[1]) + 1 - before
        if not least <= self._ahead_s <= most:
            self._ahead_s = 0.0 if least <= 0.0 <= most else (least + most) / 2
        self._measured = after
