"""docs/speed.md: the seconds of `run.py`, with the machine and the day they were measured."""

from __future__ import annotations

from typing import Any

Results = dict[str, dict[str, Any]]

OPENING = """# How fast it is

Written by `make bench` on {date}: {machine}. Seconds are CPU time of the process, after a warm-up that loads
the compiled code, the median of three plays or more; building the world and measuring the story are not in
them. Everything runs on one core.
What is counted (turns, jobs ended, waiting jobs looked at, victims weighed) is exact for a world and held
against `bench/expected.json` at every run; seconds are only recorded (`bench/results.jsonl`).
"""

GROWTH = """
Under `budget` a million jobs cost {:.2f} times as much each as ten thousand, and {:.2f} times as much as a
hundred thousand; log n would be 1.50 and 1.20. In this is what a play of this cluster costs whatever the
number of jobs, its tables and the list of its nodes: {:.0f} ms, {:.1f} µs for each of ten thousand jobs.
Without it a million cost {:.2f} times as much each as ten thousand, and {:.2f} times as much as a hundred
thousand.

Ten thousand jobs are six hours in which the cluster fills and empties. A third of them start in one turn,
and in the first two hours nobody is past protection. So there are {:.2f} turns a job, of a million {:.2f},
and a turn of the million has more to do: {:.0f} waiting jobs passed, of ten thousand {:.0f}. What fills up
is bounded, as a turn looks 40 jobs deep into a list: from 100,000 jobs on the cost hardly grows.
"""

REAL_WORDS = """
*venus N*: all 66,241 GPU jobs of SenseTime's Helios cluster Venus (Hu et al., SC '21, CC-BY-4.0) on N nodes
of 8 GPUs, an hour of protection each, spread over 15 accounts by a hash of their ids, as the trace names no
users; 36 nodes are too few for them, and thousands wait. *ai2*: the built-in shape, 37 days of 1,024 GPUs.

The best open peers measured, on a workload of 100,000 jobs, end {fifo:,} jobs per CPU second first come,
first served, and {fair:,} with fair shares and no preemption. The last column sets a play beside the peer of
its kind (ours under `budget` preempts as well); the workloads are not the same, so take it for its order of
magnitude.
"""


def table(head: list[str], rows: list[list[str]]) -> str:
    marks = ["---", *["---:"] * (len(head) - 1)]
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join(marks) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def page(results: Results, today: dict[str, str], peers: tuple[int, int]) -> str:
    """The page, of what was measured today."""
    parts = [OPENING.format(**today), real_part(results, peers), large_part(results), commands_part(results)]
    return "\n".join(parts)


def real_part(results: Results, peers: tuple[int, int]) -> str:
    rows = []
    for world in ("venus72", "venus36", "ai2"):
        for rule, peer in zip(("fifo", "budget"), peers):
            one = results.get(f"{world}-{rule}")
            if one is None:
                continue
            counts, speed = one["counts"], one["counts"]["jobs"] / one["cpu_s"]
            name = world.replace("venus", "venus ")
            cells = [f"{counts['jobs']:,}", f"{counts['turns']:,}", f"{one['cpu_s']:.2f}", f"{speed:,.0f}"]
            rows.append([f"{name}, {rule}", *cells, f"{speed / peer:.0f}×"])
    head = ["", "jobs ended", "turns", "CPU s", "jobs / CPU s", "beside the peer"]
    words = REAL_WORDS.format(fifo=peers[0], fair=peers[1])
    return "## Jobs per CPU second\n\n" + table(head, rows) + words


def growth(results: Results) -> str:
    """How the cost of a job and of a turn grow with the number of jobs, beside a logarithm."""
    sizes = (10_000, 100_000, 1_000_000)
    told = [results.get(f"large{jobs}-budget") for jobs in sizes]
    if None in told:
        return ""
    counts, opening_s = [one["counts"] for one in told], told[0]["opening_s"]
    whole = [one["cpu_s"] / one["counts"]["jobs"] for one in told]
    bare = [(one["cpu_s"] - one["opening_s"]) / one["counts"]["jobs"] for one in told]
    turns = [one["turns"] / one["jobs"] for one in counts]
    looked = [one["looked"] / one["turns"] for one in counts]
    return GROWTH.format(
        *(whole[2] / whole[0], whole[2] / whole[1]),
        *(1e3 * opening_s, 1e6 * opening_s / counts[0]["jobs"]),
        *(bare[2] / bare[0], bare[2] / bare[1]),
        *(turns[0], turns[2], looked[2], looked[0]),
    )


def large_part(results: Results) -> str:
    rows = []
    for jobs in (10_000, 100_000, 1_000_000):
        for rule in ("fifo", "budget"):
            one = results.get(f"large{jobs}-{rule}")
            if one is None:
                continue
            counts = one["counts"]
            cells = [f"{jobs // 10:,}", f"{one['cpu_s']:.2f}", f"{1e6 * one['cpu_s'] / counts['jobs']:.1f}"]
            cells += [f"{1e6 * one['cpu_s'] / counts['turns']:.1f}", f"{one['rss_mib']:,}"]
            rows.append([f"{jobs:,}, {rule}", *cells])
    head = ["jobs", "waiting", "CPU s", "µs / job", "µs / turn", "largest memory, MiB"]
    text = (
        "## From 10,000 jobs to a million\n\nOn 16,384 GPUs (2,048 nodes), 15 accounts, every account always"
        " with more work than its share: a tenth of the jobs wait at any time, a fifth is unbudgeted,"
        " the others are protected for two hours. The"
        " memory is all of the process: Python, the compiler, the world, the board and the whole story.\n\n"
    )
    text += table(head, rows) + growth(results)
    if "large1000000-budget" not in results:
        text += (
            "\nA million jobs under `budget` take minutes and were not played here (`bench/run.py --long`).\n"
        )
    if "turn" in results:
        one = results["turn"]
        text += (
            f"\n**One turn** on the same GPUs while {one['counts']['waiting']:,} jobs wait:"
            f" {1000 * one['cpu_s']:.2f} ms (median), {1000 * one['p99_s']:.2f} ms (99th percentile),"
            f" {1000 * one['worst_s']:.2f} ms (longest of 300). The first turn, at whose"
            " instant some 100,000 jobs are submitted and which fills the cluster, takes"
            f" {1000 * one['first_s']:.0f} ms.\n"
        )
    return text


def commands_part(results: Results) -> str:
    one = results.get("commands")
    if one is None:
        return ""
    rows = [["`tenure --help`", f"{one['help_s']:.2f}"], ["`tenure simulate small`", f"{one['small_s']:.2f}"]]
    return "## Commands\n\nWall seconds, the best of three, compiled code at hand.\n\n" + table(
        ["", "s"], rows
    )
