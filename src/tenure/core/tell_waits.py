"""S21: telling why jobs wait, whenever that has changed, as events of the story (`--log-waits`).

Asked between turns and of nobody else's business: it says events and changes nothing a turn looks at.
"""

from __future__ import annotations

import numpy as np

from tenure.core.board import LANES
from tenure.core.kernel import entry, kernel
from tenure.core.order import set_walk
from tenure.core.reason_numbers import numbers
from tenure.core.reasons import (
    HELD,
    OVER_TARGET,
    OWN_LIMIT,
    P_HELD,
    P_RESTING,
    RESTING,
    SAVING_UP,
    asking_cluster,
    holds_up,
    why,
)
from tenure.core.say import say
from tenure.core.words import NONE, Happened

SAY_WAITING, SAY_STARTED, SAY_SUBMITTED = (
    int(Happened.WAITING),
    int(Happened.STARTED),
    int(Happened.SUBMITTED),
)
ROOM = 8  #: rows of `out` kept free


@kernel
def _tell(lab, board, policy, cluster, job, spot, now_s, told):
    """Say why the job waits if that is another reason than the one told last."""
    reason, evidence = why(lab, board, policy, cluster, job, spot, now_s)
    if told[job] == reason:
        return
    told[job] = reason
    need, have = numbers(lab, board, policy, cluster, job, spot, (reason, evidence), now_s)
    row = say(board, SAY_WAITING, job, now_s)
    board.out.x[row], board.out.y[row], board.out.rule[row] = need, have, reason
    if reason != OWN_LIMIT and reason != SAVING_UP and reason != OVER_TARGET:
        board.out.by[row] = evidence


@kernel
def _tell_one_list(lab, board, policy, leaves, queue, now_s, told):
    """Walk one waiting list; False if there was no room to say more."""
    row = queue // LANES
    cluster = row // len(lab.accounts)
    item, place, blocker = board.queues.head[queue], 0, NONE
    while item != NONE:
        job = board.entries.job[item]
        if len(board.out) - board.counts.n_out[0] < ROOM:
            return False
        home = lab.jobs.clusters[job] == 1 << cluster or asking_cluster(lab, board, job) == cluster
        if home:
            _tell(lab, board, policy, cluster, job, (leaves, place, blocker), now_s, told)
        if blocker == NONE and holds_up(lab, board, policy, cluster, row, job):
            blocker = job
        place += 1
        item = board.entries.next[item]
    return True


@kernel
def _tell_kept_back(lab, board, policy, since_row, now_s, told):
    """Jobs that stand in no list: on hold, or resting. Found by what was said of them; False: no room."""
    for row in range(since_row, board.counts.n_out[0]):
        job, event = np.int64(board.out.job[row]), board.out.event[row]
        if job == NONE or event == SAY_WAITING:
            continue
        if event == SAY_STARTED or event == SAY_SUBMITTED:
            told[job] = 0
        phase = board.stays.phase[job]
        if (phase == P_HELD and told[job] != HELD) or (phase == P_RESTING and told[job] != RESTING):
            if len(board.out) - board.counts.n_out[0] < ROOM:
                return False
            _tell(lab, board, policy, 0, job, (0, 0, NONE), now_s, told)
    return True


@kernel
def tell_waits(lab, board, policy, since_row, turned, now_s, told):
    """Say every change of a reason; `told[job]` is the one told last. False: make room and call again.

    `since_row`: rows of `out` before it were seen by an earlier call; `turned`: a turn was just played.
    """
    if not _tell_kept_back(lab, board, policy, since_row, now_s, told):
        return False
    if not turned:
        return True
    n = len(lab.accounts)
    for k in range(board.counts.n_claims[0]):
        job = board.claims[k]
        if len(board.out) - board.counts.n_out[0] < ROOM:
            return False
        _tell(lab, board, policy, board.stays.cluster[job], job, (0, 0, NONE), now_s, told)
    for cluster in range(len(lab.clusters)):
        if board.scenes.n_waiting[cluster] == 0:
            continue
        leaves = set_walk(lab, board, cluster)
        for queue in range(cluster * n * LANES, (cluster + 1) * n * LANES):
            if not _tell_one_list(lab, board, policy, leaves, queue, now_s, told):
                return False
    return True


tell_entry = entry(getattr(tell_waits, "py_func", tell_waits))
