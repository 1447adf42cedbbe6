"""What does a controller hold in its hands? A provider, a store, a trainer, a hook folder, a gate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tenure.providers.protocol import Node, Offer, Provider, Window
from tenure.runs.book import RunBook
from tenure.runs.hook import Hook
from tenure.runs.look import Kept, Sound, TrainerSeen


class PartSilent(Exception):
    """A store or an engine does not answer now: nothing is concluded, it is asked again."""


class NothingHolds(PartSilent):
    """The store answers, holds something, and none of it can be used: a person must look."""


class Shelf(Protocol):
    """Where checkpoints are."""

    def newest(self, read: Callable[[int], None] | None = None) -> Kept:
        """
        The newest that verifies; `look.NOTHING_KEPT` where nothing was ever saved.

        `read`: every byte of it is read once, and this told how many more were; None: sizes are compared.
        PartSilent; NothingHolds.
        """
        ...


class Trainer(Protocol):
    """Who starts the trainer's processes and sees their end. Every call may raise PartSilent."""

    def start(self, attempt: int, nodes: Sequence[Node]) -> None:
        """Start an attempt; the second time it does nothing more."""
        ...

    def seen(self, attempt: int) -> TrainerSeen:
        """How it is with an attempt."""
        ...

    def stop(self, attempt: int) -> None:
        """End it, softly first. May be repeated."""
        ...


class Gated(NamedTuple):
    """What came of testing a gang. `slow`: nodes to be replaced."""

    passed: bool
    text: str
    slow: tuple[str, ...] = ()


class Bought(NamedTuple):
    """What came of wanting to buy: `bought`, `waiting` (for a person, or to be read), or `refused`."""

    state: str
    text: str = ""


class Buyer(Protocol):
    """Who buys more of a window (`extending.Extender`); never waits."""

    def __call__(self, window: Window, offer: Offer) -> Bought:
        """Sign for it, and buy it if that is enough."""
        ...

    def pursue(self) -> Sequence[Bought]:
        """What has come of what waited."""
        ...


@dataclass
class Parts:
    """All of it. `gate`: None = nothing is tested. `extend`: None = nothing is ever bought."""

    book: RunBook
    provider: Provider
    shelf: Shelf
    trainer: Trainer
    hook: Hook
    sound: Callable[[Sound], None]
    gate: Callable[[Sequence[Node], Sequence[Window]], Gated] | None = None
    extend: Buyer | None = None
