"""The charts of the page as files, PNG and SVG, for slides and papers. matplotlib is loaded here alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tenure.audit.hours import hours_of
from tenure.audit.series import series_of
from tenure.report import told
from tenure.report.colours import BUDGETED, DOWN, IDLE, UNBUDGETED, account_colours, leaves
from tenure.report.figures import CLASSES, LAYERS, NINES
from tenure.report.frames import LOG_TICKS, number, parse_start, percent, seconds, step_for, time_ticks
from tenure.report.picture import picture_of
from tenure.report.raster import painted
from tenure.report.told import Hours
from tenure.story.columns import Story

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, SOFT, PLOT = "#1c1b19", "#5d5a54", "#f4f2ec"
MOST_SMALL = 24  #: accounts in one figure
STYLE: dict[str, Any] = {
    "font.size": 9,
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#b9b4a9",
    "axes.facecolor": PLOT,
    "axes.labelcolor": SOFT,
    "axes.titlelocation": "left",
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "text.color": INK,
    "svg.fonttype": "none",
    "svg.hashsalt": "tenure",
    "savefig.dpi": 160,
}


def write_charts(
    story: Story, measures: Mapping[str, Any], folder: Path, formats: Sequence[str] = ("svg", "png")
) -> list[Path]:
    """Write accounts, waits, occupancy and picture to `folder` in each format; gives the files written."""
    import matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    record = told.record_of(story, measures)
    hours = told.hours_of(series_of(record, hours_of(record)))
    written = []
    with matplotlib.rc_context(STYLE):  # type: ignore[arg-type]  # keys are checked when set
        drawn = {
            "accounts": accounts_figure(story, hours, measures),
            "waits": waits_figure(told.waits_of(record)),
            "occupancy": occupancy_figure(story, hours),
            "picture": picture_figure(story),
        }
        for name, figure in drawn.items():
            figure.draw_without_rendering()  # laid out once, not once a format
            figure.set_layout_engine("none")
            for kind in formats:
                file = folder / f"{name}.{kind}"
                dated: dict[str, Any] = {"metadata": {"Date": None}} if kind == "svg" else {}
                figure.savefig(file, format=kind, **dated)
                written.append(file)
    return written


def new_figure(width: float, height: float) -> Figure:
    """A figure of its own backend, whatever the program around it has chosen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def shortened(name: str, most: int) -> str:
    """The name, its middle left out where it is longer than `most`."""
    return name if len(name) <= most else f"{name[: most // 2 - 1]}…{name[-(most - most // 2) :]}"


def _time_axis(axes: Axes, low: float, high: float, start: str | None, at_most: int) -> None:
    high = max(high, low + 1)
    axes.set_xlim(low, high)
    ticks = time_ticks(low, high, start, at_most)
    axes.set_xticks([low + tick.at / 100 * (high - low) for tick in ticks], [tick.text for tick in ticks])


