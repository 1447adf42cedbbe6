"""What is a run's book? Events that are never edited, each durable before anything is done about it.

BookError
├── AlreadyRecorded   somebody has recorded this key: theirs stands
└── Fenced            somebody else carries this run by now: stop at once
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol


class BookError(Exception):
    """The event was not recorded."""


class Event(NamedTuple):
    """Something that has happened, or is about to be tried (kinds that end in `_intended`)."""

    number: int  #: 1, 2, … in a book
    at: float  #: epoch seconds, by the writer's clock
    kind: str  #: past tense, words joined by _
    body: Mapping[str, Any]  #: as JSON can hold it: money and ids as text
    key: str = ""


class AlreadyRecorded(BookError):
    """An event with this key is in the book: `event`."""

    def __init__(self, event: Event) -> None:
        super().__init__(f"'{event.key}' was recorded as event {event.number}")
        self.event = event


class Fenced(BookError):
    """The writer's lease is over and somebody else holds it."""


class Book(Protocol):
    """One run's book."""

    run: str

    def record(self, kind: str, body: Mapping[str, Any], *, key: str = "") -> Event:
        """Write it; it is on the disk when this returns.

        `key`: there is at most one event of a key in a book; the second raises AlreadyRecorded, also where
        two processes write at the same time (a unique constraint, not a look before).
        """
        ...

    def events(self, *kinds: str) -> Sequence[Event]:
        """All events, or those of these kinds, in order."""
        ...
