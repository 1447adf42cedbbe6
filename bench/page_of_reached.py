"""docs/reached.md: the figures of `reached.py`, set beside what was aimed at."""

from __future__ import annotations

from typing import Any, NamedTuple

from judged import FLAT, ONLY_DEBUG, RIVALS, SEEDS, TRADE, TREES, Play, middle, trade_play

Found = dict[Play, list[dict[str, Any]]]
WHY = "What stands in their way, and what each would cost: [the hours](why/what-limits-the-hours.md)."
LONGEST_H = 8 + 120 / 3600  #: the longest protection and a grace


class Row(NamedTuple):
    """A measure: its column of figures, how it is judged, what it should reach and did in the study."""

    name: str
    column: str
    unit: str
    sign: str  #: ≥ | ≤ | "" (not judged)
    goals: dict[str, float | None]  #: by scenario; absent: no row for it
    studied: dict[str, str]
    published: str = ""
    every: bool = False  #: each seed has to reach it, not their median
    digits: int = 1


def by_shape(*values: Any) -> dict[str, Any]:
    """Of ai2, sat95, sat, small, philly."""
    return dict(zip(FLAT, values))


def by_tree(*values: Any) -> dict[str, Any]:
    """Of ai2, sat95, sat in programs; ai2, sat with researchers too."""
    return dict(zip([f"{shape} {tree}" for shape, tree in TREES], values))


ROWS = (
    Row("delivered", "delivered", "%", "≥", by_shape(99.9, 99.9, 98.7, 99.2, 99.9),
        by_shape("100", "100", "98.4", "99.3", "100"), "98", digits=2),
    Row("worst account", "worst", "%", "≥", by_shape(100, 99.5, 97, 97, 97),
        by_shape("102", "99.9", "96.6", "96.5", "94.4"), "90"),
    Row("strict hourly", "strict", "%", "≥", by_shape(99, 97, 94.5, 93, 99),
        by_shape("99.1", "97.3", "94.5", "93.1", "99.3"), digits=2),
    Row("occupancy", "occupancy", "%", "≥", by_shape(98.7, 98.6, 98.6, 98.5, None),
        by_shape("98.8", "98.7", "98.7", "98.8", "98.7"), "98", digits=2),
    Row("debug wait, p90", "debug_p90", "s", "≤", by_shape(15, 15, 15, None, 15),
        by_shape("15", "15", "15", "4,300", "15"), "30", digits=0),
    Row("debug wait, p99", "debug_p99", "s", "≤", by_shape(120, 300, 480, None, 120),
        by_shape("120", "245", "490", "31,000", "120"), digits=0),
    Row("lost", "lost", "%", "≤", by_shape(0.7, 0.8, 0.75, 1.5, 0.3),
        by_shape("0.65", "0.79", "0.73", "1.6", "0.23"), digits=2),
    Row("longest wait of a large gang", "gang", "h", "≤", by_shape(*[LONGEST_H] * 4),
        by_shape("8.03", "", "8.03", ""), every=True, digits=2),
    Row("restarts of one budgeted job", "restarts", "", "≤", by_shape(12, 20, 20, 14, 10),
        by_shape("12", "21", "22", "14", "9"), digits=0),
    Row("restarts of one unbudgeted job", "restarts_unbudgeted", "", "≤", by_shape(20, 30, 40, 30, 20),
        by_shape("33", "", "57", "35", ""), digits=0),
)  # fmt: skip
TREE_ROWS = (
    Row("programs, delivered", "program_delivered", "%", "≥", by_tree(99.5, 99.7, 98.2, 97.3, 97.8),
        by_tree("99.5", "", "98.2", "", ""), digits=2),
    Row("programs, worst", "program_worst", "%", "≥", by_tree(98.5, 99, 97, 96.5, 97),
        by_tree("98.1–98.7", "", "", "", "")),
    Row("leaves, delivered", "delivered", "%", "≥", by_tree(99.9, 99.9, 98.9, 99.3, 98.3),
        by_tree("", "", "", "99.4", "98.3"), digits=2),
    Row("leaves, worst", "worst", "%", "≥", by_tree(100, 99.5, 95.5), by_tree("", "", "", "92–93", "92–93")),
    Row("leaves, strict hourly", "strict", "%", "≥", by_tree(97.7, 96, 93.6),
        by_tree("97.7", "", "93.6", "73–81", "73–81"), digits=2),
)  # fmt: skip
BESIDE = (
    ("delivered %", "delivered", 1), ("worst %", "worst", 1), ("strict %", "strict", 1),
    ("occupancy %", "occupancy", 1), ("debug p90 s", "debug_p90", 0), ("debug p99 s", "debug_p99", 0),
    ("all budgeted p90 h", "budgeted_p90", 2), ("lost %", "lost", 2), ("unbudgeted %", "unbudgeted", 1),
)  # fmt: skip

