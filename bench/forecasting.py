"""What forecasting a run again is worth: the same drawn runs bought by several policies.

    python bench/forecasting.py [--runs 1000] [--page]

Each run has a speed, a failure rate and a state of the market of its own, drawn from what the plan believes;
days differ around the run's speed, and failures strike whenever they do. At 50 and 75 % of the window the
planner sees hours, tokens and failures, and extends or not. With --page writes
docs/why/what-forecasting-is-worth.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tenure.planner.forecast import Extension, Posterior, Seen, believe, choices, choose, remaining
from tenure.planner.run_model import HOURS, Loss, Rate, RunModel, Speed
from tenure.planner.terms import Overrun, State, Terms
from tenure.planner.window import Offer, best, judge

PAGE = Path(__file__).resolve().parent.parent / "docs" / "why" / "what-forecasting-is-worth.md"
DAY, ON_DEMAND_DAY = 53_760.0, 76_800.0
DAILY_SD = 30.0
OPEN, TIGHT = Overrun(116_800.0), Overrun(400_000.0)
P_OPEN = 0.7
ASKED_AT = (0.5, 0.75)
OFFERED = tuple(Extension(float(days), days * DAY) for days in range(1, 8))
WINDOWS = tuple(float(days) for days in range(17, 26))
MOST_HOURS = 60 * 24
BELIEVED = RunModel(1.2e12, 32, 8, Speed(3000, 150), Rate(0.02, 2, 100), Loss(1.5), overhead=0.03)

Array = NDArray[np.floating]


@dataclass(frozen=True)
class Drawn:
    """Runs as they will be: tokens kept and failures by hour, and when each is done."""

    speed: Array
    rate: Array  #: per node-day
    tight: NDArray[np.bool_]
    tokens: Array  #: a row a run, a column an hour: kept by its end
    failures: NDArray[np.int64]
    days: Array  #: length of each

    def __len__(self) -> int:
        return len(self.days)


def drawn(n: int, seed: int) -> Drawn:
    """`n` runs of what is believed; failures strike lost time too."""
    rng = np.random.default_rng([seed, 31])
    run = BELIEVED
    speed, rate = run.speed.draw(rng, n), run.rate.draw(rng, n)
    daily = speed[:, None] + rng.normal(0.0, DAILY_SD, (n, MOST_HOURS // 24))
    failures = rng.poisson((rate * run.nodes / HOURS)[:, None], (n, MOST_HOURS))
    computed = 1.0 - run.hours_a_failure * failures
    per_hour = run.nodes * run.gpus_per_node * 3600.0 / (1.0 + run.overhead)
    tokens = np.cumsum(np.repeat(daily, 24, axis=1) * computed * per_hour, axis=1)
    reached = np.maximum.accumulate(tokens, axis=1)
    hour = (reached < run.tokens).sum(axis=1)
    hour = np.minimum(hour, MOST_HOURS - 1)
    rows = np.arange(n)
    before = np.where(hour > 0, reached[rows, np.maximum(hour - 1, 0)], 0.0)
    gained = np.maximum(reached[rows, hour] - before, 1e-9)
    days = (hour + np.clip((run.tokens - before) / gained, 0, 1)) / 24
    return Drawn(speed, rate, rng.random(n) > P_OPEN, tokens, failures.cumsum(axis=1), days)


Belief = Callable[[Drawn, int, Seen], Posterior]


def learned(runs: Drawn, row: int, seen: Seen) -> Posterior:
    """What the planner believes after what it saw."""
    return believe(BELIEVED, seen, daily_sd=DAILY_SD)


def known(runs: Drawn, row: int, seen: Seen) -> Posterior:
    """The run's true speed and rate: all that could be known of the distribution of the rest."""
    done = float(seen.tokens or 0.0)
    return Posterior(
        Speed(float(runs.speed[row]), DAILY_SD / 3), Rate(float(runs.rate[row])), done, done / BELIEVED.tokens
    )


def costs(runs: Drawn, window: float, belief: Belief | None) -> Array:
    """What each run costs with a window of so many days, extended by what `belief` says (None: never)."""
    return np.array([_cost(runs, row, window, belief) for row in range(len(runs))])


