"""The Slurm engine on a real slurmctld with 64 nodes of 8 GPUs, and short words for what its tests do."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from slurm_site import SlurmSite
from tenure.engines.protocol import (
    Seen,
    SeenArrival,
    SeenAttempt,
    Start,
    Stop,
)
from tenure.engines.slurm import SlurmEngine, SlurmSettings

SAYS = "tenure: account=language/olmo min=2h"
STATE_SAVED_S = (
    6.5  #: slurmctld writes its state down every five seconds; who dies before that comes back older
)
TRAPS = 'trap "echo told; exit 3" TERM; echo ready; sleep 600 & wait'
IGNORES = 'trap "echo told" TERM; echo ready; while true; do sleep 600 & wait; done'


class Lab:
    """The site with an engine on it, and short words for what tests do."""

    def __init__(self, site: SlurmSite, folder: Path) -> None:
        self.site = site
        self.settings = SlurmSettings(conf=str(site.conf), folder=str(folder), watch_s=0.2)
        self.engine = SlurmEngine(self.settings)
        self.folder = folder
        self.made: list[SlurmEngine] = [self.engine]
        self.orders = 0

    def another(self, **changed: Any) -> SlurmEngine:
        """As after a restart of the server: an engine that remembers nothing."""
        self.made.append(SlurmEngine(self.settings.model_copy(update=changed)))
        return self.made[-1]

    def id(self, kind: str) -> str:
        self.orders += 1
        return f"{id(self)}.{self.orders}.{kind}"

    def submit(self, *options: str, script: str = "exec sleep 600", says: str = SAYS) -> str:
        return self.site.sbatch("--comment", says, *options, script=script)

    def order(self, job: str, nodes: Mapping[str, int], attempt: int = 1, **more: Any) -> Start:
        start = Start(self.id("start"), job, attempt, "language/olmo", "root", nodes, (), {}, "", None)
        return start._replace(**more)

    def start(self, job: str, nodes: Mapping[str, int], attempt: int = 1, **more: Any) -> SeenAttempt:
        self.engine.carry_out(self.order(job, nodes, attempt, **more))
        return self.until(job, attempt, lambda one: one.started is not None)

    def stop(self, job: str, attempt: int = 1, *, grace_s: float = 4, requeue: bool = True) -> Stop:
        order = Stop(self.id("stop"), job, attempt, grace_s, requeue, "a test")
        self.engine.carry_out(order)
        return order

    def see(self) -> Seen:
        return self.engine.see()

    def attempt(self, job: str, attempt: int = 1, seen: Seen | None = None) -> SeenAttempt | None:
        found = [one for one in (seen or self.see()).attempts if (one.job, one.attempt) == (job, attempt)]
        assert len(found) <= 1, found
        return found[0] if found else None

    def arrival(self, job: str, seen: Seen | None = None) -> SeenArrival | None:
        found = [one for one in (seen or self.see()).arrivals if one.job == job]
        assert len(found) <= 1, found
        return found[0] if found else None

    def until(
        self, job: str, attempt: int, holds: Callable[[SeenAttempt], bool], seconds: float = 180
    ) -> SeenAttempt:
        last: list[SeenAttempt | None] = [None]

        def met() -> bool:
            last[0] = self.attempt(job, attempt)
            return last[0] is not None and holds(last[0])

        try:
            self.site.wait(met, f"attempt {attempt} of {job}", seconds)
        except AssertionError:
            raise AssertionError(f"{last[0]}\n{self.site.job(job)}") from None
        assert last[0] is not None
        return last[0]

    def until_ended(self, job: str, attempt: int = 1, seconds: float = 180) -> SeenAttempt:
        return self.until(job, attempt, lambda one: one.ended is not None, seconds)

    def ready(self, job: str) -> None:
        """Wait until its script has set its traps."""
        self.site.wait(lambda: "ready" in self.out(job), f"{job} is ready")

    def out(self, job: str) -> str:
        path = self.site.folder / "out" / f"slurm-{job}.out"
        return path.read_text() if path.exists() else ""

    def nodes(self, first: int, last: int, gpus: int = 8) -> dict[str, int]:
        return {f"n{number:03d}": gpus for number in range(first, last + 1)}


@pytest.fixture
def lab(slurm: SlurmSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = slurm.folder / "said"
    lab = Lab(slurm, folder)
    yield lab
    for engine in lab.made:
        engine.close()
    slurm.clear()


def processes_of(mark: str) -> list[int]:
    """Processes that carry these words in their command."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if mark.encode() in (entry / "cmdline").read_bytes().replace(b"\0", b" "):
                    found.append(int(entry.name))
    return [pid for pid in found if pid != os.getpid()]
