"""How fast a plan is: `python bench/plan.py [--json FILE]`. Counts are asserted, seconds are recorded.

Seconds are process CPU time, the least of several goes: exact distributions, 100,000 draws, and the whole
answer of `plan window` with its page (tornado included). A fleet of 100,000 GPUs is played failure by
failure for a year, 1,000 draws, once, on two processes: wall seconds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tenure.planner.play_fleet import Part, PlayedFleet, PlayedJob, draws
from tenure.planner.play_nodes import PlayedNodes
from tenure.planner.play_nodes import draws as draws_of_nodes
from tenure.planner.run_model import COMPOUNDING, FIRST_ORDER, Loss, Rate, RunModel, Speed
from tenure.service import plan_pages, plans

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "plans" / "window.yaml"
DRAWS = 100_000
GOES = 7
FLEET_DRAWS = 1000
PUBLISHED = RunModel(1.2e12, 32, 8, Speed(3000, 150), Rate(0.02), Loss(1.5), overhead=0.03, model=FIRST_ORDER)
SAVES = Loss(restart=0.5, every=2.0, stall=0.06)
RUNS = {
    "first-order": PUBLISHED,
    "compounding": replace(PUBLISHED, model=COMPOUNDING),
    "saves and restarts": replace(PUBLISHED, model=COMPOUNDING, overhead=0.0, loss=SAVES),
    "rate with a Gamma posterior": replace(PUBLISHED, model=COMPOUNDING, rate=Rate(0.02, 2, 100)),
}
#: Terms of the cosine series: the work an exact answer takes. It must not grow unseen.
TERMS = {
    "first-order": 64,
    "compounding": 64,
    "saves and restarts": 64,
    "rate with a Gamma posterior": 131,
}


def seconds(work: Callable[[], Any]) -> float:
    """CPU seconds of the quickest of several goes."""
    took = []
    for _ in range(GOES):
        began = time.process_time()
        work()
        took.append(time.process_time() - began)
    return min(took)


def counted() -> dict[str, int]:
    """Terms each kind of run needs."""
    return {name: len(run.length().weights) for name, run in RUNS.items()}  # type: ignore[attr-defined]


def measured() -> dict[str, dict[str, float]]:
    """Milliseconds of each kind of run, exact and drawn, and of the whole example."""
    told = {}
    for name, run in RUNS.items():
        drawn = seconds(lambda run=run: run.draw(np.random.default_rng(1), DRAWS))  # type: ignore[misc]
        told[name] = {"exact_ms": 1e3 * seconds(run.length), "draws_ms": 1e3 * drawn}

    def whole() -> None:
        with tempfile.TemporaryDirectory() as folder:
            plan_pages.write_window(plans.window(EXAMPLE), Path(folder) / "page.html")

    told["the example, answer and page"] = {"whole_ms": 1e3 * seconds(whole)}
    return told


def _draws_of_fleet(seed: int) -> tuple[int, float]:
    """Half of the thousand draws: (stops, so that the work is really done; CPU seconds)."""
    began = time.process_time()
    per_tray_d = 8000 / 6.5 / 4  # 6.5 failures per 1,000 node-days of 8 GPUs, in days of a 4-GPU tray
    fleet = PlayedFleet(1596, 1563, 18, 16, Part(per_tray_d, 1.0), Part(60.0, 0.5))
    job = PlayedJob(5 / 1440, 4 / 1440, 10 / 86_400)
    stops = sum(draw.stops for draw in draws(seed, fleet, job, 365.0, FLEET_DRAWS // 2))
    return stops, time.process_time() - began


def fleet_played() -> dict[str, float]:
    """A fleet of 100,000 GPUs for a year, a thousand draws, on two processes."""
    began = time.perf_counter()
    with ProcessPoolExecutor(2) as pool:
        halves = list(pool.map(_draws_of_fleet, (1, 2)))
    wall_s = time.perf_counter() - began
    stops, cpu_s = (float(sum(values)) for values in zip(*halves))
    return {"wall_s": wall_s, "cpu_s": cpu_s, "stops": stops}


def beside_airesim(folder: Path, python: str) -> dict[str, float]:
    """AIReSim's 30 days of 4,096 servers and the same played here, in one run: CPU seconds, and what works.

    `folder`: a checkout of github.com/karthikp-ubc/airesim; `python`: one that has SimPy.
    """
    asked = [python, "-c", AIRESIM, str(folder)]
    theirs = json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)
    nodes = PlayedNodes(4360, 4096, Part(100 * 1440.0, 2424.0), safe=True, spares_fail=False, ready=True)
    began = time.process_time()
    works = [draw.productive for draw in draws_of_nodes(1, nodes, PlayedJob(20.0, 0.0), 30 * 1440.0, 100)]
    ours_s = (time.process_time() - began) / 100
    return {
        "theirs_s": theirs["cpu_s"],
        "ours_s": ours_s,
        "times": theirs["cpu_s"] / ours_s,
        "theirs_works": theirs["works"],
        "ours_works": float(np.mean(works)),
    }


AIRESIM = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
from airesim.params import Params
from airesim.simulator import Simulator
took, works = [], []
for seed in range(1, 6):
    params = Params(job_length=30 * 1440 * 0.6374, systematic_failure_fraction=0.0)
    began = time.process_time()
    found = Simulator(params, seed=seed).run()
    took.append(time.process_time() - began)
    works.append(params.job_length / found.total_training_time)
print(json.dumps({"cpu_s": sum(took) / len(took), "works": sum(works) / len(works)}))
"""


def main() -> int:
    asked = argparse.ArgumentParser(description="How fast a plan is.")
    asked.add_argument("--json", type=Path)
    asked.add_argument("--airesim", nargs=2, metavar=("FOLDER", "PYTHON"), help="Measure beside AIReSim.")
    options = asked.parse_args()
    counts = counted()
    if counts != TERMS:
        sys.stderr.write(f"terms have changed: {counts}, expected {TERMS}\n")
        return 1
    told = measured()
    told[f"a fleet of 100,000 GPUs for a year, {FLEET_DRAWS} draws"] = fleet_played()
    if options.airesim is not None:
        told["beside AIReSim, 30 days of 4,096 servers"] = beside_airesim(
            Path(options.airesim[0]), options.airesim[1]
        )
    for name, row in told.items():
        sys.stdout.write(f"{name}: " + ", ".join(f"{key} {value:.4g}" for key, value in row.items()) + "\n")
    if options.json is not None:
        options.json.write_text(json.dumps({"terms": counts, "ms": told}, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
