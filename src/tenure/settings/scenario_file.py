"""A scenario's file: a lab, work for it, and what happens from outside (`scenario.yaml`).

Checked here is what the file says by itself. Whether jobs and events fit the lab is checked where the
world is assembled, before anything is played.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from tenure.core.words import NodeState
from tenure.settings.errors import BadInput, Checked, checked, dotted, nearest, shown
from tenure.settings.failures_key import ScenarioFailuresFile
from tenure.settings.job import HiddenJobFile
from tenure.settings.units import (
    AccountPath,
    Instant,
    Name,
    Share,
    Text,
    account_path,
    duration_s,
    number,
    one_of,
    share,
    whole,
    within,
)

MOST_COPIES = 1_000_000
MOST_JOBS = 5_000_000
LONGEST_SPAN_S = 36_500 * 86400  #: a hundred years
NODE_STATES = {"up": NodeState.UP, "draining": NodeState.DRAINING, "down": NodeState.DOWN}
FORMATS = ("csv", "helios", "philly", "pai", "acme", "swf", "sacct", "tenure")
FROM_TRACE = "from-trace"
OTHERS = "*"  #: in a map of tenants: all that are not named

Span = Annotated[int, BeforeValidator(within(1, LONGEST_SPAN_S))]
When = Annotated[int, BeforeValidator(within(0, LONGEST_SPAN_S))]
Copies = Annotated[int, BeforeValidator(whole(1, MOST_COPIES))]
Seed = Annotated[int, BeforeValidator(whole(0, 2**63 - 1))]


class ScenarioJob(HiddenJobFile):
    """Constructed work: `count` copies, submitted `every` apart from `submit` on."""

    id: Name | None = None
    submit: When = 0
    count: Copies = 1
    every: When = 0


def _accounts(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(tenant): account_path(path) for tenant, path in value.items()}
    return value if value == FROM_TRACE else account_path(value)


def _minimum(value: Any) -> tuple[str, int]:
    """(`fixed`, seconds), (`runtime`, 0) or (`part`, millionths of the runtime)."""
    if value == "runtime":
        return ("runtime", 0)
    try:
        if isinstance(value, str) and value.rstrip().endswith("%"):
            return ("part", share(value))
        return ("fixed", duration_s(value))
    except ValueError:
        raise ValueError("a duration such as 1h, `runtime`, or a part of it such as 30%") from None


class TraceFile(Checked):
    """Real work: a file of jobs and how to read it."""

    file: Text
    format: Annotated[str, BeforeValidator(one_of(*FORMATS))] = "csv"
    columns: dict[str, Text] | None = None
    timezone: Text = "UTC"
    tenant: Text | None = None
    accounts: Annotated[Any, BeforeValidator(_accounts)] = FROM_TRACE
    shares: Annotated[str, BeforeValidator(one_of("equal", "as-used", "given"))] | None = None
    min_runtime: Annotated[tuple[str, int], BeforeValidator(_minimum)] = ("fixed", 0)
    sizes: Annotated[str, BeforeValidator(one_of("round-up", "drop", "refuse"))] = "round-up"


class EventFile(Checked):
    """What happens at one instant: to a node, an account's share, or a job."""

    at: When
    node: Name | None = None
    state: Annotated[str, BeforeValidator(one_of(*NODE_STATES))] | None = None
    closed_from: When | None = None
    lasts: Span | None = Field(default=None, alias="for")
    account: AccountPath | None = None
    share: Share | None = None
    cluster: Name | None = None
    job: Name | None = None
    do: Annotated[str, BeforeValidator(one_of("cancel", "hold", "release"))] | None = None
    by: Text | None = None
    reason: Text | None = None

    @model_validator(mode="after")
    def _one_thing(self) -> Self:
        nouns = [noun for noun in ("node", "account", "job") if getattr(self, noun) is not None]
        forms = (
            "{at, node, state}, {at, node, closed_from}, {at, account, share}"
            " or {at, job, do: cancel | hold | release}"
        )
        if len(nouns) != 1:
            raise ValueError(f"one of {forms}")
        verbs = {"node": ("state", "closed_from"), "account": ("share",), "job": ("do",)}[nouns[0]]
        given = [key for key in ("state", "closed_from", "share", "do") if getattr(self, key) is not None]
        if len(given) != 1 or given[0] not in verbs:
            raise ValueError(f"one of {forms}")
        if self.lasts is not None and self.state not in ("down", "draining") and self.closed_from is None:
            raise ValueError("`for` with state down or draining, or with closed_from, only")
        if self.closed_from is not None and self.closed_from <= self.at:
            raise ValueError("closed_from later than at (or state draining, for a node that closes at once)")
        if self.cluster is not None and self.account is None:
            raise ValueError("`cluster` with an account's share only")
        return self


