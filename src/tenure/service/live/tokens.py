"""Who is asking? Tokens: made for a user, shown once, kept as a hash, expiring, revoked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenure.client.messages import Done, NewToken, Token
from tenure.ledger.records import TokenRow
from tenure.service.live.desk import Desk, iso, reason_text
from tenure.service.live.errors import Forbidden, NotKnown, NoToken
from tenure.service.live.people import Who
from tenure.settings.errors import BadInput, shown
from tenure.settings.units import LONGEST_NAME, duration_s
from tenure.settings.units import name as read_name

LONGEST_TOKEN = 500
SHOWN_OF_DIGEST = 12


def who_is(desk: Desk, token: str | None) -> Who:
    """The person of a token. Raises NoToken."""
    if not token:
        raise NoToken("no token: set TENURE_TOKEN, or ask an administrator for `tenure token create YOU`")
    row = desk.ledger.who(token, desk.now()) if len(token) <= LONGEST_TOKEN else None
    if row is None:
        raise NoToken("this token is unknown, expired or revoked: ask an administrator for a new one")
    return Who(row.user, row.admin)


def who_was(desk: Desk, token: str) -> Who | None:
    """The person of a token that was asked about just now, without the record. None: ask `who_is`."""
    row = desk.ledger.known_bearer(token, desk.now())
    return None if row is None else Who(row.user, row.admin)


def create(desk: Desk, who: Who, body: Mapping[str, Any]) -> NewToken:
    """A new token. Administrators make them for all; anybody for themselves, never an administrator's.

    Raises Forbidden or BadInput.
    """
    try:
        user = read_name(body.get("user"))
    except ValueError as wrong:
        raise BadInput("token", "user", shown(body.get("user")), str(wrong)) from None
    admin = body.get("admin", False)
    if not isinstance(admin, bool):
        raise BadInput("token", "admin", shown(admin), "true or false")
    if (user != who.user or admin) and not who.admin:
        raise Forbidden(f"a token for {user} is made by administrators, and {who.user} is none")
    expires = None
    if body.get("expires") is not None:
        try:
            length_s = duration_s(body["expires"])
        except ValueError as wrong:
            raise BadInput("token", "expires", shown(body["expires"]), str(wrong)) from None
        if length_s == 0:
            raise BadInput("token", "expires", shown(body["expires"]), "a duration above 0, such as 90d")
        expires = desk.now() + length_s
    told = reason_text(body.get("note"))[:LONGEST_NAME]
    note = f"{told}; made by {who.user}" if told else f"made by {who.user}"
    text = desk.ledger.create_token(user, admin, expires, note, created=desk.now())
    row = desk.ledger.who(text, desk.now())
    if row is None:
        raise NoToken("the new token has expired already")
    return NewToken(**_shown(row).model_dump(), token=text)


def listed(desk: Desk, who: Who) -> list[Token]:
    """All tokens for an administrator, else one's own."""
    return [_shown(row) for row in desk.ledger.tokens() if who.admin or row.user == who.user]


def revoke(desk: Desk, who: Who, id: str) -> Done:
    """It opens nothing any more. One's own, or any for an administrator. Raises NotKnown or Forbidden."""
    found = [row for row in desk.ledger.tokens() if len(id) >= 8 and row.digest.startswith(id)]
    mine = [row for row in found if who.admin or row.user == who.user]
    if len(found) != 1 or not mine:
        raise NotKnown(f"there is no token {id[:20]!r} of yours; `tenure token list` shows them")
    if not desk.ledger.revoke(found[0].digest, desk.now(), who.user):
        raise NotKnown(f"there is no token {id[:20]!r}")
    return Done(subject=id, text=f"the token of {mine[0].user} is revoked")


def _shown(row: TokenRow) -> Token:
    return Token(
        id=row.digest[:SHOWN_OF_DIGEST],
        user=row.user,
        admin=row.admin,
        created=iso(row.created),
        expires=None if row.expires is None else iso(row.expires),
        revoked=None if row.revoked is None else iso(row.revoked),
        note=row.note,
    )
