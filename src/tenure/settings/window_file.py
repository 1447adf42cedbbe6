"""The file of `plan window`: a run, its prices, and the windows among which to choose."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from tenure.settings.errors import BadInput, Checked, checked, dotted
from tenure.settings.gang_file import ArrivalsFile
from tenure.settings.plan_units import (
    DAY_S,
    MOST_NODES,
    NotNegative,
    OpenPart,
    Part,
    Positive,
    Price,
    Seconds,
    SomePrice,
    SomeSeconds,
    amount,
    seconds,
)
from tenure.settings.units import Instant, Name, Text, whole
from tenure.settings.yaml_file import read_yaml

MOST_DAYS = 3_650
MOST_WINDOWS = 4_000
Nodes = Annotated[int, BeforeValidator(whole(1, MOST_NODES, "a whole number of nodes"))]
Gpus = Annotated[int, BeforeValidator(whole(1, 1024, "a whole number of GPUs"))]
Tokens = Annotated[float, BeforeValidator(amount(0, 1e20, "a number of tokens", above=True))]
Draws = Annotated[int, BeforeValidator(whole(1000, 5_000_000, "a whole number of draws"))]
Seed = Annotated[int, BeforeValidator(whole(0, 2**63 - 1))]


class ThroughputFile(Checked):
    """Tokens per second per GPU."""

    mean: Positive
    sd: NotNegative = 0.0
    distribution: Literal["normal", "lognormal"] = "normal"


class PilotFile(Checked):
    """A pilot on so many nodes: its speed, and what it saw of failures."""

    nodes: Nodes
    mean: Positive
    sd: NotNegative = 0.0
    hours: NotNegative = 0.0
    failures: NotNegative = 0.0


class SeenFailures(Checked):
    events: NotNegative
    node_days: Positive


class PriorFile(Checked):
    """A Gamma prior of the rate: `shape` failures in `node_days`."""

    shape: Positive = 0.5
    node_days: NotNegative = 0.0


class FailuresFile(Checked):
    per_node_day: Annotated[float, BeforeValidator(amount(0, 1000))] | None = None
    seen: SeenFailures | None = None
    prior: PriorFile = PriorFile()

    @model_validator(mode="after")
    def _one_of_both(self) -> FailuresFile:
        if self.per_node_day is not None and self.seen is not None:
            raise ValueError("either per_node_day, or seen: {events, node_days} with its prior")
        return self


class RecoveryFile(Checked):
    hours_lost: NotNegative | None = None
    restart: Seconds = 0.0
    checkpoint_every: SomeSeconds | None = None
    stall: Seconds = 0.0

    @model_validator(mode="after")
    def _one_of_both(self) -> RecoveryFile:
        if (self.hours_lost is None) == (self.checkpoint_every is None):
            raise ValueError("either hours_lost, or {restart, checkpoint_every, stall}")
        return self


def _atoms(value: Any) -> Any:
    if not isinstance(value, dict) or not 1 <= len(value) <= 100_000:
        raise ValueError('lengths with their chances, such as {"18d": 0.5, "20d": 0.5}')
    return {seconds(key) / DAY_S: amount(0, 1, "a chance")(chance) for key, chance in value.items()}


class DurationFile(Checked):
    """The run's length itself."""

    distribution: Literal["uniform", "normal", "lognormal", "shifted-exponential", "atoms", "samples"]
    low: Seconds | None = None
    high: SomeSeconds | None = None
    mean: SomeSeconds | None = None
    sd: SomeSeconds | None = None
    shift: Seconds | None = None
    scale: SomeSeconds | None = None
    atoms: Annotated[dict[float, float], BeforeValidator(_atoms)] | None = None
    file: Text | None = None

    @model_validator(mode="after")
    def _whole(self) -> DurationFile:
        needed = {
            "uniform": ("low", "high"),
            "normal": ("mean", "sd"),
            "lognormal": ("mean", "sd"),
            "shifted-exponential": ("shift", "scale"),
            "atoms": ("atoms",),
            "samples": ("file",),
        }[self.distribution]
        given = {
            key for key in type(self).model_fields if key != "distribution" and getattr(self, key) is not None
        }
        if given != set(needed):
            raise ValueError(f"{self.distribution} with {', '.join(needed)} and nothing else")
        if self.low is not None and self.high is not None and self.low >= self.high:
            raise ValueError("low below high")
        if self.atoms is not None and abs(sum(self.atoms.values()) - 1) > 1e-6:
            raise ValueError(f"chances that sum to 1, not {sum(self.atoms.values()):g}")
        return self


