"""Why a question to the running scheduler is not answered.

    LiveError
    ├── NotKnown    no such job, node, account or turn
    ├── Forbidden   this person may not
    ├── NoToken     nobody knows who asks
    ├── TooOften    too many tokens that open nothing came from there: ask later
    ├── Wrong       the scheduler says that the question itself is wrong
    ├── NotNow      it is possible at other times: a job that has ended cannot be held
    └── NotReady    the scheduler is starting, its database or its engine does not answer: ask again

A question that is wrong in itself is `settings.errors.BadInput`, as everywhere.
"""

from __future__ import annotations


class LiveError(Exception):
    """The text is one sentence for the person who asked."""


class NotKnown(LiveError):
    """No such job, node, account or turn."""


class Forbidden(LiveError):
    """This person may not do or see this."""


class NoToken(LiveError):
    """The token is missing, unknown, expired or revoked."""


class TooOften(LiveError):
    """Too many tokens that open nothing came from there; `wait_s`: when to ask again."""

    def __init__(self, text: str, wait_s: float) -> None:
        super().__init__(text)
        self.wait_s = wait_s


class Wrong(LiveError):
    """The scheduler says that the question itself is wrong: a job it should wait for does not exist."""


class NotNow(LiveError):
    """It cannot be done in the state that things are in."""


class NotReady(LiveError):
    """Ask again: something that the answer needs does not answer now."""
