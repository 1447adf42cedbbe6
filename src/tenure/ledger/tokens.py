"""Who a bearer is: tokens of 32 random bytes, of which only a hash is kept."""

from __future__ import annotations

import hashlib
import secrets
import time
from typing import Any

from sqlalchemy import select, update

from tenure.ledger.database import Database
from tenure.ledger.records import TokenRow
from tenure.ledger.tables import TOKENS

ROW = TOKENS.c
MARK = "tenure_"  #: so that a token left lying about is known for one
LONGEST = 200


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


def who(db: Database, text: str, now: float) -> TokenRow | None:
    """Whose token it is; None where it is nobody's, expired or revoked."""
    if len(text) > LONGEST:
        return None
    with db.reading() as connection:
        found = connection.execute(select(TOKENS).where(ROW.digest == digest_of(text))).one_or_none()
    if found is None or found.revoked is not None or (found.expires is not None and found.expires <= now):
        return None
    return _token(found)


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