class PricesFile(Checked):
    """Of the whole gang a day, or of a node an hour."""

    reserved_per_day: Price | None = None
    on_demand_per_day: Price | None = None
    reserved_per_node_hour: Price | None = None
    on_demand_per_node_hour: Price | None = None

    @model_validator(mode="after")
    def _once(self) -> PricesFile:
        for kind in ("reserved", "on_demand"):
            both = (getattr(self, f"{kind}_per_day"), getattr(self, f"{kind}_per_node_hour"))
            if None not in both:
                raise ValueError(f"{kind} either a day or a node-hour, not both")
        return self

    def day(self, kind: str, nodes: int | None) -> float | None:
        """The gang's price of a day; None where it is not given."""
        of_gang: float | None = getattr(self, f"{kind}_per_day")
        of_node: float | None = getattr(self, f"{kind}_per_node_hour")
        if of_node is not None and nodes is not None:
            return of_node * 24 * nodes
        return of_gang


class TightFile(Checked):
    """A state of the market at the window's end: its chance, and what is to be had in it."""

    p: Part
    p_extension: Part = 0.0
    p_fallback: Part = 1.0
    on_demand_factor: Positive = 1.0


class OverrunFile(Checked):
    per_day: SomePrice | None = None
    move: Price = 0.0
    on_demand: bool = False
    stall_per_day: Price | None = None
    p_fallback: Part | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> OverrunFile:
        mixture = self.on_demand or self.stall_per_day is not None or self.p_fallback is not None
        if self.per_day is not None and mixture:
            raise ValueError("either per_day (with move), or {move, on_demand, stall_per_day, p_fallback}")
        if self.per_day is None and not mixture:
            raise ValueError("per_day, or {move, on_demand: true, stall_per_day, p_fallback}")
        if self.p_fallback is not None and self.p_fallback < 1 and self.stall_per_day is None:
            raise ValueError("stall_per_day too, where p_fallback is below 1")
        if self.on_demand and self.stall_per_day is not None and self.p_fallback is None:
            raise ValueError("p_fallback too, where both on_demand and stall_per_day are given")
        return self

    @property
    def p_on_demand(self) -> float:
        """Chance that the run goes on with on-demand nodes, where `per_day` does not say it all."""
        if self.p_fallback is not None:
            return self.p_fallback
        return 0.0 if self.stall_per_day is not None else 1.0


class LeadFile(Checked):
    startup: Seconds | None = None
    termination: Seconds | None = None
    drain: Seconds | None = None


class StoreFile(Checked):
    gb_per_s: Positive
    bytes_per_param: Positive = 14.0


class ExtensionFile(Checked):
    """Whole steps more at the window's end, where they can be had; with `states`, jointly with tightness."""

    p: Part | None = None
    days: Positive = 1.0
    per_day: Price | None = None
    states: list[TightFile] = []


class DataFile(Checked):
    """What must be moved to an offer's region before the run."""

    tb: NotNegative
    region: Name
    egress_per_gb: Price = 0.0
    gb_per_s: Positive = 1.0


class RiskFile(Checked):
    amount: SomePrice
    probability: OpenPart | None = None


class ChainedFile(Checked):
    """Short windows one after the other: the wait in the queue before each, and what a hop loses."""

    wait: Seconds
    restart: Seconds = 0.0
    per_day: Price | None = None


class FallbackGangFile(Checked):
    """How a gang on demand comes together: its wait has a bill."""

    arrivals: ArrivalsFile


class OfferFile(Checked):
    """A window for sale, whole; its segments follow one another."""

    id: Text = ""
    start: Instant
    end: Instant
    fee: Price | None = None
    region: Name | None = None
    az: Name | None = None
    nodes: Nodes | None = None
    segments: list[OfferFile] = []

    @model_validator(mode="after")
    def _forward(self) -> OfferFile:
        if self.end <= self.start:
            raise ValueError("an end after the start")
        at = self.start
        for segment in self.segments:
            if segment.start < at or segment.end > self.end:
                raise ValueError("segments within the offer, one after the other")
            at = segment.end
        return self

    @property
    def whole_fee(self) -> float | None:
        """Of the offer, or of all its segments; None where it is not known."""
        if self.fee is not None or not self.segments:
            return self.fee
        fees = [segment.fee for segment in self.segments]
        return None if None in fees else sum(fee for fee in fees if fee is not None)


