"""What client and server say to each other: one model a message, the same words as the commands.

Durations and instants end in their unit: `_s` are seconds, `at`/`started`/… ISO 8601 dates in UTC. Fields may
be added by newer servers: what a client does not know it leaves alone.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class Message(BaseModel):
    """Any of them; unknown fields are left alone."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Range(Message):
    """When something may come true, as dates; `latest` is None where nothing bounds it."""

    earliest: str | None = None
    latest: str | None = None
    earliest_s: int | None = None  #: seconds from now
    latest_s: int | None = None


class Receipt(Message):
    """S22: what a minimum costs, what it buys, and the wait foreseen with it and with a smaller one."""

    account: str
    gpus: int  #: of each element of an array
    elements: int = 1  #: of the array; 1 where it is none
    min_runtime_s: int
    protected_s: int  #: min(min_runtime, max_protected): never stopped for others so long after a start
    cost_gpu_h: float  #: of all elements: charged even if each ends as soon as its protection does
    entitlement: float  #: GPUs of the account now
    left_gpu_h: float | None = None  #: of a whole lookback at its entitlement, what it has not used yet
    buys: str  #: a sentence
    wait: Range | None = None  #: of the first element; None: not foreseen (busy, or it waits for another)
    smaller_min_runtime_s: int | None = None
    smaller_wait: Range | None = None
    notes: list[str] = []


class Submitted(Message):
    """The answer to a submission. `job` is the array's id where `jobs` has its elements."""

    job: str
    receipt: Receipt | None = None
    jobs: list[str] = []
    warnings: list[str] = []


class Attempt(Message):
    """One stay on nodes. `nodes`: GPUs by node."""

    attempt: int
    started: str
    stopped: str | None = None
    end: str | None = None
    nodes: dict[str, int] = {}
    protected_until: str | None = None
    rule: str = ""  #: by which it was started
    held_gpu_h: float | None = None
    lost_gpu_h: float | None = None
    exit_code: int | None = None
    detail: str = ""


class QueueRow(Message):
    """A line of the queue."""

    job: str
    account: str
    user: str
    phase: str
    end: str | None = None
    gpus: int
    min_runtime_s: int
    cluster: str | None = None
    name: str = ""
    submitted: str
    since: str | None = None  #: since when it is in its phase
    waited_s: int | None = None
    attempt: int = 0
    nodes: int = 0
    protected_until: str | None = None
    leaves_by: str | None = None  #: told to stop: the end of its grace
    reason: str | None = None  #: why it waits: a code
    held_by: str | None = None  #: on hold: a person; `after`: for others to end; `array`: for its own array's
    after: list[str] = []  #: those it waits for
    array: str | None = None


class Job(Message):
    """A job. What runs (command, env, workdir) is shown to its owner, managers and administrators only.

    Of an array: `elements` has its jobs. It runs while one of them does, waits while one waits, and has ended
    once all have: `finished` where all finished, else as the worst of them.
    """

    job: str
    account: str
    user: str
    phase: str  #: waiting, running, stopping, ended
    end: str | None = None
    gpus: int
    min_runtime_s: int
    priority: int = 0
    kind: str = "batch"
    resumable: bool = True
    max_runtime_s: int | None = None
    clusters: list[str] | None = None
    gpu: str | None = None
    same_rack: bool = False
    name: str = ""
    array: str | None = None
    after: list[str] = []
    submitted: str
    ended: str | None = None
    held: bool = False
    reason: str | None = None  #: why it waits: a code
    sentence: str | None = None
    detail: str = ""
    attempts: list[Attempt] = []
    elements: list[QueueRow] = []
    command: list[str] | None = None
    env: dict[str, str] | None = None
    workdir: str | None = None


class ClusterUse(Message):
    """A cluster in one line."""

    cluster: str
    gpus: int
    healthy: int
    free: int
    running: int  #: jobs
    waiting: int


class Queue(Message):
    """The queue: `total` jobs match, `jobs` are those of this page."""

    at: str
    turn: int
    clusters: list[ClusterUse]
    total: int
    waiting: int  #: jobs, those on hold and resting too
    held: int = 0
    resting: int = 0
    running: int
    jobs: list[QueueRow]


class Why(Message):
    """Why a job waits, or would: a code of docs/reasons.md, its sentence and numbers."""

    job: str | None  #: None: it is not submitted
    phase: str
    starts_now: bool
    reason: str | None
    sentence: str
    numbers: dict[str, Any]
    earliest_start: Range
    need: int | None = None
    have: int | None = None
    evidence: str | None = None
    nodes: dict[str, int] = {}
    stops: list[dict[str, Any]] = []
    would_change: list[dict[str, Any]] = []
    turn: int
    at: str
    receipt: Receipt | None = None
    warnings: list[str] = []


class Node(Message):
    """A node and what runs on it."""

    node: str
    cluster: str
    gpus: int
    gpu: str | None = None
    state: str  #: up, draining, down, drained, repairing, testing
    free: int
    jobs: list[str] = []
    reason: str = ""
    seen: bool = True  #: the engine sees it
    empty_by: str | None = None  #: a draining node: when the last protection on it ends


class Reservation(Message):
    """Nodes that an operator takes out of service for a while."""

    id: str
    nodes: list[str]
    begins: str
    ends: str
    state: str  #: to come, open, over
    by: str
    reason: str


class AccountUse(Message):
    """How an account stands on a cluster."""

    account: str
    cluster: str
    share: float  #: part of its parent's
    entitlement: float  #: GPUs
    running: int  #: GPUs charged
    unbudgeted: int  #: GPUs held on all clusters by work that is not charged
    waiting_gpus: int
    target: float
    ratio: float | None
    used_gpu_h: float  #: over the lookback
    entitled_gpu_h: float
    left_gpu_h: float  #: of a whole lookback at its present entitlement, what it has not used yet
    debt_gpu_h: float  #: owed to it; below 0 it is in credit
    forecast_gpu_h: float  #: what it gets in the next lookback if all demand stays as it is


class Accounts(Message):
    """All accounts, parents first."""

    at: str
    lookback_s: int
    accounts: list[AccountUse]


class Happening(Message):
    """An event of a job's story, with its date."""

    t: int
    at: str
    event: str
    text: str = ""
    details: dict[str, Any] = {}


class Log(Message):
    """The end of what an attempt wrote. `offset`: where to read on."""

    job: str
    attempt: int
    text: str
    offset: int
    running: bool


class Token(Message):
    """A token, without the token."""

    id: str
    user: str
    admin: bool
    created: str
    expires: str | None = None
    revoked: str | None = None
    note: str = ""


class NewToken(Token):
    """… and, once, the token itself."""

    token: str


class Done(Message):
    """What became of an act on a job or node."""

    subject: str
    text: str


class Finding(Message):
    """A line of `tenure doctor`."""

    subject: str
    ok: bool | None  #: None: cannot be told
    text: str
    remedy: str = ""


class Health(Message):
    """Whether the server can be relied on."""

    ok: bool
    leader: bool
    engine: str
    silent: bool  #: the engine does not answer: nothing is decided
    turn: int
    turn_age_s: float
    shadow: bool = False
    text: str = ""


class Server(Message):
    """Which server this is, and who asks."""

    lab: str
    version: str
    user: str
    admin: bool
    engine: str
    shadow: bool
    leader: bool
    start: str
    turn: int
    clusters: list[str]
    accounts: list[str]
