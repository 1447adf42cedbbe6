"""The answer of `plan spares`: what to buy so that a job keeps its shape, by availability and by mission."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import special

from tenure.planner import chains
from tenure.planner.parts import mean_wait
from tenure.planner.play_fleet import Part, PlayedFleet, draws
from tenure.planner.play_nodes import PlayedNodes, lacking
from tenure.planner.racks import CommonCause, Rack, Zone
from tenure.planner.spares import (
    Fleet,
    NeverEnough,
    covered,
    covered_in_mission,
    spares_at_instant,
    spares_for_mission,
    spares_for_most_work,
)
from tenure.planner.spares_at_work import scenario_of
from tenure.settings.errors import BadInput
from tenure.settings.spares_file import SparesFile

YEAR_S = 365.25 * 86_400.0
DAY_S = 86_400.0
MORE_ROWS = 5  #: of the table, past the last spare count that an answer names
MOST_ROWS = 500
QUANTILES = (0.05, 0.5, 0.95)
CONFIDENCES = (0.95, 0.99, 0.999, 0.9999)
LARGEST_Q = 0.5  #: racks down half the time: no question of spares any more

CONVENTIONS = {
    "p_rack": "(1 - rack) · P(at least the needed trays are up); a tray fails as one; at an instant",
    "p_ok": "P(every zone has its active racks up), at an instant, with racks.spare spares",
    "racks.spare": "the fewest with p_ok >= confidence, over all zones, each zone the same number",
    "mission": "the fewest with which no shortage begins at any time of the mission, from the steady state: "
    "exp(-nu H), common causes in nu, and enough at an instant too; too low where shortages are not rare, as "
    "one is often followed by the next: exact is a chain of failures and repairs by chance, from the steady "
    "state; p_from_ready: the same begun with every rack up",
    "optimum": "the most of active/(active + spare) · p_ok; racks only, held GPUs left out",
    "idle_spares": "GPUs of spare racks up and not needed, on average; work that can be stopped may use "
    "them; the scenario plays it by the scheduler (--scenario FILE, then tenure simulate FILE)",
    "gpus.of_bought, gpus.of_job": "difference ÷ bought, difference ÷ job",
}


def rack_of(file: SparesFile, held: int | None = None) -> Rack:
    """The rack of a file, or the same with another number of GPUs held."""
    tray = file.rack.tray_gpus
    used = file.usable if held is None else file.rack.gpus - held
    down = file.unavailability
    return Rack(file.rack.gpus // tray, -(-used // tray), down.of("tray"), down.of("rack"))


def fleet_of(file: SparesFile, q: float, active: int | None = None) -> Fleet:
    """The zones of a file, each rack down the part `q` of the time."""
    told, common = file.common_cause, None
    if told is not None:
        common = CommonCause(told.per_year / YEAR_S * told.mttr / file.zones, told.racks, told.mttr)
    crews = None if file.crews is None else file.crews // file.zones
    racks = file.active if active is None else active
    return Fleet(Zone(racks // file.zones, q, crews, common), file.zones)


def with_waits(file: SparesFile, spare: int = 0) -> SparesFile:
    """The file with the mean wait for parts in its repair times, as failures of so many racks need them."""
    if file.parts is None:
        return file
    down, racks, longer = file.unavailability, file.active + spare, {}
    for what, each in (("tray", file.rack.gpus // file.rack.tray_gpus), ("rack", 1)):
        told, mttr = getattr(file.parts, what), getattr(down, f"{what}_mttr")
        if told is not None:
            rate = racks * each / getattr(down, f"{what}_mtbf")
            longer[f"{what}_mttr"] = mttr + mean_wait(rate, told.on_site, told.turnaround)
    changed: dict[str, Any] = {"unavailability": down.model_copy(update=longer)}
    if file.mttr is not None and "rack_mttr" in longer:
        changed["mttr"] = file.mttr + longer["rack_mttr"] - (down.rack_mttr or 0.0)
    return file.model_copy(update=changed)


def _waits(file: SparesFile, settled: SparesFile) -> dict[str, Any] | None:
    """What parts add to repairs."""
    if file.parts is None:
        return None
    return {
        what: {
            "wait_s": getattr(settled.unavailability, f"{what}_mttr")
            - getattr(file.unavailability, f"{what}_mttr"),
            "unavailability": settled.unavailability.of(what),
            "unavailability_without": file.unavailability.of(what),
        }
        for what in ("tray", "rack")
        if getattr(file.parts, what) is not None
    }


def plan_spares(file: SparesFile, *, name: str = "plan") -> dict[str, Any]:
    """The keys of the plan's JSON. BadInput where racks are down so much that spares are no answer."""
    given, file = file, with_waits(file)
    rack = rack_of(file)
    if rack.q > LARGEST_Q:
        found = f"racks that are of no use {rack.q:.0%} of the time"
        raise BadInput(name, "unavailability", found, f"at most {LARGEST_Q:.0%}")
    fleet = fleet_of(file, rack.q)
    try:
        spare = spares_at_instant(fleet, file.confidence)
        mission = _mission(file, fleet)
    except NeverEnough as never:
        raise BadInput(name, "crews", f"{file.crews} crews", str(never)) from None
    optimum = spares_for_most_work(fleet, file.elastic)
    bought = (fleet.active + spare) * file.rack.gpus
    more = bought - file.job.gpus
    rows = min(MOST_ROWS, max(spare, optimum, mission["spare"] if mission else 0) + MORE_ROWS * file.zones)
    told: dict[str, Any] = {
        "p_rack": rack.p_up,
        "rack_unavailability": rack.q,
        "confidence": file.confidence,
        "racks": {"active": fleet.active, "spare": spare, "total": fleet.active + spare},
        "gpus": {
            "job": file.job.gpus,
            "bought": bought,
            "difference": more,
            "of_bought": more / bought,
            "of_job": more / file.job.gpus,
        },
        "p_ok": fleet.p_ok(spare),
        "mission": mission,
        "optimum": {"spare": optimum, "productive_share": fleet.productive(optimum, file.elastic)},
        "table": [
            {"spare": s, "p_ok": fleet.p_ok(s), "productive_share": fleet.productive(s, file.elastic)}
            for s in range(0, rows + 1, file.zones)
        ],
        "waits_for_parts": _waits(given, file),
        "alternatives": _alternatives(file),
        "over_q": _over_q(file, rack),
        "bought_covers": _covers(file, fleet),
        "cost": _cost(file, bought, spare),
        "played": _played(file, fleet, sorted({spare, mission["spare"] if mission else spare})),
    }
    told["idle_spares"] = {
        "gpus": round(max(0.0, spare - rack.q * (fleet.active + spare)) * file.usable),
        "scenario": scenario_of(file, rack.q, spare) if rack.q > 0 else None,
    }
    told["warnings"] = _warnings(file, told, fleet)
    told["conventions"] = CONVENTIONS
    return told


