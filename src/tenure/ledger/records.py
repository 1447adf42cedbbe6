"""What is written down, as plain rows: the words between the live loop, the doors and the databases.

Instants named `at` are epoch seconds (float, UTC); `t` is whole seconds since the start of the record, as in
a story. Rows are immutable; what may change of a job or an attempt is written anew under the same key.

    LedgerError
    ├── LedgerUnavailable   the database does not answer, is full or is being restarted: nothing was written
    ├── NotTheLeader        another server leads now: nothing was written
    ├── TurnTaken           this turn is in the record already: read the record again before going on
    ├── WrongLab            the record is that of another lab
    ├── LedgerTooNew        the database was made by a newer release
    └── KeyReused           this user has asked for something else with this key
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class LedgerError(Exception):
    """The record could not be read or written."""


class LedgerUnavailable(LedgerError):
    """No answer, or no room: nothing was written. Ask again.

    Where a database server is lost at the very instant of its commit nobody can know; then the same turn
    written again is refused with TurnTaken, and the same command asked again with its key is one command.
    """


class NotTheLeader(LedgerError):
    """Another server leads now: nothing was written."""


class TurnTaken(LedgerError):
    """This turn is in the record already: an earlier write got through, though its answer was lost.

    Nothing was written now. The state in memory is older than the record: read the record again.
    """


class WrongLab(LedgerError):
    """The record is that of another lab."""


class LedgerTooNew(LedgerError):
    """The database was made by a newer release of Tenure."""


class KeyReused(LedgerError):
    """This user has asked for something else with this key: what is asked for now was not written."""


class Identity(NamedTuple):
    """Which record this is."""

    lab: str
    start: float  #: epoch second of t = 0, whole


class Lease(NamedTuple):
    """The right to decide. `epoch` grows by one with each new leader; a write under an old one is refused."""

    holder: str
    epoch: int
    until: float


class Asked(NamedTuple):
    """What a person asks for, written down before anything is done about it."""

    by: str  #: user
    verb: str  #: submit, cancel, hold, release, stop, node, share, reload …
    subject: str  #: job, node, account; "" where none
    body: Mapping[str, Any]
    at: float
    key: str = ""  #: given by the client: asked twice with one key is asked once


class Command(NamedTuple):
    """An `Asked` with its number. Commands are obeyed in the order of their numbers."""

    number: int
    asked: Asked


class Answer(NamedTuple):
    """What became of a command."""

    number: int
    ok: bool
    body: Mapping[str, Any]  #: {"job": …, "receipt": …}, or {"error": sentence}


class JobRow(NamedTuple):
    """A job as people see it."""

    job: str
    account: str
    user: str
    phase: str  #: waiting, running, stopping, ended; held and resting are waiting with a reason
    end: str  #: as in a story; "" while it has not ended
    submitted_t: int
    ended_t: int | None
    gpus: int
    min_runtime_s: int
    spec: Mapping[str, Any]  #: all keys of the job; command, env and workdir among them
    detail: str = ""  #: one line for people
    array: str = ""  #: id of the array it belongs to


class AttemptRow(NamedTuple):
    """One stay of a job on nodes."""

    job: str
    attempt: int
    nodes: Mapping[str, int]  #: GPUs by node
    started_t: int
    protected_until_t: int
    stopped_t: int | None
    end: str
    reason: str  #: the rule by which it was started
    held_gpu_s: int | None = None
    lost_gpu_s: int | None = None
    exit_code: int | None = None
    detail: str = ""


class OrderRow(NamedTuple):
    """An order as recorded before it is carried out."""

    id: str
    turn: int
    kind: str  #: class name in engines.protocol, lower case
    job: str
    body: Mapping[str, Any]
    state: str = "open"  #: open, done, refused
    detail: str = ""


class NodeEntry(NamedTuple):
    """A node's state from now on, who said so and why."""

    node: str
    state: str  #: up, draining, drained, repairing, testing, down
    by: str  #: a user, or the part of Tenure that found it
    reason: str
    at: float
    person: bool = False  #: a repair that needed a person


class TurnRow(NamedTuple):
    """All that one turn of the live loop writes, in one transaction.

    `patch` is pure data: applied to the state before, it gives the state after, whatever release decides.
    `keyframe` is the whole state after the turn, written now and then, so that few patches have to be read.
    """

    turn: int  #: 1, 2 …; written twice is refused
    t: int
    at: float
    news: Sequence[Any]  #: what had happened, as given to the core (JSON)
    patch: Mapping[str, Any]
    digest: str  #: of the state decided on
    code: str  #: digest of the deciding code's sources
    keyframe: bytes | None
    events: Sequence[str]  #: story lines (JSON objects without `n`), in order
    jobs: Sequence[JobRow]  #: those that changed
    attempts: Sequence[AttemptRow]
    orders: Sequence[OrderRow]
    answers: Sequence[Answer]
    shares: Sequence[Mapping[str, Any]] = ()  #: {account, cluster, old, new, by, reason}, millionths
    notes: Sequence[Mapping[str, Any]] = ()  #: messages to owners: {user, job, kind, text}
    node_log: Sequence[NodeEntry] = ()  #: what became of nodes, and by whom


class RecordedTurn(NamedTuple):
    """A turn as it can be read again. `news` and `patch` are None where the turn was compacted."""

    turn: int
    t: int
    at: float
    news: Sequence[Any] | None
    patch: Mapping[str, Any] | None
    digest: str
    code: str
    events: Sequence[str]  #: story lines with `n`


class Note(NamedTuple):
    """A message to an owner, to be sent."""

    number: int
    t: int
    at: float
    user: str
    body: Mapping[str, Any]  #: {user, job, kind, text}
    state: str  #: open, sent, failed
    detail: str = ""


class TokenRow(NamedTuple):
    """Who a bearer of a token is. Only a hash of the token is kept."""

    digest: str
    user: str
    admin: bool
    created: float
    expires: float | None
    revoked: float | None
    note: str = ""
