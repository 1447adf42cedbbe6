"""All that must be written down to come back: a book as plain tables, and a book made from them again.

Rows of jobs are those of the book; nodes and accounts go by their rows in the lab the state names, so a
state made under one lab can be read under another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tenure.core.board import LOG, PLANS, STAY, Board
from tenure.core.columns import JOB
from tenure.core.policy import Policy
from tenure.core.rebuild import HOLDING, PROMISE, RECORDED, Record, rebuild
from tenure.core.tables import Table, empty
from tenure.core.words import NEVER_S, NONE
from tenure.daemon.asked import Dependency, Door
from tenure.daemon.book import (
    MARK,
    SPARE_ROWS,
    Book,
    JobCard,
    NodeWord,
    Place,
    core_lab,
    job_table,
    leaves_of,
    make_room,
    with_all_leaves,
)
from tenure.settings.lab import Lab

#: Columns of a job that are kept: `account` goes by its path, `first_entry` follows from the row.
ASKED = tuple(name for name in (JOB.names or ()) if name not in ("account", "first_entry", "submit_s"))
#: What an account has had up to the instant from which `rates` are kept.
PAST = (
    "past_charged", "past_due_ugpu", "past_entitled_ugpu", "past_used_gpu_s", "past_owed_ugpu_s",
    "past_titled_ugpu_s", "past_since_s",
)  # fmt: skip
#: Floating-point columns of a standing that the next turn reads and nothing else tells.
KEPT = ("target", "decayed_used", "decayed_owed", "decayed_titled")

Columns = dict[str, NDArray[Any]]


@dataclass
class State:
    """A book as plain data."""

    t: int = 0
    turn: int = 0
    next_id: int = 1
    n_marks: int = 0
    more: bool = False  #: another turn at this instant may start more
    nodes: list[str] = field(default_factory=list)  #: what the rows of nodes are called
    accounts: list[str] = field(default_factory=list)  #: paths by row, own leaves as in the lab
    clusters: list[str] = field(default_factory=list)
    gpu_types: list[str] = field(default_factory=list)
    cards: list[JobCard] = field(default_factory=list)
    asked: Columns = field(default_factory=dict)  #: ASKED, a row a job
    stays: Columns = field(default_factory=dict)  #: RECORDED, a row a job
    marks: Columns = field(default_factory=dict)
    places: dict[int, Place] = field(default_factory=dict)
    claims: dict[int, Place] = field(default_factory=dict)
    promises: list[tuple[int, int, float, int, int, tuple[int, ...]]] = field(
        default_factory=list
    )  #: (row, at_s, target, job, rule, nodes)
    calls: list[tuple[int, int]] = field(default_factory=list)
    node_states: NDArray[Any] = field(default_factory=lambda: np.zeros(0, np.int64))
    closed_s: NDArray[Any] = field(
        default_factory=lambda: np.zeros(0, np.int64)
    )  #: by node: announced to close
    words: dict[int, NodeWord] = field(default_factory=dict)
    enrolled: dict[str, dict[str, Any]] = field(default_factory=dict)
    shares: NDArray[Any] = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    kept: Columns = field(default_factory=dict)  #: KEPT, a row a standing
    past: Columns = field(default_factory=dict)  #: PAST, a row a standing
    rates: Table = field(default_factory=lambda: empty(0, LOG))  #: changes since then


def state_of(book: Book) -> State:
    """A book written down. Arrays are copies."""
    board, n = book.board, book.n_jobs
    head, tail = int(board.counts["log_head"][0]), int(board.counts["log_tail"][0])
    return State(
        t=book.t,
        turn=book.turn,
        next_id=book.next_id,
        n_marks=book.n_marks,
        more=bool(board.counts["more"][0]),
        nodes=[node.name for node in book.lab.nodes],
        accounts=[account.path for account in book.lab.accounts],
        clusters=list(book.lab.clusters),
        gpu_types=list(book.gpu_types),
        cards=list(book.cards),
        asked={name: book.core.jobs[name][:n].copy() for name in ASKED},
        stays={name: board.stays[name][:n].copy() for name in RECORDED},
        marks={name: book.marks[name][:n].copy() for name in MARK.names or ()},
        places=dict(book.places),
        claims=dict(book.claims),
        promises=promises_on(board),
        calls=list(book.calls),
        node_states=board.posts["state"].copy(),
        closed_s=board.posts["closed_s"].copy(),
        words=dict(book.words),
        enrolled=dict(book.enrolled),
        shares=board.shares.copy(),
        kept={name: board.standings[name].copy() for name in kept_in(book)},
        past={name: board.standings[name].copy() for name in PAST},
        rates=board.log[np.arange(tail, head) % len(board.log)],
    )


def kept_in(book: Book) -> tuple[str, ...]:
    """A target counts between turns only where a job may choose its cluster; sums that decay, where used."""
    target = KEPT[:1] if len(book.lab.clusters) > 1 else ()
    return target + (KEPT[1:] if book.policy.half_life_s != NEVER_S else ())


def promises_on(board: Board) -> list[tuple[int, int, float, int, int, tuple[int, ...]]]:
    """Open plans: (row, at_s, target, job, rule, its nodes)."""
    found = []
    for row in np.flatnonzero(board.plans["open"]).tolist():
        plan = board.plans[row]
        nodes, node = [], int(plan["first_node"])
        for _ in range(int(plan["n_nodes"])):
            nodes.append(node)
            node = int(board.posts["next_of_plan"][node])
        target = float(plan["target"])
        found.append((row, int(plan["at_s"]), target, int(plan["job"]), int(plan["rule"]), tuple(nodes)))
    return found


def book_of(state: State, lab: Lab, policy: Policy, start: float) -> Book:
    """The book again. The lab must have the nodes and accounts of the state, in its rows (see `moved`)."""
    lab = with_all_leaves(lab)
    n = len(state.cards)
    rows = max(SPARE_ROWS, 1 << (n + n // 8).bit_length())
    jobs = job_table(lab, rows)
    leaves = leaves_of(lab)
    for name in ASKED:
        jobs[name][:n] = state.asked[name]
    jobs["account"][:n] = [leaves[card.account] for card in state.cards]
    jobs["submit_s"][:n] = [card.submitted_t for card in state.cards]
    core, _, gpu_types = core_lab(lab, jobs)
    stays = empty(rows, STAY, node=NONE, taker=NONE, plan=NONE, patient_s=NEVER_S)
    for name in RECORDED:
        stays[name][:n] = state.stays[name]
    record = Record(
        stays=stays,
        held=_holdings(state.places),
        claimed=_holdings(state.claims),
        promises=np.array(
            [(at_s, target, job, rule, row) for row, at_s, target, job, rule, _ in state.promises], PROMISE
        ),
        promised=np.array([(one[3], node, 0) for one in state.promises for node in one[5]], HOLDING),
        node_states=state.node_states,
        shares=state.shares,
        rates=state.rates,
        closed_s=state.closed_s,
    )
    assert all(one[0] // PLANS < len(lab.clusters) for one in state.promises)
    board = rebuild(core, policy, record, state.t)
    board.counts["more"][0] = state.more
    _set_sums(board, state, policy)
    for name, column in state.kept.items():
        board.standings[name] = column
    marks = empty(rows, MARK)
    for name in MARK.names or ():
        marks[name][:n] = state.marks[name]
    book = Book(
        lab=lab,
        policy=policy,
        core=core,
        board=board,
        gpu_types=gpu_types,
        start=start,
        t=state.t,
        turn=state.turn,
        cards=list(state.cards),
        marks=marks,
        places=dict(state.places),
        claims=dict(state.claims),
        calls=list(state.calls),
        words=dict(state.words),
        enrolled=dict(state.enrolled),
        next_id=state.next_id,
        n_marks=state.n_marks,
        door=Door(lab, gpu_types, leaves),
    )
    for row in range(n):
        book.index(row)
    return book


def gpu_types_of(lab: Lab) -> list[str]:
    """What the rows of GPU types are called."""
    return sorted({node.gpu for node in lab.nodes if node.gpu is not None})


def _holdings(of: Mapping[int, Place]) -> Table:
    return np.array([(job, node, gpus) for job, place in of.items() for node, gpus in place], HOLDING)


def _set_sums(board: Board, state: State, policy: Policy) -> None:
    """S2–S5: what was had before the kept rates, and what they make of it by now. Whole numbers: exact."""
    rows, rates, now_s = board.standings, state.rates, state.t
    past_since_s = state.past["past_since_s"]
    begin_s = np.maximum(past_since_s, now_s - policy.lookback_s)
    fallen = rates["t"] <= now_s - policy.lookback_s
    for rate, total in (
        ("charged", "used_gpu_s"),
        ("due_ugpu", "owed_ugpu_s"),
        ("entitled_ugpu", "titled_ugpu_s"),
    ):
        at_first, had = state.past[f"past_{rate}"], state.past[f"past_{total}"]
        for name, until_s, chosen in (("", now_s, rates), ("past_", begin_s, rates[fallen])):
            standing = chosen["standing"]
            until = np.broadcast_to(until_s, len(rows))
            rows[f"{name}{rate}"] = at_first
            rows[f"{name}{total}"] = had + at_first * (until - past_since_s)
            np.add.at(rows[f"{name}{rate}"], standing, chosen[rate])
            np.add.at(rows[f"{name}{total}"], standing, chosen[rate] * (until[standing] - chosen["t"]))
    rows["since_s"], rows["past_since_s"] = now_s, begin_s
    young = rates[~fallen]
    board.log[: len(young)] = young
    board.counts["log_head"], board.counts["log_tail"] = len(young), 0


def new_rows(book: Book, patch: Mapping[str, Any]) -> None:
    """Put the jobs that a turn's patch brings on a book of before that turn, absent as yet."""
    cards = [card_of(card) for card in patch.get("cards", ())]
    make_room(book, len(cards), 0)
    leaves = leaves_of(book.lab)
    for k, card in enumerate(cards):
        columns = {name: patch["asked"].get(name, [0] * len(cards))[k] for name in ASKED}
        book.add(card, columns | {"account": leaves[card.account]})


# --- cards as plain data ------------------------------------------------------------------------------


def plain_card(card: JobCard) -> list[Any]:
    """A card as JSON holds it."""
    return [*card[:6], [one.text for one in card.after], card.held_by, card.detail]


def card_of(plain: Iterable[Any]) -> JobCard:
    """… and back."""
    job, account, user, spec, submitted_t, array, after, held_by, detail = plain
    dependencies = tuple(Dependency.of(one) for one in after)
    return JobCard(job, account, user, spec, submitted_t, array, dependencies, held_by, detail)


__all__ = [
    "ASKED",
    "KEPT",
    "PAST",
    "State",
    "book_of",
    "card_of",
    "gpu_types_of",
    "kept_in",
    "new_rows",
    "plain_card",
    "promises_on",
    "state_of",
]
