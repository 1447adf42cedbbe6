"""Training runs carried across windows: who carries each, and what has happened to it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

NAME = sa.Text().with_variant(sa.String(collation="C"), "postgresql")
WHOLE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.Float(53)


def upgrade() -> None:
    op.create_table(
        "runs",
        sa.Column("run", NAME, primary_key=True),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("until", INSTANT, nullable=False),
        sa.Column("created", INSTANT, nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "run_events",
        sa.Column("run", NAME, primary_key=True),
        sa.Column("number", WHOLE, primary_key=True, autoincrement=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("kind", NAME, nullable=False),
        sa.Column("key", NAME),
        sa.Column("body", sa.Text(), nullable=False),
        sa.UniqueConstraint("run", "key", name="one_run_event_a_key"),
    )
    op.create_index("run_events_by_kind", "run_events", ["run", "kind", "number"])


def downgrade() -> None:
    raise NotImplementedError("what happened to a run is never taken back")
