"""The file of `plan goodput`: how often a job fails, what failures and saves cost, how it is counted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from tenure.settings.errors import BadInput, Checked, checked
from tenure.settings.failure_rates_file import FailureClass
from tenure.settings.plan_units import (
    MOST_NODES,
    NotNegative,
    OpenPart,
    Part,
    Positive,
    Seconds,
    SomeSeconds,
    amount,
    seconds,
)
from tenure.settings.units import Flag, Name, Text, whole
from tenure.settings.yaml_file import read_yaml

RATE = (
    "a rate with its denominator: {per_1000_node_days, nodes}, {events, days} of the whole job, or {log, "
    "of_nodes, days, nodes}: failures that stop it, and over what they were counted"
)
SHAPES = ({"per_1000_node_days", "nodes"}, {"events", "days"}, {"log", "of_nodes", "days", "nodes"})
MOST_GROUPS = 100_000
Nodes = Annotated[int, BeforeValidator(whole(1, MOST_NODES, "a whole number of nodes"))]
Gpus = Annotated[int, BeforeValidator(whole(1, 100_000_000, "a whole number of GPUs"))]
GroupCount = Annotated[int, BeforeValidator(whole(2, MOST_GROUPS, "a whole number of groups"))]


class JobFailuresFile(Checked):
    """How often the whole job is stopped. `log`: a CSV file, kept over `days` on `of_nodes` nodes."""

    per_1000_node_days: Positive | None = None
    nodes: Nodes | None = None
    events: Positive | None = None
    days: Positive | None = None
    log: Text | None = None
    of_nodes: Nodes | None = None
    source: Text | None = None
    kind: FailureClass = Field(default="unsaid", alias="class")

    @model_validator(mode="before")
    @classmethod
    def _has_denominator(cls, raw: Any) -> Any:
        if not isinstance(raw, dict):
            raise ValueError(RATE)
        given = {key for key in raw if key in cls.model_fields and raw[key] is not None} - {"source"}
        if given not in SHAPES:
            raise ValueError(RATE)
        return raw

    @property
    def mtbf_s(self) -> float:
        """Mean seconds between failures of the whole job; a log has been counted before (`counted`)."""
        if self.per_1000_node_days is not None and self.nodes is not None:
            return 86_400_000.0 / (self.per_1000_node_days * self.nodes)
        assert self.days is not None
        assert self.events is not None
        return 86_400.0 * self.days / self.events


def _every(value: Any) -> float | None:
    if value == "optimal":
        return None
    try:
        found = seconds(value)
    except ValueError:
        found = 0.0
    if found <= 0:
        raise ValueError("a duration above 0 such as 20m: useful work between saves; or optimal")
    return found


class SavesFile(Checked):
    """`blocking` may be left out where `store` says how long a save takes."""

    blocking: Seconds | None = None
    every: Annotated[float | None, BeforeValidator(_every)]
    persist: Seconds = 0.0


class GroupsFile(Checked):
    count: GroupCount
    stall: Seconds
    away: Seconds
    penalty: Part = 0.0
    fewest: Annotated[int, BeforeValidator(whole(1, MOST_GROUPS, "a whole number of groups"))] = 1

    @model_validator(mode="after")
    def _away_holds_stall(self) -> GroupsFile:
        if self.away < self.stall:
            raise ValueError("an away that is at least the stall: it counts the stall in")
        if self.fewest > self.count:
            raise ValueError("a fewest that is at most the count of groups")
        return self


class StoreFile(Checked):
    """A checkpoint of `gb` and the bandwidth that all hosts share: how long a save and a reload take.

    `background`: saves block only for `checkpoint.blocking`, and are usable once they are stored.
    """

    gb: Positive
    gb_per_s: Positive
    background: Flag = False

    @property
    def seconds(self) -> float:
        """To store or to load one checkpoint."""
        return self.gb / self.gb_per_s


class RestartFile(Checked):
    """Restart of `gpus` from what it `takes` on `at_gpus`: 17 s at 16,384 and 200 s at 98,304 give 1.38."""

    takes: Seconds
    at_gpus: Gpus
    gpus: Gpus
    exponent: NotNegative = 1.38

    @property
    def seconds(self) -> float:
        """At the job's size."""
        return float(self.takes * (self.gpus / self.at_gpus) ** self.exponent)


class RolloutFile(Checked):
    """Rollouts of reinforcement learning: `part` of a step without failures, by `replicas` that fail apart.

    `nodes`: of their own, with failures as often a node as the trainer's; without it both share all nodes.
    """

    part: OpenPart
    replicas: GroupCount
    away: Seconds
    stall: Seconds = 0.0
    nodes: Nodes | None = None
    mode: Literal["lockstep", "overlapped"] = "lockstep"

    @model_validator(mode="after")
    def _fits(self) -> RolloutFile:
        if self.away < self.stall:
            raise ValueError("an away that is at least the stall: it counts the stall in")
        if self.mode == "overlapped" and self.nodes is None:
            raise ValueError("nodes of its own with mode: overlapped")
        return self


class PlayedLemonsFile(Checked):
    """A `part` of nodes fails `times` as often as the others; the mean rate stays what the file says."""

    part: OpenPart
    times: Annotated[float, BeforeValidator(amount(1, 1e6, "a number"))]


