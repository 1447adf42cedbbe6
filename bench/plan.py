"""How fast a plan is: `python bench/plan.py [--json FILE]`. Counts are asserted, seconds are recorded.

Seconds are process CPU time, the least of several goes: exact distributions, 100,000 draws, and the whole
answer of `plan window` with its page (tornado included).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tenure.planner.run_model import COMPOUNDING, FIRST_ORDER, Loss, Rate, RunModel, Speed
from tenure.service import plan_pages, plans

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "plans" / "window.yaml"
DRAWS = 100_000
GOES = 7
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
    "rate with a Gamma posterior": 256,
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


def main() -> int:
    asked = argparse.ArgumentParser(description="How fast a plan is.")
    asked.add_argument("--json", type=Path)
    options = asked.parse_args()
    counts = counted()
    if counts != TERMS:
        sys.stderr.write(f"terms have changed: {counts}, expected {TERMS}\n")
        return 1
    told = measured()
    for name, row in told.items():
        sys.stdout.write(f"{name}: " + ", ".join(f"{key} {value:.2f}" for key, value in row.items()) + "\n")
    if options.json is not None:
        options.json.write_text(json.dumps({"terms": counts, "ms": told}, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
