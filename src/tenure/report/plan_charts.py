"""The charts of a window plan as files, PNG and SVG, for slides and papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tenure.report.charts import INK, SOFT, STYLE, new_figure
from tenure.report.colours import BUDGETED, UNBUDGETED
from tenure.report.plan_figures import money

RED = "#d7191c"
WIDTH, HEIGHT = 8.0, 4.2


def write_charts(
    answer: Mapping[str, Any],
    curves: Mapping[str, Any],
    folder: Path,
    formats: Sequence[str] = ("svg", "png"),
) -> list[Path]:
    """Write cost, length and tornado to `folder` in each format; gives the files written."""
    import matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with matplotlib.rc_context(STYLE):  # type: ignore[arg-type]  # keys are checked when set
        drawn = {
            "cost": _cost(answer, curves),
            "length": _length(answer, curves),
            "tornado": _tornado(answer),
        }
        for name, figure in drawn.items():
            for kind in formats:
                file = folder / f"{name}.{kind}"
                dated: dict[str, Any] = {"metadata": {"Date": None}} if kind == "svg" else {}
                figure.savefig(file, format=kind, **dated)
                written.append(file)
    return written


def _cost(answer: Mapping[str, Any], curves: Mapping[str, Any]) -> Any:
    figure = new_figure(WIDTH, HEIGHT)
    axes, best = figure.subplots(), answer["best"]
    if curves["cost"] is not None:
        axes.plot(curves["days"], curves["cost"], color=BUDGETED)
    axes.plot(
        [r["days"] for r in answer["windows"]], [r["cost"] for r in answer["windows"]], "o", color=BUDGETED
    )
    axes.annotate(
        f"{best['days']:g} d, {best['cost']:,.0f}", (best["days"], best["cost"]), xytext=(0, -14),
        textcoords="offset points", ha="center", va="top",
    )  # fmt: skip
    axes.set_xlim(float(curves["days"][0]), float(curves["days"][-1]))
    low, high = axes.get_ylim()
    axes.set_ylim(low - 0.1 * (min(high, 1.4 * best["cost"]) - low), min(high, 1.4 * best["cost"]))
    axes.yaxis.set_major_formatter(lambda value, _: money(value))
    axes.set_title("Expected cost over the window's length")
    axes.set_xlabel("window, days")
    return figure


def _length(answer: Mapping[str, Any], curves: Mapping[str, Any]) -> Any:
    figure = new_figure(WIDTH, HEIGHT)
    axes, length, net = figure.subplots(), curves["length"], curves["net_days"]
    edges, chance = length["edges"], length["chance"]
    axes.stairs(chance, edges, fill=True, color=UNBUDGETED)
    axes.stairs(np.where(edges[:-1] >= net, chance, 0.0), edges, fill=True, color=RED)
    axes.axvline(net, color=INK, linewidth=1.2)
    over = answer["best"]["p_overrun"]
    axes.set_title(f"How long the run takes; {100 * over:.1f} % past {net:.2f} days")
    axes.set_xlabel("days")
    axes.set_yticks([])
    return figure


def _tornado(answer: Mapping[str, Any]) -> Any:
    pairs = [pair for pair in answer["tornado"] if all(one["ends"] for one in pair)]
    figure = new_figure(WIDTH, 1.0 + 0.42 * max(1, len(pairs)))
    axes, base = figure.subplots(), answer["best"]["cost"]
    for row, pair in enumerate(reversed(pairs)):
        for one, colour in zip(pair, (UNBUDGETED, BUDGETED), strict=True):
            if abs(one["kept_cost"] - base) < 0.5:
                continue
            axes.barh(row, one["kept_cost"] - base, left=base, height=0.6, color=colour)
            side = "right" if one["kept_cost"] < base else "left"
            axes.annotate(one["words"], (one["kept_cost"], row), ha=side, va="center", fontsize=7.5,
                          xytext=(-3 if side == "right" else 3, 0), textcoords="offset points")  # fmt: skip
    axes.axvline(base, color=SOFT, linewidth=1)
    axes.set_yticks(range(len(pairs)), [pair[0]["name"] for pair in reversed(pairs)])
    axes.margins(x=0.25)
    axes.xaxis.set_major_formatter(lambda value, _: money(value))
    axes.set_title("Cost of this window with each assumption moved")
    return figure