OPENING = """# What the default policy reaches

Written by `make reached` (about three minutes on two cores). Every scenario is played over 37 days, of which
the first 7 are warm-up and not measured, with seeds 1–5, the default policy and the same knobs everywhere
(pool, plans and bounds scale with the cluster by themselves).

A study on synthetic demand and one real stretch of arrivals: nothing here ran on a real cluster. The
figures called *published* are Ai2's month on their own jobs, which are not public; the two loads differ, so
they stand here to say what is known, not as a race. *Studied* is what an earlier study of the same rule, by
another program, reached.

A cell gives the median of the seeds and, in brackets, the least and the most. **✓** reached, **✗** not. What
is judged is the median, save for gangs, where every one of every seed counts.

## What each row means

- **delivered**: for each account the GPU-time it got, counted up to what it was owed, over all that was owed.
  Owed is, hour by hour, the smaller of its entitlement and what its jobs (waiting or running) asked for.
- **worst account**: got over owed of the account that fared worst. It may exceed 100 %: what is idle is lent.
- **strict hourly**: as delivered, but an hour's shortfall is not made good by a later hour.
- **occupancy**: GPU-time held by jobs over that of healthy nodes. A GPU held clear for a job counts as idle.
- **debug wait**: submission to first start, grace of whoever makes way included, of jobs of at most 8 GPUs
  and 15 minutes.
- **lost**: work done again, and restarts, over all GPU-time; budgeted jobs save when they are told to stop.
- **longest wait of a large gang**: jobs of a quarter of the cluster or more, from coming to the head of their
  account to their start. To reach: 8 h, the longest protection, and the grace of 2 min.
- **restarts**: how often the job that was preempted most often was preempted.
"""

TRADE_WORDS = """
A fifth of the debug jobs ask for a whole node, twice what a 90th percentile leaves out, so that figure is
theirs; and one node of eleven is 9 % of the cluster. Taking quick jobs of at most 4 GPUs only into the quick
lane therefore makes it worse, not better: those of 8 then wait like any other job. What helps is a node kept
for quick work. Unbudgeted work fills it meanwhile and is stopped whenever a quick job comes, which costs lost
work, and the node is missing from what accounts are owed (they are owed .85 of the cluster, .09 is the node,
and 6 % are left for all that does not fit together). The default keeps what is owed and has no pool on so
small a cluster; a lab that lives by its debug jobs sets `policy.pool.nodes: 1`.
"""


# --- cells ------------------------------------------------------------------------------------------


def number(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}"


def spread(three: tuple[float, float, float] | None, digits: int) -> str:
    """Median (least–most)."""
    if three is None:
        return "–"
    told = [number(value, digits) for value in three]
    return told[0] if told[1] == told[2] else f"{told[0]} ({told[1]}–{told[2]})"


def judged(row: Row, three: tuple[float, float, float] | None, goal: float | None) -> str:
    """The cell, with its mark where there is something to reach."""
    cell = spread(three, row.digits)
    if three is None or goal is None or not row.sign:
        return cell
    value = three[0] if not row.every else three[2] if row.sign == "≤" else three[1]
    good = value >= goal if row.sign == "≥" else value <= goal + 1e-9
    return f"{'**✓**' if good else '**✗**'} {cell}"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def against(rows: tuple[Row, ...], name: str, seeds: list[dict[str, Any]], published: bool) -> str:
    """A scenario's table: reached, to reach, studied and, for its like, published."""
    lines = []
    for row in rows:
        goal = row.goals.get(name)
        three = middle(seeds, row.column)
        if three is None and goal is None:
            continue
        unit = f" {row.unit}" if row.unit else ""
        sought = f"{row.sign} {round(goal, 2):g}{unit}" if goal is not None else "–"
        line = [row.name + (f", {row.unit}" if row.unit else ""), judged(row, three, goal), sought]
        line += [row.studied.get(name) or "–"]
        lines.append([*line, row.published or "–"] if published else line)
    return table(["", "reached", "to reach", "studied"] + (["published"] if published else []), lines)


def counted(found: Found) -> str:
    """How many cells there are, and which are not reached."""
    tables = [(ROWS, shape, Play(shape)) for shape in FLAT]
    tables += [(TREE_ROWS, f"{shape} {tree}", Play(shape, tree)) for shape, tree in TREES]
    good, missed = 0, {}
    for rows, name, one in tables:
        cells = {
            row.name: judged(row, middle(found[one], row.column), row.goals.get(name))
            for row in rows
            if one in found
        }
        good += sum("✓" in cell for cell in cells.values())
        missed[name] = [row for row, cell in cells.items() if "✗" in cell]
    total = good + sum(map(len, missed.values()))
    lines = [f"- {name}: {'; '.join(rows)}" for name, rows in missed.items() if rows]
    lines += ["", WHY, ""]
    return f"## In short\n\n{good} of {total} figures are reached. Not reached:\n\n" + "\n".join(lines)


