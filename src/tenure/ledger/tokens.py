"""Who a bearer is: tokens of 32 random bytes, of which only a hash is kept.

Whoever asks often is not looked up each time: what the database said holds for a second, and no longer than
until a token is revoked through this process.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from sqlalchemy import select, update

from tenure.ledger.database import Database
from tenure.ledger.records import TokenRow
from tenure.ledger.tables import TOKENS

ROW = TOKENS.c
MARK = "tenure_"  #: so that a token left lying about is known for one
LONGEST = 200
HOLDS_S = 1.0  #: how long what the database said of a token is believed
MOST_KEPT = 10_000


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def create_token(
    db: Database, user: str, admin: bool, expires: float | None, note: str, created: float | None
) -> str:
    """A new token; its text is told once and not kept. `created` is now where it is not given."""
    text = MARK + secrets.token_urlsafe(32)
    row = TokenRow(
        digest_of(text), user, admin, time.time() if created is None else created, expires, None, note
    )
    with db.writing() as connection:
        db.insert(connection, TOKENS, [row._asdict()])
    return text


class Bearers:
    """Whose a token is, by the newest that is known. Safe to use from many threads."""

    def __init__(self, db: Database, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._db, self._monotonic = db, monotonic
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[float, TokenRow]] = OrderedDict()  #: until when, by digest
        self._revoked = 0

    def who(self, text: str, now: float) -> TokenRow | None:
        """Whose token it is; None where it is nobody's, expired or revoked."""
        known = self.known(text, now)
        if known is not None or len(text) > LONGEST:
            return known
        with self._lock:
            revoked = self._revoked
        found = read_token(self._db, digest_of(text))
        if found is None:
            return None
        with self._lock:
            if revoked == self._revoked:
                self._kept[found.digest] = self._monotonic() + HOLDS_S, found
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return found if _opens(found, now) else None

    def known(self, text: str, now: float) -> TokenRow | None:
        """As `who`, from memory alone: None too where that was not asked within the last second."""
        if len(text) > LONGEST:
            return None
        with self._lock:
            until, found = self._kept.get(digest_of(text), (0.0, None))
        return found if found is not None and self._monotonic() < until and _opens(found, now) else None

    def forget(self) -> None:
        """A token was revoked: nothing is believed any more."""
        with self._lock:
            self._kept.clear()
            self._revoked += 1


def read_token(db: Database, digest: str) -> TokenRow | None:
    """The token of a digest as it is kept; None where there is none."""
    with db.reading() as connection:
        found = connection.execute(select(TOKENS).where(ROW.digest == digest)).one_or_none()
    return None if found is None else _token(found)


def _opens(token: TokenRow, now: float) -> bool:
    return token.revoked is None and (token.expires is None or token.expires > now)


def tokens(db: Database) -> list[TokenRow]:
    """All of them, oldest first, those revoked and expired too."""
    with db.reading() as connection:
        return [_token(row) for row in connection.execute(select(TOKENS).order_by(ROW.created, ROW.digest))]


def revoke(db: Database, digest: str, at: float, by: str = "") -> bool:
    """Refuse a token from now on, named by its digest or the beginning of it (8 characters or more).

    `by`: whoever does it; the token's note says so from then on.
    False where there is no such token, or several.
    """
    if len(digest) < 8:
        return False
    with db.writing() as connection:
        wanted = select(TOKENS).where(ROW.digest.startswith(digest, autoescape=True)).limit(2)
        found = connection.execute(wanted).all()
        if len(found) != 1:
            return False
        note = "; ".join(part for part in (found[0].note, f"revoked by {by}" if by else "") if part)
        change = update(TOKENS).where(ROW.digest == found[0].digest, ROW.revoked.is_(None))
        connection.execute(change.values(revoked=at, note=note))
    return True


def _token(row: Any) -> TokenRow:
    return TokenRow(row.digest, row.user, row.admin, row.created, row.expires, row.revoked, row.note)
