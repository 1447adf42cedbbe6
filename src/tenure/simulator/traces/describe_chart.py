"""The picture of a description: sizes, runtimes, the week, tenants. matplotlib is loaded when it draws."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenure.settings.errors import BadInput
from tenure.simulator.traces.describe import WEEKDAYS, Description

if TYPE_CHECKING:
    from matplotlib.axes import Axes

JOBS, GPU_TIME, QUIET = "#7a8fa6", "#c2571a", "#5b6470"
MOST_TENANTS = 12
SUFFIXES = (".png", ".svg", ".pdf")
TICKS_S = {1: "1 s", 60: "1 min", 900: "15 min", 3600: "1 h", 28800: "8 h", 86400: "1 d", 604800: "1 w"}
STYLE: Any = {  # names of matplotlib's own settings
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "svg.hashsalt": "tenure",
    "svg.fonttype": "none",
}


def draw(description: Description, file: Path) -> None:
    """Four panels as PNG, SVG or PDF by the file's ending. The same description gives the same SVG.

    Raises BadInput for another ending, or where the file cannot be written.
    """
    if file.suffix.lower() not in SUFFIXES:
        raise BadInput(str(file), "", f"the ending {file.suffix!r}", ", ".join(SUFFIXES))
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11, 7.2), layout="constrained")
        (sizes, runtimes), (week, tenants) = figure.subplots(2, 2)
        _sizes(sizes, description)
        _runtimes(runtimes, description)
        _week(week, description)
        _tenants(tenants, description)
        figure.suptitle(_headline(description), x=0.01, ha="left", fontsize=11)
        try:
            metadata = {"Date": None} if file.suffix.lower() == ".svg" else None
            figure.savefig(file, dpi=130, metadata=metadata)
        except OSError as problem:
            raise BadInput(
                str(file), "", f"a place that cannot be written ({problem})", "a new file"
            ) from problem


def _headline(description: Description) -> str:
    days = description.span_s / 86400
    text = (
        f"{Path(description.file).name}: {description.jobs:,} jobs in {days:,.1f} days, "
        f"{description.gpu_h:,.0f} GPU-hours"
    )
    if description.mean_gpus_wanted is not None:
        text += f", {description.mean_gpus_wanted:,.0f} GPUs wanted on average"
    if description.offered_load is not None:
        text += f" ({description.offered_load:.0%} of {description.gpus:,})"
    return text


def _sizes(axes: Axes, description: Description) -> None:
    rows = description.sizes
    at = range(len(rows))
    axes.bar([k - 0.2 for k in at], [row["jobs_share"] for row in rows], 0.4, color=JOBS, label="jobs")
    axes.bar(
        [k + 0.2 for k in at], [row["gpu_h_share"] for row in rows], 0.4, color=GPU_TIME, label="GPU-hours"
    )
    axes.set_xticks(list(at), [row["gpus"] for row in rows], rotation=30 if len(rows) > 8 else 0)
    axes.set_xlabel("GPUs of a job")
    _percent(axes)
    axes.set_title("Size")
    axes.legend(frameon=False)


def _runtimes(axes: Axes, description: Description) -> None:
    curve = description.runtime_curve
    axes.plot(curve["runtime_s"], curve["jobs_share"], color=JOBS, lw=2, label="jobs")
    axes.plot(curve["runtime_s"], curve["gpu_h_share"], color=GPU_TIME, lw=2, label="GPU-hours")
    axes.set_xscale("log")
    longest = max(curve["runtime_s"], default=1)
    ticks = [s for s in TICKS_S if s <= longest * 1.5]
    axes.set_xticks(ticks, [TICKS_S[s] for s in ticks])
    axes.minorticks_off()
    axes.set_ylim(0, 1.02)
    axes.grid(color="#e3e6ea", lw=0.6)
    axes.set_xlabel("runtime up to")
    _percent(axes)
    axes.set_title("Runtime")
    axes.legend(frameon=False, loc="upper left")


def _week(axes: Axes, description: Description) -> None:
    hours = description.by_week_hour
    axes.fill_between(range(len(hours)), hours, step="post", color=JOBS, alpha=0.35, lw=0)
    axes.step(range(len(hours)), hours, where="post", color=JOBS, lw=1.2)
    dated = description.clock == "local"
    names = WEEKDAYS if dated else [f"day {k}" for k in range(1, 8)]
    axes.set_xticks(range(0, 168, 24), names, ha="left")
    axes.set_xlim(0, 168)
    axes.set_ylim(0, None)
    axes.grid(axis="x", color="#e3e6ea", lw=0.6)
    axes.set_ylabel("jobs")
    axes.set_title(f"Submissions by hour of the week ({description.timezone if dated else 'from second 0'})")


def _tenants(axes: Axes, description: Description) -> None:
    alone = len(description.tenants) <= MOST_TENANTS + 1  # no bar of "1 other"
    rows = description.tenants if alone else description.tenants[:MOST_TENANTS]
    rest = description.tenants[len(rows) :]
    names = [_short(row["tenant"]) for row in rows]
    shares = [row["gpu_h_share"] for row in rows]
    if rest:
        names.append(f"{len(rest):,} others")
        shares.append(sum(row["gpu_h_share"] for row in rest))
    colors = [GPU_TIME] * len(rows) + [QUIET] * bool(rest)
    axes.barh(range(len(names)), shares, color=colors, height=0.7)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(max(len(names), 6) - 0.5, -0.5)  # first on top; one tenant does not fill the panel
    for k, share in enumerate(shares):
        axes.text(share, k, f" {share:.1%}", va="center", fontsize=8, color=QUIET)
    axes.set_xlim(0, max(shares, default=1) * 1.15)
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)
    axes.set_title("GPU-hours by tenant")


def _short(name: str) -> str:
    plain = name.replace("$", r"\$")  # a dollar would begin a formula
    return plain if len(plain) <= 24 else plain[:23] + "…"


def _percent(axes: Axes) -> None:
    from matplotlib.ticker import PercentFormatter

    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
