"""CPU time of the live loop's turns, in one process and on a chosen clock: what a busy machine cannot blur.

Fills 1,024 nodes with some 1,800 jobs, lets 12,000 wait, then takes turns with 5 and with 50 submissions in
each. Prints JSON: {name: milliseconds}.
"""

from __future__ import annotations

import gc
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import structlog

from live import Jobs, lab_of_bench
from tenure.daemon.run import Daemon
from tenure.engines.fake import ChosenClock, FakeCluster
from tenure.ledger.ledger import open_ledger
from tenure.ledger.records import Asked
from tenure.service.live.heap import Sweeper
from tenure.settings.lab import lab_of

BATCHES, BATCH = 7, 2000
TURNS = 200


class Loop:
    """A live loop that takes a turn when told to."""

    def __init__(self, folder: Path) -> None:
        lab = lab_of(lab_of_bench())
        self.clock = ChosenClock(1_767_571_200.0)
        self.ledger = open_ledger(folder / "record.db")
        engine = FakeCluster({node.name: node.gpus for node in lab.nodes}, self.clock)
        self.daemon = Daemon(lab, self.ledger, engine, self.clock, lease_s=1e9)
        self.jobs = Jobs(1)

    def turn_ms(self, submissions: int) -> float:
        """CPU time of one turn, a second after the last."""
        spec = [{"spec": self.jobs.next()} for _ in range(submissions)]
        if spec:
            self.ledger.ask([Asked("ann", "submit", "", body, self.clock.now()) for body in spec])
        self.clock.wait(1.0)
        began = time.thread_time()
        self.daemon.turn_now()
        return 1e3 * (time.thread_time() - began)


def measured() -> dict[str, float]:
    """Milliseconds by name."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    with tempfile.TemporaryDirectory(prefix="tenure-turns-") as folder:
        loop = Loop(Path(folder))
        loop.turn_ms(1)  # compiles
        gc.collect()
        gc.freeze()  # as the server does
        Sweeper().look()
        batches = [loop.turn_ms(BATCH) + loop.turn_ms(0) for _ in range(BATCHES)]
        found = {"CPU of a submission in a full turn, ms": float(np.median(batches[1:])) / BATCH}
        for submissions in (5, 50):
            took = [loop.turn_ms(submissions) for _ in range(TURNS)]
            for part in (50, 99):
                found[f"CPU of a turn with {submissions} submissions, p{part}, ms"] = float(
                    np.percentile(took, part)
                )
        loop.ledger.close()
    return found


if __name__ == "__main__":
    print(json.dumps(measured()))
