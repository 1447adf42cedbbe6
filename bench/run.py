"""How fast it is, and that it does the same work as before: `make bench`.

Counts (turns, jobs ended, waiting jobs looked at, victims weighed) are exact for a given world and are held
against expected.json; `--update` writes them anew. Seconds are process CPU time after a warm-up, recorded
in results.jsonl and printed; they never fail. Every case is a process of its own, so that its largest
memory is its own too. Writes docs/speed.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
EXPECTED, RESULTS = HERE / "expected.json", HERE / "results.jsonl"
PAGE = HERE.parent / "docs" / "speed.md"
#: The best open peers measured, jobs per CPU second on 100,000 jobs.
PEER_FIFO, PEER_FAIR = 9_100, 1_750
QUICKLY = ("venus72-fifo", "venus72-budget", "venus36-fifo", "venus36-budget", "ai2-fifo", "ai2-budget")
SIZES = (10_000, 100_000, 1_000_000)
COUNTS = ("turns", "jobs", "looked", "searched")
MIB = 1024
LONG = "large1000000-budget"
REPEATS, LONG_ENOUGH_S = 3, 2  #: the median of so many is told, and of more until they took so long together


class Case(NamedTuple):
    """A world and the rule that plays it."""

    name: str
    what: str
    rule: str


CASES = (
    *(Case(f"venus{n}-{rule}", f"venus {n}", rule) for n in (72, 36) for rule in ("fifo", "budget")),
    *(Case(f"ai2-{rule}", "ai2", rule) for rule in ("fifo", "budget")),
    *(Case(f"large{n}-fifo", f"large {n}", "fifo") for n in SIZES),
    *(Case(f"large{n}-budget", f"large {n}", "budget") for n in SIZES),
    Case("turn", "turn", "budget"),
)


# --- one case, in a process of its own --------------------------------------------------------------


def played(case: Case) -> dict[str, Any]:
    """Its counts, CPU seconds and largest memory."""
    import worlds
    from tenure.core.policy import Policy
    from tenure.simulator.simulate import play

    what, _, number = case.what.partition(" ")
    if what == "turn":
        return one_turn()
    small = worlds.large_world(50)
    play(small[0], small[1], Policy(), rule=case.rule, until_s=3600)  # loads or makes the compiled code
    worlds_of = {"venus": worlds.venus_world, "large": worlds.large_world}
    world = worlds_of[what](int(number)) if number else worlds.shape_world(what, 1)
    run, cpu_s = timed(case, world)
    counts = dict(zip(COUNTS, (run.turns, run.jobs_seen, run.looked, run.searched)))
    told = {"counts": counts, "cpu_s": cpu_s, "rss_mib": peak_mib(), "events": len(run.story.events)}
    if what == "large":  # what the same cluster costs whatever the number of jobs
        told["opening_s"] = timed(case, small)[1]
    return told


def timed(case: Case, world: Any) -> tuple[Any, float]:
    """(the play, the median of its CPU seconds). One estimate for short plays and for long ones.

    The least of many would find a short play undisturbed, and a long one never.
    """
    from tenure.core.policy import Policy
    from tenure.simulator.simulate import play

    seconds: list[float] = []
    while len(seconds) < REPEATS or sum(seconds) < LONG_ENOUGH_S:
        run = None  # the memory of one play
        began = time.process_time()
        run = play(world[0], world[1], Policy(), rule=case.rule, warmup_s=world[2], until_s=world[3])
        seconds.append(time.process_time() - began)
    return run, statistics.median(seconds)


def one_turn() -> dict[str, Any]:
    """Turns while 100,000 jobs wait on 16,384 GPUs, each by itself."""
    import worlds
    from tenure.core.policy import Policy
    from tenure.simulator.simulate import advance, set_stage

    world, _, _, until_s = worlds.large_world(1_000_000)
    stage = set_stage(world, Policy(), "budget", until_s)
    began = time.process_time()
    advance(stage, turns=1)
    first_s = time.process_time() - began  # it starts thousands of jobs at once
    advance(stage, turns=3000)
    took = []
    for _ in range(300):
        began = time.process_time()
        advance(stage, turns=1)
        took.append(time.process_time() - began)
    waiting = int(stage.board.scenes["n_waiting"].sum())
    took.sort()
    return {
        "counts": {"waiting": waiting},
        "cpu_s": took[len(took) // 2],
        "p99_s": took[int(len(took) * 0.99)],
        "worst_s": took[-1],
        "first_s": first_s,
        "rss_mib": peak_mib(),
    }


def peak_mib() -> int:
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MIB)


# --- all of them ------------------------------------------------------------------------------------


def measured(case: Case) -> dict[str, Any] | None:
    """None, said why, where its trace is absent."""
    import worlds

    if case.what.startswith("venus") and not worlds.VENUS.exists():
        print(f"{case.name}: left out: no {worlds.VENUS} (set TENURE_TRACES)", flush=True)
        return None
    command = [sys.executable, str(HERE / "run.py"), "--one", case.name]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return {"case": case.name, **json.loads(done.stdout.splitlines()[-1])}


def commands() -> dict[str, Any]:
    """Seconds of wall time of the commands a person waits for, the best of three warm runs."""
    tenure = Path(sys.executable).with_name("tenure")
    told = {}
    for name, arguments in (("help", ["--help"]), ("small", ["simulate", "small"])):
        took = []
        for _ in range(4):
            began = time.perf_counter()
            subprocess.run([tenure, *arguments], check=True, capture_output=True)
            took.append(time.perf_counter() - began)
        told[f"{name}_s"] = min(took[1:])
    return {"case": "commands", **told}


def differences(results: list[dict[str, Any]], expected: dict[str, Any]) -> list[str]:
    """A line for each count that is not what it was."""
    lines = []
    for one in results:
        known = expected.get(one["case"])
        if "counts" not in one:
            continue
        if known is None:
            lines.append(f"{one['case']}: nothing expected yet")
            continue
        for name, count in one["counts"].items():
            if count != known.get(name):
                lines.append(f"{one['case']}: {name} {count:,}, expected {known.get(name, 0):,}")
    return lines


def said(one: dict[str, Any]) -> str:
    """One result for the screen."""
    if "counts" not in one:
        return "  ".join(f"{key} {value:.2f}" for key, value in one.items() if key != "case")
    if one["case"] == "turn":
        return f"{1000 * one['cpu_s']:.1f} ms (median), {1000 * one['worst_s']:.1f} ms (longest)"
    jobs = one["counts"]["jobs"]
    return f"{one['cpu_s']:8.2f} s  {jobs / one['cpu_s']:10,.0f} jobs/s  {one['rss_mib']:5,} MiB"


def record(one: dict[str, Any], today: dict[str, str]) -> None:
    """Add it to the record of this machine."""
    with RESULTS.open("a") as rows:
        rows.write(json.dumps({**today, **one}) + "\n")


def machine() -> str:
    """What it was measured on."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [
            line.split(":")[1].strip() for line in info.read_text().splitlines() if "model name" in line
        ]
        model = models[0] if models else model
    return f"{model}, {os.cpu_count()} cores shared with other work, Python {platform.python_version()}"


