"""S13: whom to stop so that a claimant fits: chosen together with the nodes they free, least loss first.

If the claimant would not fit afterwards, nobody is stopped. Sets are legal as a whole: `by_account.taken`
adds up what is taken from each owner.
"""

from __future__ import annotations

from tenure.core.board import BUDGETED
from tenure.core.contract import loss_gpu_s, protection_s, rule_to_take
from tenure.core.fit import NO_SCORE, node_size_for, rack_filled_first, suits
from tenure.core.kernel import kernel
from tenure.core.places import gpus_on, next_clearable, rank
from tenure.core.room import may_clear, most_to_clear, refresh_gives, way_of
from tenure.core.waiting import lane_of
from tenure.core.words import NONE

NOT_FOUND = NO_SCORE
AVOIDED = 1e15  #: budgeted work is stopped only where unbudgeted will not do


@kernel
def _owner(lab, board, job):
    return board.stays.cluster[job] * len(lab.accounts) + board.stays.account[job]


@kernel
def pick(lab, board, job, n):
    """Add a victim to the set under trial, `picked[:n]`; how many there are then."""
    board.by_job.stamp[job] = board.counts.stamp[0]
    board.picked[n] = job
    if board.stays.budgeted[job]:
        board.by_account.taken[_owner(lab, board, job)] += board.stays.gpus[job]
    return n + 1


@kernel
def _unpick(lab, board, k, n):
    """Take the k-th victim out of the set under trial."""
    job = board.picked[k]
    board.by_job.stamp[job] = 0
    if board.stays.budgeted[job]:
        board.by_account.taken[_owner(lab, board, job)] -= board.stays.gpus[job]
    for later in range(k, n - 1):
        board.picked[later] = board.picked[later + 1]
    return n - 1


@kernel
def drop_picks(lab, board, start, n):
    """Forget the victims `picked[start:n]`."""
    while n > start:
        n = _unpick(lab, board, n - 1, n)
    return n


@kernel
def _best_victim(lab, board, policy, node, taker, stamp, now_s):
    """The legal victim on the node that loses least for each GPU it frees there: (job, loss)."""
    best, best_loss, best_rate = NONE, NOT_FOUND, NOT_FOUND
    for k in range(board.posts.n_jobs[node]):
        job = board.on_node[node, k]
        if not board.stays.soft[job] or board.by_job.stamp[job] == stamp:
            continue
        board.counts.searched[0] += 1
        if rule_to_take(lab, board, policy, job, taker, now_s) == 0:
            continue
        loss = loss_gpu_s(lab, board, policy, job, now_s)
        if board.stays.budgeted[job]:
            loss += AVOIDED
        rate = loss / gpus_on(lab, board, job, node)
        if rate < best_rate:
            best, best_loss, best_rate = job, loss, rate
    return best, best_loss


@kernel
def coming_gpus(board, node):
    """GPUs of the node that no claim has: free ones, and those of attempts that are stopping anyway."""
    posts = board.posts
    return max(0, posts.free[node] + posts.freeing[node] - posts.pledged[node])


@kernel
def clear_node(lab, board, policy, node, taker, need, start, now_s):
    """Pick victims on the node until `need` GPUs can be taken there; continues the set `picked[:start]`.

    Gives (number picked, loss); (start, NOT_FOUND) and nothing picked if the node cannot be cleared so far.
    """
    stamp = board.counts.stamp[0]
    room = coming_gpus(board, node)
    for k in range(start):  # gangs already in the set free their GPUs here too
        job = board.picked[k]
        if board.stays.n_nodes[job] > 1:
            for m in range(board.posts.n_jobs[node]):
                if board.on_node[node, m] == job:
                    room += lab.nodes.gpus[node]
    n, total = start, 0.0
    while room < need:
        job, loss = _best_victim(lab, board, policy, node, taker, stamp, now_s)
        if job == NONE:
            return drop_picks(lab, board, start, n), NOT_FOUND
        n = pick(lab, board, job, n)
        room += gpus_on(lab, board, job, node)
        total += loss
    k = start
    while k < n:  # the last pick may have made an earlier one needless
        job = board.picked[k]
        gpus = gpus_on(lab, board, job, node)
        if room - gpus >= need:
            loss = loss_gpu_s(lab, board, policy, job, now_s)
            if board.stays.budgeted[job]:
                loss += AVOIDED
            total -= loss
            room -= gpus
            n = _unpick(lab, board, k, n)
        else:
            k += 1
    return n, total


