"""One turn of the policy `budget`: what to do now with every job, and why.

`decide_into` reads as its own table of contents. It reads the lab and the policy, changes the board it is
given, and says what it did as event rows (`board.out`). `decide` is the same on a copy: same arguments, same
answer, nothing else touched.
"""

from __future__ import annotations

import numpy as np

from tenure.core.board import Board, Lab, as_kernels_want
from tenure.core.claims import pass_claims, pass_drains, pass_promises
from tenure.core.idle import pass_crossing, pass_loans, pass_notices, pass_unbudgeted
from tenure.core.kernel import entry, kernel
from tenure.core.lifecycle import open_board
from tenure.core.order import WINDOW, settle
from tenure.core.owed import pass_owed, pass_quick
from tenure.core.policy import Policy
from tenure.core.usage import let_fall


@kernel
def decide_into(lab, board, policy, now_s):
    """One turn, all clusters. Writes the board; its new `out` rows are the decisions."""
    let_fall(board, now_s - policy.lookback_s)
    board.counts.turns[0] += 1
    board.counts.more[0] = False
    for cluster in range(len(lab.clusters)):
        pass_drains(lab, board, policy, cluster, now_s)
        if board.counts.n_claims[0] > 0:
            pass_claims(lab, board, policy, cluster, now_s)
        if board.scenes.n_waiting[cluster] == 0 and board.scenes.n_plans[cluster] == 0:
            settle_idle(lab, board, policy, cluster, now_s)
            continue
        leaves = settle(lab, board, policy, cluster, now_s)
        pass_promises(lab, board, policy, cluster, now_s)
        pass_quick(lab, board, policy, cluster, leaves, now_s)
        pass_owed(lab, board, policy, cluster, leaves, now_s)
        pass_promises(lab, board, policy, cluster, now_s)  # one made for this very instant
        if policy.order != WINDOW:
            pass_crossing(lab, board, policy, cluster, leaves, now_s)
        pass_unbudgeted(lab, board, policy, cluster, now_s)
        if policy.loans and board.scenes.free[cluster] > 0:
            pass_loans(lab, board, policy, cluster, leaves, now_s)
        if now_s % policy.tick_s == 0:
            pass_notices(lab, board, policy, cluster, leaves, now_s)


@kernel
def settle_idle(lab, board, policy, cluster, now_s):
    """Nobody waits: only what is due may have changed."""
    if board.scenes.dirty[cluster]:
        settle(lab, board, policy, cluster, now_s)


decide_entry = entry(getattr(decide_into, "py_func", decide_into))
open_entry = entry(getattr(open_board, "py_func", open_board))


def copy_of(board: Board) -> Board:
    """A board of its own memory. `board` holds arrays."""
    return Board(*[np.copy(table) for table in board])


def decide(lab: Lab, board: Board, policy: Policy, now_s: int) -> Board:
    """What to do now, and why: the board after the turn, whose `out[:n_out]` rows are the decisions.

    `lab` and `board` hold structured arrays and are not written to.
    """
    after = copy_of(board)
    after.counts["n_out"] = after.counts["n_placed"] = 0
    decide_entry(as_kernels_want(lab), as_kernels_want(after), policy, now_s)
    return after
