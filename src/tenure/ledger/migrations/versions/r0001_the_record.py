"""The record: commands, turns, events, jobs, attempts, orders, shares, messages, tokens, nodes, a leader."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

NAME = sa.Text().with_variant(sa.String(collation="C"), "postgresql")
WHOLE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.Float(53)

COUNTERS = ("commands", "events", "jobs", "shares", "notes", "node_log")


def upgrade() -> None:
    _what_is_asked()
    _turns()
    _jobs()
    _histories()
    _single_rows()


def _what_is_asked() -> None:
    """Commands, and who may ask."""
    op.create_table(
        "commands",
        sa.Column("number", WHOLE, primary_key=True, autoincrement=False),
        sa.Column("by", NAME, nullable=False),
        sa.Column("key", NAME),
        sa.Column("verb", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("turn", sa.BigInteger()),
        sa.Column("ok", sa.Boolean()),
        sa.Column("answer", sa.Text()),
        sa.UniqueConstraint("by", "key", name="one_command_a_key"),
    )
    op.create_index("commands_by_turn", "commands", ["turn"])
    op.create_index(
        "commands_unanswered",
        "commands",
        ["number"],
        sqlite_where=sa.text("turn IS NULL"),
        postgresql_where=sa.text("turn IS NULL"),
    )
    op.create_table(
        "tokens",
        sa.Column("digest", NAME, primary_key=True),
        sa.Column("user", NAME, nullable=False),
        sa.Column("admin", sa.Boolean(), nullable=False),
        sa.Column("created", INSTANT, nullable=False),
        sa.Column("expires", INSTANT),
        sa.Column("revoked", INSTANT),
        sa.Column("note", sa.Text(), nullable=False),
    )


def _turns() -> None:
    """What a turn writes: its patch, a keyframe, events, orders."""
    op.create_table(
        "turns",
        sa.Column("turn", WHOLE, primary_key=True, autoincrement=False),
        sa.Column("t", sa.BigInteger(), nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("news", sa.LargeBinary()),
        sa.Column("patch", sa.LargeBinary()),
        sa.Column("events_after", sa.BigInteger(), nullable=False),
        sa.Column("n_events", sa.Integer(), nullable=False),
    )
    op.create_index("turns_by_t", "turns", ["t"])
    op.create_table(
        "keyframes",
        sa.Column("turn", WHOLE, primary_key=True, autoincrement=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
    )
    op.create_table(
        "events",
        sa.Column("n", WHOLE, primary_key=True, autoincrement=False),
        sa.Column("t", sa.BigInteger(), nullable=False),
        sa.Column("event", NAME, nullable=False),
        sa.Column("job", NAME),
        sa.Column("line", sa.Text(), nullable=False),
    )
    op.create_index("events_by_t", "events", ["t", "n"])
    op.create_index("events_of_job", "events", ["job", "n"])
    op.create_table(
        "orders",
        sa.Column("id", NAME, primary_key=True),
        sa.Column("turn", sa.BigInteger(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("kind", NAME, nullable=False),
        sa.Column("job", NAME, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("state", NAME, nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
    )
    op.create_index("orders_by_turn", "orders", ["turn"])
    op.create_index(
        "orders_open",
        "orders",
        ["turn", "place"],
        sqlite_where=sa.text("state = 'open'"),
        postgresql_where=sa.text("state = 'open'"),
    )


def _jobs() -> None:
    """Jobs and their attempts, as people see them."""
    op.create_table(
        "jobs",
        sa.Column("job", NAME, primary_key=True),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("account", NAME, nullable=False),
        sa.Column("user", NAME, nullable=False),
        sa.Column("phase", NAME, nullable=False),
        sa.Column("end", NAME, nullable=False),
        sa.Column("submitted_t", sa.BigInteger(), nullable=False),
        sa.Column("ended_t", sa.BigInteger()),
        sa.Column("gpus", sa.BigInteger(), nullable=False),
        sa.Column("min_runtime_s", sa.BigInteger(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("array", NAME, nullable=False),
    )
    op.create_index("jobs_by_account", "jobs", ["account", "seq"])
    op.create_index(
        "jobs_by_array",
        "jobs",
        ["array", "seq"],
        sqlite_where=sa.text("array <> ''"),
        postgresql_where=sa.text("\"array\" <> ''"),
    )
    op.create_index("jobs_by_end", "jobs", ["ended_t"])
    op.create_index("jobs_by_phase", "jobs", ["phase", "seq"])
    op.create_index("jobs_by_seq", "jobs", ["seq"])
    op.create_index("jobs_by_user", "jobs", ["user", "seq"])
    op.create_table(
        "attempts",
        sa.Column("job", NAME, primary_key=True),
        sa.Column("attempt", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("nodes", sa.Text(), nullable=False),
        sa.Column("started_t", sa.BigInteger(), nullable=False),
        sa.Column("protected_until_t", sa.BigInteger(), nullable=False),
        sa.Column("stopped_t", sa.BigInteger()),
        sa.Column("end", NAME, nullable=False),
        sa.Column("reason", NAME, nullable=False),
        sa.Column("held_gpu_s", sa.BigInteger()),
        sa.Column("lost_gpu_s", sa.BigInteger()),
        sa.Column("exit_code", sa.BigInteger()),
        sa.Column("detail", sa.Text(), nullable=False),
    )


def _histories() -> None:
    """Shares, messages to owners, nodes."""
    op.create_table(
        "shares",
        sa.Column("number", WHOLE, primary_key=True, autoincrement=False),
        sa.Column("turn", sa.BigInteger(), nullable=False),
        sa.Column("t", sa.BigInteger(), nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("account", NAME, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
    )
    op.create_index("shares_by_account", "shares", ["account", "number"])
    op.create_table(
        "notes",
        sa.Column("number", WHOLE, primary_key=True, autoincrement=False),
        sa.Column("turn", sa.BigInteger(), nullable=False),
        sa.Column("t", sa.BigInteger(), nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("user", NAME, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("state", NAME, nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
    )
    op.create_index(
        "notes_open",
        "notes",
        ["number"],
        sqlite_where=sa.text("state = 'open'"),
        postgresql_where=sa.text("state = 'open'"),
    )
    op.create_table(
        "node_log",
        sa.Column("number", WHOLE, primary_key=True, autoincrement=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("node", NAME, nullable=False),
        sa.Column("state", NAME, nullable=False),
        sa.Column("by", NAME, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("person", sa.Boolean(), nullable=False),
    )
    op.create_index("node_log_by_at", "node_log", ["at"])
    op.create_index("node_log_by_node", "node_log", ["node", "number"])


def _single_rows() -> None:
    """What there is one row of: counters, the leader, things kept under a key."""
    op.create_table(
        "counters",
        sa.Column("name", NAME, primary_key=True),
        sa.Column("last", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "leadership",
        sa.Column("id", sa.SmallInteger(), primary_key=True),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("until", INSTANT, nullable=False),
    )
    op.create_table(
        "meta",
        sa.Column("key", NAME, primary_key=True),
        sa.Column("value", sa.Text(), nullable=False),
    )
    counters = sa.table("counters", sa.column("name"), sa.column("last"))
    # the first line of a story is its head, so events are numbered from 2
    op.bulk_insert(counters, [{"name": name, "last": int(name == "events")} for name in COUNTERS])
    leadership = sa.table(
        "leadership", sa.column("id"), sa.column("holder"), sa.column("epoch"), sa.column("until")
    )
    op.bulk_insert(leadership, [{"id": 1, "holder": "", "epoch": 0, "until": 0.0}])


def downgrade() -> None:
    raise NotImplementedError("the first revision has nothing before it")
