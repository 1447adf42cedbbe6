"""What each figure that stays unreached would cost, one knob after another; what missing hours are made of.

Plays the built-in shapes over 37 days with every setting of `SWEEPS`, seeds 1–3, draws
docs/images/tradeoffs.svg and writes the figures into docs/why/what-limits-the-hours.md.

    python bench/tradeoffs.py [--workers 2]
"""

from __future__ import annotations

import argparse
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from judged import FLAT, Play, middle
from page_of_reached import ROWS
from reached import played

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "why" / "what-limits-the-hours.md"
PICTURE = HERE.parent / "docs" / "images" / "tradeoffs.svg"
OPENS, CLOSES = "<!-- written by bench/tradeoffs.py -->", "<!-- end of what it writes -->"
SEEDS = (1, 2, 3)
COLOURS = dict(zip(FLAT, ("#1f6f8b", "#e07a3f", "#b8405e", "#6a8d3b", "#6b5b95")))


class Sweep(NamedTuple):
    """One knob, its settings (None: the default), and the two measures that pull against each other."""

    knob: str
    settings: tuple[str | None, ...]
    labels: tuple[str, ...]
    x: str
    y: str
    title: str


SWEEPS = (
    Sweep("round.part", ("30%", None, "70%", "100%"), ("30 %", "50 %", "70 %", "100 %"), "restarts", "strict",
          "round.part: how far one job may exceed a target"),
    Sweep("round.part", ("30%", None, "70%", "100%"), ("30 %", "50 %", "70 %", "100 %"), "lost", "strict",
          "the same, against work lost"),
    Sweep("max_protected", ("1h", "2h", "4h", None), ("1 h", "2 h", "4 h", "8 h"), "lost", "strict",
          "max_protected: how long a start is safe"),
    Sweep("repay.over", ("1d", None, "4d", "8d"), ("1 d", "2 d", "4 d", "8 d"), "worst", "strict",
          "repay.over: how soon a debt is repaid"),
    Sweep("back_off", ("5m", None, "2h", "6h"), ("5 min", "30 min", "2 h", "6 h"), "restarts_unbudgeted",
          "occupancy", "back_off: how long stopped filler work rests"),
    Sweep("patience.wait", ("0s", None, "2h"), ("none", "30 min", "2 h"), "lost", "strict",
          "patience.wait: for a cheaper moment"),
)  # fmt: skip
WORDS = {
    "strict": "strict hourly, %",
    "worst": "worst account, %",
    "lost": "lost, %",
    "occupancy": "occupancy, %",
    "restarts": "restarts of one budgeted job",
    "restarts_unbudgeted": "restarts of one unbudgeted job",
}
COLUMNS = ("strict", "delivered", "worst", "occupancy", "lost", "restarts", "restarts_unbudgeted")
COLUMNS += ("debug_p99",)
#: Settings told of in the table only: what would mend one figure of one shape.
SINGLE = (("philly", "grace.budgeted", "60s"), ("philly", "pool.nodes", "3"), ("small", "order", "window"))


def play_of(shape: str, knob: str, setting: str | None) -> Play:
    """The shape with one knob changed."""
    return Play(shape, changes=() if setting is None else ((f"policy.{knob}", setting),))


def goals() -> dict[tuple[str, str], float]:
    """(measure, shape) → what to reach."""
    return {
        (row.column, shape): goal for row in ROWS for shape, goal in row.goals.items() if goal is not None
    }


# --- what the missing hours are made of -------------------------------------------------------------


def missing(shape: str, seed: int) -> dict[str, float]:
    """Per cent of owed missing hour by hour, by cause; and of the gaps the part that no job would fit.

    A gap is what an account holds less than it is owed at a moment; each minute of the play is looked at.
    """
    import worlds
    from tenure.audit.examine import examine
    from tenure.audit.stays import WAITS
    from tenure.simulator.scenario import build_world
    from tenure.simulator.simulate import play

    scenario = worlds.scenario_of(shape)
    rule, knobs = scenario.policy("budget")
    world, names = build_world(scenario, seed=seed)
    run = play(
        world, names, knobs, rule=rule, seed=seed, warmup_s=scenario.warmup_s, until_s=scenario.until_s
    )
    seen = examine(run.story)
    record, owed_gpu_h = seen.record, seen.hours.owed_ugpu_s[seen.record.leaves].sum() / 3.6e9
    found = {cause: 100 * part / owed_gpu_h for cause, part in seen.shortfall["causes"].items()}
    owner, jobs, phases = run.story.jobs["account"], record.attempts, record.phases
    minutes = np.arange(record.span.start_s, record.span.end_s, 60)
    sums = dict.fromkeys(("whole", "rounds", "none"), 0.0)
    for row in record.leaves:
        mine = record.budgeted[jobs.job] & (owner[jobs.job] == row)
        held = _level(minutes, jobs.start_s[mine], jobs.stop_s[mine], record.gpus[jobs.job[mine]])
        waits = (phases.phase == WAITS) & record.budgeted[phases.job] & (owner[phases.job] == row)
        asked = record.gpus[phases.job]
        waiting = _level(minutes, phases.from_s[waits], phases.to_s[waits], asked[waits])
        entitled = seen.hours.entitled_ugpu_s[0, row].mean() / 3.6e9
        gap = np.maximum(np.minimum(held + waiting, entitled) - held, 0)
        least = np.full(len(minutes), np.inf)
        for gpus in np.unique(asked[waits]):
            some = waits & (asked == gpus)
            there = _level(minutes, phases.from_s[some], phases.to_s[some], 1) > 0
            least = np.where(there, np.minimum(least, gpus), least)
        sums["whole"] += gap[least <= gap].sum()
        sums["rounds"] += gap[(least > gap) & (least <= 2 * gap)].sum()
        sums["none"] += gap[least > 2 * gap].sum()
    total = sum(sums.values())
    return found | {name: 100 * part / total for name, part in sums.items()}


