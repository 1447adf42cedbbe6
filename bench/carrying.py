"""What does carrying runs by the controller cost, against knowing better, and against what people do?

    python bench/carrying.py --runs 1000 --page

Every run is lived by the real controller in virtual time: the published run in a 20-day window, its speed and
failures drawn from what the plan believes; a market that is open or tight. Its page: docs/why/.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from run_world import DAY, HOUR, START, World, run_of  # noqa: E402
from tenure.planner.of_file import run_of as model_of  # noqa: E402
from tenure.planner.run_model import Speed  # noqa: E402
from tenure.runs import training  # noqa: E402
from tenure.runs.drawn import Draws  # noqa: E402
from tenure.settings.window_file import window_file_of  # noqa: E402

B, OPEN_DAY, TIGHT_DAY, ON_DEMAND_DAY = 53_760.0, 116_800.0, 400_000.0, 76_800.0
P_OPEN = 0.7
WINDOW_DAYS = 20.0
WINDOWS = np.arange(17.0, 25.0)
PAGE = ROOT / "docs" / "why" / "what-the-controller-is-worth.md"
PLAN: dict[str, Any] = {
    "tokens": 1.2e12,
    "nodes": 32,
    "throughput": {"mean": 3000, "sd": 150},
    "failures": {"seen": {"events": 2, "node_days": 100}, "prior": {"shape": 1e-6, "node_days": 0}},
    "recovery": {"hours_lost": 1.5},
    "overhead": "3%",
    "prices": {"reserved_per_day": B, "on_demand_per_day": ON_DEMAND_DAY},
    "overrun": {"on_demand": True, "stall_per_day": TIGHT_DAY, "p_fallback": P_OPEN},
    "extension": {
        "states": [
            {"p": 0.7, "p_extension": 1, "p_fallback": 1, "on_demand_factor": OPEN_DAY / ON_DEMAND_DAY},
            {"p": 0.3, "p_extension": 0, "p_fallback": 0},
        ]
    },
    "windows": {"days": "18-23"},
}


def decisive(window: Any, began: float, now: float, drain: float) -> str:
    """Forecasts of the window's first half change nothing: they are left out here, to save time."""
    first_half = now < window.start + 0.5 * (window.end - window.start)
    return "" if first_half else every_forecast(window, began, now, drain)


every_forecast = training.due_forecast
training.due_forecast = decisive


class Lived(NamedTuple):
    """One run. Days from the window's start; `length`: of the run, past the window where it was overrun."""

    seed: int
    is_open: bool
    length: float
    usable: float  #: of the 20 days
    extended: float
    over: float


def lived(seed: int) -> Lived:
    """The run of a seed, to its end or to the end of its window."""
    rng = np.random.default_rng([seed, 21])
    is_open = bool(rng.random() < P_OPEN)
    speed = float(Speed(3000, 150).draw(rng, 1)[0])
    rate = float(rng.gamma(2.0, 1 / 100))
    draws = Draws(
        seed,
        speed,
        daily_sd=30.0,
        failures_per_node_day=rate,
        save_s=216.0,
        save_every_s=2 * HOUR,
        restart_s=0.5 * HOUR,
    )
    shm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shm if shm.is_dir() else None) as name:
        alarms = {"stall": "3d", "silent": "6d", "late_start": "2h"}
        more = {"poll": "12h", "daily_sd": 30, "alarms": alarms, "deadlines": {"save": 300, "margin": 300}}
        world = World(Path(name), None, run_of(Path(name), PLAN, **more), draws)
        window = world.provider.lend(START, START + WINDOW_DAYS * DAY, 32)
        world.provider.extension_day = world.provider.extension_day.from_float(B)
        world.provider.sold = lambda one, now: is_open
        world.controller()
        world.live(START + 60 * DAY, lambda: world.state_is("done", "stalled"))
        now, kept = world.clock.now(), world.vault.newest().tokens
        used = min(now, world.provider.term(window)) - START
        over = 0.0
        if kept < PLAN["tokens"] * 0.999999:
            over = (PLAN["tokens"] - kept) / (kept / used) / DAY
        extended = (window.end - START) / DAY - WINDOW_DAYS
        length = (used / DAY) + over
        return Lived(seed, is_open, length, WINDOW_DAYS - 0.5 / 24 - 0.15 / 24, extended, over)