def main() -> int:
    """Measure, compare, record, write the page. Ends with 1 where a count differs."""
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("--update", action="store_true", help="take today's counts as the expected ones")
    reader.add_argument("--quick", action="store_true", help="only Venus and ai2")
    reader.add_argument("--only", help="only cases whose name begins so")
    reader.add_argument("--long", action="store_true", help="also a million jobs under budget (a minute)")
    reader.add_argument("--page", action="store_true", help="only write the page, from what is recorded")
    reader.add_argument("--one", help=argparse.SUPPRESS)
    asked = reader.parse_args()
    if asked.one:
        print(json.dumps(played(next(case for case in CASES if case.name == asked.one))))
        return 0
    results: list[dict[str, Any]] = []
    today = {"date": date.today().isoformat(), "machine": machine()}
    for case in CASES if not asked.page else ():
        if case.name == LONG and not asked.long and asked.only != LONG:
            continue
        if (asked.quick and case.name not in QUICKLY) or not case.name.startswith(asked.only or ""):
            continue
        print(f"{case.name:22}", end=" ", flush=True)
        one = measured(case)
        if one is not None:
            print(said(one), flush=True)
            results.append(one)
            record(one, today)
    whole = not asked.quick and not asked.only
    if whole and not asked.page:
        results.append(commands())
        print(f"{'commands':22} {said(results[-1])}")
        record(results[-1], today)
    expected = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}
    if asked.update:
        expected |= {one["case"]: one["counts"] for one in results if "counts" in one}
        EXPECTED.write_text(json.dumps(expected, indent=1) + "\n")
    wrong = differences(results, expected)
    rows = [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    for line in wrong:
        print(f"COUNTS DIFFER  {line}")
    if whole:
        from page_of_speed import page

        PAGE.write_text(page({one["case"]: one for one in rows}, today, (PEER_FIFO, PEER_FAIR)))
        print(f"Written: {PAGE}")
    print("Counts as expected." if not wrong else "If that is meant: bench/run.py --update")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