class PlayedCommonFile(Checked):
    """Events that take `nodes` at once."""

    per_year: Positive
    nodes: Nodes
    mttr: SomeSeconds


class PlayNodesFile(Checked):
    """The run played node by node where the formulas end. `repair`: of a node, mean."""

    spare: Annotated[int, BeforeValidator(whole(0, MOST_NODES, "a whole number of nodes"))]
    repair: SomeSeconds
    crews: Nodes | None = None
    lemons: PlayedLemonsFile | None = None
    common: PlayedCommonFile | None = None
    lasts: SomeSeconds = 30 * 86_400.0
    draws: Annotated[int, BeforeValidator(whole(10, 10_000, "a whole number of draws"))] = 50
    seed: Annotated[int, BeforeValidator(whole(0, 2**63 - 1))] = 7


class GoodputFile(Checked):
    mtbf: SomeSeconds | None = None
    failures: JobFailuresFile | None = None
    recovery: Seconds
    queue: Seconds = 0.0
    restart: RestartFile | None = None
    store: StoreFile | None = None
    checkpoint: SavesFile | None = None
    groups: GroupsFile | None = None
    rollout: RolloutFile | None = None
    play: PlayNodesFile | None = None
    runs: Annotated[dict[Name, dict[str, Any]], Field(max_length=20)] = {}
    convention: Literal["exact", "renewal", "first_order", "wall"] = "exact"
    target: OpenPart = 0.9

    @property
    def mtbf_s(self) -> float:
        """Mean seconds between failures of the whole job."""
        if self.mtbf is not None:
            return self.mtbf
        assert self.failures is not None
        return self.failures.mtbf_s

    @property
    def recovery_parts_s(self) -> dict[str, float]:
        """What recovery is made of, in seconds."""
        parts = {"recovery": self.recovery, "queue": self.queue}
        if self.restart is not None:
            parts["restart"] = self.restart.seconds
        if self.store is not None:
            parts["reload"] = self.store.seconds
        return parts

    @property
    def blocking_s(self) -> float:
        """What one save blocks."""
        told = self.checkpoint
        if told is not None and told.blocking is not None:
            return told.blocking
        return self.store.seconds if self.store is not None else 0.0

    @property
    def persist_s(self) -> float:
        """How much older than its save the newest usable one is."""
        stored = self.store.seconds if self.store is not None and self.store.background else 0.0
        return stored + (self.checkpoint.persist if self.checkpoint is not None else 0.0)


def read_goodput_file(path: Path) -> GoodputFile:
    """The plan of a file; BadInput where it is wrong."""
    return goodput_file_of(read_yaml(path), file=str(path))


def goodput_file_of(raw: Any, *, file: str = "plan") -> GoodputFile:
    """The plan of a mapping."""
    plan = checked(GoodputFile, raw, file=file)
    if (plan.mtbf is None) == (plan.failures is None):
        found = "nothing" if plan.mtbf is None else "both mtbf and failures"
        raise BadInput(file, "mtbf", found, f"either mtbf of the whole job, or failures: {RATE}")
    told = plan.failures
    rated = told is not None and told.nodes is not None
    if plan.play is not None and not rated:
        raise BadInput(file, "failures", "no nodes", "{per_1000_node_days, nodes}: play fails node by node")
    if plan.rollout is not None and plan.rollout.nodes is not None and not rated:
        allowed = "{per_1000_node_days, nodes} of the trainer: rollout.nodes fail as often a node"
        raise BadInput(file, "failures", "no nodes", allowed)
    saves, store = plan.checkpoint, plan.store
    if saves is not None and saves.blocking is None and (store is None or store.background):
        raise BadInput(file, "checkpoint.blocking", "nothing", "what one save blocks, a duration such as 20s")
    if saves is not None and saves.blocking is not None and store is not None and not store.background:
        allowed = "store.background: true with it, or no blocking: the store says how long a save takes"
        raise BadInput(file, "checkpoint.blocking", f"{saves.blocking:g} s beside a store", allowed)
    return plan


def separate_runs(raw: Any, *, file: str) -> dict[str, GoodputFile]:
    """The runs of a file, each its own keys over those that all share (play apart)."""
    shared = {key: value for key, value in raw.items() if key not in ("runs", "play")}
    found = {}
    for name, own in raw.get("runs", {}).items():
        merged = {**shared, **own}
        for one, other in (("mtbf", "failures"), ("failures", "mtbf")):
            if one in own and other not in own:
                merged.pop(other, None)
        if "runs" in own:
            raise BadInput(file, f"runs.{name}.runs", "runs in a run", "runs at the top alone")
        found[name] = goodput_file_of(merged, file=f"{file}: runs.{name}")
    return found


def counted(plan: GoodputFile, events: int) -> GoodputFile:
    """The plan with its log replaced by the rate that `events` in it make."""
    told = plan.failures
    assert told is not None
    assert told.of_nodes is not None
    assert told.days is not None
    rate = events / (told.of_nodes * told.days) * 1000.0
    raw = {"per_1000_node_days": rate, "nodes": told.nodes, "source": told.source, "class": told.kind}
    failures = JobFailuresFile.model_validate(raw)
    return plan.model_copy(update={"failures": failures})
