"""The file of `run start`: a plan, and all that is needed to carry its run across windows.

`plan` is the file of `plan window` (its name, or the plan itself). The rest says where nodes come from
(`provider`), where checkpoints live (`store`), how trainer and controller speak (`hook`), how the trainer is
started (`launch`), and from what on a person is asked.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, model_validator

from tenure.settings.errors import BadInput, Checked, checked
from tenure.settings.plan_units import NotNegative, Part, Seconds, SomeSeconds
from tenure.settings.preflight_file import PreflightFile
from tenure.settings.provider_access import provider_access
from tenure.settings.units import Name, Text, instant, number, whole
from tenure.settings.window_file import WindowFile, window_file_of
from tenure.settings.yaml_file import read_yaml

LAB_WINDOW = "lab"  #: the one window of a run in a lab: its job's protection
Count = Annotated[int, BeforeValidator(whole(0, 100_000))]
Some = Annotated[int, BeforeValidator(whole(1, 100_000))]


def _money(value: Any) -> Decimal:
    allowed = "a sum of money from 0 to 1e12"
    exact = number(value, allowed)
    if not 0 <= exact <= 10**12:
        raise ValueError(allowed)
    return exact


def _web(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith(("http://", "https://")) or len(value) > 2000:
        raise ValueError("an address such as https://hooks.example.org/runs")
    return value


def _words(value: Any) -> Any:
    if not isinstance(value, list) or not value or not all(isinstance(word, (str, int)) for word in value):
        raise ValueError("a list of words, such as [python, train.py]")
    return [str(word) for word in value]


def _mapping(value: Any) -> Any:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ValueError("a mapping (key: value)")
    return {key: str(told) for key, told in value.items()}


Amount = Annotated[Decimal, BeforeValidator(_money)]


class ApprovalFile(Checked):
    """Who must say yes before money is spent. `above`: in the currency of the purchase."""

    above: Amount = Decimal(10_000)
    budget: Amount | None = None


class DeadlinesFile(Checked):
    """`margin`: kept before every deadline, for clocks that differ too. `save`: until one was measured."""

    margin: Seconds = 300.0
    save: SomeSeconds = 300.0
    least: SomeSeconds = 1800.0  #: of a window: less than this is not worth starting in


class GangFile(Checked):
    """`hold_cap`: node-hours on demand that may be paid while waiting for the last node."""

    retry: SomeSeconds = 900.0
    rounds: Some = 8  #: on demand, in a row, before nodes are let go and a pause is made
    hold_cap: NotNegative = 100.0
    pause: SomeSeconds = 7200.0
    spill: Count = 0
    success: Part = 0.95  #: of one node in one attempt, believed at first
    start_within: SomeSeconds = 3600.0  #: an attempt without a heartbeat for so long has failed


class AlarmsFile(Checked):
    webhook: Annotated[str, BeforeValidator(_web)] | None = None
    late_start: SomeSeconds = 1800.0
    stall: SomeSeconds = 900.0
    silent: SomeSeconds = 1800.0


class LaunchFile(Checked):
    """The trainer's command, run on the controller's machine with the gang's addresses in its environment.

    `engine`: `local`, or `lab`: a job of a Tenure-scheduled lab, with the job's keys in `job`.
    """

    command: Annotated[list[str], BeforeValidator(_words)]
    workdir: Text = "."
    env: Annotated[dict[str, str], BeforeValidator(_mapping)] = {}
    engine: Literal["local", "lab"] = "local"
    gpus: Count = 0
    grace: SomeSeconds = 600.0
    job: Annotated[dict[str, str], BeforeValidator(_mapping)] = {}


class StoreOfRunFile(Checked):
    url: Text
    options: dict[str, Any] = {}


def _store(value: Any) -> Any:
    return {"url": value} if isinstance(value, str) else value


def _provider(value: Any) -> Any:
    told = {"name": value} if isinstance(value, str) else value
    if not isinstance(told, dict) or not isinstance(told.get("name"), str):
        raise ValueError("a provider's name, or a mapping with its name and settings")
    return told


class RunFile(Checked):
    """The file, each value checked by itself. `provider` is read by the provider's own room."""

    run: Name
    plan: Any
    provider: Annotated[dict[str, Any], BeforeValidator(_provider)]
    store: Annotated[StoreOfRunFile, BeforeValidator(_store)]
    hook: Text
    launch: LaunchFile
    fallback: Literal["on-demand", "wait"] = "wait"
    extend: bool = True
    windows: list[Name] = []  #: bought by other means
    approval: ApprovalFile = ApprovalFile()
    deadlines: DeadlinesFile = DeadlinesFile()
    gang: GangFile = GangFile()
    alarms: AlarmsFile = AlarmsFile()
    preflight: PreflightFile = PreflightFile()
    daily_sd: NotNegative | None = None  #: None: a fifth of the sd of the plan's speed
    poll: SomeSeconds = 60.0
    start: Annotated[Any, BeforeValidator(lambda value: None if value is None else instant(value))] = None

    @model_validator(mode="after")
    def _of_one_s_own(self) -> RunFile:
        own = self.provider["name"] == "own"
        if (self.launch.engine == "lab") != self.in_lab:
            raise ValueError("launch.engine: lab together with provider: {name: own, by: lab}")
        if own and self.fallback == "on-demand":
            raise ValueError("fallback: wait, where the cluster is one's own: it has nothing on demand")
        if self.in_lab and set(self.windows) - {LAB_WINDOW}:
            raise ValueError("no windows of other names, where they are the protections of a lab's job")
        return self

    @property
    def in_lab(self) -> bool:
        """Whether the trainer is a job of a lab that Tenure schedules."""
        return self.provider["name"] == "own" and self.provider.get("by") == "lab"

    @property
    def given(self) -> list[str]:
        """Ids of windows that nobody buys by this run's book."""
        return [LAB_WINDOW] if self.in_lab else self.windows


