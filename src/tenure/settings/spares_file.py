"""The file of `plan spares`: a job in racks, how often trays and racks are down, how sure one must be."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, model_validator

from tenure.settings.errors import BadInput, Checked, checked
from tenure.settings.plan_units import OpenPart, Positive, Price, SomeSeconds, part
from tenure.settings.units import Flag, whole
from tenure.settings.yaml_file import read_yaml

MOST_GPUS = 100_000_000
MOST_IN_RACK = 10_000
MOST_RACKS = 100_000
Gpus = Annotated[int, BeforeValidator(whole(1, MOST_GPUS, "a whole number of GPUs"))]
RackGpus = Annotated[int, BeforeValidator(whole(1, MOST_IN_RACK, "a whole number of GPUs"))]
HeldGpus = Annotated[int, BeforeValidator(whole(0, MOST_IN_RACK, "a whole number of GPUs"))]
Crews = Annotated[int, BeforeValidator(whole(1, MOST_RACKS, "a whole number of crews"))]
Zones = Annotated[int, BeforeValidator(whole(1, 10_000, "a whole number of zones"))]


def _down(value: Any) -> float:
    found = part(value)
    if found == 1:
        raise ValueError("a part of the time such as 0.5% or 0.005, below 100%")
    return found


Down = Annotated[float, BeforeValidator(_down)]


class RackJobFile(Checked):
    """`width`: GPUs that must lie in one rack together; what a rack has over whole multiples is of no use."""

    gpus: Gpus
    per_rack: RackGpus
    width: RackGpus = 1


class RackFile(Checked):
    gpus: RackGpus
    tray_gpus: RackGpus
    held: HeldGpus


class DownFile(Checked):
    """The part of time trays, and racks as a whole, are down; or mean times to failure and to repair."""

    tray: Down | None = None
    rack: Down | None = None
    tray_mtbf: SomeSeconds | None = None
    tray_mttr: SomeSeconds | None = None
    rack_mtbf: SomeSeconds | None = None
    rack_mttr: SomeSeconds | None = None

    @model_validator(mode="after")
    def _each_once(self) -> DownFile:
        for what in ("tray", "rack"):
            direct = getattr(self, what) is not None
            times = [getattr(self, f"{what}_{kind}") is not None for kind in ("mtbf", "mttr")]
            if direct == all(times) or any(times) != all(times):
                raise ValueError(f"either {what} (a part of the time), or {what}_mtbf with {what}_mttr")
        return self

    def of(self, what: str) -> float:
        """The part of time a `tray` or a `rack` is down."""
        direct: float | None = getattr(self, what)
        if direct is not None:
            return direct
        mtbf, mttr = getattr(self, f"{what}_mtbf"), getattr(self, f"{what}_mttr")
        return float(mttr / (mtbf + mttr))


class CommonCauseFile(Checked):
    """Events that take several racks at once, in any one zone: power, cooling, a roll-out."""

    per_year: Positive
    racks: Annotated[int, BeforeValidator(whole(1, MOST_RACKS, "a whole number of racks"))]
    mttr: SomeSeconds


class PartsFile(Checked):
    """Parts that a repair waits for: so many on site, each one used there again after `turnaround`."""

    on_site: Annotated[int, BeforeValidator(whole(0, MOST_RACKS, "a whole number of parts"))]
    turnaround: SomeSeconds


class AllPartsFile(Checked):
    tray: PartsFile | None = None
    rack: PartsFile | None = None


class SeenRacksFile(Checked):
    """Rack failures counted, and the rack-days over which: q is then known to a credible interval."""

    events: Annotated[int, BeforeValidator(whole(0, 10**9, "a whole number of failures"))]
    rack_days: Positive


class PlayFile(Checked):
    """The whole fleet played failure by failure, beside the formulas."""

    draws: Annotated[int, BeforeValidator(whole(10, 100_000, "a whole number of draws"))] = 200
    seed: Annotated[int, BeforeValidator(whole(0, 2**63 - 1))] = 7


class SparesPricesFile(Checked):
    per_gpu: Price


class SparesFile(Checked):
    job: RackJobFile
    rack: RackFile
    unavailability: DownFile
    confidence: OpenPart
    mission: SomeSeconds | None = None
    mttr: SomeSeconds | None = None
    zones: Zones = 1
    elastic: Flag = False
    crews: Crews | None = None
    common_cause: CommonCauseFile | None = None
    parts: AllPartsFile | None = None
    seen: SeenRacksFile | None = None
    bought: Gpus | None = None
    prices: SparesPricesFile | None = None
    play: PlayFile | None = None

    @property
    def rack_mttr_s(self) -> float | None:
        """Mean seconds to repair a rack, where known."""
        return self.mttr if self.mttr is not None else self.unavailability.rack_mttr

    @property
    def usable(self) -> int:
        """GPUs of a rack that the job uses, whole widths only."""
        return self.job.per_rack - self.job.per_rack % self.job.width

    @property
    def active(self) -> int:
        """Racks the job runs on."""
        return -(-self.job.gpus // self.usable)


def read_spares_file(path: Path) -> SparesFile:
    """The plan of a file; BadInput where it is wrong."""
    return spares_file_of(read_yaml(path), file=str(path))


def spares_file_of(raw: Any, *, file: str = "plan") -> SparesFile:
    """The plan of a mapping."""
    plan = checked(SparesFile, raw, file=file)
    job, rack = plan.job, plan.rack
    if job.per_rack + rack.held != rack.gpus:
        raise BadInput(
            file,
            "rack.held",
            f"{rack.held} held and {job.per_rack} used in a rack of {rack.gpus}",
            "job.per_rack + rack.held = rack.gpus",
        )
    if rack.gpus % rack.tray_gpus:
        found = f"{rack.tray_gpus} of {rack.gpus} GPUs"
        raise BadInput(file, "rack.tray_gpus", found, "whole trays in a rack")
    if plan.usable == 0:
        raise BadInput(file, "job.width", f"{job.width} GPUs", f"at most job.per_rack ({job.per_rack})")
    if plan.active > MOST_RACKS:
        raise BadInput(file, "job.gpus", f"{plan.active} racks", f"at most {MOST_RACKS} racks")
    for key, noun, number in (("zones", "racks", plan.active), ("crews", "crews", plan.crews or 0)):
        if number % plan.zones:
            raise BadInput(file, key, f"{number} {noun} in {plan.zones} zones", f"{noun} that divide evenly")
    for key in ("mission", "seen"):
        if getattr(plan, key) is not None and plan.rack_mttr_s is None:
            raise BadInput(file, "mttr", "nothing", f"the mean repair time of a rack: {key} needs it")
    for what in ("tray", "rack"):
        if plan.parts is not None and getattr(plan.parts, what) is not None:
            if getattr(plan.unavailability, f"{what}_mtbf") is None:
                allowed = f"{what}_mtbf and {what}_mttr: how often a part is needed"
                raise BadInput(file, f"parts.{what}", f"{what} as a part of the time", allowed)
    if plan.play is not None:
        _check_play(plan, file)
    if plan.bought is not None and plan.bought // rack.gpus < plan.active:
        raise BadInput(
            file,
            "bought",
            f"{plan.bought} GPUs, {plan.bought // rack.gpus} racks",
            f"at least the {plan.active} racks the job runs on ({plan.active * rack.gpus} GPUs)",
        )
    return plan


def _check_play(plan: SparesFile, file: str) -> None:
    down = plan.unavailability
    if plan.mission is None:
        raise BadInput(file, "mission", "nothing", "a length: play needs one")
    if down.tray_mtbf is None or down.rack_mtbf is None:
        allowed = "tray_mtbf, tray_mttr, rack_mtbf and rack_mttr: play needs times, not parts of the time"
        raise BadInput(file, "unavailability", "parts of the time", allowed)
    if plan.crews is not None and plan.common_cause is not None:
        found = "few crews with a common cause"
        raise BadInput(file, "play", found, "one of them: how they share repair is not said")