# --- parts of the page ------------------------------------------------------------------------------


def flat_part(found: Found) -> str:
    parts = ["## Flat: 15 accounts below the root\n"]
    for shape in FLAT:
        if Play(shape) in found:
            parts.append(f"### {shape}\n\n" + against(ROWS, shape, found[Play(shape)], shape == "ai2"))
        else:
            parts.append(f"### {shape}\n\nNot played here: its trace was not at hand (`TENURE_TRACES`).\n")
    return "\n".join(parts)


def tree_part(found: Found) -> str:
    parts = ["## Trees: three programs, and researchers below them\n"]
    for shape, tree in TREES:
        name = f"{shape} {tree}"
        parts.append(f"### {shape}, {tree}\n\n" + against(TREE_ROWS, name, found[Play(shape, tree)], False))
    return "\n".join(parts)


def beside_part(found: Found) -> str:
    """Plain rules over the very same lists of jobs."""
    lines = []
    for shape in ("ai2", "sat", "small"):
        for policy in ("budget", *dict.fromkeys(policy for _, policy in RIVALS)):
            seeds = found[Play(shape, policy=policy)]
            lines.append(
                [shape, policy, *(spread(middle(seeds, column), digits) for _, column, digits in BESIDE)]
            )
    return (
        "## Beside plain rules\n\n`window` ranks accounts by their use over the lookback alone"
        " (`policy.order: window`), with the same quick lane, plans and protections; `priority` protects what"
        " an account runs within its entitlement and takes jobs by arrival. Each plays"
        " the same lists of jobs.\n\n" + table(["", "policy", *(name for name, _, _ in BESIDE)], lines)
    )


def trade_part(found: Found) -> str:
    lines = []
    for setting in TRADE:
        seeds = found[trade_play(setting)]
        cells = [spread(middle(seeds, column), digits) for column, digits in
                 (("debug_p90", 0), ("debug_p99", 0), ("delivered", 1), ("worst", 1), ("strict", 1),
                  ("lost", 2), ("occupancy", 1))]  # fmt: skip
        lines.append([*map(str, setting), *cells])
    head = ["pool.nodes", "quick.gpus", "quick.beyond", "debug p90 s", "debug p99 s", "delivered %",
            "worst %", "strict %", "lost %", "occupancy %"]  # fmt: skip
    return (
        "## The small cluster's trade\n\n"
        + table(head, lines)
        + "\n![Debug wait against delivered on 88 GPUs](images/small-trade.png)\n"
        + TRADE_WORDS
    )


def philly_part(found: Found) -> str:
    """Why its worst account stays below 100 %: in the numbers of every seed."""
    if Play("philly") not in found:
        return ""
    lines = []
    for seed, row in zip(SEEDS, found[Play("philly")]):
        for account, told in sorted(row["only_debug"].items()):
            part, if_made_good = (
                told["delivered"] / told["owed"],
                told["work"] / (told["work"] + told["waited"]),
            )
            cells = [f"{told['owed']:.1f}", f"{told['delivered']:.1f}", f"{told['waited']:.1f}"]
            cells += [f"{told['entitled']:,.0f}", f"{told['mean_work_s']:.0f}"]
            lines.append([str(seed), account, *cells, f"{100 * part:.2f}", f"{100 * if_made_good:.2f}"])
    head = ["seed", "account", "owed GPU-h", "got GPU-h", "waited GPU-h", "entitled GPU-h", "mean job s",
            "got / owed %", "work / (work + wait) %"]  # fmt: skip
    return (
        "## Why the worst account of philly stays below 100 %\n\n"
        "This stretch of the trace has fewer tenants than the scenario has accounts: of budgeted work,"
        f" {', '.join(ONLY_DEBUG)} get debug jobs only. They ask for about one hundredth of what they"
        " are entitled to, so all their demand is owed, and"
        " demand counts a job's waiting seconds too. A debug job of some 400 s that waits 15 s for an"
        " unbudgeted one to make way (120 s for a budgeted one) was owed 415 s and can use only 400: work"
        " that is done cannot make good the seconds before it started. The last two columns agree: the"
        " shortfall is those seconds and nothing else. No order of jobs mends it; a shorter grace or a larger"
        " pool would.\n\n" + table(head, lines)
    )


def page(found: Found) -> str:
    parts = [
        OPENING,
        counted(found),
        flat_part(found),
        tree_part(found),
        beside_part(found),
        trade_part(found),
    ]
    return "\n".join([*parts, philly_part(found)]).rstrip() + "\n"
