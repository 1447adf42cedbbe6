"""Coming back: from the newest keyframe and the patches after it to the book as it was, bit for bit.

What old code decided is never decided again: patches are data. `replay` is the one exception, on purpose: it
decides a recorded turn again and says whether today's code does the same.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from tenure.core.policy import Policy
from tenure.daemon.book import Book, make_room
from tenure.daemon.gather import from_plain
from tenure.daemon.patch import apply, digest_of, state_from
from tenure.daemon.state import State, book_of, new_rows
from tenure.daemon.tell import Teller
from tenure.daemon.turn import apply_news, code_digest
from tenure.ledger.ledger import Ledger
from tenure.settings.lab import Lab


class Replayed(NamedTuple):
    """A recorded turn, decided again."""

    turn: int
    t: int
    same: bool
    same_state: bool  #: the state decided on is the recorded one
    same_code: bool  #: … and so is the code
    recorded: Sequence[str]  #: lines, without their numbers
    decided: Sequence[str]


def state_before(ledger: Ledger, turn: int) -> State | None:
    """The state that a turn began with; None where nothing was recorded before it.

    Raises ValueError where the turns needed for it were compacted.
    """
    found = ledger.keyframe_before(turn)
    if found is None:
        return None
    at, packed = found
    state = state_from(packed)
    if turn - 1 > at:
        for _, _, patch, _ in ledger.patches_after(at, turn - 1):
            apply(state, dict(patch))
    return state


def recover(ledger: Ledger, lab: Lab, policy: Policy, start: float) -> Book | None:
    """The book after the newest turn; None where the record is empty."""
    state = state_before(ledger, ledger.last_turn() + 1)
    return None if state is None else book_of(state, lab, policy, start)


def replay(ledger: Ledger, turn: int, lab: Lab, policy: Policy) -> Replayed:
    """Decide a recorded turn again. `lab` must be as it was then. Raises KeyError, ValueError."""
    told, identity = ledger.turn(turn), ledger.identity()
    if told is None or identity is None:
        raise KeyError(turn)
    state = state_before(ledger, turn)
    if state is None or told.news is None or told.patch is None:
        raise ValueError(f"turn {turn} cannot be decided again: what it began with is not in the record")
    book = book_of(state, lab, policy, identity.start)
    digest = digest_of(book)
    recorded = [_unnumbered(line) for line in told.events]
    if not told.news:  # a turn that only tidies up
        return Replayed(turn, told.t, True, digest == told.digest, True, recorded, recorded)
    table, n_news, notes, deciding = from_plain(told.news)
    new_rows(book, told.patch)
    make_room(book, 0, n_news)
    apply_news(book, table, n_news, told.t, deciding=deciding)
    decided = Teller(book.lab, policy, book.gpu_types, book.start).lines(book, notes)
    same = [json.loads(line) for line in decided] == [json.loads(line) for line in recorded]
    return Replayed(turn, told.t, same, digest == told.digest, told.code == code_digest(), recorded, decided)


def _unnumbered(line: str) -> str:
    told = json.loads(line)
    told.pop("n", None)
    return json.dumps(told, separators=(",", ":"))


__all__ = ["Replayed", "recover", "replay", "state_before"]
