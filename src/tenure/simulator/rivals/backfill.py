"""First come, first served with EASY backfill (policy `fifo-backfill`).

The head that does not fit gets a reservation: the nodes where it could start earliest if every running job
ran to its `max_runtime`. Later jobs may start now if they end by then, or take nothing the head will need.
(Lifka, "The ANL/IBM SP scheduling system", 1995; Mu'alem and Feitelson, 2001.)
"""

from __future__ import annotations

from tenure.core.claims import pass_drains, within_limits
from tenure.core.fit import choose_by_rack, find_place, node_size_for, suits
from tenure.core.kernel import kernel
from tenure.core.lifecycle import start
from tenure.core.places import gpus_on, rank
from tenure.core.words import NEVER_S, NONE, NodeState, Rule
from tenure.simulator.rivals.fifo import start_in_order

BACKFILL, UP = int(Rule.BACKFILL), int(NodeState.UP)


@kernel
def _ends_s(lab, board, job):
    limit_s = lab.jobs.max_runtime_s[job]
    return NEVER_S if limit_s >= NEVER_S else board.stays.started_s[job] + limit_s


@kernel
def _free_by(lab, board, node, at_s):
    """GPUs of the node that are free by then if every job runs to its limit."""
    free = board.posts.free[node]
    for k in range(board.posts.n_jobs[node]):
        job = board.on_node[node, k]
        if _ends_s(lab, board, job) <= at_s:
            free += gpus_on(lab, board, job, node)
    return free


@kernel
def _node_clear_s(lab, board, node, gpus, now_s):
    """The earliest instant by which the node has so many GPUs free; NEVER_S if no limit says so."""
    if board.posts.free[node] >= gpus:
        return now_s
    best_s = NEVER_S
    for k in range(board.posts.n_jobs[node]):
        ends_s = max(now_s, _ends_s(lab, board, board.on_node[node, k]))
        if ends_s < best_s and _free_by(lab, board, node, ends_s) >= gpus:
            best_s = ends_s
    return best_s


@kernel
def _reserve(lab, board, policy, cluster, head, now_s):
    """The head's reservation: its start; its nodes get `by_node.clear_s` = GPUs to spare then.

    Others NEVER_S.
    """
    gpus = board.stays.gpus[head]
    size = node_size_for(lab, cluster, gpus)
    each = gpus if size == 0 else size
    need = 1 if size == 0 else gpus // size
    first = lab.clusters.first_node[cluster]
    n = 0
    for node in range(first, first + lab.clusters.n_nodes[cluster]):
        board.by_node.clear_s[node] = NEVER_S
        if (
            board.posts.state[node] != UP
            or lab.nodes.gpus[node] < each
            or (size > 0 and lab.nodes.gpus[node] != size)
        ):
            continue
        if lab.jobs.gpu_type[head] != NONE and lab.jobs.gpu_type[head] != lab.nodes.gpu_type[node]:
            continue
        clear_s = _node_clear_s(lab, board, node, each, now_s)
        board.by_node.cost[node] = float(clear_s)
        board.order[n] = node
        n += 1
    rank(board.order, board.by_node.cost, n, board.chosen)
    if n < need:
        return NEVER_S
    at_s = int(board.by_node.cost[board.order[need - 1]])
    while n > need and board.by_node.cost[board.order[n - 1]] > float(at_s):
        n -= 1
    if not choose_by_rack(lab, board, n, need, False):
        return NEVER_S
    for k in range(need):
        node = board.chosen[k]
        board.by_node.clear_s[node] = _free_by(lab, board, node, at_s) - each if at_s < NEVER_S else 0
    return at_s


@kernel
def _fit_beside(lab, board, policy, cluster, job, at_s, now_s):
    """A place that does not delay the head: `stays.node`, `n_nodes` and `chosen` are set; False if none."""
    gpus = board.stays.gpus[job]
    limit_s = lab.jobs.max_runtime_s[job]
    if limit_s < NEVER_S and now_s + limit_s <= at_s:
        return find_place(lab, board, policy, cluster, job, now_s)
    size = node_size_for(lab, cluster, gpus)
    need, each = (1, gpus) if size == 0 else (gpus // max(1, size), size)
    first = lab.clusters.first_node[cluster]
    n, best, best_left = 0, NONE, 1 << 40
    for node in range(first, first + lab.clusters.n_nodes[cluster]):
        avail = board.posts.avail[node]
        spare = board.by_node.clear_s[
            node
        ]  # GPUs to spare beside the head; NEVER_S where it reserves nothing
        if avail < each or spare < each or not suits(lab, board, policy, node, job, now_s):
            continue
        if size == 0 and avail - gpus < best_left:
            best, best_left = node, avail - gpus
        elif size > 0 and avail == size and lab.nodes.gpus[node] == size:
            board.order[n] = node
            n += 1
    if size == 0:
        board.stays.node[job], board.stays.n_nodes[job] = best, 1
        return best != NONE
    board.stays.n_nodes[job] = need
    return choose_by_rack(lab, board, n, need, lab.jobs.same_rack[job])


@kernel
def _take_spare(board, lab, job):
    """What a backfilled job holds past the head's start is not to spare any more."""
    node = board.stays.node[job]
    for _ in range(board.stays.n_nodes[job]):
        if board.by_node.clear_s[node] < NEVER_S:
            board.by_node.clear_s[node] -= gpus_on(lab, board, job, node)
        node = board.posts.next_of_gang[node]


@kernel
def backfill_turn(lab, board, policy, now_s):
    """One turn, all clusters: in order, then the head's reservation, then who fits beside it.

    EASY looks at the whole queue: `policy.depth` does not bound it.
    """
    for cluster in range(len(lab.clusters)):
        pass_drains(lab, board, policy, cluster, now_s)
        if board.scenes.n_waiting[cluster] == 0 or board.scenes.free[cluster] == 0:
            continue
        entry = start_in_order(lab, board, policy, cluster, now_s)
        if entry == NONE or board.scenes.free[cluster] == 0:
            continue
        at_s = _reserve(lab, board, policy, cluster, board.entries.job[entry], now_s)
        entry = board.entries.next[entry]
        looked = 0
        while entry != NONE and board.scenes.free[cluster] > 0:
            following = board.entries.next[entry]
            job = board.entries.job[entry]
            looked += 1
            if board.stays.gpus[job] <= board.scenes.free[cluster]:
                if within_limits(lab, board, job, board.stays.gpus[job]):
                    if _fit_beside(lab, board, policy, cluster, job, at_s, now_s):
                        start(lab, board, policy, job, cluster, BACKFILL, now_s)
                        limit_s = lab.jobs.max_runtime_s[job]
                        if limit_s >= NEVER_S or now_s + limit_s > at_s:
                            _take_spare(board, lab, job)
            entry = following
        board.counts.looked[0] += looked
