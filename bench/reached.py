"""What the default policy reaches on the scenarios it is judged by: `make reached`.

Plays each of them with five seeds, and the plain rules beside them, and writes docs/reached.md with the
picture of the small cluster's trade. Nothing in that page is written by hand but its words.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from judged import FLAT, ONLY_DEBUG, SEEDS, TRADE, Play, middle, plays, trade_play
from page_of_reached import page

HERE = Path(__file__).resolve().parent
PAGE, PICTURE = HERE.parent / "docs" / "reached.md", HERE.parent / "docs" / "images" / "small-trade.png"
HOUR_S = 3600


# --- one play ---------------------------------------------------------------------------------------


def figures(one: Play, seed: int) -> dict[str, Any]:
    """The columns of the page, in its units (%, s, h), of one play."""
    import worlds
    from tenure.audit.hours import stretches
    from tenure.audit.measures import measure_record
    from tenure.audit.record import Record
    from tenure.simulator.scenario import build_world
    from tenure.simulator.simulate import play

    scenario = worlds.scenario_of(one.shape, one.tree, dict(one.changes))
    rule, knobs = scenario.policy(one.policy)
    world, names = build_world(scenario, seed=seed)
    run = play(
        world, names, knobs, rule=rule, seed=seed, warmup_s=scenario.warmup_s, until_s=scenario.until_s
    )
    record = Record(run.story)
    told = measure_record(record, stretches(record)).to_dict()
    leaves, programs = told["delivered"], told["delivered"]["programs"]
    waits, gangs, stops = told["first_wait_s"], told["head_wait_s"]["large"], told["preemptions"]
    hours = told["gpu_hours"]
    found = {
        "delivered": percent(leaves["total"]),
        "worst": percent(leaves["worst_uncapped"]),
        "strict": percent(leaves["hourly"]),
        "occupancy": percent(told["occupancy"]),
        "unbudgeted": percent(told["unbudgeted_share"]),
        "debug_p90": waits["debug"]["p90"],
        "debug_p99": waits["debug"]["p99"],
        "budgeted_p90": waits["budgeted"]["p90"] / HOUR_S,
        "lost": percent(hours["lost"] / hours["capacity"]),
        "gangs": gangs["n"],
        "gang": None if gangs["max"] is None else gangs["max"] / HOUR_S,
        "restarts": stops["budgeted"]["max_per_job"],
        "restarts_unbudgeted": stops["unbudgeted"]["max_per_job"],
        "program_delivered": percent(programs["total"]),
        "program_worst": percent(programs["worst_uncapped"]),
    }
    if one == Play("philly"):
        found["only_debug"] = only_debug(record, world, leaves["accounts"])
    return found


def percent(part: float | None) -> float | None:
    return None if part is None else 100 * part


def only_debug(record: Any, world: Any, accounts: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Of the accounts whose budgeted work is all debug: what they were owed, had, and waited."""
    from tenure.audit.waits import groups_of, starts_of

    job, wait_s, _ = starts_of(record)
    gpus, owner = record.gpus[job], record.story.jobs["account"][job]
    debug = groups_of(record)["debug"][job]
    told = {}
    for row, account in enumerate(record.story.accounts):
        mine = (owner == row) & record.budgeted[job]
        if account.path not in ONLY_DEBUG or not mine.any() or not debug[mine].all():
            continue
        work, waited = world.hidden["work_s"][job[mine]] * gpus[mine], wait_s[mine] * gpus[mine]
        told[account.path] = {
            "owed": accounts[account.path]["owed_gpu_h"],
            "delivered": accounts[account.path]["delivered_gpu_h"],
            "entitled": accounts[account.path]["entitled_gpu_h"],
            "waited": int(waited.sum()) / HOUR_S,
            "work": int(work.sum()) / HOUR_S,
            "jobs": int(mine.sum()),
            "mean_work_s": float(world.hidden["work_s"][job[mine]].mean()),
        }
    return told


# --- all of them ------------------------------------------------------------------------------------


def played(
    wanted: list[Play], workers: int, seeds: tuple[int, ...] = SEEDS
) -> dict[Play, list[dict[str, Any]]]:
    """The figures of each, a row a seed."""
    import worlds
    from tenure.core.policy import Policy
    from tenure.simulator.simulate import play

    world, names, _, _ = worlds.large_world(50)
    play(world, names, Policy(), until_s=HOUR_S)  # compile once, not once a process
    found: dict[Play, dict[int, dict[str, Any]]] = {one: {} for one in wanted}
    began, done = time.monotonic(), 0
    with ProcessPoolExecutor(workers) as pool:
        tasks = {pool.submit(figures, one, seed): (one, seed) for one in wanted for seed in seeds}
        for task in as_completed(tasks):
            one, seed = tasks[task]
            found[one][seed] = task.result()
            done += 1
            print(f"\r{done}/{len(tasks)} plays, {time.monotonic() - began:.0f} s", end="", flush=True)
    print()
    return {one: [rows[seed] for seed in seeds] for one, rows in found.items()}


def picture(found: dict[Play, list[dict[str, Any]]]) -> None:
    """The small cluster's settings: debug wait against delivered, the lost work written beside."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    for setting in TRADE:
        pool, quick, beyond = setting
        if beyond > 8:
            continue  # it lies upon the first
        rows = found[trade_play(setting)]
        wait, delivered, lost = (middle(rows, name) for name in ("debug_p90", "delivered", "lost"))
        assert wait is not None
        assert delivered is not None
        assert lost is not None
        minutes = [max(0.1, value / 60) for value in wait]
        axes.plot(minutes[:1], delivered[:1], "o", color="#1f6f8b")
        axes.plot(minutes[1:], [delivered[0]] * 2, "-", color="#1f6f8b", alpha=0.3)
        axes.plot([minutes[0]] * 2, delivered[1:], "-", color="#1f6f8b", alpha=0.3)
        words = f"pool {pool}, quick ≤ {quick}\nlost {lost[0]:.1f} %"
        axes.annotate(words, (minutes[0], delivered[0]), (6, 5), textcoords="offset points", fontsize=8)
    axes.set_xscale("log")
    axes.set_xticks([0.25, 1, 10, 60, 600, 1440], ["15 s", "1 min", "10 min", "1 h", "10 h", "1 d"])
    axes.minorticks_off()
    axes.set_xlabel("debug wait, 90th percentile")
    axes.set_ylabel("delivered (%)")
    axes.set_title("88 GPUs: what a shorter debug wait costs", fontsize=10)
    axes.margins(0.18)
    axes.set_xlim(right=4 * axes.get_xlim()[1])  # room for the words beside the last point
    axes.grid(alpha=0.2)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=120)
    plt.close(figure)


def main() -> int:
    """Play, draw, write."""
    import worlds

    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("--workers", type=int, default=2)
    reader.add_argument("--only", help="only these shapes (a,b), printed and not written")
    asked = reader.parse_args()
    shapes = set(asked.only.split(",")) if asked.only else set(FLAT)
    if "philly" in shapes and not worlds.PHILLY.exists():
        print(f"philly is left out: there is no {worlds.PHILLY} (set TENURE_TRACES)")
        shapes.discard("philly")
    found = played(plays(shapes), asked.workers)
    if asked.only:
        for one, rows in found.items():
            print(one, {name: middle(rows, name) for name in rows[0] if name != "only_debug"})
        return 0
    picture(found)
    PAGE.write_text(page(found))
    print(f"Written: {PAGE}, {PICTURE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
