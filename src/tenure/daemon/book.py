"""What the live loop keeps in memory: a lab and its board, what rows are called, and what only it knows.

A turn works on a `copy`; what it did is kept by keeping the copy. Everything in a book can be made again
from its `State` (`state.py`), bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tenure.core.board import ENTRY, SCRATCH_JOB, STAY, Board, as_kernels_want, new_board
from tenure.core.board import Lab as CoreLab
from tenure.core.columns import JOB
from tenure.core.decide import open_entry
from tenure.core.policy import Policy
from tenure.core.tables import I8, Table, empty, table_type
from tenure.core.words import NEVER_S, NONE, Phase
from tenure.daemon.asked import Dependency, Door
from tenure.settings.lab import Lab, with_own_leaves
from tenure.settings.lab_tables import lab_tables

#: What only the live loop knows of a job, in the order in which things happened to all of them.
MARK = table_type(started_n=I8, stopped_n=I8, start_rule=I8)  #: the rule: words.Rule
SPARE_ROWS = 256  #: rows for jobs of a new book; doubled when they are full

Place = tuple[tuple[int, int], ...]  #: (node row, GPUs there)


class JobCard(NamedTuple):
    """A job as its owner wrote it, and what is known of it beside its row."""

    job: str
    account: str  #: the path its owner gave
    user: str
    spec: Mapping[str, Any]
    submitted_t: int
    array: str = ""
    after: tuple[Dependency, ...] = ()
    held_by: str = ""  #: who put it on hold: a user, or "after" while others must end first
    detail: str = ""


class NodeWord(NamedTuple):
    """Who last said how a node is, and why."""

    by: str = ""
    reason: str = ""


@dataclass
class Book:
    """See the module. Rows of jobs are in order of submission."""

    lab: Lab  #: with own leaves
    policy: Policy
    core: CoreLab
    board: Board
    gpu_types: list[str]
    start: float  #: epoch second of t = 0
    t: int = 0
    turn: int = 0
    cards: list[JobCard] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    marks: Table = field(default_factory=lambda: empty(0, MARK))
    places: dict[int, Place] = field(default_factory=dict)  #: of running and stopping jobs, by start
    claims: dict[int, Place] = field(default_factory=dict)  #: of claiming jobs, oldest first
    calls: list[tuple[int, int]] = field(default_factory=list)  #: (second, job): a promise's date
    words: dict[int, NodeWord] = field(default_factory=dict)  #: of nodes that are not simply up
    enrolled: dict[str, dict[str, Any]] = field(default_factory=dict)  #: submissions the engine still has
    arrays: dict[str, list[int]] = field(default_factory=dict)  #: rows of each array's elements
    held_after: set[int] = field(default_factory=set)  #: jobs that were ever held back for others
    next_id: int = 1
    n_marks: int = 0
    door: Door = None  # type: ignore[assignment]

    @property
    def n_jobs(self) -> int:
        return len(self.cards)

    def copy(self) -> Book:
        """A book of its own memory; the lab is shared, and what is written beyond the known rows."""
        return replace(
            self,
            board=copy_of_board(self.board),
            cards=list(self.cards),
            rows=dict(self.rows),
            marks=self.marks.copy(),
            places=dict(self.places),
            claims=dict(self.claims),
            calls=list(self.calls),
            words=dict(self.words),
            enrolled=dict(self.enrolled),
            arrays=dict(self.arrays),
            held_after=set(self.held_after),
        )

    def phase(self, row: int) -> Phase:
        return Phase(int(self.board.stays["phase"][row]))

    def row_of(self, job: str) -> int:
        return self.rows.get(job, NONE)

    def enrolment(self, number: int) -> str:
        """The order by which a command's job goes to an engine that keeps the queue: one for good."""
        return f"enrol-{int(self.start)}-{number}"

    def alive(self) -> dict[tuple[str, int], dict[str, int]]:
        """(job, attempt) → GPUs by node, of all that hold some."""
        nodes = self.lab.nodes
        return {
            (self.cards[row].job, int(self.board.stays["attempt"][row])): {
                nodes[node].name: gpus for node, gpus in place
            }
            for row, place in self.places.items()
        }

    def add(self, card: JobCard, columns: Mapping[str, int]) -> int:
        """A new job, absent until it is submitted; its row. The book must have a spare one."""
        row = len(self.cards)
        jobs = self.core.jobs.base if self.core.jobs.base is not None else self.core.jobs
        for name, value in columns.items():
            jobs[name][row] = value
        jobs["submit_s"][row] = card.submitted_t
        stays = self.board.stays
        stays["account"][row], stays["gpus"][row] = columns["account"], columns["gpus"]
        stays["budgeted"][row] = columns["min_runtime_s"] > 0
        self.cards.append(card)
        self.index(row)
        return row

    def index(self, row: int) -> None:
        """Let the job of a row be found."""
        card = self.cards[row]
        self.rows[card.job] = row
        if card.array:
            self.arrays.setdefault(card.array, []).append(row)
        if (card.after or "%" in str(card.spec.get("array", ""))) and self.phase(row) != Phase.ENDED:
            self.held_after.add(row)

    def mark(self, row: int, column: str) -> None:
        """The next thing in order has happened to this job."""
        self.n_marks += 1
        self.marks[column][row] = self.n_marks

    def live_rows(self) -> NDArray[np.int64]:
        """Jobs that have not ended."""
        phase = self.board.stays["phase"][: self.n_jobs]
        return np.flatnonzero((phase != Phase.ENDED) & (phase != Phase.ABSENT))