def _day_range(value: Any) -> Any:
    """`18-23`, one number, or a list of lengths, in days."""
    text = str(value).strip()
    if isinstance(value, (list, tuple)):
        if not 1 <= len(value) <= MOST_WINDOWS:
            raise ValueError(f"1 to {MOST_WINDOWS} windows")
        return [amount(0, MOST_DAYS, "days", above=True)(day) for day in value]
    low, dash, high = text.partition("-")
    try:
        first = amount(0, MOST_DAYS, "days", above=True)(low.strip())
        last = amount(first, MOST_DAYS, "days")(high.strip()) if dash else first
    except ValueError:
        raise ValueError("days such as 18-23 (both ends included), 21, or a list of them") from None
    count = int(last - first + 1e-9) + 1
    if count > MOST_WINDOWS:
        raise ValueError(f"at most {MOST_WINDOWS} windows")
    return [first + step for step in range(count)]


class WindowsFile(Checked):
    days: Annotated[list[float], BeforeValidator(_day_range)]


class WindowFile(Checked):
    """The file, each value checked by itself."""

    run: Name = "run"
    tokens: Tokens | None = None
    nodes: Nodes | None = None
    gpus_per_node: Gpus = 8
    params: Positive | None = None
    store: StoreFile | None = None
    throughput: ThroughputFile | None = None
    pilots: list[PilotFile] = Field(default=[], max_length=1000)
    failures: FailuresFile | None = None
    recovery: RecoveryFile | None = None
    overhead: Annotated[float, BeforeValidator(lambda v: amount(0, 100)(_percent(v)))] | None = None
    model: Literal["first-order", "compounding"] = "compounding"
    duration: DurationFile | None = None
    prices: PricesFile = PricesFile()
    overrun: OverrunFile
    lead: LeadFile = LeadFile()
    windows: WindowsFile | None = None
    offers: list[OfferFile] = Field(default=[], max_length=MOST_WINDOWS)
    lattice: Name | None = None
    extension: ExtensionFile | None = None
    chained: ChainedFile | None = None
    on_demand_gang: FallbackGangFile | None = None
    data: DataFile | None = None
    salvage_per_day: Price = 0.0
    budget: RiskFile | None = None
    now: Instant | None = None
    start: Instant | None = None
    draws: Draws = 100_000
    seed: Seed = 7

    @model_validator(mode="before")
    @classmethod
    def _plain_budget(cls, raw: Any) -> Any:
        if isinstance(raw, dict) and "budget" in raw and not isinstance(raw["budget"], dict):
            raw = {**raw, "budget": {"amount": raw["budget"]}}
        return raw


def _percent(value: Any) -> Any:
    if isinstance(value, str) and value.rstrip().endswith("%"):
        return float(amount(0, 10_000, "a percentage")(value.rstrip()[:-1])) / 100
    return value


def read_window_file(path: Path) -> WindowFile:
    """The plan of a file; BadInput where it is wrong or lacks what it needs."""
    return window_file_of(read_yaml(path), file=str(path))


def window_file_of(raw: Any, *, file: str = "plan") -> WindowFile:
    """The plan of a mapping."""
    plan = checked(WindowFile, raw, file=file)
    _check_run(plan, file)
    _check_windows(plan, file)
    _check_prices(plan, file)
    return plan


def _missing(file: str, key: str, allowed: str) -> BadInput:
    return BadInput(file, key, "nothing", allowed)


def _check_run(plan: WindowFile, file: str) -> None:
    if plan.duration is not None:
        clash = next(
            (key for key in ("tokens", "throughput", "failures", "recovery") if getattr(plan, key)), None
        )
        if clash:
            raise BadInput(
                file, clash, "a run beside a duration", "either the run's length itself or tokens … model"
            )
        return
    watched = any(pilot.hours > 0 for pilot in plan.pilots)
    for key in ("tokens", "nodes", "failures", "recovery"):
        if getattr(plan, key) is None and not (key == "failures" and watched):
            raise _missing(file, key, "a value: a run needs tokens, nodes, throughput, failures and recovery")
    if (plan.throughput is None) == (not plan.pilots):
        raise BadInput(
            file, "throughput", "both or neither", "throughput: {mean, sd}, or pilots: [{nodes, mean, sd}]"
        )
    rate = plan.failures
    if rate is not None and rate.per_node_day is None and rate.seen is None and not watched:
        raise _missing(file, "failures", "per_node_day, seen: {events, node_days}, or pilots with hours")
    told = plan.throughput
    if told is not None and told.distribution == "normal" and told.mean <= 6 * told.sd:
        raise BadInput(
            file,
            "throughput.sd",
            f"a normal speed that reaches 0 within 6 sd (mean {told.mean:g}, sd {told.sd:g})",
            "a smaller sd, or distribution: lognormal (the mean length would not exist otherwise)",
        )
    if plan.recovery is not None and plan.recovery.stall and plan.recovery.checkpoint_every is None:
        raise BadInput(file, "recovery.stall", "a stall without saves", "checkpoint_every too")