def _cost(runs: Drawn, row: int, window: float, belief: Belief | None) -> float:
    after = TIGHT if runs.tight[row] else OPEN
    days, paid = float(runs.days[row]), window * DAY
    bought = window
    if belief is not None and not runs.tight[row]:  # a tight market offers no extension
        for part in ASKED_AT:
            hour = round(part * window * 24)
            if hour / 24 >= days:
                break
            tokens, failures = float(runs.tokens[row, hour - 1]), int(runs.failures[row, hour - 1])
            now = belief(runs, row, Seen(float(hour), failures, tokens))
            judged = choices(remaining(BELIEVED, now), bought - hour / 24, after, OFFERED)
            chosen = choose(judged).extension
            bought, paid = bought + chosen.days, paid + chosen.fee
    late = max(0.0, days - bought)
    return paid + after.move * (late > 0) + after.day * late


class Policy(NamedTuple):
    name: str
    window: float | None
    costs: Array


def planned_window() -> float:
    """What `plan window` buys: joint states of the market, no extension counted on."""
    terms = Terms(DAY, (State(P_OPEN, OPEN), State(1 - P_OPEN, TIGHT)))
    return best(judge(BELIEVED.length(), terms, [Offer(days) for days in WINDOWS])).days


def compared(n: int, seed: int = 7) -> list[Policy]:
    """Every policy on the same runs; the planner's first, then the best with perfect information."""
    runs = drawn(n, seed)
    window = planned_window()
    length = BELIEVED.length()
    median = float(np.round(length.quantile(np.array(0.5))))
    perfect = min(
        (Policy("", days, costs(runs, days, known)) for days in WINDOWS if abs(days - window) <= 2),
        key=lambda one: float(one.costs.mean()),
    )
    return [
        Policy("this planner, forecasting again at 50 and 75 %", window, costs(runs, window, learned)),
        perfect._replace(name="best with perfect information about the distribution"),
        Policy("this planner's window, never extended", window, costs(runs, window, None)),
        Policy("reserve the median", median, costs(runs, median, None)),
        Policy("all on demand", None, runs.days * ON_DEMAND_DAY),
    ]


def table(policies: list[Policy]) -> str:
    """Markdown: mean, its error, tail, and the difference from the best with perfect information."""
    base = policies[1].costs
    lines = [
        "| policy | window | mean cost | ± | p95 | over perfect information |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for one in policies:
        error = one.costs.std() / np.sqrt(len(one.costs))
        over = one.costs.mean() / base.mean() - 1
        window = "–" if one.window is None else f"{one.window:g} d"
        lines.append(
            f"| {one.name} | {window} | {one.costs.mean():,.0f} | {error:,.0f} | "
            f"{np.quantile(one.costs, 0.95):,.0f} | {100 * over:+.1f} % |"
        )
    return "\n".join(lines)


def page(policies: list[Policy]) -> str:
    """docs/why/what-forecasting-is-worth.md."""
    n = len(policies[0].costs)
    return f"""# What re-forecasting is worth

<!-- Written by bench/forecasting.py --page. Do not edit by hand. -->

{n:,} runs are drawn from what the published plan believes: a speed around 3,000 tokens per second per
GPU (sd 150), a failure rate of which 2 events in 100 node-days are known, days that differ by 30 around
the run's own speed, and failures that also strike lost time. With chance {P_OPEN:.0%} the market is
open: an extension is on offer at {DAY:,.0f} a day, and a day past the window costs {OPEN.day:,.0f}.
Else it is tight: nothing is on offer, and that day costs {TIGHT.day:,.0f}. All policies get the same
runs.

{table(policies)}

*Perfect information* buys the window that turned out best for these very runs, and when asked knows
each run's true speed and failure rate; it does not know the days and failures still to come. *Reserve
the median* buys the whole days nearest to the median length and never extends. *All on demand* leaves
out what the gang costs until it is assembled. The planner buys without counting on an extension;
forecasting again is a second chance, not a plan.

```console
$ python bench/forecasting.py --runs 1000 --page
```
"""


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    asked.add_argument("--runs", type=int, default=1000)
    asked.add_argument("--seed", type=int, default=7)
    asked.add_argument("--page", action="store_true")
    options = asked.parse_args()
    policies = compared(options.runs, options.seed)
    sys.stdout.write(table(policies) + "\n")
    if options.page:
        PAGE.write_text(page(policies), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
