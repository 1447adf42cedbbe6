"""The answer of `plan capping`: which breakers are passed, whom to cap for the least loss, how it plays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tenure.planner.capping import CannotShed
from tenure.planner.capping_tree import Breaker, Placed, Tree, least_caps, lost_racks
from tenure.planner.plan_power import curve_named
from tenure.planner.play_capping import CappingPlayed, Settings, drawn_use, play_capping
from tenure.planner.power_curves import Curve
from tenure.settings.capping_file import CappingFile
from tenure.settings.errors import BadInput

POINTS = 400  #: of a chart's line at most
CONVENTIONS = {
    "loss_racks": "racks' work lost: over jobs, its racks · (1 - speed at its limit ÷ speed at base_w); a "
    "synchronous job is as slow as its slowest rack, wherever its other racks stand",
    "breakers": "draw with every accelerator at its limit, overhead and multiplier in it",
    "least": "the limits, one a job, that relieve every breaker for the least loss; none below the floor",
    "uniform": "one limit for every job that hangs on a passed breaker",
    "move": "racks moved to spares under breakers with room, nobody capped; a restart's cost is left out",
    "played": "a model of the idea with made draws, nobody's controller; lost_racks is a mean over time",
}


def tree_of(file: CappingFile) -> Tree:
    """The breakers and jobs of a file."""
    rows = {breaker.name: row for row, breaker in enumerate(file.breakers)}
    breakers = [
        Breaker(b.name, b.limit_kw * 1e3, -1 if b.under is None else rows[b.under]) for b in file.breakers
    ]
    jobs = [Placed(job.name, {rows[name]: n for name, n in job.racks.items()}) for job in file.jobs]
    return Tree(breakers, jobs, file.rack.gpus, file.rack.overhead_w, file.rack.multiplier)


def plan_capping(file: CappingFile, *, name: str = "plan") -> dict[str, Any]:
    """The keys of the JSON. BadInput where the base limit is outside the curve, or nothing would do."""
    curve, tree = curve_named(file.curve, file.rated_w), tree_of(file)
    if not curve.holds(file.base_w):
        allowed = f"{curve.low_w:g} to {curve.high_w:g} W: the curve is never extrapolated"
        raise BadInput(name, "base_w", f"{file.base_w:g} W", allowed)
    floor_w = max(file.floor_w, curve.low_w)
    base = np.full(len(tree.jobs), file.base_w)
    drawn_w = tree.drawn_w(base)
    over = np.flatnonzero(drawn_w > tree.limits_w)
    try:
        options = _options(tree, curve, file.base_w, floor_w)
    except CannotShed as cannot:
        allowed = "a higher limit, fewer racks, or a lower floor_w"
        raise BadInput(name, "breakers", str(cannot), allowed) from None
    told: dict[str, Any] = {
        "base_w": file.base_w,
        "floor_w": floor_w,
        "curve": {"name": curve.name, "low_w": curve.low_w, "high_w": curve.high_w},
        "breakers": [
            {
                "name": breaker.name,
                "limit_kw": breaker.limit_w / 1e3,
                "drawn_kw": float(drawn_w[row]) / 1e3,
                "over": max(0.0, float(drawn_w[row] / breaker.limit_w - 1.0)),
                "racks": int(tree.below()[row].sum()),
            }
            for row, breaker in enumerate(tree.breakers)
        ],
        "over": [tree.breakers[int(row)].name for row in over],
        "options": options,
        "move": _move(file, tree, drawn_w),
        "played": _played(file, tree, curve, floor_w),
    }
    told["warnings"] = _warnings(file, told, floor_w, curve)
    told["conventions"] = CONVENTIONS
    return told


def _options(tree: Tree, curve: Curve, base_w: float, floor_w: float) -> list[dict[str, Any]]:
    """Ways to relieve every breaker, the least loss first; `within`: no limit below floor or curve."""
    chosen = least_caps(tree, curve, base_w, floor_w)
    rows = [_row("least", tree, curve, base_w, chosen)]
    below, need_w = tree.below(), tree.drawn_w(np.full(len(tree.jobs), base_w)) - tree.limits_w
    passed = need_w > 0
    if not passed.any():
        return rows
    a_rack_w = tree.gpus * tree.multiplier
    even = np.full(len(tree.jobs), base_w)
    for at in np.flatnonzero(passed):
        cap_w = base_w - need_w[at] / (a_rack_w * below[at].sum())
        even = np.where(below[at] > 0, np.minimum(even, cap_w), even)
    rows.append(_row("uniform", tree, curve, base_w, even))
    for column, job in enumerate(tree.jobs):
        if (below[passed, column] == 0).any():
            continue  # it cannot relieve them all by itself
        alone = np.full(len(tree.jobs), base_w)
        alone[column] -= float((need_w[passed] / (a_rack_w * below[passed, column])).max())
        rows.append(_row(f"only {job.name}", tree, curve, base_w, alone))
    least_w = max(floor_w, curve.low_w)
    for row in rows:
        row["within"] = all(cap_w >= least_w - 1e-6 for cap_w in row["caps_w"].values())
        if not row["within"]:
            row["loss_racks"] = None  # the curve does not reach there: no number is told
    return [rows[0], *sorted(rows[1:], key=lambda row: row["loss_racks"] or math.inf)]


def _row(name: str, tree: Tree, curve: Curve, base_w: float, caps_w: np.ndarray) -> dict[str, Any]:
    caps = {job.name: float(cap) for job, cap in zip(tree.jobs, caps_w) if cap < base_w - 1e-6}
    loss = lost_racks(tree, curve, base_w, np.clip(caps_w, curve.low_w, curve.high_w))
    return {"name": name, "caps_w": caps, "loss_racks": loss, "within": True}


def _move(file: CappingFile, tree: Tree, drawn_w: np.ndarray) -> dict[str, Any]:
    """Racks to move off each passed breaker, and whether spares under breakers with room take them."""
    rack_w = float(tree.rack_w(file.base_w))
    racks = {
        breaker.name: math.ceil((drawn_w[row] - breaker.limit_w) / rack_w - 1e-9)
        for row, breaker in enumerate(tree.breakers)
        if drawn_w[row] > breaker.limit_w
    }
    room = 0
    for row, breaker in enumerate(file.breakers):
        above, free = row, breaker.spare
        while above >= 0:
            free = min(free, math.floor((tree.breakers[above].limit_w - drawn_w[above]) / rack_w + 1e-9))
            above = tree.breakers[above].under
        room += max(0, free)
    need = max(racks.values(), default=0)
    return {"racks": racks, "spares_with_room": room, "enough": room >= need}


def _played(file: CappingFile, tree: Tree, curve: Curve, floor_w: float) -> dict[str, Any] | None:
    """The controller's hour, job by job and with one limit for all, beside no controller."""
    told = file.controller
    if told is None:
        return None
    settings = Settings(
        file.base_w, floor_w, told.high, told.low, told.every, told.settle,
        told.rise_w, told.hold, told.patience, told.trip,
    )  # fmt: skip
    readings = int(told.lasts / told.every)
    rng = np.random.default_rng(told.seed)
    wanted = drawn_use(rng, len(tree.jobs), readings, told.every, told.busy, told.swing)
    seen = np.ones(readings, bool)
    if told.dark is not None:
        at_s = told.every * np.arange(readings)
        seen = (at_s < told.dark[0]) | (at_s >= told.dark[1])
    aware = play_capping(tree, curve, settings, wanted, seen)
    even = play_capping(tree, curve, settings, wanted, seen, even=True)
    idle = Settings(**{**vars(settings), "high": 1e9, "patience": readings + 1})
    nobody = play_capping(tree, curve, idle, wanted, seen)
    names = [job.name for job in tree.jobs]
    return {
        "job_aware": _summary(aware),
        "even": _summary(even),
        "none": _summary(nobody),
        "dark": told.dark,
        "lines": _lines(aware, even, nobody, names),
    }


