"""Start times by two programs of other people, on the same logs: `peer_starts.json`, and how it is made.

    python -m venv peers && peers/bin/pip install accasim==1.1.3 sortedcontainers
    peers/bin/pip install --no-deps pybatsim==3.2.1 procset docopt pyzmq
    TENURE_TRACES=… peers/bin/python tests/peer_starts.py      # writes tests/peer_starts.json

First come, first served is played by AccaSim (MIT licence; its EASY reserves nothing, so it is left out).
EASY is the scheduler that pybatsim (LGPL) took from pyss, `EasyBackfillNotopo`, asked once an instant.
Neither is installed for the tests: they compare with the digests in the file.
"""

from __future__ import annotations

import collections
import collections.abc
import contextlib
import gzip
import hashlib
import io
import json
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from naive_queues import Ask

ROOT = Path(__file__).resolve().parent.parent
TRACES = Path(os.environ.get("TENURE_TRACES", ROOT.parent / "shared" / "data" / "traces"))
FILE = Path(__file__).with_suffix(".json")
DRAWN = {"drawn-64": (64, 800, 11), "drawn-7": (7, 600, 12)}  #: processors, jobs, seed
#: name: (archive log, processors, first job taken, jobs)
CUTS = {
    "kth": ("KTH-SP2-1996-2.1-cln", 100, 0, 3000),
    "kth-late": ("KTH-SP2-1996-2.1-cln", 100, 15_000, 3000),
    "nasa": ("NASA-iPSC-1993-3.1-cln", 128, 5000, 3000),
}


def drawn(name: str) -> list[Ask]:
    """Some work at about nine tenths of the machine; many ends and arrivals fall on one instant."""
    processors, count, seed = DRAWN[name]
    chance = random.Random(seed).random  # its sequence is promised to stay the same
    asks, now_s = [], 0
    for _ in range(count):
        gpus = min(processors, 1 + int(processors ** chance()))
        runtime_s = 30 * (1 + int(40 * chance() ** 2))
        limit_s = runtime_s if chance() < 0.4 else 60 * (1 + int(runtime_s / 60 * (1 + 3 * chance())))
        asks.append(Ask(now_s, gpus, runtime_s, limit_s))
        now_s += 30 * int(2 * 400 * gpus / processors / 0.9 / 30 * chance())
    return asks


def cut(name: str) -> list[Ask]:
    """Consecutive jobs of an archive log. Who asked for no time gets twice the run time, in whole minutes."""
    log, _, first, count = CUTS[name]
    with gzip.open(TRACES / "swf" / f"{log}.swf.gz", "rt", encoding="latin-1") as file:
        rows = [line.split() for line in file if not line.startswith(";")][first : first + count]
    asks = []
    for row in rows:
        runtime_s = max(1, int(float(row[3])))
        limit_s = int(float(row[8]))
        limit_s = limit_s if limit_s > 0 else -(-2 * runtime_s // 60) * 60
        asks.append(Ask(int(row[1]) - int(rows[0][1]), int(row[4]), min(runtime_s, limit_s), limit_s))
    return asks


def work(name: str) -> tuple[int, list[Ask]]:
    """(processors, jobs) of a log by name."""
    return (DRAWN[name][0], drawn(name)) if name in DRAWN else (CUTS[name][1], cut(name))


def digest(starts: Sequence[int]) -> dict[str, Any]:
    text = " ".join(str(start) for start in starts)
    return {"jobs": len(starts), "last_s": max(starts), "sha256": hashlib.sha256(text.encode()).hexdigest()}


# --- the peers ----------------------------------------------------------------------------------------


def accasim_first_come(asks: Sequence[Ask], processors: int) -> list[int]:
    for name in ("Mapping", "Iterable", "Sequence"):  # where Python 3.9 and older had them
        setattr(collections, name, getattr(collections.abc, name))
    from accasim.base.allocator_class import FirstFit
    from accasim.base.scheduler_class import FirstInFirstOut
    from accasim.base.simulator_class import Simulator

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = []
        for row, ask in enumerate(asks, 1):
            told = (row, ask.submit_s + 1, -1, ask.held_s, ask.gpus, -1, -1, ask.gpus, ask.limit_s, -1)
            lines.append(" ".join(str(number) for number in (*told, 1, 1, 1, 1, 1, 1, -1, -1)))
        (folder / "log.swf").write_text("\n".join(lines) + "\n", encoding="utf-8")
        system = {
            "groups": {"one": {"core": processors}},
            "resources": {"one": 1},
            "equivalence": {"processor": {"core": 1}},
            "start_time": 0,
        }
        (folder / "system.json").write_text(json.dumps(system), encoding="utf-8")
        simulator = Simulator(
            str(folder / "log.swf"),
            str(folder / "system.json"),
            FirstInFirstOut(FirstFit()),
            RESULTS_FOLDER_PATH=str(folder),
            scheduling_output=True,
            statistics_output=False,
        )
        starts: dict[int, int] = {}
        dispatch = simulator.mapper.dispatch_event

        def noted(job: Any, at_s: int, *rest: Any) -> Any:
            done = dispatch(job, at_s, *rest)
            if done[2] == 0:
                starts[int(job.id)] = job.start_time - 1
            return done

        simulator.mapper.dispatch_event = noted
        simulator.start_simulation()
    return [starts[row] for row in range(1, len(asks) + 1)]


def pybatsim_easy(asks: Sequence[Ask], processors: int) -> list[int]:
    from schedulers.unMaintained.easyBackfillNotopo import EasyBackfillNotopo

    class OnceAnInstant(EasyBackfillNotopo):  # type: ignore[misc]
        """Told of all that happened at an instant, then asked once."""

        def _schedule_jobs(self, current_time: int) -> None:
            self.asked = True

        def decide(self, current_time: int) -> None:
            if self.asked:
                super()._schedule_jobs(current_time)
            self.asked = False

    jobs = [
        SimpleNamespace(id=row, requested_resources=ask.gpus, requested_time=ask.limit_s, start_time=-1)
        for row, ask in enumerate(asks)
    ]
    clock, ends = [0], list[tuple[int, int]]()

    def execute(started: Sequence[Any]) -> None:
        ends.extend((clock[0] + asks[job.id].held_s, job.id) for job in started)

    scheduler = OnceAnInstant({})
    scheduler.bs = SimpleNamespace(nb_resources=processors, time=lambda: clock[0], execute_jobs=execute)
    scheduler.asked = False
    scheduler.onAfterBatsimInit()
    come = 0
    while come < len(asks) or ends:
        clock[0] = min([end for end, _ in ends] + ([asks[come].submit_s] if come < len(asks) else []))
        for end in sorted(e for e in ends if e[0] == clock[0]):
            ends.remove(end)
            jobs[end[1]].finish_time = clock[0]
            scheduler.onJobCompletion(jobs[end[1]])
        while come < len(asks) and asks[come].submit_s == clock[0]:
            scheduler.onJobSubmission(jobs[come])
            come += 1
        scheduler.decide(clock[0])
    return [job.start_time for job in jobs]


PEERS = {"fifo": accasim_first_come, "fifo-backfill": pybatsim_easy}


def main() -> None:
    told: dict[str, Any] = {}
    for name in [*DRAWN, *CUTS]:
        processors, asks = work(name)
        for policy, peer in PEERS.items():
            with contextlib.redirect_stdout(io.StringIO()):
                starts = peer(asks, processors)
            told.setdefault(name, {})[policy] = digest(starts)
            print(name, policy, told[name][policy], file=sys.stderr)
    FILE.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
