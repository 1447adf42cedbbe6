"""What does `tenure preflight` ask? The run's file in; every answer, and the plan as a probe saw it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tenure.checkpoints.store import Store
from tenure.engines.clock import Clock, RealClock
from tenure.planner.pilots import Pilot as PlannedPilot
from tenure.planner.pilots import fit
from tenure.providers.opening import provider_for
from tenure.providers.protocol import RUN_TAG, Provider, ProviderError, Window
from tenure.runs import preflight_capacity, preflight_commands, preflight_stores
from tenure.runs.preflight import FAIL, UNKNOWN, Check, Outcome, Result, run_checks, told_too_little, verdict
from tenure.runs.state import State
from tenure.service.run_place import RECORD_FILE, AskedBook, database
from tenure.settings.errors import BadInput, nearest
from tenure.settings.preflight_file import PreflightFile
from tenure.settings.run_file import Run, read_run_file
from tenure.settings.yaml_file import read_yaml, yaml_text

NOTHING = "nothing"
NODE_CHECK_S = 900.0  #: what a test launch pays for: the node, and its clean-up


@dataclass(frozen=True)
class Ask:
    """How it is asked. `only`: names of checks; `accept`: those whose `unknown` is no obstacle."""

    only: Sequence[str] = ()
    accept: Sequence[str] = ()
    launch: bool | None = None  #: instead of the file's word
    write_plan: Path | None = None
    clock: Clock = field(default_factory=RealClock)
    client: Any = None  #: in place of boto3's
    data: Path = Path(".tenure")  #: where the run's book is: which windows it has bought
    db: str | None = None
    more: Sequence[Check] = ()  #: checks of whoever asks


@dataclass(frozen=True)
class Flight:
    """Everything the checks look at."""

    run: Run
    told: PreflightFile
    provider: Provider
    windows: Sequence[Window] | None
    trouble: str
    ask: Ask

    @property
    def now(self) -> float:
        """Epoch seconds."""
        return self.ask.clock.now()

    @property
    def bound(self) -> float:
        """Seconds a check may take."""
        return self.told.bound

    def store(self) -> Store:
        """The run's own."""
        return Store(self.run.store_url, self.run.file.run, self.run.file.store.options)

    def other(self, url: str) -> Store:
        """A store of this run elsewhere; a relative path is beside the run's file."""
        where = url if "://" in url else str(self.run.folder / url)
        return Store(where, self.run.file.run, self.run.file.store.options)


def preflight(
    file: Path, ask: Ask, tell: Callable[[float, str], None] = lambda part, doing: None
) -> dict[str, Any]:
    """Every check's answer, and the verdict. BadInput where the file or a name is wrong."""
    flight = flight_of(file, ask)
    checks = [*checks_of(flight), *ask.more]
    known = [check.name for check in checks]
    for name in (*ask.only, *ask.accept):
        if name not in known:
            raise BadInput("preflight", "", f"the unknown check '{name}'", nearest(name, known))
    chosen = [check for check in checks if not ask.only or check.name in ask.only]
    start = None if flight.windows is None else preflight_capacity.first_start(flight.windows, flight.now)
    results = run_checks(chosen, ask.clock, start, lambda done, name: tell(done / len(chosen), name))
    fragment = next((result.numbers["plan"] for result in results if "plan" in result.numbers), None)
    if ask.write_plan is not None and fragment is not None:
        ask.write_plan.write_text(yaml_text(updated_plan(flight.run, fragment)), "utf-8")
    return {
        "run": flight.run.file.run,
        "verdict": verdict(results, ask.accept),
        "start": None if start is None else iso(start),
        "checks": [_told(result, flight) for result in results],
        "plan": fragment,
    }


def flight_of(file: Path, ask: Ask) -> Flight:
    """The file read, its provider opened, its windows looked up."""
    run = read_run_file(file)
    try:
        provider = provider_for(run, ask.clock, client=ask.client)
    except ProviderError as wrong:  # a file of its own that cannot be read
        raise BadInput(str(file), "provider", str(wrong), "a provider that can be asked") from None
    windows, trouble = None, ""
    try:
        named = [*run.file.windows, *_bought(run, ask)]
        found = {one.id: one for one in provider.windows(tag=(RUN_TAG, run.file.run))}
        if named:
            found |= {one.id: one for one in provider.windows(ids=named)}
        windows = list(found.values())
    except ProviderError as silent:
        trouble = f"the provider does not answer: {silent}"
    return Flight(run, run.file.preflight, provider, windows, trouble, ask)


def _bought(run: Run, ask: Ask) -> list[str]:
    """Ids of the windows in the run's book; none where it has no book yet."""
    if ask.db is None and not (ask.data / RECORD_FILE).exists():
        return []
    with database(ask.data, ask.db) as opened:
        return list(State.of(AskedBook(opened, run.file.run, ask.clock).events()).bought)


def checks_of(flight: Flight) -> list[Check]:
    """In the order in which they are asked: free ones first, those that hold nodes last."""
    return [*_of_capacity(flight), *_of_stores(flight), *_of_nodes(flight)]


