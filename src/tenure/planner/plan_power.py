"""The answer of `plan power`: which limit gives the most work under a site's supply, and what others give."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tenure.planner.power import (
    Reference,
    Site,
    at_edge,
    cap_within,
    capital_for,
    choose_under,
    cluster,
    limit_factor,
    optimum_w,
    per_gpu,
    straggler_speed,
    stranded,
)
from tenure.planner.power_curves import Curve, OutsideCurve, gb200_fit, h100_mayr, through
from tenure.settings.errors import BadInput
from tenure.settings.power_file import Points, PowerFile

HOURS_A_YEAR = 8766.0
CONVENTIONS = {
    "gpus": "⌊site ÷ (multiplier · (cap + overhead_w))⌋",
    "per_gpu": "speed at the limit ÷ speed at the reference limit",
    "cluster": "per_gpu ÷ (cap + overhead_w), relative to the reference limit; accelerators not rounded",
    "optimum": "the most of per_gpu ÷ (cap + overhead_w + capital_w), within the curve, to 1 W",
    "split_w": "site watts of one accelerator at the optimum, by what takes them; each part of what it "
    "carries, cooling of all of it; they sum to all_in_w",
    "seasons": "gpus: fed at the best limit; cap_w: the limit to which the fleet of the optimum must go",
    "breakers": "the limit each allows if all below draw it at once; path_cap_w: the least up the tree; "
    "over: what the optimum passes it by",
    "regret": "the part of its own best that one limit leaves undone, under each curve; least worst",
    "cap_w": "the limit that is set; what is drawn may stay below it (see drawn_axis)",
}
LABELS = {
    "gb200_fit": "gb200_fit is made, not measured: one line through three published statements on GB200",
    "h100_mayr": "h100_mayr is measured, Llama 3 8B on 4 H100 (Mayr et al. 2026), carried over by cap/rated",
}


def curve_of(file: PowerFile) -> Curve:
    """The curve of a file."""
    return curve_named(file.curve, file.rated_w)


def curve_named(curve: str | Points, rated_w: float) -> Curve:
    """The curve that a file names or gives points of."""
    if curve == "gb200_fit":
        return gb200_fit()
    if curve == "h100_mayr":
        return h100_mayr(rated_w)
    assert not isinstance(curve, str)
    return through(curve)


def site_of(file: PowerFile) -> Site:
    """The site of a file, in watts."""
    return Site(file.site_mw * 1e6, file.site_multiplier, file.overhead_w, file.capital_w)


def plan_power(file: PowerFile, *, name: str = "plan") -> dict[str, Any]:
    """The keys of the plan's JSON. BadInput for a limit the curve does not reach."""
    curve, site = curve_of(file), site_of(file)
    reference = Reference.of(curve, file.rated_w)
    best = _whole(curve, optimum_w(site, curve))
    asked = []
    for index, cap_w in enumerate(file.at):
        try:
            asked.append(_row(file, site, curve, reference, cap_w))
        except OutsideCurve as outside:
            allowed = f"{outside.low_w:g} to {outside.high_w:g} W: the curve is never extrapolated"
            raise BadInput(name, f"at[{index}]", f"{cap_w:g} W", allowed) from None
    told: dict[str, Any] = {
        "curve": {"name": curve.name, "low_w": curve.low_w, "high_w": curve.high_w},
        "reference_w": reference.cap_w,
        "optimum": _row(file, site, curve, reference, best),
        "at": asked,
        "capital_for_at_w": [capital_for(site, curve, row["cap_w"]) for row in asked],
        "drawn_axis": _drawn(file, site),
        "split_w": _split(file, site, best),
        "idle": _idle(file, site, curve, reference),
        "stragglers": _stragglers(file),
        "seasons": _seasons(file, site, curve, reference, best),
        "breakers": _breakers(file, best),
        "regret": _regret(file, site, curve),
        "stranded": None if file.measured_w is None else stranded(site, file.rated_w, file.measured_w),
    }
    told["warnings"] = _warnings(file, site, curve, reference, best)
    told["conventions"] = CONVENTIONS
    return told


def _whole(curve: Curve, cap_w: float) -> float:
    return min(max(float(round(cap_w)), curve.low_w), curve.high_w)


def _row(file: PowerFile, site: Site, curve: Curve, reference: Reference, cap_w: float) -> dict[str, Any]:
    gpus = site.gpus(cap_w)
    energy = gpus * site.all_in_w(cap_w) / 1e6 * HOURS_A_YEAR
    row: dict[str, Any] = {
        "cap_w": cap_w,
        "gpus": gpus,
        "per_gpu": per_gpu(curve, reference, cap_w),
        "cluster": cluster(site, curve, reference, cap_w),
        "all_in_w": site.all_in_w(cap_w),
        "mwh_a_year": energy,
    }
    if file.price_per_mwh is not None:
        row["energy_cost_a_year"] = energy * file.price_per_mwh
    return row


def _drawn(file: PowerFile, site: Site) -> dict[str, Any] | None:
    """The same over watts really drawn, where they were measured: a limit overstates what it saves."""
    if file.curve != "h100_mayr":
        return None
    curve = h100_mayr(file.rated_w, drawn=True)
    reference = Reference.of(curve, file.rated_w)
    return {
        "optimum": _row(file, site, curve, reference, _whole(curve, optimum_w(site, curve))),
        "reference_w": reference.cap_w,
    }