def _level(minutes: Any, from_s: Any, to_s: Any, weight: Any) -> Any:
    """How much there is at each minute of what begins and ends."""
    steps = np.zeros(len(minutes) + 1)
    np.add.at(steps, np.searchsorted(minutes, from_s), weight)
    np.add.at(steps, np.searchsorted(minutes, to_s), -np.asarray(weight))
    return np.cumsum(steps)[:-1]


# --- picture and page -------------------------------------------------------------------------------


def picture(found: dict[Play, list[dict[str, Any]]]) -> None:
    """A panel a sweep: each line one shape, each point one setting, both axes counted from what to reach."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "tenure"
    wanted = goals()
    figure, panels = plt.subplots(2, 3, figsize=(12.5, 7.6), layout="constrained")
    for panel, sweep in zip(panels.flat, SWEEPS):
        for shape in FLAT:
            gx, gy = wanted.get((sweep.x, shape)), wanted.get((sweep.y, shape))
            if gx is None or gy is None:
                continue
            points = [found[play_of(shape, sweep.knob, one)] for one in sweep.settings]
            xs = [middle(rows, sweep.x)[0] - gx for rows in points]  # type: ignore[index]
            ys = [middle(rows, sweep.y)[0] - gy for rows in points]  # type: ignore[index]
            panel.plot(xs, ys, "-", color=COLOURS[shape], alpha=0.5, label=shape)
            for place, (x, y) in enumerate(zip(xs, ys)):
                default = sweep.settings[place] is None
                panel.plot([x], [y], "o" if default else ".", color=COLOURS[shape], markersize=8)
            for place in (0, len(xs) - 1):
                panel.annotate(sweep.labels[place], (xs[place], ys[place]), (4, 4), fontsize=7,
                               color=COLOURS[shape], textcoords="offset points")  # fmt: skip
        panel.axhline(0, color="#888", linewidth=0.8)
        panel.axvline(0, color="#888", linewidth=0.8)
        panel.set_title(sweep.title, fontsize=9)
        panel.set_xlabel(f"{WORDS[sweep.x]}: beyond what to reach", fontsize=8)
        panel.set_ylabel(f"{WORDS[sweep.y]}: beyond what to reach", fontsize=8)
        panel.tick_params(labelsize=7)
        panel.grid(alpha=0.2)
    panels.flat[0].legend(fontsize=8, frameon=False)
    figure.savefig(PICTURE, metadata={"Date": None})
    plt.close(figure)


def tables(found: dict[Play, list[dict[str, Any]]], causes: dict[str, list[dict[str, float]]]) -> str:
    """The figures as Markdown."""
    names = (
        "shape",
        "protection_of_others",
        "held_for_gang",
        "catch_up_of_others",
        "whole",
        "rounds",
        "none",
    )
    lines = ["| | missing % of owed | shape | protection of others | held for a gang | catch-up of others"
             " | a waiting job fits the gap | one rounds into it | none does |",
             "|" + "---|" * 9]  # fmt: skip
    for shape, rows in causes.items():
        parts = {name: statistics.mean(row[name] for row in rows) for name in names}
        whole = sum(parts[name] for name in names[:4])
        cells = [f"{whole:.2f}", *[f"{parts[name]:.2f}" for name in names[:4]]]
        cells += [f"{parts[name]:.0f} %" for name in names[4:]]
        lines.append(f"| {shape} | " + " | ".join(cells) + " |")
    lines += ["", "| knob | setting | | " + " | ".join(name.replace("_", " ") for name in COLUMNS) + " |",
              "|" + "---|" * (3 + len(COLUMNS))]  # fmt: skip
    settings = dict.fromkeys(
        (sweep.knob, setting, label + (" (default)" if setting is None else ""), shape)
        for sweep in SWEEPS
        for setting, label in zip(sweep.settings, sweep.labels)
        for shape in FLAT
    )
    settings |= dict.fromkeys((knob, setting, setting, shape) for shape, knob, setting in SINGLE)
    for knob, setting, label, shape in settings:
        rows = found[play_of(shape, knob, setting)]
        cells = [_written(middle(rows, name)) for name in COLUMNS]
        lines.append(f"| `{knob}` | {label} | {shape} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _written(told: tuple[float, float, float] | None) -> str:
    """A median as the table has it."""
    if told is None:
        return "–"
    return f"{told[0]:,.0f}" if told[0] >= 1000 or told[0] % 1 == 0 else f"{told[0]:.2f}"


def main() -> int:
    """Play, draw, write."""
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("--workers", type=int, default=2)
    asked = reader.parse_args()
    wanted = {
        play_of(shape, one.knob, setting) for one in SWEEPS for setting in one.settings for shape in FLAT
    }
    wanted |= {play_of(*one) for one in SINGLE}
    found = played(sorted(wanted), asked.workers, SEEDS)
    pairs = [(shape, seed) for shape in FLAT for seed in SEEDS[:2]]
    with ProcessPoolExecutor(asked.workers) as pool:
        parts = list(pool.map(missing, *zip(*pairs)))
    causes = {shape: [part for part, (one, _) in zip(parts, pairs) if one == shape] for shape in FLAT}
    picture(found)
    before, _, rest = PAGE.read_text().partition(OPENS)
    after = rest.partition(CLOSES)[2]
    PAGE.write_text(f"{before}{OPENS}\n\n{tables(found, causes)}\n\n{CLOSES}{after}")
    print(f"Written: {PAGE}, {PICTURE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