def _check_windows(plan: WindowFile, file: str) -> None:
    kinds = [key for key in ("windows", "offers", "lattice") if getattr(plan, key)]
    if len(kinds) != 1 and kinds != [
        "offers",
        "lattice",
    ]:  # offers outrank the lattice, which brings its lead
        found = " and ".join(kinds) or "nothing"
        raise BadInput(file, "windows", found, "one of windows: {days: 18-23}, offers: [...] or lattice: aws")
    if plan.now is not None and plan.start is not None and plan.start < plan.now:
        raise BadInput(file, "start", f"{plan.start:%Y-%m-%dT%H:%MZ}, in the past", "a start to come")
    for index, offer in enumerate(plan.offers):
        where = dotted(["offers", index])
        if plan.now is not None and offer.start < plan.now:
            raise BadInput(
                file, f"{where}.start", f"{offer.start:%Y-%m-%dT%H:%MZ}, in the past", "a start to come"
            )
        if offer.whole_fee is None:
            raise _missing(file, f"{where}.fee", "the fee of the whole window")
        for part in (offer, *offer.segments):
            if plan.nodes is not None and part.nodes is not None and part.nodes < plan.nodes:
                short = f"at least the run's {plan.nodes}: {plan.nodes - part.nodes} are missing"
                raise BadInput(file, f"{where}.nodes", f"{part.nodes} nodes", short)
        if plan.data is not None and offer.region is None:
            raise _missing(file, f"{where}.region", "a region: the data must be where the window is")


def _check_prices(plan: WindowFile, file: str) -> None:
    reserved, on_demand = (plan.prices.day(kind, plan.nodes) for kind in ("reserved", "on_demand"))
    if not plan.offers and reserved is None:
        raise _missing(
            file, "prices.reserved_per_day", "the price of a reserved day of the gang, or per node-hour"
        )
    for kind in ("reserved", "on_demand"):
        if getattr(plan.prices, f"{kind}_per_node_hour") is not None and plan.nodes is None:
            raise _missing(file, "nodes", f"how many nodes prices.{kind}_per_node_hour is for")
    by_state = plan.extension is not None and any(state.p_fallback > 0 for state in plan.extension.states)
    needed = plan.overrun.per_day is None and (plan.overrun.p_on_demand > 0 or by_state)
    if (needed or plan.on_demand_gang) and on_demand is None:
        raise _missing(
            file, "prices.on_demand_per_day", "the price of an on-demand day: the overrun is priced by it"
        )
    extension = plan.extension
    if extension is not None:
        if extension.per_day is None and reserved is None:
            raise _missing(file, "extension.per_day", "the price of a day of the extension")
        if (extension.p is None) == (not extension.states):
            raise BadInput(file, "extension", "both or neither", "p, or states: [{p, p_extension, …}]")
        if extension.states and abs(sum(state.p for state in extension.states) - 1) > 1e-6:
            total = f"chances that sum to {sum(state.p for state in extension.states):g}"
            raise BadInput(file, "extension.states", total, "chances p that sum to 1")
        if extension.states and plan.overrun.per_day is not None:
            allowed = "overrun: {move, on_demand, stall_per_day}: what a state leaves is priced by it"
            raise BadInput(file, "overrun.per_day", "one price for all states of the market", allowed)
    if plan.salvage_per_day and reserved is not None and plan.salvage_per_day >= reserved:
        allowed = f"less than a reserved day costs ({reserved:g})"
        raise BadInput(file, "salvage_per_day", f"{plan.salvage_per_day:g}", allowed)


__all__ = ["WindowFile", "read_window_file", "window_file_of"]