def _lab(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, str) and value.strip():
        return value
    raise ValueError("the path of a lab's file, or the mapping itself")


def _workload(value: Any) -> Any:
    if not isinstance(value, Mapping) or not isinstance(value.get("shape"), str):
        raise ValueError("a mapping with the name of a shape, such as {shape: ai2}")
    return dict(value)


class ScenarioFile(Checked):
    """The file, each value checked by itself; times in seconds after the start."""

    lab: Annotated[Any, BeforeValidator(_lab)] = None
    start: Instant | None = None
    until: Span | None = None
    warmup: When = 0
    seed: Seed = 1
    jobs: list[ScenarioJob] = []
    trace: TraceFile | None = None
    workload: Annotated[dict[str, Any], BeforeValidator(_workload)] | None = None
    events: list[EventFile] = []
    failures: ScenarioFailuresFile | None = None


def scenario_file(raw: Any, *, file: str) -> ScenarioFile:
    """A scenario's mapping, checked. BadInput where it says what cannot be."""
    scenario = checked(ScenarioFile, raw, file=file)
    if scenario.until is not None and scenario.warmup >= scenario.until:
        raise BadInput(file, "warmup", f"{scenario.warmup} s", f"less than until ({scenario.until} s)")
    if not scenario.jobs and scenario.trace is None and scenario.workload is None:
        raise BadInput(file, "", "no work", "any mix of jobs, trace and workload")
    if scenario.lab is None and scenario.workload is None:
        raise BadInput(file, "lab", "nothing", "the path of a lab's file, or the mapping itself")
    if scenario.workload is not None and scenario.until is None:
        raise BadInput(file, "until", "nothing", "a duration such as 30d: drawn work does not end by itself")
    if scenario.failures is not None and scenario.until is None:
        raise BadInput(file, "until", "nothing", "a duration such as 30d: nodes fail as long as it is played")
    if sum(job.count for job in scenario.jobs) > MOST_JOBS:
        raise BadInput(file, "jobs", "more copies in all", f"at most {MOST_JOBS}")
    for row, job in enumerate(scenario.jobs):
        if job.submit + job.every * (job.count - 1) > LONGEST_SPAN_S:
            raise BadInput(
                file,
                dotted(["jobs", row, "every"]),
                f"a last copy after {LONGEST_SPAN_S} s",
                "submissions within a hundred years",
            )
    return scenario


def with_changes(raw: Any, changes: Mapping[str, str], *, file: str) -> tuple[Any, dict[str, str]]:
    """
    The mapping with keys set as `--set KEY=VALUE` says, and the changes of the policy, which come last.

    A dot is a level; a number counts in a list: `until`, `workload.debug_per_hour`, `jobs.0.gpus`.
    """
    policy = {key: value for key, value in changes.items() if key.startswith("policy.")}
    for key, value in changes.items():
        if key not in policy:
            raw = _set(raw, key.split("."), value, file=file, key=key)
    return raw, policy


def _set(raw: Any, path: list[str], value: str, *, file: str, key: str) -> Any:
    if not path:
        return value
    first, rest = path[0], path[1:]
    if isinstance(raw, list) and first.isascii() and first.isdigit() and int(first[:9]) < len(raw):
        row = int(first)
        return [_set(old, rest, value, file=file, key=key) if i == row else old for i, old in enumerate(raw)]
    if isinstance(raw, Mapping) and (not rest or first in raw):
        return {**raw, first: _set(raw.get(first), rest, value, file=file, key=key)}
    known = [str(k) for k in raw] if isinstance(raw, Mapping) else []
    raise BadInput("--set", key, f"{shown(first)}, which {file} does not have", nearest(first, known))


def plain_numbers(value: Any) -> Any:
    """Numbers that stand in a file as text (`0.3`, `1e3`) as numbers, at any depth."""
    if isinstance(value, Mapping):
        return {key: plain_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain_numbers(inner) for inner in value]
    if isinstance(value, str):
        try:
            exact = number(value)
        except ValueError:
            return value
        return int(exact) if exact == exact.to_integral_value() else float(exact)
    return value
