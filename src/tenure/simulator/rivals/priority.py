"""Priority levels with a quota of protected GPUs a team, and preemptible work beyond it (policy `priority`).

What many labs run today: jobs go by level, then arrival; a team's jobs within its quota (its entitlement)
are never stopped; what it runs beyond is stopped as soon as a job within another team's quota needs the
room, lowest level and newest first. Nobody is reserved anything. A sick node is left as under any policy,
when the protection a job declares is over.
"""

from __future__ import annotations

import numpy as np

from tenure.core.board import BUDGETED, LANES
from tenure.core.claims import pass_claims, pass_drains, within_limits
from tenure.core.columns import UGPU
from tenure.core.contract import longest_grace_s, protection_s
from tenure.core.fit import find_place, node_size_for, suits
from tenure.core.kernel import kernel
from tenure.core.lifecycle import claim, start, stop, unprotect
from tenure.core.places import gpus_on
from tenure.core.words import NEVER_S, NONE, Cause, NodeState, Phase, Rule

LEVEL, LOWER_LEVEL = int(Rule.LEVEL), int(Rule.LOWER_LEVEL)
RUNNING, UP, PREEMPTED = int(Phase.RUNNING), int(NodeState.UP), int(Cause.PREEMPTED)
DRAINING, DRAIN, BY_DRAIN = int(NodeState.DRAINING), int(Cause.DRAIN), int(Rule.DRAINING)


@kernel
def _row(lab, board, cluster, job):
    return cluster * len(lab.accounts) + board.stays.account[job]


@kernel
def _within_quota(lab, board, cluster, job):
    """Whether its team's protected GPUs would stay within its quota. Unbudgeted work never is."""
    if not board.stays.budgeted[job]:
        return False
    row = _row(lab, board, cluster, job)
    kept = board.standings.protected[row] + board.stays.gpus[job]
    for k in range(board.counts.n_claims[0]):  # made within the quota: protected as soon as they start
        other = board.claims[k]
        if board.stays.cluster[other] == cluster and board.stays.account[other] == board.stays.account[job]:
            kept += board.stays.gpus[other]
    return kept * UGPU <= board.standings.entitled_ugpu[row]


@kernel
def _start(lab, board, policy, cluster, job, in_quota, now_s):
    """Start it, protected for good within the quota, preemptible at once beyond."""
    start(lab, board, policy, job, cluster, LEVEL, now_s)
    board.out.x[board.counts.n_out[0] - 1] = NEVER_S if in_quota else now_s
    if in_quota:
        board.stays.protected_until_s[job] = NEVER_S
        return
    board.stays.protected_until_s[job] = now_s
    if board.stays.budgeted[job]:
        unprotect(lab, board, job)


@kernel
def _worse(lab, board, job, other):
    """Whether `job` goes before `other` when somebody has to stop: lower level, then newer start."""
    if lab.jobs.priority[job] != lab.jobs.priority[other]:
        return lab.jobs.priority[job] < lab.jobs.priority[other]
    return board.stays.started_s[job] > board.stays.started_s[other]


@kernel
def _may_take(board, job, taker):
    """What runs beyond a quota makes way for another team's quota, unbudgeted work for any."""
    stays = board.stays
    if not stays.soft[job] or stays.phase[job] != RUNNING:
        return False
    return not stays.budgeted[job] or stays.account[job] != stays.account[taker]


@kernel
def _pick_on_node(lab, board, node, taker, need, n):
    """Pick preemptible attempts on the node until `need` GPUs are there, none of them needlessly.

    How many are picked then, those before (`picked[:n]`) counted; -1 and no more picked if they are too few.
    """
    stamp = board.counts.stamp[0]
    room, start = board.posts.avail[node], n
    while room < need:
        worst = NONE
        for k in range(board.posts.n_jobs[node]):
            job = board.on_node[node, k]
            if board.by_job.stamp[job] != stamp and _may_take(board, job, taker):
                if worst == NONE or _worse(lab, board, job, worst):
                    worst = job
        if worst == NONE:
            for k in range(start, n):
                board.by_job.stamp[board.picked[k]] = 0
            return -1
        board.by_job.stamp[worst] = stamp
        board.picked[n] = worst
        n += 1
        room += gpus_on(lab, board, worst, node)
    for k in range(n - 1, start - 1, -1):  # the last pick may have made an earlier one needless
        gpus = gpus_on(lab, board, board.picked[k], node)
        if room - gpus >= need:
            room -= gpus
            board.by_job.stamp[board.picked[k]] = 0
            n -= 1
            for later in range(k, n):
                board.picked[later] = board.picked[later + 1]
    return n