def _mission(file: SparesFile, fleet: Fleet) -> dict[str, Any] | None:
    if file.mission is None or file.rack_mttr_s is None:
        return None
    mttr = file.rack_mttr_s
    spare = spares_for_mission(fleet, file.confidence, file.mission, mttr)
    at_instant = spares_at_instant(fleet, file.confidence)
    return {
        "spare": spare,
        "p_no_shortage": fleet.p_no_shortage(spare, file.mission, mttr),
        "p_from_ready": _worked_out(fleet.p_from_ready, fleet, spare, file.mission, mttr),
        "p_with_racks_spare": fleet.p_no_shortage(at_instant, file.mission, mttr),
        "p_unbroken_with_racks_spare": _worked_out(fleet.p_unbroken, fleet, at_instant, file.mission, mttr),
        "mission_s": file.mission,
        "mttr_s": mttr,
    }


def _worked_out(
    chance: Callable[[int, float, float], float], fleet: Fleet, spare: int, mission: float, mttr: float
) -> float | None:
    """An exact chance of the fleet, where its chain is short enough to be worked out."""
    if chains.states(fleet.zone, spare // fleet.zones) > chains.MOST_STATES:
        return None
    return chance(spare, mission, mttr)


def _alternatives(file: SparesFile) -> list[dict[str, Any]]:
    """The same job on racks that hold back more or fewer trays, each with the spares it then needs."""
    tray = file.rack.tray_gpus
    found: list[dict[str, Any]] = []
    for held in range(0, file.rack.gpus, tray):
        used = (file.rack.gpus - held) // file.job.width * file.job.width
        if used < file.rack.gpus // 2 or used == 0:
            break
        if found and used == found[-1]["per_rack"]:
            continue  # the width leaves no more to use
        active = -(-file.job.gpus // used)
        if active % file.zones:
            active += file.zones - active % file.zones
        rack = rack_of(file, file.rack.gpus - used)
        if rack.q > LARGEST_Q:
            continue
        fleet = fleet_of(file, rack.q, active)
        try:
            spare = spares_at_instant(fleet, file.confidence)
        except NeverEnough:
            continue
        bought = (active + spare) * file.rack.gpus
        found.append(
            {
                "held": file.rack.gpus - used,
                "per_rack": used,
                "rack_unavailability": rack.q,
                "active": active,
                "spare": spare,
                "bought": bought,
                "of_bought": 1.0 - file.job.gpus / bought,
                "p_ok": fleet.p_ok(spare),
                "cost": None if file.prices is None else bought * file.prices.per_gpu,
            }
        )
    return found


def _over_q(file: SparesFile, rack: Rack) -> list[dict[str, Any]] | None:
    """The spare count over what is believed of rack failures: a Gamma posterior, Jeffreys' prior."""
    if file.seen is None or file.rack_mttr_s is None:
        return None
    rows = []
    for p in QUANTILES:
        per_day = float(special.gammaincinv(file.seen.events + 0.5, p)) / file.seen.rack_days
        load = per_day * file.rack_mttr_s / DAY_S
        q = replace(rack, rack_down=load / (1.0 + load)).q
        try:
            spare = spares_at_instant(fleet_of(file, q), file.confidence) if q <= LARGEST_Q else None
        except NeverEnough:
            spare = None
        rows.append({"quantile": p, "rack_unavailability": q, "spare": spare})
    return rows


def _covers(file: SparesFile, fleet: Fleet) -> dict[str, Any] | None:
    """Backwards: what a purchase covers."""
    if file.bought is None:
        return None
    racks = file.bought // file.rack.gpus
    spare = (racks - fleet.active) // file.zones * file.zones
    mttr = file.rack_mttr_s
    return {
        "racks": racks,
        "spare": spare,
        "p_ok": fleet.p_ok(spare),
        "rack_unavailability": covered(fleet, spare, file.confidence),
        "rack_unavailability_in_mission": covered_in_mission(
            fleet, spare, file.confidence, file.mission, mttr
        )
        if file.mission is not None and mttr is not None
        else None,
        "at": [{"confidence": c, "rack_unavailability": covered(fleet, spare, c)} for c in CONFIDENCES],
    }


def _played(file: SparesFile, fleet: Fleet, spares: list[int]) -> list[dict[str, Any]] | None:
    """The mission played draw by draw with so many spares, beside what the formulas say."""
    told, down = file.play, file.unavailability
    if told is None or file.mission is None or file.rack_mttr_s is None:
        return None
    tray, whole = (Part(getattr(down, f"{w}_mtbf"), getattr(down, f"{w}_mttr")) for w in ("tray", "rack"))
    common, common_racks = None, 0
    if file.common_cause is not None:
        common = Part(YEAR_S / file.common_cause.per_year, file.common_cause.mttr)
        common_racks = file.common_cause.racks
    rack, found = rack_of(file), []
    for spare in spares:
        if file.crews is not None or file.zones > 1:
            found.append(_played_zones(file, fleet, spare))
            continue
        played = PlayedFleet(
            fleet.active + spare, fleet.active, rack.trays, rack.needed, tray, whole, common, common_racks
        )
        drawn = list(draws(told.seed, played, None, file.mission, told.draws))
        short = np.array([draw.short for draw in drawn])
        found.append(
            {
                "spare": spare,
                "draws": told.draws,
                "p_ok": 1.0 - float(short.mean()),
                "p_ok_error": float(short.std(ddof=1)) / told.draws**0.5,
                "p_ok_formula": fleet.p_ok(spare),
                "p_no_shortage": float((short == 0).mean()),
                "p_no_shortage_formula": fleet.p_no_shortage(spare, file.mission, file.rack_mttr_s),
                "p_no_shortage_exact": _worked_out(
                    fleet.p_unbroken, fleet, spare, file.mission, file.rack_mttr_s
                ),
            }
        )
    return found


def _played_zones(file: SparesFile, fleet: Fleet, spare: int) -> dict[str, Any]:
    """Zones, each with its crews, played rack by rack (trays in a rack's rate): short where any is."""
    told, mission, mttr, zone = file.play, file.mission, file.rack_mttr_s, fleet.zone
    assert told is not None
    assert mission is not None
    assert mttr is not None
    law = Part(mttr * (1.0 - zone.q) / zone.q, mttr)
    common, racks = None, 0
    if file.common_cause is not None:
        common = Part(YEAR_S / file.common_cause.per_year * file.zones, file.common_cause.mttr)
        racks = file.common_cause.racks
    yard = PlayedNodes(
        zone.active + spare // file.zones, zone.active, law, zone.crews, common=common, common_nodes=racks
    )
    short, none = [], []
    for draw in range(told.draws):
        zones = [
            lacking(np.random.default_rng([told.seed, draw, place]), yard, mission)
            for place in range(file.zones)
        ]
        up = np.prod([1.0 - float((one.ends - one.starts).sum()) / mission for one in zones])
        short.append(1.0 - float(up))
        none.append(all(len(one.starts) == 0 for one in zones))
    return {
        "spare": spare,
        "draws": told.draws,
        "p_ok": 1.0 - float(np.mean(short)),
        "p_ok_error": float(np.std(short, ddof=1)) / told.draws**0.5,
        "p_ok_formula": fleet.p_ok(spare),
        "p_no_shortage": float(np.mean(none)),
        "p_no_shortage_formula": fleet.p_no_shortage(spare, mission, mttr),
        "p_no_shortage_exact": _worked_out(fleet.p_unbroken, fleet, spare, mission, mttr),
    }


def _cost(file: SparesFile, bought: int, spare: int) -> dict[str, float] | None:
    if file.prices is None:
        return None
    price = file.prices.per_gpu
    return {
        "bought": bought * price,
        "difference": (bought - file.job.gpus) * price,
        "spare_racks": spare * file.rack.gpus * price,
    }


def _warnings(file: SparesFile, told: dict[str, Any], fleet: Fleet) -> list[str]:
    spare, mission, optimum = told["racks"]["spare"], told["mission"], told["optimum"]["spare"]
    found = []
    if mission is None:
        found.append(
            "availability only: p_ok says whether enough racks are up at an instant; give mission and mttr "
            "to ask whether they are through a whole run, which needs more spares"
        )
    elif mission["spare"] > spare:
        exact = mission["p_unbroken_with_racks_spare"]
        chance = mission["p_with_racks_spare"] if exact is None else exact
        found.append(
            f"{spare} spares are enough at an instant with {file.confidence:g}; without one shortage in "
            f"{(file.mission or 0) / DAY_S:g} days it takes {mission['spare']} (with {spare}: "
            f"{chance:.4f})"
        )
    if file.elastic:
        found.append(
            "elastic: a job that shrinks with its racks does most work per rack bought with no spares at all"
        )
    elif optimum > spare:
        found.append(
            f"{optimum} spares would do more work per rack bought than {spare}: a job out of shape does none"
        )
    if file.crews is None:
        found.append("repair is taken to be unlimited: give crews where technicians or parts are few")
    if file.common_cause is None:
        found.append(
            "racks are taken to fail apart: give common_cause where power, cooling or a roll-out takes many"
        )
    tray = told["rack_unavailability"] - file.unavailability.of("rack")
    if tray > file.unavailability.of("rack"):
        found.append(
            f"most of a rack's unavailability ({tray:.4f} of {told['rack_unavailability']:.4f}) is trays: "
            "holding one more back in each rack may be cheaper than spare racks (see alternatives)"
        )
    if file.parts is None:
        found.append("parts are taken to be at hand: give parts where a repair may wait for one")
    if file.zones > 1 and file.crews is None and file.common_cause is None:
        shared = spares_at_instant(
            replace(fleet, zone=replace(fleet.zone, active=fleet.active), zones=1), file.confidence
        )
        if shared < spare:
            found.append(f"zones that shared their spares would need {shared} instead of {spare}")
    return found