@kernel
def _may_clear(lab, board, policy, node, taker, need, way, now_s):
    """Cheap tests before victims are weighed on a node."""
    if most_to_clear(board, node, way) < need:
        return False
    if board.posts.pool[node] and lane_of(board, taker) == BUDGETED:
        return False
    return suits(lab, board, policy, node, taker, now_s + policy.grace_budgeted_s)


@kernel
def find_node_to_clear(lab, board, policy, cluster, taker, now_s):
    """The node where making room for a claimant of at most one node loses least: (node, victims, loss).

    The victims are `picked[:n]`. (NONE, 0, NOT_FOUND) if no legal set makes room.
    """
    gpus = board.stays.gpus[taker]
    best, best_loss = NONE, NOT_FOUND
    refresh_gives(lab, board, policy, cluster)
    if not may_clear(lab, board, policy, cluster, taker, gpus, 1, now_s):
        return NONE, 0, NOT_FOUND
    way = way_of(lab, board, policy, cluster, taker)
    first = lab.clusters.first_node[cluster]
    promised_whole = protection_s(policy, lab.jobs.min_runtime_s[taker]) > 0
    last = first + lab.clusters.n_nodes[cluster]
    node = next_clearable(board, way, gpus, first, last)
    while node != NONE:
        plan = board.posts.plan[node]
        kept = plan != NONE and promised_whole and gpus == lab.nodes.gpus[node]
        kept = kept and board.plans.job[plan] != taker
        if not kept and _may_clear(lab, board, policy, node, taker, gpus, way, now_s):
            board.counts.stamp[0] += 1
            n, loss = clear_node(lab, board, policy, node, taker, gpus, 0, now_s)
            drop_picks(lab, board, 0, n)
            if loss < best_loss:
                best, best_loss = node, loss
        node = next_clearable(board, way, gpus, node + 1, last)
    if best == NONE:
        return NONE, 0, NOT_FOUND
    board.counts.stamp[0] += 1
    n, loss = clear_node(lab, board, policy, best, taker, gpus, 0, now_s)
    return best, n, loss


@kernel
def _rank_nodes(lab, board, policy, cluster, taker, size, now_s):
    """Nodes that could be cleared whole for a gang, cheapest first, in `order`; gives how many.

    Writes `chosen` too.
    """
    first = lab.clusters.first_node[cluster]
    way = way_of(lab, board, policy, cluster, taker)
    last, n = first + lab.clusters.n_nodes[cluster], 0
    node = next_clearable(board, way, size, first, last)
    while node != NONE:
        fits = lab.nodes.gpus[node] == size and _may_clear(lab, board, policy, node, taker, size, way, now_s)
        plan = board.posts.plan[node]
        if fits and (plan == NONE or board.plans.job[plan] == taker):
            board.counts.stamp[0] += 1
            picks, loss = clear_node(lab, board, policy, node, taker, size, 0, now_s)
            drop_picks(lab, board, 0, picks)
            if loss != NOT_FOUND:
                board.by_node.cost[node] = loss
                board.order[n] = node
                n += 1
        node = next_clearable(board, way, size, node + 1, last)
    rank(board.order, board.by_node.cost, n, board.chosen)
    return n


@kernel
def find_nodes_to_clear(lab, board, policy, cluster, taker, now_s):
    """S13 for a gang: whole nodes that together lose least.

    Gives (nodes in `chosen`, victims in `picked`, loss); (0, 0, NOT_FOUND) if there is no legal set.
    """
    gpus = board.stays.gpus[taker]
    size = node_size_for(lab, cluster, gpus)
    if size <= 0:
        return 0, 0, NOT_FOUND
    need = gpus // size
    refresh_gives(lab, board, policy, cluster)
    if not may_clear(lab, board, policy, cluster, taker, size, need, now_s):
        return 0, 0, NOT_FOUND
    ranked = _rank_nodes(lab, board, policy, cluster, taker, size, now_s)
    if ranked < need:
        return 0, 0, NOT_FOUND
    rack = NONE
    if lab.jobs.same_rack[taker]:
        place = rack_filled_first(lab, board, ranked, need)
        if place == NONE:
            return 0, 0, NOT_FOUND
        rack = lab.nodes.rack[board.order[place]]
    board.counts.stamp[0] += 1
    count, n, total = 0, 0, 0.0
    for k in range(ranked):
        node = board.order[k]
        if rack != NONE and lab.nodes.rack[node] != rack:
            continue
        picks, loss = clear_node(lab, board, policy, node, taker, size, n, now_s)
        if loss == NOT_FOUND:
            continue
        n, total = picks, total + loss
        board.chosen[count] = node
        count += 1
        if count == need:
            return count, n, total
    drop_picks(lab, board, 0, n)
    return 0, 0, NOT_FOUND