@kernel
def _clear_for(lab, board, policy, cluster, job, now_s):
    """Stop preemptible work for a job within its quota and claim the place; False if it would not fit."""
    gpus = board.stays.gpus[job]
    size = node_size_for(lab, cluster, gpus)
    if size == NONE:
        return False
    need, each = (1, gpus) if size == 0 else (gpus // size, size)
    first = lab.clusters.first_node[cluster]
    board.counts.stamp[0] += 1
    count, n = 0, 0
    for node in range(first, first + lab.clusters.n_nodes[cluster]):
        if board.posts.avail[node] + board.posts.soft[node] < each or not suits(
            lab, board, policy, node, job, now_s + longest_grace_s(policy)
        ):
            continue
        if size > 0 and (lab.nodes.gpus[node] != size or board.posts.pledged[node] > 0):
            continue
        picked = _pick_on_node(lab, board, node, job, each, n)
        if picked < 0:
            continue
        n = picked
        board.chosen[count] = node
        count += 1
        if count == need:
            break
    if count < need or (lab.jobs.same_rack[job] and need > 1):
        return False
    for k in range(n):
        stop(lab, board, policy, board.picked[k], PREEMPTED, job, LOWER_LEVEL, now_s)
    board.stays.node[job], board.stays.n_nodes[job] = board.chosen[0], need
    board.stays.rule[job] = LEVEL
    claim(lab, board, job, cluster, LEVEL, now_s)
    return True


@kernel
def _settle_started(lab, board, policy, cluster, said, now_s):
    """Claims that `pass_claims` has started were made within the quota: protected for good."""
    for row in range(said, board.counts.n_out[0]):
        job = np.int64(board.out.job[row])
        if job != NONE and board.stays.phase[job] == RUNNING and board.stays.started_s[job] == now_s:
            board.out.x[row] = NEVER_S
            board.stays.protected_until_s[job] = NEVER_S


@kernel
def _leave_sick(lab, board, policy, cluster, now_s):
    """S19: work within its quota, which order never stops, leaves a draining node all the same."""
    if board.scenes.n_sick[cluster] == 0:
        return
    first = lab.clusters.first_node[cluster]
    for node in range(first, first + lab.clusters.n_nodes[cluster]):
        if board.posts.state[node] != DRAINING:
            continue
        for k in range(board.posts.n_jobs[node]):
            job = board.on_node[node, k]
            kept_s = protection_s(policy, lab.jobs.min_runtime_s[job])
            if board.stays.phase[job] == RUNNING and now_s >= board.stays.started_s[job] + kept_s:
                stop(lab, board, policy, job, DRAIN, NONE, BY_DRAIN, now_s)


@kernel
def priority_turn(lab, board, policy, now_s):
    """One turn, all clusters: by level, then arrival."""
    for cluster in range(len(lab.clusters)):
        pass_drains(lab, board, policy, cluster, now_s)
        _leave_sick(lab, board, policy, cluster, now_s)
        said = board.counts.n_out[0]
        pass_claims(lab, board, policy, cluster, now_s)
        _settle_started(lab, board, policy, cluster, said, now_s)
        entry = board.queues.head[cluster * len(lab.accounts) * LANES + BUDGETED]
        looked = 0
        while entry != NONE and looked < policy.depth:
            following = board.entries.next[entry]
            job = board.entries.job[entry]
            looked += 1
            if within_limits(lab, board, job, board.stays.gpus[job]):
                in_quota = _within_quota(lab, board, cluster, job)
                if find_place(lab, board, policy, cluster, job, now_s):
                    _start(lab, board, policy, cluster, job, in_quota, now_s)
                elif in_quota:
                    _clear_for(lab, board, policy, cluster, job, now_s)
            entry = following
        board.counts.looked[0] += looked