SHARED = ("log", "out", "placed")  #: rows in use are never written again; new ones lie beyond the counts


def copy_of_board(board: Board) -> Board:
    """A board of its own memory, except for what is only ever added to.

    Two copies of one board must not both be gone on with: the later one overwrites what the other added.
    """
    return Board(
        *[
            table if name in SHARED else np.copy(table)
            for name, table in zip(Board._fields, board, strict=True)
        ]
    )


def with_all_leaves(lab: Lab) -> Lab:
    """The lab with a leaf of its own for the work given to each inner account."""
    inner = {lab.accounts[account.parent].path for account in lab.accounts if account.parent > 0}
    has = {lab.accounts[a.own_leaf_of].path for a in lab.accounts if a.own_leaf_of is not None}
    return lab._replace(accounts=with_own_leaves(lab.accounts, inner - has)) if inner - has else lab


def leaves_of(lab: Lab) -> dict[str, int]:
    """Row where the work given to each path runs. The root takes none."""
    rows = lab.rows()
    for row, account in enumerate(lab.accounts):
        if account.own_leaf_of is not None:
            rows[lab.accounts[account.own_leaf_of].path] = row
    rows.pop("", None)
    return rows


def job_table(lab: Lab, rows: int) -> Table:
    """Spare rows: each may wait in the list of every cluster."""
    everywhere = (1 << len(lab.clusters)) - 1
    table = empty(rows, JOB, max_runtime_s=NEVER_S, gpu_type=NONE, clusters=everywhere)
    table["first_entry"] = np.arange(rows) * len(lab.clusters)
    return table


def core_lab(lab: Lab, jobs: Table) -> tuple[CoreLab, NDArray[np.int64], list[str]]:
    """The lab as the core reads it, its shares (clusters, accounts), and what its GPU types are called."""
    tables = lab_tables(lab)
    most = int(tables.nodes["gpus"].max(initial=1))
    sizes = np.zeros((len(lab.clusters), most + 1), np.int64)
    np.add.at(sizes, (tables.nodes["cluster"], tables.nodes["gpus"]), 1)
    found = [jobs, tables.accounts, tables.nodes, tables.clusters, sizes]
    return CoreLab(*[read_only(table) for table in found]), tables.shares, tables.gpu_types


def read_only(table: Any) -> Any:
    """A view that no kernel compiles a write to."""
    view = table.view()
    view.flags.writeable = False
    return view


def new_book(lab: Lab, policy: Policy, start: float) -> Book:
    """A lab at second 0, nothing submitted."""
    lab = with_all_leaves(lab)
    core, shares, gpu_types = core_lab(lab, job_table(lab, SPARE_ROWS))
    board = new_board(core, shares)
    open_entry(as_kernels_want(core), as_kernels_want(board), policy, 0)
    book = Book(lab, policy, core, board, gpu_types, start, marks=empty(SPARE_ROWS, MARK))
    book.door = Door(lab, gpu_types, leaves_of(lab))
    return book


def make_room(book: Book, more_jobs: int, more_news: int) -> None:
    """Room for so many new jobs, and for all that a turn with so much news may say. Nothing else changes."""
    rows = len(book.core.jobs)
    if book.n_jobs + more_jobs > rows:
        _add_rows(book, max(rows, book.n_jobs + more_jobs - rows))
    board = book.board
    needed = 4 * len(board.claims) + 4 * len(board.posts) + 4 * len(board.standings) + 64 + 8 * more_news
    if min(len(board.out), len(board.placed)) < needed:
        board = board._replace(
            out=empty(2 * needed, board.out.dtype), placed=empty(2 * needed, board.placed.dtype)
        )
    head, tail = int(board.counts["log_head"][0]), int(board.counts["log_tail"][0])
    if len(board.log) - (head - tail) < needed:
        at = np.arange(tail, head)
        log = empty(2 * max(len(board.log), needed), board.log.dtype)
        log[at % len(log)] = board.log[at % len(board.log)]
        board = board._replace(log=log)
    book.board = board


def _add_rows(book: Book, more: int) -> None:
    spare = job_table(book.lab, len(book.core.jobs) + more)
    spare[: len(book.core.jobs)] = book.core.jobs
    board = book.board
    stays = empty(more, STAY, node=NONE, taker=NONE, plan=NONE, patient_s=NEVER_S)
    entries = empty(len(spare) * len(book.lab.clusters) - len(board.entries), ENTRY, next=NONE, prev=NONE)
    entries["queue"] = NONE
    entries = np.concatenate([board.entries, entries])
    entries["job"] = np.arange(len(entries)) // len(book.lab.clusters)
    book.core = book.core._replace(jobs=read_only(spare))
    book.board = board._replace(
        stays=np.concatenate([board.stays, stays]),
        entries=entries,
        by_job=np.concatenate([board.by_job, empty(more, SCRATCH_JOB)]),
    )
    book.marks = np.concatenate([book.marks, empty(more, MARK)])


def names_of(book: Book) -> Sequence[str]:
    """Ids of the jobs by row."""
    return [card.job for card in book.cards]


__all__ = ["Book", "JobCard", "NodeWord", "Place", "make_room", "new_book", "with_all_leaves"]
