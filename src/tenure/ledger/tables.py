"""The tables of the record. `migrations/` makes them; a test holds the two together.

Numbers (`number`, `n`, `seq`) are given out by `counters`, in one row each, so that they follow the order of
the commits in both databases. Names are compared byte by byte in both.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    text,
)

HEAD = "0002"  #: the newest revision in `migrations/versions`

METADATA = MetaData()
WHOLE = BigInteger().with_variant(Integer(), "sqlite")  # SQLite numbers rows by themselves only in an INTEGER


class Words(TypeDecorator[str]):
    """Text from outside: what no database can hold (NUL, halves of a pair) is shown as a replacement."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else holdable(value)


class Name(Words):
    """Text that is compared and ordered byte by byte."""

    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> Any:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(String(collation="C"))
        return dialect.type_descriptor(Text())


def holdable(value: str) -> str:
    """The text as both databases can hold it."""
    if "\0" in value:
        value = value.replace("\0", "�")
    if value.isascii():
        return value
    return value.encode("utf-8", "replace").decode("utf-8")


META = Table(
    "meta",
    METADATA,
    Column("key", Name, primary_key=True),
    Column("value", Text, nullable=False),
)

COUNTERS = Table(
    "counters",
    METADATA,
    Column("name", Name, primary_key=True),
    Column("last", BigInteger, nullable=False),
)