def _idle(file: PowerFile, site: Site, curve: Curve, reference: Reference) -> dict[str, Any] | None:
    if file.idle is None:
        return None
    factor = limit_factor(file.idle.gpus, file.idle.held, file.idle.draw)
    worth = [
        {
            "cap_w": cap_w,
            "raised_w": cap_w * factor,
            "per_gpu_factor": curve(cap_w * factor) / curve(cap_w) if curve.holds(cap_w * factor) else None,
        }
        for cap_w in file.at
    ]
    return {"limit_factor": factor, "at": worth}


def _seasons(
    file: PowerFile, site: Site, curve: Curve, reference: Reference, best_w: float
) -> list[dict[str, Any]]:
    """What each season feeds at the best limit, and to which limit the fleet bought must go in it."""
    fleet = site.gpus(best_w)
    found = []
    for season in file.seasons:
        multiplier = file.season_multiplier(season)
        if fleet == 0:
            break  # the site feeds none at this limit
        other = replace(site, multiplier=multiplier)
        cap_w = cap_within(site.site_w, fleet, multiplier, site.overhead_w)
        reached = curve.holds(cap_w)
        found.append(
            {
                "name": season.name,
                "multiplier": multiplier,
                "gpus": other.gpus(best_w),
                "cap_w": cap_w,
                "per_gpu": per_gpu(curve, reference, cap_w) if reached else None,
            }
        )
    return found


def _breakers(file: PowerFile, best_w: float) -> list[dict[str, Any]]:
    """The limit each breaker allows if all below it draw it at once; the tightest first."""
    placed = _placed(file)
    rows: list[dict[str, Any]] = []
    for breaker in file.breakers:
        gpus = placed[breaker.name]
        cap_w = cap_within(breaker.limit_kw * 1e3, gpus, breaker.multiplier, file.overhead_w)
        drawn_w = gpus * breaker.multiplier * (best_w + file.overhead_w)
        over = drawn_w / (breaker.limit_kw * 1e3) - 1.0
        rows.append({"name": breaker.name, "gpus": gpus, "cap_w": cap_w, "over": max(0.0, over)})
    by_name = {row["name"]: row for row in rows}
    for breaker, row in zip(file.breakers, rows, strict=True):  # each after the one above it
        above = by_name[breaker.under]["path_cap_w"] if breaker.under is not None else row["cap_w"]
        row["path_cap_w"] = min(row["cap_w"], above)
    return sorted(rows, key=lambda row: float(row["cap_w"]))


def _placed(file: PowerFile) -> dict[str, int]:
    """Accelerators on each breaker and on those under it."""
    found = {breaker.name: breaker.gpus for breaker in file.breakers}
    for breaker in reversed(file.breakers):
        if breaker.under is not None:
            found[breaker.under] += found[breaker.name]
    return found


def _split(file: PowerFile, site: Site, cap_w: float) -> dict[str, float] | None:
    """An accelerator's site watts by what takes them; they sum to `all_in_w`."""
    if not file.overheads:
        return None
    watts = {"accelerator": cap_w, "its share of the rack": site.overhead_w}
    reached = cap_w + site.overhead_w
    for name, part in file.parts.items():
        watts[name] = reached * part
        reached *= 1.0 + part
    cooling = {} if file.cooling is None else file.cooling.shares()
    return watts | {name: reached * part for name, part in cooling.items()}


def _regret(file: PowerFile, site: Site, curve: Curve) -> dict[str, Any] | None:
    if not file.beside:
        return None
    curves = {"curve": curve} | {name: curve_named(told, file.rated_w) for name, told in file.beside.items()}
    choice = choose_under(site, curves)
    return None if choice is None else {"cap_w": choice.cap_w, "worst": choice.worst, "of": choice.regret}


def _stragglers(file: PowerFile) -> dict[str, Any] | None:
    told = file.stragglers
    return None if told is None else {"speed": straggler_speed(told.gpus, told.sigma), "gpus": told.gpus}


def _warnings(file: PowerFile, site: Site, curve: Curve, reference: Reference, best_w: float) -> list[str]:
    found = [LABELS[curve.name]] if curve.name in LABELS else []
    if not reference.rated:
        found.append(
            f"the curve does not reach {file.rated_w:g} W: per_gpu and cluster are relative to its highest "
            f"point, {reference.cap_w:g} W"
        )
    if at_edge(curve, optimum_w(site, curve)):
        found.append(f"the optimum lies on the curve's edge, {best_w:g} W: the true one may lie beyond")
    if file.capital_w == 0:
        found.append(
            "capital_w is 0: power alone is scarce here, and accelerators cost nothing; this limit is too "
            "low where they do"
        )
    for row in _breakers(file, best_w):
        if row["over"] > 0:
            found.append(
                f"breaker {row['name']}: at {best_w:g} W all below it would pass its limit by "
                f"{row['over']:.1%}; "
                f"it allows {row['cap_w']:.0f} W, or a controller that caps the jobs that lose least"
            )
    if file.beside and _regret(file, site, curve) is None:
        found.append("the curves beside share no limit with this one: none can be chosen under all of them")
    if file.stragglers is None:
        found.append(
            "an even limit makes a synchronous job as slow as its slowest accelerator: give stragglers: "
            "{sigma, gpus}"
        )
    if isinstance(file.curve, tuple) and any(b[1] < a[1] for a, b in zip(file.curve, file.curve[1:])):
        found.append("the curve falls somewhere as watts rise: look at its points")
    return found
