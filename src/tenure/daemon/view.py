"""How things stand, for everybody who asks: an unchanging picture after each recorded turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tenure.core.board import Board, as_kernels_want
from tenure.core.board import Lab as CoreLab
from tenure.core.decide import copy_of
from tenure.core.outlook import stand_entry
from tenure.core.policy import Policy
from tenure.core.tables import empty
from tenure.core.words import NEVER_S, NONE
from tenure.daemon.book import Book, JobCard
from tenure.daemon.tallies import TURN_S, Distribution
from tenure.settings.lab import Lab

SCRATCH_LOG = 1 << 15  #: rates that a scratch board may still write down


class EngineState(NamedTuple):
    """The engine as it last answered."""

    name: str
    keeps_queue: bool
    seen_at: float | None = None  #: epoch, of its newest answer
    silent_since: float | None = None  #: None: it answers
    error: str = ""
    remarks: tuple[str, ...] = ()


class Health(NamedTuple):
    """How the live loop is."""

    leader: bool
    state: str  #: starting, standby, leading, stopped
    engine_silent_s: float | None
    ledger_error: str | None
    last_turn_at: float | None
    sentence: str
    clock_doubt: str = ""  #: why this machine's clock is not believed, and so nothing decided
    broken: str = ""  #: turns fail: a fault of ours, and nothing is decided


@dataclass
class Counters:
    """Counts since this process began."""

    turns: int = 0
    commands: int = 0
    orders_done: int = 0
    orders_refused: int = 0
    orders_open: int = 0
    engine_errors: int = 0
    ledger_errors: int = 0
    turn_s: Distribution = field(default_factory=lambda: Distribution(TURN_S))
    turn_cpu_s: Distribution = field(default_factory=lambda: Distribution(TURN_S))


class _Ids(Sequence[str]):
    """Job ids by row, without copying them."""

    def __init__(self, cards: Sequence[JobCard]) -> None:
        self._cards = cards

    def __len__(self) -> int:
        return len(self._cards)

    def __getitem__(self, row: Any) -> Any:
        found = self._cards[row]
        return [card.job for card in found] if isinstance(row, slice) else found.job


class _Cards(Mapping[str, JobCard]):
    """Cards by job id, without copying them."""

    def __init__(self, book: Book) -> None:
        self._book = book

    def __getitem__(self, job: str) -> JobCard:
        return self._book.cards[self._book.rows[job]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._book.rows)

    def __len__(self) -> int:
        return len(self._book.rows)


class View(NamedTuple):
    """See the module. Its arrays are never written to; `board.log`, `out` and `placed` are not its own."""

    turn: int
    t: int  #: second of the newest recorded turn
    at: float  #: … in epoch seconds
    start: float  #: epoch second of t = 0
    lab: Lab  #: with own leaves: rows of the core
    core: CoreLab
    board: Board
    policy: Policy
    ids: Sequence[str]  #: by row, in order of submission
    cards: Mapping[str, JobCard]
    rows: Mapping[str, int]
    gpu_types: Sequence[str]
    engine: EngineState
    missing: tuple[str, ...] = ()  #: attempts and nodes that the engine does not speak of, within the grace
    next_t: int = NEVER_S  #: when the next turn is due without news

    @property
    def strangers(self) -> tuple[str, ...]:
        """What the engine shows and the record does not know, in words."""
        return self.engine.remarks

    def row_of(self, job: str) -> int:
        """Its row on the board; -1 where it is not there (any more)."""
        return self.rows.get(job, NONE)

    def scratch(self) -> Board:
        """A board of your own memory to ask questions of; exact at `t`."""
        board = copy_of(
            self.board._replace(
                log=empty(SCRATCH_LOG, self.board.log.dtype),
                out=empty(len(self.board.out), self.board.out.dtype),
                placed=empty(len(self.board.placed), self.board.placed.dtype),
            )
        )
        for name in ("log_head", "log_tail", "n_out", "n_placed"):
            board.counts[name] = 0
        return board

    def standing_at(self, now_s: int) -> Board:
        """A scratch board on which accounts stand as they do at that second, not before `t`.

        The board itself has the targets of its newest decision, and none after a recovery.
        """
        board = self.scratch()
        stand_entry(as_kernels_want(self.core), as_kernels_want(board), self.policy, max(now_s, self.t))
        return board


def view_of(book: Book, at: float, engine: EngineState, missing: Sequence[str], next_t: int) -> View:
    """The picture of a book."""
    return View(
        turn=book.turn,
        t=book.t,
        at=at,
        start=book.start,
        lab=book.lab,
        core=book.core,
        board=book.board,
        policy=book.policy,
        ids=_Ids(book.cards),
        cards=_Cards(book),
        rows=book.rows,
        gpu_types=book.gpu_types,
        engine=engine,
        missing=tuple(missing),
        next_t=next_t,
    )


__all__ = ["Counters", "EngineState", "Health", "JobCard", "View", "view_of"]