def _of_capacity(flight: Flight) -> list[Check]:
    told, run, ask = flight.told, flight.run, flight.ask
    allowed = None if told.quota is None else told.quota.nodes
    wants = told.launch if ask.launch is None else ask.launch

    def reserved() -> Outcome:
        if flight.windows is None:
            return Outcome(UNKNOWN, flight.trouble)
        return preflight_capacity.reservation(flight.provider, flight.windows, run.nodes, flight.now)

    def launched() -> Outcome:
        if flight.windows is None:
            return Outcome(UNKNOWN, flight.trouble)
        window = preflight_capacity.window_of(flight.windows, flight.now)
        token = f"preflight-{run.file.run}-{int(flight.now)}"
        return preflight_capacity.launch_one(
            flight.provider, window, run.file.run, token, ask.clock.wait, flight.bound / 2
        )

    checks = [
        Check(
            "quota",
            "may so many nodes be had at all?",
            lambda: preflight_capacity.quota(allowed, flight.provider.capability.most_nodes, run.nodes),
            lead_s=7 * 86400.0,
        ),
        Check("window", "is it bought, here, large enough?", reserved, flight.bound, told.mend),
    ]
    node_s = NODE_CHECK_S if wants else 0.0
    look = launched if wants else lambda: told_too_little("preflight.launch: true")
    cost = "one node" if wants else NOTHING
    return [*checks, Check("launch", "does a node come up inside it?", look, flight.bound, 0.0, cost, node_s)]


def _of_stores(flight: Flight) -> list[Check]:
    told = flight.told
    folder = flight.run.folder

    def image() -> Outcome:
        if told.image is None:
            return told_too_little("preflight.image")
        return preflight_commands.image(told.image.command, told.image.digest, flight.bound, folder)

    def data() -> Outcome:
        if told.data is None:
            return told_too_little("preflight.data")
        at = told.data.at if "://" in told.data.at else str(folder / told.data.at)
        return preflight_stores.data(at, told.data.options, folder / told.data.list, told.data.hashes)

    def checkpoint() -> Outcome:
        near = None if told.near is None else flight.other(told.near)
        return preflight_stores.checkpoint(flight.store(), near)

    def store() -> Outcome:
        gone = preflight_stores.gone_with_the_window(flight.run, in_rehearsal=flight.ask.client is not None)
        return Outcome(FAIL, gone) if gone else preflight_stores.writable(flight.store())

    return [
        Check("image", "is it the one that was tested?", image, flight.bound, told.mend),
        Check("data", "are all shards there?", data, flight.bound, max(told.mend, 86400.0)),
        Check("checkpoint", "is the newest whole, and near?", checkpoint, flight.bound, told.mend),
        Check("store", "can the next be written, and stay?", store, flight.bound, told.mend),
    ]  # fmt: skip


def _of_nodes(flight: Flight) -> list[Check]:
    told, run, folder, bound = flight.told, flight.run, flight.run.folder, flight.bound
    gang = "the gang"

    def health() -> Outcome:
        if told.health is None:
            return told_too_little("preflight.health")
        tools = {"smi": told.health.smi, "nvlink": told.health.nvlink, "dcgm": told.health.dcgm}
        return preflight_commands.health(
            tools, told.nodes, gpus=run.plan.gpus_per_node, links=told.health.links, bound_s=bound,
            folder=folder,
        )  # fmt: skip

    def reduced() -> Outcome:
        if told.all_reduce is None:
            return told_too_little("preflight.all_reduce")
        one = told.all_reduce
        output = None if one.output is None else folder / one.output
        return preflight_commands.all_reduce(
            one.command, output, expected=one.expected, share=one.share, ranks=one.ranks, bound_s=bound,
            folder=folder,
        )  # fmt: skip

    def probed() -> Outcome:
        if told.probe is None:
            return told_too_little("preflight.probe")
        one = told.probe
        return preflight_commands.probe(
            one.command, steps=one.steps, nodes=one.nodes, planned=planned_speed(run), share=one.share,
            bound_s=bound, folder=folder,
        )[0]  # fmt: skip

    return [
        Check("health", "are the nodes sound?", health, bound + 10, 0.0, gang if told.health else NOTHING),
        Check(
            "all-reduce",
            "does the network carry the gang?",
            reduced,
            bound + 10,
            0.0,
            gang if told.all_reduce else NOTHING,
        ),
        Check("probe", "is it as fast as planned?", probed, bound + 10, 0.0, gang if told.probe else NOTHING),
    ]


def planned_speed(run: Run) -> float | None:
    """Tokens per second per GPU that the plan goes by."""
    if run.plan.throughput is not None:
        return run.plan.throughput.mean
    if not run.plan.pilots:
        return None
    pilots = [PlannedPilot(one.nodes, one.mean, one.sd) for one in run.plan.pilots]
    return fit(pilots, run.nodes).speed.mean


def updated_plan(run: Run, fragment: dict[str, Any]) -> dict[str, Any]:
    """The plan's own file with the probe's pilot beside those it had, or in place of its throughput."""
    plan = run.file.plan if isinstance(run.file.plan, dict) else read_yaml(run.folder / str(run.file.plan))
    kept = {key: value for key, value in dict(plan).items() if key not in ("throughput",)}
    pilots = [dict(one) for one in kept.get("pilots", [])] + list(fragment["pilots"])
    found: dict[str, Any] = {**kept, "pilots": pilots}
    return found


def _told(result: Result, flight: Flight) -> dict[str, Any]:
    check = result.check
    price = flight.run.on_demand_node_hour
    return {
        "check": check.name,
        "asks": check.asks,
        "state": result.state,
        "text": result.text,
        "took_s": round(result.took_s, 3),
        "deadline": None if result.deadline is None else iso(result.deadline),
        "late": result.late,
        "cost": check.cost,
        "cost_at_most": round(check.cost_node_s / 3600 * price, 2) if check.cost_node_s else 0.0,
        "numbers": result.numbers,
    }


def iso(at: float) -> str:
    """An instant as people and programs read it."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
