"""What can go wrong between a client and its server.

ClientError
├── ServerUnavailable   no answer, or none now: ask again
├── NotAllowed          the token is missing, unknown, expired or not of somebody who may
└── Refused             the question was wrong; the text says how, `status` is that of HTTP
"""

from __future__ import annotations


class ClientError(Exception):
    """The server did not do what it was asked."""


class ServerUnavailable(ClientError):
    """No answer, or none now: ask again. `sent`: the question had left, and may have been obeyed."""

    def __init__(self, message: str, *, sent: bool = False) -> None:
        super().__init__(message)
        self.sent = sent


class NotAllowed(ClientError):
    """The token is missing, unknown or expired, or its user may not do this."""


class Refused(ClientError):
    """The question was wrong. `status`: 404 unknown, 409 not now, 413 too large, 422 wrong."""

    def __init__(self, message: str, status: int = 422) -> None:
        super().__init__(message)
        self.status = status
