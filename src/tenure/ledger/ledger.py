"""The record as one object: what the live loop writes and the doors read. Other files do it all."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tenure.ledger import (
    compaction,
    events,
    leadership,
    meta,
    nodes,
    orders,
    outbox,
    queries,
    recovery,
    tokens,
    turns,
)
from tenure.ledger.database import Database
from tenure.ledger.inbox import Inbox
from tenure.ledger.opening import open_database
from tenure.ledger.records import (
    Answer,
    Asked,
    AttemptRow,
    Command,
    Identity,
    JobRow,
    Lease,
    NodeEntry,
    Note,
    OrderRow,
    RecordedTurn,
    TokenRow,
    TurnRow,
)


def open_ledger(url_or_path: str | os.PathLike[str], *, create: bool = True) -> Ledger:
    """Open a record, a SQLite file by its path or a PostgreSQL by its URL; its schema is brought up to date.

    Raises BadInput where the URL is wrong or (without `create`) nothing is there, LedgerUnavailable where
    the database does not answer, LedgerTooNew where a newer release made it.
    """
    return Ledger(open_database(url_or_path, create=create))


class Ledger:
    """One record. Safe to use from many threads; every call may raise LedgerUnavailable.

    What a method does, expects and raises is said at the function of the same name in its file.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._inbox = Inbox(db)
        self._bearers = tokens.Bearers(db)

    def close(self) -> None:
        self._db.engine.dispose()

    # --- which record -------------------------------------------------------------------------------
    def begin(self, lab: str, start_epoch: float) -> Identity:
        """The record's identity, given now where it has none. Raises WrongLab."""
        return meta.begin(self._db, lab, start_epoch)

    def identity(self) -> Identity | None:
        found = meta.read_meta(self._db, meta.IDENTITY)
        return None if found is None else Identity(found["lab"], float(found["start"]))

    def meta(self, key: str) -> Any:
        """The value kept under a key; None where there is none."""
        return meta.read_meta(self._db, key)

    def set_meta(self, key: str, value: Any) -> None:
        """Keep a small value (JSON) under a key. The story's first line is kept under `events.STORY_HEAD`."""
        meta.write_meta(self._db, key, value)

    # --- who leads ----------------------------------------------------------------------------------
    def lead(self, holder: str, now: float, ttl_s: float) -> Lease | None:
        return leadership.lead(self._db, holder, now, ttl_s)

    def renew(self, lease: Lease, now: float, ttl_s: float) -> Lease:
        return leadership.renew(self._db, lease, now, ttl_s)

    def yield_lease(self, lease: Lease) -> None:
        leadership.yield_lease(self._db, lease)

    # --- commands -----------------------------------------------------------------------------------
    def ask(self, asked: Sequence[Asked]) -> list[int]:
        return self._inbox.ask(asked)

    def unanswered(self, limit: int = 1000) -> list[Command]:
        return self._inbox.unanswered(limit)

    def answer(self, number: int) -> Answer | None:
        return self._inbox.answer(number)

    def wait_answer(self, number: int, timeout_s: float) -> Answer | None:
        return self._inbox.wait_answer(number, timeout_s)

    # --- turns --------------------------------------------------------------------------------------
    def record(self, turn: TurnRow, lease: Lease) -> None:
        turns.record(self._db, turn, lease)
        if turn.answers:
            self._inbox.tell(turn.answers)

    def open_orders(self, limit: int | None = None) -> list[OrderRow]:
        return orders.open_orders(self._db, limit)

    def settle_orders(self, settled: Sequence[tuple[str, str, str]]) -> None:
        orders.settle_orders(self._db, settled)

    def last_turn(self) -> int:
        return recovery.last_turn(self._db)

    def newest_keyframe(self) -> tuple[int, bytes] | None:
        return recovery.newest_keyframe(self._db)

    def keyframe_before(self, turn: int) -> tuple[int, bytes] | None:
        return recovery.newest_keyframe(self._db, before=turn)

    def patches_after(self, turn: int, upto: int | None = None) -> Iterator[recovery.Patch]:
        return recovery.patches_after(self._db, turn, upto)

    def turn(self, number: int) -> RecordedTurn | None:
        return recovery.turn(self._db, number)

    def compact(self, before_t: int) -> compaction.Compacted:
        return compaction.compact(self._db, before_t)

    # --- questions of the doors ---------------------------------------------------------------------
    def job(self, id_: str) -> JobRow | None:
        return queries.job(self._db, id_)

    def jobs(
        self,
        *,
        phase: str | Sequence[str] | None = None,
        account: str | None = None,
        user: str | None = None,
        array: str | None = None,
        since_t: int | None = None,
        limit: int = 1000,
        offset: int = 0,
        newest: bool = False,
    ) -> list[JobRow]:
        wanted = queries.Wanted(phase, account, user, array, since_t)
        return queries.jobs(self._db, wanted, limit=limit, offset=offset, newest=newest)

    def attempts(self, job: str) -> list[AttemptRow]:
        return queries.attempts(self._db, job)

    def events(
        self,
        *,
        job: str | None = None,
        since_t: int | None = None,
        until_t: int | None = None,
        after_number: int = 0,
        limit: int = 1000,
        newest: bool = False,
    ) -> list[str]:
        stretch = events.Stretch(since_t, until_t, after_number)
        return events.events(self._db, stretch, job=job, limit=limit, newest=newest)

    def story_lines(self, since_t: int | None = None, until_t: int | None = None) -> Iterator[str]:
        return events.story_lines(self._db, since_t, until_t)

    def share_history(self, account: str | None = None) -> list[Mapping[str, Any]]:
        return queries.share_history(self._db, account)

    # --- messages, nodes, tokens --------------------------------------------------------------------
    def outbox(self, limit: int = 100) -> list[Note]:
        return outbox.outbox(self._db, limit)

    def settle_notes(self, settled: Sequence[tuple[int, str, str]]) -> None:
        outbox.settle_notes(self._db, settled)

    def quiet_until(self) -> dict[str, float]:
        return outbox.quiet_until(self._db)

    def keep_quiet_until(self, until: Mapping[str, float]) -> None:
        outbox.keep_quiet_until(self._db, until)

    def log_nodes(self, entries: Sequence[NodeEntry]) -> None:
        nodes.log_nodes(self._db, entries)

    def node_states(self) -> dict[str, NodeEntry]:
        return nodes.newest_entries(self._db)

    def node_log(self, node: str | None = None, limit: int = 100) -> list[NodeEntry]:
        return nodes.entries(self._db, node, limit)

    def repairs_by_people(self, since: float, until: float) -> int:
        return nodes.repairs_by_people(self._db, since, until)

    def create_token(
        self,
        user: str,
        admin: bool = False,
        expires: float | None = None,
        note: str = "",
        *,
        created: float | None = None,
    ) -> str:
        return tokens.create_token(self._db, user, admin, expires, note, created)

    def who(self, token_text: str, now: float) -> TokenRow | None:
        return self._bearers.who(token_text, now)

    def known_bearer(self, token_text: str, now: float) -> TokenRow | None:
        """As `who`, without asking the database: None too where it is not known without."""
        return self._bearers.known(token_text, now)

    def tokens(self) -> list[TokenRow]:
        return tokens.tokens(self._db)

    def revoke(self, digest: str, at: float, by: str = "") -> bool:
        try:
            return tokens.revoke(self._db, digest, at, by)
        finally:
            self._bearers.forget()