def _summary(played: CappingPlayed) -> dict[str, Any]:
    return {
        "lost_racks": played.lost_racks,
        "most_drawn": float(played.drawn.max()),
        "over_s": played.over_s,
        "tripped": played.tripped,
    }


def _lines(
    aware: CappingPlayed, even: CappingPlayed, nobody: CappingPlayed, names: list[str]
) -> dict[str, Any]:
    """What the page draws: thinned, the greatest of each stretch kept."""
    width = max(1, math.ceil(len(aware.at_s) / POINTS))
    starts = np.arange(0, len(aware.at_s), width)
    drawn = {"job by job": aware.drawn, "one limit for all": even.drawn, "no controller": nobody.drawn}
    return {
        "at_s": aware.at_s[starts].tolist(),
        "drawn": {name: np.maximum.reduceat(values, starts).tolist() for name, values in drawn.items()},
        "caps_w": {name: aware.caps_w[starts, column].tolist() for column, name in enumerate(names)},
    }


def _warnings(file: CappingFile, told: dict[str, Any], floor_w: float, curve: Curve) -> list[str]:
    found = []
    if file.floor_w < curve.low_w:
        found.append(f"the floor is {floor_w:g} W, where the curve begins: nothing is known below it")
    if not told["over"]:
        found.append("no breaker is passed at base_w: nobody need be capped")
    for option in told["options"]:
        if not option["within"]:
            found.append(f"{option['name']} would go below {floor_w:g} W: refused, no loss is told for it")
    move = told["move"]
    if move["racks"] and move["enough"]:
        racks = max(move["racks"].values())
        found.append(f"spare racks with room could take the {racks} racks too many: then nobody is capped")
    played = told["played"]
    if played:
        if played["none"]["tripped"]:
            found.append(f"without a controller breaker {played['none']['tripped']} would trip")
        for name in ("job_aware", "even"):
            if played[name]["tripped"]:
                found.append(f"{name}: breaker {played[name]['tripped']} trips all the same")
    return found