def table(runs: list[Lived]) -> list[tuple[str, str, np.ndarray]]:
    """(policy, window, cost of each run)."""
    length = np.array([one.length for one in runs])
    is_open = np.array([one.is_open for one in runs])
    day = np.where(is_open, OPEN_DAY, TIGHT_DAY)
    lead = WINDOW_DAYS - runs[0].usable
    over = np.array([one.over for one in runs])
    extended = np.array([one.extended for one in runs])
    controller = B * (WINDOW_DAYS + extended) + day * over

    def foresight(window: float) -> np.ndarray:
        late = length - (window - lead)
        never = B * window + day * np.maximum(0, late)
        best = never
        for more in range(1, 8):
            best = np.minimum(best, B * (window + more) + day * np.maximum(0, late - more))
        return np.where(is_open, best, never)

    def alone(window: float) -> np.ndarray:
        return B * window + day * np.maximum(0, length - (window - lead))

    best = min(WINDOWS, key=lambda window: foresight(window).mean())
    model, _ = model_of(window_file_of(PLAN))
    median = float(round(float(model.length().quantile(np.array(0.5)))))
    return [
        ("the controller", f"{WINDOW_DAYS:g} d", controller),
        ("perfect information, extended as hindsight says", f"{best:g} d", foresight(best)),
        ("the same window, never extended", f"{WINDOW_DAYS:g} d", alone(WINDOW_DAYS)),
        ("reserve the median, never extended", f"{median:g} d", alone(median)),
        ("all on demand", "–", ON_DEMAND_DAY * length),
    ]


def text_of(runs: list[Lived]) -> str:
    """The page's table."""
    rows = table(runs)
    best = rows[1][2].mean()
    lines = ["| policy | window | mean cost | ± | p95 | over perfect information |", "|" + " --- |" * 6]
    for name, window, cost in rows:
        error = cost.std() / np.sqrt(len(cost))
        lines.append(
            f"| {name} | {window} | {cost.mean():,.0f} | {error:,.0f} | {np.quantile(cost, 0.95):,.0f} | "
            f"{cost.mean() / best - 1:+.1%} |"
        )
    return "\n".join(lines)


def page_of(runs: list[Lived]) -> str:
    extended = sum(one.extended > 0 for one in runs)
    over = sum(one.over > 0 for one in runs)
    return f"""# What the controller is worth

<!-- Written by bench/carrying.py --page. Do not edit by hand. -->

{len(runs):,} runs are lived by the real controller in virtual time, from the window's first minute to the
last checkpoint: the published run in a 20-day window, its speed drawn around 3,000 tokens per second per GPU
(sd 150, days differ by 30), its failure rate from 2 events in 100 node-days. With chance {P_OPEN:.0%} the
market is open: extensions are on offer at 53,760 a day and a day past the window costs 116,800; else nothing
is on offer and that day costs 400,000. {extended} runs were extended, {over} overran.

{text_of(runs)}

*Perfect information* buys the window that turned out best for these very runs and, where an extension is on
offer, knows how long each will take: no policy of one window can do better. *Reserve the median* buys the
whole days nearest to the median of what the plan believes. *All on demand* leaves out what the gang costs
until it is assembled. What a run would still have needed past its window is its tokens left at the pace it
had.

```console
$ python bench/carrying.py --runs 1000 --page
```
"""


def main() -> int:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--runs", type=int, default=1000)
    ask.add_argument("--workers", type=int, default=2)
    ask.add_argument("--page", action="store_true")
    ask.add_argument("--keep", type=Path, help="add each run to this file, and go on from what is in it")
    told = ask.parse_args()
    runs: dict[int, Lived] = {}
    if told.keep is not None and told.keep.exists():
        for line in told.keep.read_text().splitlines():
            one = Lived(*json.loads(line))
            runs[one.seed] = one
    with ProcessPoolExecutor(told.workers) as pool:
        asked = [pool.submit(lived, seed) for seed in range(told.runs) if seed not in runs]
        for done in as_completed(asked):
            one = done.result()
            runs[one.seed] = one
            if told.keep is not None:
                with told.keep.open("a") as out:
                    out.write(json.dumps(one) + "\n")
    found = [runs[seed] for seed in sorted(runs)]
    print(text_of(found))
    rows = table(found)
    assert rows[0][2].mean() <= 1.03 * rows[1][2].mean(), "more than 3 % over perfect information"
    assert rows[0][2].mean() < min(rows[3][2].mean(), rows[4][2].mean())
    if told.page:
        PAGE.write_text(page_of(found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
