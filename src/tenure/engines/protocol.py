"""What the live loop asks of whatever runs jobs: a machine, a Slurm, a cluster in memory.

Level, not edge: an engine says what *is* (`see`), again and again; what changed is for `daemon/reconcile` to
find. So lost, doubled and late answers need no code of their own. Orders are imperative, carry an id and may
be repeated: the second time they do nothing more.

    EngineError
    ├── EngineUnavailable   no answer now: ask again; nothing is concluded from silence
    └── OrderRefused        this order will never be carried out, and why
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol


class EngineError(Exception):
    """The engine did not do what it was asked."""


class EngineUnavailable(EngineError):
    """No answer now. Ask again; nothing may be concluded from silence."""


class OrderRefused(EngineError):
    """The order will never be carried out; the text says why."""


class SeenNode(NamedTuple):
    """A node as the engine sees it."""

    name: str
    gpus: int
    up: bool  #: takes work
    draining: bool = False  #: somebody told the engine itself that it takes nothing new
    reason: str = ""


class SeenAttempt(NamedTuple):
    """An attempt that was started and not forgotten. Instants are epoch seconds by the engine's clock."""

    job: str
    attempt: int
    nodes: Mapping[str, int]  #: GPUs by node; empty where the engine does not know (any more)
    started: float | None = None  #: its first process began; None = not yet
    ended: float | None = None  #: its last process is gone; None = still there
    exit_code: int | None = (
        None  #: of its main process; None while it runs, where a signal ended it, or unknown
    )
    signal: int | None = None  #: the signal that ended it
    node_failed: bool = False  #: ended because a node died under it
    timed_out: bool = False  #: ended at its own max_runtime
    cancelled: bool = False  #: ended by somebody behind our back (`scancel`, `kill`)
    told: bool = False  #: it was told to stop before it ended
    done: bool = False  #: it said itself that its work is done (see `Start.env`, TENURE_DONE)
    saved: float | None = None  #: its newest save, where it says (TENURE_SAVED is a file it touches)
    detail: str = ""  #: one line for people


class SeenArrival(NamedTuple):
    """A job that waits at the engine and was not submitted through Tenure (`sbatch`), or enrolled by us."""

    job: str  #: the engine's own id; it becomes the job's id
    submitted: float
    user: str
    spec: Mapping[str, object]  #: keys of a job as in a lab's files (account, gpus, min_runtime, …)
    enrolled: str = ""  #: id of the `Enrol` order that made it, if one did
    refused: str = ""  #: why it can never run, in words, where the spec is wrong
    held: bool = False  #: it may not begin there: a person held it, or `throttled`
    throttled: bool = False  #: as many elements of its array as may are under way


class Seen(NamedTuple):
    """Everything the engine sees at one instant."""

    at: float  #: epoch seconds by the engine's clock
    nodes: Sequence[SeenNode]
    attempts: Sequence[SeenAttempt]
    arrivals: Sequence[SeenArrival] = ()  #: all that wait, known to us or not; what is missing has left


class Start(NamedTuple):
    """Run this attempt on these GPUs."""

    id: str
    job: str
    attempt: int
    account: str
    user: str  #: who submitted it
    nodes: Mapping[str, int]  #: GPUs by node, equally many on each
    command: Sequence[str]
    env: Mapping[str, str]
    workdir: str
    max_runtime_s: int | None  #: the engine kills it after so long, even while nobody is watching
    name: str = ""


class Notice(NamedTuple):
    """It will become interruptible and somebody waits for its place: save now (S15)."""

    id: str
    job: str
    attempt: int
    at: float  #: epoch second from which it may be stopped


class Stop(NamedTuple):
    """Ask it to leave, and make sure it has after the grace (SIGTERM … SIGKILL of all its processes)."""

    id: str
    job: str
    attempt: int
    grace_s: float
    requeue: bool  #: it will be queued again (Slurm keeps the job for it)
    why: str


class Forget(NamedTuple):
    """Its end is recorded: the engine need not speak of this attempt any more."""

    id: str
    job: str
    attempt: int


class Enrol(NamedTuple):
    """Submit this job to an engine that keeps the queue itself; it comes back as an arrival."""

    id: str
    user: str
    spec: Mapping[str, object]
    command: Sequence[str]
    env: Mapping[str, str]
    workdir: str


class Withdraw(NamedTuple):
    """Take a waiting job out of an engine that keeps the queue itself."""

    id: str
    job: str
    why: str = ""  #: in words, for whoever submitted it there; empty: they know


class SetNode(NamedTuple):
    """Tell the engine that a node takes no new work, or takes it again."""

    id: str
    node: str
    drain: bool
    reason: str


Order = Start | Notice | Stop | Forget | Enrol | Withdraw | SetNode


class Engine(Protocol):
    """One cluster manager. Every call may raise EngineUnavailable; every order may be repeated."""

    name: str
    keeps_queue: bool
    #: Jobs live in the engine from their submission on (Slurm): ids are its own, what is over there starts
    #: no more, and what it does not know may be over: it need not be told anything.
    limit_step_s: int  #: `max_runtime_s` is rounded up to a multiple of it

    def see(self) -> Seen:
        """What is, now. Bounded in time: it raises EngineUnavailable sooner than hang."""
        ...

    def carry_out(self, order: Order) -> None:
        """Do as told; doing it twice is as doing it once. OrderRefused where it can never be done."""
        ...

    def expect(self, attempts: Mapping[tuple[str, int], Mapping[str, int]]) -> None:
        """These ran when the record was last written, (job, attempt) → GPUs by node.

        What has ended since, and the machine room has forgotten, is told of from what trace it left.
        """
        ...

    def log_of(self, job: str, attempt: int, *, last_bytes: int = 1 << 16) -> bytes:
        """The end of what the attempt wrote; empty where nothing is kept."""
        ...

    def on_change(self, wake: Callable[[], None]) -> None:
        """`wake` is called, from any thread, when `see` would show something new; polling works without."""
        ...

    def close(self) -> None:
        """Let go of everything but the running work."""
        ...