def accounts_figure(story: Story, hours: Hours, measures: Mapping[str, Any]) -> Figure:
    """A panel a leaf account: delivered (area), owed (line), entitled (dashes), mean GPUs."""
    hours, colours = hours.smoothed(120), account_colours(story)
    accounts = measures["delivered"]["accounts"]
    named = [hours.paths.index(story.accounts[row].path) for row in leaves(story) if row > 0]
    rows = sorted(sorted(named, key=lambda row: -float(hours.owed[row].sum()))[:MOST_SMALL])
    across = min(4, max(1, len(rows)))
    down = max(1, -(-len(rows) // across))
    figure = new_figure(11, 1.7 * down + 0.5)
    panels = figure.subplots(down, across, squeeze=False).ravel()
    edges, length = hours.edges_s, hours.length_h
    for axes, row in zip(panels, rows, strict=False):
        path = hours.paths[row]
        got, owed, entitled = (part[row] / length for part in (hours.delivered, hours.owed, hours.entitled))
        axes.stairs(got, edges, fill=True, color=colours[path])
        axes.stairs(entitled, edges, color=SOFT, linestyle=(0, (4, 3)), linewidth=1, baseline=None)
        axes.stairs(owed, edges, color=INK, linewidth=1, baseline=None)
        axes.set_title(shortened(path or "(all)", 20), parse_math=False)
        axes.set_title(
            percent(accounts.get(path, {}).get("ratio")), loc="right", color=SOFT, fontweight="normal"
        )
        axes.set_ylim(0, max(1e-9, float(max(got.max(), owed.max(), entitled.max()))) * 1.08)
        _time_axis(axes, float(edges[0]), float(edges[-1]), story.start, 3)
    for axes in panels[len(rows) :]:
        axes.set_visible(False)
    for axes in panels[::across]:
        axes.set_ylabel("GPUs")
    figure.suptitle(
        f"Delivered (area), owed (line), entitled (dashes): mean GPUs over "
        f"{seconds(step_for(float(edges[-1] - edges[0]), 120))}; at the right delivered ÷ owed",
        x=0.01,
        ha="left",
        fontsize=10,
    )
    return figure


def waits_figure(waits: Mapping[str, Any]) -> Figure:
    """A panel a class: which part of starts waited at most so long; p50, p90, p99 named."""
    figure = new_figure(11, 5)
    panels = figure.subplots(2, 3, sharex=True, sharey=True).ravel()
    sorts = {name: np.sort(np.asarray(waits.get(name, ()), float)) for name in CLASSES}
    longest = max([60.0, *(float(values[-1]) for values in sorts.values() if len(values))])
    for axes, (name, meaning) in zip(panels, CLASSES.items(), strict=True):
        values = sorts[name]
        axes.set_title(name)
        axes.set_title(f"{meaning}; n = {number(len(values))}", loc="right", color=SOFT, fontweight="normal")
        axes.set_xscale("log")
        axes.set_xlim(0.9, longest * 1.5)
        axes.set_xticks([s for s, _ in LOG_TICKS], [text for _, text in LOG_TICKS])
        axes.set_xticks([], minor=True)
        axes.set_xlim(0.9, longest * 1.5)
        axes.set_ylim(0, NINES)
        parts = (0, 50, 90, 99, 99.9)
        axes.set_yticks([_nines(part / 100) for part in parts], [f"{part:g} %" for part in parts])
        axes.grid(axis="y", color="#dcd8cf", linewidth=0.8)
        for curve, colour in ((sorts["all"], "#b0aca2"), (values, BUDGETED)):
            if len(curve):
                below = np.arange(1, len(curve) + 1) / len(curve)
                height = -np.log10(np.maximum(1 - below, 10**-NINES))
                keep = np.unique(np.searchsorted(height, np.linspace(0, NINES, 400)).clip(0, len(curve) - 1))
                axes.step(np.maximum(curve[keep], 1), height[keep], where="post", color=colour, linewidth=1.4)
        for part in (50, 90, 99) if len(values) else ():
            value = float(values[max(0, int(np.ceil(part / 100 * len(values))) - 1)])
            spot = (max(1.0, value), _nines(part / 100))
            axes.plot(*spot, "o", color=BUDGETED, markersize=4)
            right = np.log(spot[0]) > 0.6 * np.log(longest)
            axes.annotate(f"p{part} {seconds(value)}", spot, xytext=(-6, 5) if right else (6, -9),
                          textcoords="offset points", ha="right" if right else "left")  # fmt: skip
    for axes in panels[::3]:
        axes.set_ylabel("part of starts")
    for axes in panels[3:]:
        axes.set_xlabel("wait, submission or requeue to start")
    return figure


def _nines(part: float) -> float:
    return -float(np.log10(max(1 - part, 10**-NINES)))


def occupancy_figure(story: Story, hours: Hours) -> Figure:
    """All GPUs, stacked: budgeted, unbudgeted, idle, down; named on the layers."""
    hours = hours.smoothed(240)
    figure = new_figure(11, 3.4)
    axes = figure.subplots()
    edges, length = hours.edges_s, hours.length_h
    below = np.zeros(len(length))
    whole = float(sum(getattr(hours, name).sum() for name in LAYERS)) or 1.0
    for name, colour in zip(LAYERS, (BUDGETED, UNBUDGETED, IDLE, DOWN), strict=True):
        layer = getattr(hours, name) / length
        axes.stairs(below + layer, edges, baseline=below, fill=True, color=colour)
        text = f"{name} {percent(float(getattr(hours, name).sum()) / whole)}"
        if layer.mean() > 0.06 * (below + layer).max():
            axes.text(0.5, float((below + layer / 2).mean()), text, transform=axes.get_yaxis_transform(),
                      ha="center", va="center", color="white" if name == "budgeted" else INK)  # fmt: skip
        below = below + layer
    small = ", ".join(f"{n} {percent(float(getattr(hours, n).sum()) / whole)}" for n in LAYERS)
    axes.set_title(f"Every GPU: {small}")
    axes.set_ylabel("GPUs")
    axes.set_ylim(0, float(below.max()) or 1.0)
    _time_axis(axes, float(edges[0]), float(edges[-1]), story.start, 7)
    return figure


def picture_figure(story: Story) -> Figure:
    """A row a GPU, time across; hatched = interruptible, red edge = preempted, grey = node down."""
    from matplotlib.patches import Patch

    picture, until_s = picture_of(story), max(1, told.end_s(story))
    lanes = int(picture.lane0[-1])
    figure = new_figure(11, 7)
    axes = figure.subplots()
    height = max(1, 900 // max(1, lanes)) * lanes if lanes <= 900 else lanes
    image = painted(story, picture, width=1600, height=height, paper=PLOT, until_s=until_s)
    axes.imshow(image, aspect="auto", interpolation="nearest", extent=(0, until_s, lanes, 0))
    every = max(1, len(story.nodes) // 16)
    rows = range(0, len(story.nodes), every)
    middle = [(picture.lane0[n] + picture.lane0[n + 1]) / 2 for n in rows]
    axes.set_yticks(middle, [shortened(story.nodes[n].name, 18) for n in rows], parse_math=False)
    axes.tick_params(axis="y", length=0)
    _time_axis(axes, 0, until_s, story.start, 8)
    if 0 < story.warmup_s < until_s:
        axes.axvline(story.warmup_s, color=INK, linewidth=1, linestyle=(0, (3, 3)))
        axes.text(story.warmup_s, -lanes * 0.006, "measured from here ", ha="center", va="bottom", fontsize=8)
    used = {story.accounts[int(row)].path for row in story.jobs["account"][picture.attempts["job"]]}
    keys = [
        Patch(color=c, label=shortened(p or "(all)", 30).replace("$", r"\$"))
        for p, c in account_colours(story).items()
        if p in used
    ]
    if zero := parse_start(story.start):
        axes.set_xlabel(f"UTC, {zero:%Y}")
    axes.set_title("Each stay a bar in its account's colour; hatched: interruptible; red edge: preempted; "
                   "grey: node out of service", fontweight="normal", pad=14)  # fmt: skip
    if len(keys) <= MOST_SMALL:
        figure.legend(handles=keys, loc="outside lower left", ncols=5, frameon=False, fontsize=8)
    return figure
