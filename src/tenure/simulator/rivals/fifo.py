"""First come, first served, strictly: nobody passes the head of the queue (policy `fifo`)."""

from __future__ import annotations

from tenure.core.board import BUDGETED, LANES
from tenure.core.claims import pass_drains, within_limits
from tenure.core.fit import could_ever_fit, find_place
from tenure.core.kernel import kernel
from tenure.core.lifecycle import start
from tenure.core.words import NONE, Rule

FIRST_COME = int(Rule.FIRST_COME)


@kernel
def start_in_order(lab, board, policy, cluster, now_s):
    """Start from the head as long as it fits; gives the entry of the first that does not, or NONE.

    A job that no healthy set of nodes could hold is passed over: it would block the queue for ever.
    """
    entry = board.queues.head[cluster * len(lab.accounts) * LANES + BUDGETED]
    while entry != NONE:
        following = board.entries.next[entry]
        job = board.entries.job[entry]
        board.counts.looked[0] += 1
        if within_limits(lab, board, job, board.stays.gpus[job]) and find_place(
            lab, board, policy, cluster, job, now_s
        ):
            start(lab, board, policy, job, cluster, FIRST_COME, now_s)
        elif could_ever_fit(lab, board, cluster, job):
            return entry
        entry = following
    return NONE


@kernel
def fifo_turn(lab, board, policy, now_s):
    """One turn, all clusters."""
    for cluster in range(len(lab.clusters)):
        pass_drains(lab, board, policy, cluster, now_s)
        if board.scenes.n_waiting[cluster] > 0 and board.scenes.free[cluster] > 0:
            start_in_order(lab, board, policy, cluster, now_s)