LEADERSHIP = Table(
    "leadership",
    METADATA,
    Column("id", SmallInteger, primary_key=True),  # one row
    Column("holder", Words, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("until", Float(53), nullable=False),
)

COMMANDS = Table(
    "commands",
    METADATA,
    Column("number", WHOLE, primary_key=True, autoincrement=False),
    Column("by", Name, nullable=False),
    Column("key", Name),  # null where the client gave none
    Column("verb", Words, nullable=False),
    Column("subject", Words, nullable=False),
    Column("body", Text, nullable=False),
    Column("at", Float(53), nullable=False),
    Column("turn", BigInteger),  # that answered it
    Column("ok", Boolean),
    Column("answer", Text),
    UniqueConstraint("by", "key", name="one_command_a_key"),
)
Index(
    "commands_unanswered",
    COMMANDS.c.number,
    sqlite_where=text("turn IS NULL"),
    postgresql_where=text("turn IS NULL"),
)
Index("commands_by_turn", COMMANDS.c.turn)

TURNS = Table(
    "turns",
    METADATA,
    Column("turn", WHOLE, primary_key=True, autoincrement=False),
    Column("t", BigInteger, nullable=False),
    Column("at", Float(53), nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("digest", Text, nullable=False),
    Column("code", Text, nullable=False),
    Column("news", LargeBinary),  # null once compacted
    Column("patch", LargeBinary),  # null once compacted
    Column("events_after", BigInteger, nullable=False),  # its events are numbered from the next on
    Column("n_events", Integer, nullable=False),
)
Index("turns_by_t", TURNS.c.t)

KEYFRAMES = Table(
    "keyframes",
    METADATA,
    Column("turn", WHOLE, primary_key=True, autoincrement=False),
    Column("body", LargeBinary, nullable=False),
)

EVENTS = Table(
    "events",
    METADATA,
    Column("n", WHOLE, primary_key=True, autoincrement=False),
    Column("t", BigInteger, nullable=False),
    Column("event", Name, nullable=False),
    Column("job", Name),
    Column("line", Text, nullable=False),  # without `n`
)
Index("events_of_job", EVENTS.c.job, EVENTS.c.n)
Index("events_by_t", EVENTS.c.t, EVENTS.c.n)

JOBS = Table(
    "jobs",
    METADATA,
    Column("job", Name, primary_key=True),
    Column("seq", BigInteger, nullable=False),  # order in which they were first written
    Column("account", Name, nullable=False),
    Column("user", Name, nullable=False),
    Column("phase", Name, nullable=False),
    Column("end", Name, nullable=False),
    Column("submitted_t", BigInteger, nullable=False),
    Column("ended_t", BigInteger),
    Column("gpus", BigInteger, nullable=False),
    Column("min_runtime_s", BigInteger, nullable=False),
    Column("spec", Text, nullable=False),
    Column("detail", Words, nullable=False),
    Column("array", Name, nullable=False),
)
Index("jobs_by_seq", JOBS.c.seq)
Index("jobs_by_phase", JOBS.c.phase, JOBS.c.seq)
Index("jobs_by_account", JOBS.c.account, JOBS.c.seq)
Index("jobs_by_user", JOBS.c.user, JOBS.c.seq)
Index(
    "jobs_by_array",
    JOBS.c.array,
    JOBS.c.seq,
    sqlite_where=text("array <> ''"),
    postgresql_where=text("\"array\" <> ''"),
)
Index("jobs_by_end", JOBS.c.ended_t)

ATTEMPTS = Table(
    "attempts",
    METADATA,
    Column("job", Name, primary_key=True),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("nodes", Text, nullable=False),
    Column("started_t", BigInteger, nullable=False),
    Column("protected_until_t", BigInteger, nullable=False),
    Column("stopped_t", BigInteger),
    Column("end", Name, nullable=False),
    Column("reason", Name, nullable=False),
    Column("held_gpu_s", BigInteger),
    Column("lost_gpu_s", BigInteger),
    Column("exit_code", BigInteger),
    Column("detail", Words, nullable=False),
)

ORDERS = Table(
    "orders",
    METADATA,
    Column("id", Name, primary_key=True),
    Column("turn", BigInteger, nullable=False),
    Column("place", Integer, nullable=False),  # within its turn
    Column("kind", Name, nullable=False),
    Column("job", Name, nullable=False),
    Column("body", Text, nullable=False),
    Column("state", Name, nullable=False),
    Column("detail", Words, nullable=False),
)
Index(
    "orders_open",
    ORDERS.c.turn,
    ORDERS.c.place,
    sqlite_where=text("state = 'open'"),
    postgresql_where=text("state = 'open'"),
)
Index("orders_by_turn", ORDERS.c.turn)

SHARES = Table(
    "shares",
    METADATA,
    Column("number", WHOLE, primary_key=True, autoincrement=False),
    Column("turn", BigInteger, nullable=False),
    Column("t", BigInteger, nullable=False),
    Column("at", Float(53), nullable=False),
    Column("account", Name, nullable=False),
    Column("body", Text, nullable=False),
)
Index("shares_by_account", SHARES.c.account, SHARES.c.number)

NOTES = Table(
    "notes",
    METADATA,
    Column("number", WHOLE, primary_key=True, autoincrement=False),
    Column("turn", BigInteger, nullable=False),
    Column("t", BigInteger, nullable=False),
    Column("at", Float(53), nullable=False),
    Column("user", Name, nullable=False),
    Column("body", Text, nullable=False),
    Column("state", Name, nullable=False),  # open, sent, failed
    Column("detail", Words, nullable=False),
)
Index(
    "notes_open",
    NOTES.c.number,
    sqlite_where=text("state = 'open'"),
    postgresql_where=text("state = 'open'"),
)

TOKENS = Table(
    "tokens",
    METADATA,
    Column("digest", Name, primary_key=True),
    Column("user", Name, nullable=False),
    Column("admin", Boolean, nullable=False),
    Column("created", Float(53), nullable=False),
    Column("expires", Float(53)),
    Column("revoked", Float(53)),
    Column("note", Words, nullable=False),
)

NODE_LOG = Table(
    "node_log",
    METADATA,
    Column("number", WHOLE, primary_key=True, autoincrement=False),
    Column("at", Float(53), nullable=False),
    Column("node", Name, nullable=False),
    Column("state", Name, nullable=False),
    Column("by", Name, nullable=False),
    Column("reason", Words, nullable=False),
    Column("person", Boolean, nullable=False),
)
Index("node_log_by_node", NODE_LOG.c.node, NODE_LOG.c.number)
Index("node_log_by_at", NODE_LOG.c.at)

RUNS = Table(
    "runs",
    METADATA,
    Column("run", Name, primary_key=True),
    Column("holder", Words, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("until", Float(53), nullable=False),
    Column("created", Float(53), nullable=False),
    Column("last", BigInteger, nullable=False),  # number of its newest event
)

RUN_EVENTS = Table(
    "run_events",
    METADATA,
    Column("run", Name, primary_key=True),
    Column("number", WHOLE, primary_key=True, autoincrement=False),
    Column("at", Float(53), nullable=False),
    Column("epoch", BigInteger, nullable=False),  # of the lease it was written under; 0: by a person
    Column("kind", Name, nullable=False),
    Column("key", Name),  # null where there may be many
    Column("body", Text, nullable=False),
    UniqueConstraint("run", "key", name="one_run_event_a_key"),
)
Index("run_events_by_kind", RUN_EVENTS.c.run, RUN_EVENTS.c.kind, RUN_EVENTS.c.number)
