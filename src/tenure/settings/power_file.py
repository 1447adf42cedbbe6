"""The file of `plan power`: a site's supply, what follows a limit and what does not, and a curve."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from tenure.settings.errors import BadInput, Checked, checked
from tenure.settings.plan_units import Part, Positive, Price, amount, part
from tenure.settings.units import Name, whole
from tenure.settings.yaml_file import read_yaml

MOST_W = 1e6
MOST_POINTS = 1000
CURVES = "gb200_fit, h100_mayr, or points [[watts, relative], …], two or more, each at watts of its own"
Watts = Annotated[float, BeforeValidator(amount(0, MOST_W, "watts", above=True))]
NoWatts = Annotated[float, BeforeValidator(amount(0, MOST_W, "watts"))]
SiteMw = Annotated[float, BeforeValidator(amount(0, 1e6, "megawatts", above=True))]
Multiplier = Annotated[
    float, BeforeValidator(amount(1, 100, "site watts for one at the accelerator, a number"))
]
Sigma = Annotated[float, BeforeValidator(lambda value: amount(0, 0.2, "a spread of speeds,")(part(value)))]
RackCount = Annotated[int, BeforeValidator(whole(1, 10_000, "a whole number of GPUs"))]
Points = tuple[tuple[float, float], ...]


def _curve(value: Any) -> Any:
    if isinstance(value, str) and value in ("gb200_fit", "h100_mayr"):
        return value
    if not isinstance(value, (list, tuple)) or not 2 <= len(value) <= MOST_POINTS:
        raise ValueError(CURVES)
    points = []
    for point in value:
        if not isinstance(point, (list, tuple)) or len(point) != 2:
            raise ValueError(CURVES)
        watts = amount(0, MOST_W, "watts of a curve's point", above=True)(point[0])
        points.append((watts, amount(0, 1e6, "the relative speed of a curve's point,", above=True)(point[1])))
    seen = [watts for watts, _ in points]
    twice = next((watts for watts in seen if seen.count(watts) > 1), None)
    if twice is not None:
        raise ValueError(f"one point a watt, not two at {twice:g} W")
    return tuple(sorted(points))


PowerCurve = Annotated[str | Points, BeforeValidator(_curve)]


class IdleFile(Checked):
    """A rack of which some are held: what they do not draw raises the limit of the others."""

    gpus: RackCount
    held: RackCount
    draw: Part

    @model_validator(mode="after")
    def _some_work(self) -> IdleFile:
        if self.held >= self.gpus:
            raise ValueError("a rack of which fewer are held than it has")
        return self


class StragglersFile(Checked):
    sigma: Sigma
    gpus: Annotated[int, BeforeValidator(whole(1, 100_000_000, "a whole number of GPUs"))]


class HeatFile(Checked):
    """What carries a `part` of the heat away, and the watts that takes for one watt carried."""

    part: Part
    watts_per_watt: Annotated[float, BeforeValidator(amount(0, 2, "watts of cooling for a watt of heat,"))]


class CoolingFile(Checked):
    """Heat by air and by liquid; their parts sum to 1."""

    air: HeatFile
    liquid: HeatFile

    @model_validator(mode="after")
    def _all_heat(self) -> CoolingFile:
        if abs(self.air.part + self.liquid.part - 1.0) > 1e-9:
            raise ValueError("parts of air and liquid that sum to 100%")
        return self

    def shares(self) -> dict[str, float]:
        """Watts for one watt carried away, by what carries it."""
        told = {"air": self.air, "liquid": self.liquid}
        return {f"cooling, {name}": heat.part * heat.watts_per_watt for name, heat in told.items()}


class SeasonFile(Checked):
    """A part of the year with a multiplier of its own (cooling takes more in summer), or with its cooling."""

    name: Name
    multiplier: Multiplier | None = None
    cooling: CoolingFile | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> SeasonFile:
        if (self.multiplier is None) == (self.cooling is None):
            raise ValueError("either a multiplier or a cooling: {air, liquid}")
        return self


class BreakerFile(Checked):
    """A breaker of the tree: `gpus` hang on it, and more on breakers `under` it; `multiplier`: between."""

    name: Name
    limit_kw: Positive
    gpus: Annotated[int, BeforeValidator(whole(0, 100_000_000, "a whole number of GPUs"))] = 0
    under: Name | None = None
    multiplier: Multiplier = 1.0


class PowerFile(Checked):
    site_mw: SiteMw
    multiplier: Multiplier | None = None
    parts: Annotated[dict[Name, Part], Field(max_length=50)] = {}
    cooling: CoolingFile | None = None
    overhead_w: NoWatts
    capital_w: NoWatts = 0.0
    rated_w: Watts
    curve: PowerCurve
    at: list[Watts] = Field(default=[], max_length=1000)
    measured_w: Watts | None = None
    idle: IdleFile | None = None
    stragglers: StragglersFile | None = None
    price_per_mwh: Price | None = None
    seasons: list[SeasonFile] = Field(default=[], max_length=366)
    breakers: list[BreakerFile] = Field(default=[], max_length=10_000)
    beside: dict[str, PowerCurve] = Field(default={}, max_length=20)

    @property
    def overheads(self) -> dict[str, float]:
        """Watts added for one watt that reaches the rack, part by part, where the file gives parts."""
        return dict(self.parts) | (self.cooling.shares() if self.cooling is not None else {})

    @property
    def site_multiplier(self) -> float:
        """Site watts for one watt at the accelerator."""
        return self.multiplier if self.multiplier is not None else self._times(self.cooling)

    def season_multiplier(self, season: SeasonFile) -> float:
        """The same in a season."""
        return season.multiplier if season.multiplier is not None else self._times(season.cooling)

    def _times(self, cooling: CoolingFile | None) -> float:
        """Parts multiply one another; what cools carries away all of it."""
        whole = 1.0
        for added in self.parts.values():
            whole *= 1.0 + added
        return whole * (1.0 + (sum(cooling.shares().values()) if cooling is not None else 0.0))


def read_power_file(path: Path) -> PowerFile:
    """The plan of a file; BadInput where it is wrong."""
    return power_file_of(read_yaml(path), file=str(path))


def power_file_of(raw: Any, *, file: str = "plan") -> PowerFile:
    """The plan of a mapping."""
    plan = checked(PowerFile, raw, file=file)
    if plan.curve == "gb200_fit" and plan.rated_w != 1200:
        raise BadInput(file, "rated_w", f"{plan.rated_w:g} W", "1200 with gb200_fit, which is in its watts")
    if (plan.multiplier is None) == (not plan.parts and plan.cooling is None):
        allowed = "either multiplier, or parts: {NAME: 10%} and cooling: {air, liquid} that make it"
        found = "nothing" if plan.multiplier is None else "a multiplier beside its parts"
        raise BadInput(file, "multiplier", found, allowed)
    known: dict[str, bool] = {}
    for row, breaker in enumerate(plan.breakers):
        if breaker.under is not None and breaker.under not in known:
            allowed = "a breaker named before it"
            raise BadInput(file, f"breakers[{row}].under", f"'{breaker.under}'", allowed)
        known[breaker.name] = True
        hang = breaker.gpus or any(other.under == breaker.name for other in plan.breakers)
        if not hang:
            raise BadInput(file, f"breakers[{row}].gpus", "nothing on it or under it", "a number of GPUs")
    if plan.site_mw * 1e6 < plan.site_multiplier * (plan.rated_w + plan.overhead_w):
        allowed = "enough for one accelerator at its rated limit"
        raise BadInput(file, "site_mw", f"{plan.site_mw:g} MW", allowed)
    if plan.measured_w is not None and plan.measured_w > plan.rated_w:
        raise BadInput(file, "measured_w", f"{plan.measured_w:g} W", f"at most rated_w ({plan.rated_w:g})")
    return plan