class Run(Checked):
    """A run's file and its plan, together."""

    file: RunFile
    plan: WindowFile
    folder: Path  #: relative paths of the file start here

    @property
    def nodes(self) -> int:
        """Of the gang."""
        assert self.plan.nodes is not None
        return self.plan.nodes

    @property
    def tokens(self) -> float:
        """To be trained on."""
        assert self.plan.tokens is not None
        return self.plan.tokens

    @property
    def hook(self) -> Path:
        """The folder by which trainer and controller speak."""
        return self.folder / self.file.hook

    @property
    def store_url(self) -> str:
        """Where checkpoints are kept: a URL, or a folder beside the file."""
        url = self.file.store.url
        return url if "://" in url else str((self.folder / url).resolve())

    @property
    def on_demand_node_hour(self) -> float:
        """Price of a node on demand, an hour; 0 where the plan has none."""
        day = self.plan.prices.day("on_demand", self.nodes)
        return 0.0 if day is None else day / 24 / self.nodes


def read_run_file(path: Path) -> Run:
    """The run of a file; BadInput where it or its plan is wrong."""
    found = run_file_of(read_yaml(path), path.parent, file=str(path))
    provider_access(found.file.provider, file=str(path))  # its own keys, before anything is opened
    return found


def run_file_of(raw: Any, folder: Path, *, file: str = "run") -> Run:
    """The run of a mapping. `folder`: where relative paths start."""
    found = checked(RunFile, raw, file=file)
    if isinstance(found.plan, str):
        plan_file = folder / found.plan
        plan = window_file_of(read_yaml(plan_file), file=str(plan_file))
    else:
        plan = window_file_of(found.plan, file=f"{file}: plan")
    if plan.duration is not None:
        allowed = "a run of tokens: a length given as such has no speed to watch"
        raise BadInput(file, "plan.duration", "a length of its own", allowed)
    if found.fallback == "on-demand" and plan.prices.day("on_demand", plan.nodes) is None:
        raise BadInput(
            file, "plan.prices.on_demand_per_day", "nothing", "the price of what is fallen back on"
        )
    return Run(file=found, plan=plan, folder=folder)


__all__ = ["Run", "RunFile", "read_run_file", "run_file_of"]
