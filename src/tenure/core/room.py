"""How much of each node could be taken: free now, or by stopping what may be stopped.

A turn asks far more often where something *might* be freed than anything is freed. So sums are kept up: of
each node the GPUs of unbudgeted attempts (LAX) and of those whose owner can spare them one by one (RIPE),
and of each cluster how many nodes have so much. They are bounds: a set of victims is never larger, so what
they refuse needs no look at any attempt, and what they let pass is weighed as if they were not there.
"""

from __future__ import annotations

from tenure.core.board import BUDGETED, KINDS, PLAIN, PLANS, POOL, PROMISED
from tenure.core.contract import protection_s
from tenure.core.kernel import kernel
from tenure.core.order import WINDOW, most_slack, slack
from tenure.core.places import LAX, RIPE, WAYS, enter_level, gpus_on, leave_level, mark_clearable
from tenure.core.pledges import kept_for_claims
from tenure.core.waiting import lane_of
from tenure.core.words import NONE, NodeState

UP = int(NodeState.UP)
ANYTHING = WAYS  #: what has saved up may take whatever is past its protection
MOST_GPUS = 1 << 40


@kernel
def recount(board, lab, node):
    """Bring a node's room up to date after anything on it changed; writes `avail`, `kind`, sums, levels."""
    posts, rooms = board.posts, board.rooms
    cluster = lab.nodes.cluster[node]
    if posts.counted[node]:
        rooms[cluster * KINDS + posts.kind[node], posts.avail[node]] -= 1
        leave_level(board, node)
        _count_clear(board, cluster, node, -1)
    posts.avail[node] = max(0, posts.free[node] - kept_for_claims(lab, board, node, NONE))
    kind = PLAIN
    if posts.plan[node] != NONE:
        kind = PROMISED + posts.plan[node] % PLANS
    elif posts.pool[node]:
        kind = POOL
    posts.kind[node] = kind
    coming = max(0, posts.free[node] + posts.freeing[node] - posts.pledged[node])
    posts.lax_room[node] = min(lab.nodes.gpus[node], coming + posts.lax[node])
    posts.ripe_room[node] = min(lab.nodes.gpus[node], coming + posts.lax[node] + posts.ripe[node])
    posts.counted[node] = posts.state[node] == UP
    if posts.counted[node]:
        rooms[cluster * KINDS + kind, posts.avail[node]] += 1
        enter_level(board, node)
        _count_clear(board, cluster, node, 1)


@kernel
def _count_clear(board, cluster, node, sign):
    row = (cluster * KINDS + board.posts.kind[node]) * WAYS
    board.clears[row + LAX, board.posts.lax_room[node]] += sign
    board.clears[row + RIPE, board.posts.ripe_room[node]] += sign
    mark_clearable(board, LAX, node, board.posts.lax_room[node], sign)
    mark_clearable(board, RIPE, node, board.posts.ripe_room[node], sign)


@kernel
def _change_ripe(lab, board, job, sign):
    """The GPUs of an attempt can be spared by its owner from now on (1), or no longer (-1)."""
    node = board.stays.node[job]
    for _ in range(board.stays.n_nodes[job]):
        board.posts.ripe[node] += sign * gpus_on(lab, board, job, node)
        recount(board, lab, node)
        node = board.posts.next_of_gang[node]


@kernel
def _owner(lab, board, job):
    return board.stays.cluster[job] * len(lab.accounts) + board.stays.account[job]


@kernel
def join_soft(lab, board, job):
    """The attempt can be weighed as a victim from now on: it joins those of its owner and its nodes' sums."""
    stays, posts = board.stays, board.posts
    stays.soft[job] = True
    node = stays.node[job]
    for _ in range(stays.n_nodes[job]):
        gpus = gpus_on(lab, board, job, node)
        posts.soft[node] += gpus
        if not stays.budgeted[job]:
            posts.lax[node] += gpus
            recount(board, lab, node)
        node = posts.next_of_gang[node]
    if not stays.budgeted[job]:
        return
    row = _owner(lab, board, job)
    after = board.standings.first_soft[row]
    if after == NONE:  # what an account without such attempts could spare was not kept up
        board.scenes.stirred[stays.cluster[job]] = True
    stays.next_soft[job], stays.prev_soft[job] = after, NONE
    if after != NONE:
        stays.prev_soft[after] = job
    board.standings.first_soft[row] = job
    if stays.gpus[job] <= board.standings.gives[row]:
        _change_ripe(lab, board, job, 1)


@kernel
def leave_soft(lab, board, job):
    """The attempt stops or ends: nobody can take its GPUs any more."""
    stays, posts = board.stays, board.posts
    if stays.budgeted[job]:
        row = _owner(lab, board, job)
        before, after = stays.prev_soft[job], stays.next_soft[job]
        if before == NONE:
            board.standings.first_soft[row] = after
        else:
            stays.next_soft[before] = after
        if after != NONE:
            stays.prev_soft[after] = before
        if stays.gpus[job] <= board.standings.gives[row]:
            _change_ripe(lab, board, job, -1)
    stays.soft[job] = False
    node = stays.node[job]
    for _ in range(stays.n_nodes[job]):
        gpus = gpus_on(lab, board, job, node)
        posts.soft[node] -= gpus
        if not stays.budgeted[job]:
            posts.lax[node] -= gpus  # the caller recounts: more changes there
        node = posts.next_of_gang[node]


@kernel
def _can_give(board, policy, cluster, row, gpus):
    """Whether the owner stays at its target without an attempt of so many GPUs (S12, none taken before)."""
    left = board.standings.running[row] - gpus
    return left >= board.standings.target[row] - slack(board, policy, cluster, row, gpus)


@kernel
def _most_to_give(board, policy, cluster, row):
    """GPUs of the largest attempt that the account can spare; what is smaller it can spare too."""
    if policy.order == WINDOW:
        return MOST_GPUS
    beyond = board.standings.running[row] - board.standings.target[row]
    most = beyond + most_slack(board, policy, cluster, row)
    if policy.round_pm < 1000:
        most = min(most, beyond * 1000.0 / (1000.0 - policy.round_pm))
    gpus = max(0, int(most) + 1)  # one more than the quotient says, so that no rounding can hide one
    while gpus > 0 and not _can_give(board, policy, cluster, row, gpus):
        gpus -= 1
    return gpus


@kernel
def refresh_gives(lab, board, policy, cluster):
    """Bring up to date what each account can spare, if targets or what they run have changed since."""
    if not board.scenes.stirred[cluster]:
        return
    board.scenes.stirred[cluster] = False
    base = cluster * len(lab.accounts)
    rows = board.standings
    for row in range(base + 1, base + len(lab.accounts)):
        before = rows.gives[row]
        if rows.first_soft[row] == NONE and before == 0:
            continue
        gives = _most_to_give(board, policy, cluster, row)
        rows.gives[row] = gives
        if gives == before:
            continue
        job = rows.first_soft[row]
        while job != NONE:
            gpus = board.stays.gpus[job]
            if before < gpus <= gives:
                _change_ripe(lab, board, job, 1)
            elif gives < gpus <= before:
                _change_ripe(lab, board, job, -1)
            job = board.stays.next_soft[job]


@kernel
def way_of(lab, board, policy, cluster, taker):
    """What a claimant may take at all: LAX, RIPE or ANYTHING."""
    stays = board.stays
    if stays.saved[taker] or board.counts.thorough[0]:
        return ANYTHING
    if stays.quick[taker] or policy.order == WINDOW:
        return RIPE
    row = cluster * len(lab.accounts) + stays.account[taker]
    reach = board.standings.running[row] + stays.gpus[taker]
    within = reach <= board.standings.target[row] + slack(board, policy, cluster, row, stays.gpus[taker])
    return RIPE if within else LAX


@kernel
def most_to_clear(board, node, way):
    """GPUs of the node that stopping could free for a claimant at most, those that are coming included."""
    posts = board.posts
    if way == LAX:
        return posts.lax_room[node]
    if way == RIPE:
        return posts.ripe_room[node]
    return max(0, posts.free[node] + posts.freeing[node] - posts.pledged[node]) + posts.soft[node]


@kernel
def _next_promise(board, cluster, kind, gone_s):
    """The next kind of nodes, from `kind` on, promised for `gone_s` or later; KINDS: there is none."""
    while kind < PROMISED + board.scenes.plan_rows[cluster]:
        row = cluster * PLANS + kind - PROMISED
        if board.plans.open[row] and board.plans.at_s[row] >= gone_s:
            return kind
        kind += 1
    return KINDS


@kernel
def _next_kind(board, cluster, kind, use_pool, gone_s):
    """After PLAIN: the pool, if it may be used, and the nodes promised for `gone_s` or later."""
    if kind == PLAIN and use_pool:
        return POOL
    if board.scenes.n_plans[cluster] == 0:
        return KINDS
    return _next_promise(board, cluster, max(kind + 1, PROMISED), gone_s)


@kernel
def most_free(board, cluster, use_pool, gone_s):
    """The most GPUs that one node has to take for work that is gone, or can be stopped, at that instant."""
    most, kind = 0, PLAIN
    while kind < KINDS:
        for free in range(board.rooms.shape[1] - 1, most, -1):
            if board.rooms[cluster * KINDS + kind, free] > 0:
                most = free
                break
        kind = _next_kind(board, cluster, kind, use_pool, gone_s)
    return most


@kernel
def count_whole(board, cluster, size, use_pool):
    """Nodes that have exactly so many GPUs to take: at least those of that size that are empty."""
    count, kind = 0, PLAIN
    while kind < KINDS:
        count += board.rooms[cluster * KINDS + kind, size]
        kind = _next_kind(board, cluster, kind, use_pool, 0)
    return count


@kernel
def enough_to_clear(board, cluster, room, nodes, way, use_pool, gone_s):
    """Whether so many nodes may have so much room by stopping what is LAX or RIPE.

    `gone_s`: when the claimant can be stopped again; promised nodes whose date is earlier do not count.
    """
    count, kind = 0, PLAIN
    while kind < KINDS:
        row = (cluster * KINDS + kind) * WAYS + way
        for gpus in range(room, board.clears.shape[1]):
            count += board.clears[row, gpus]
        if count >= nodes:
            return True
        kind = _next_kind(board, cluster, kind, use_pool, gone_s)
    return False


@kernel
def may_clear(lab, board, policy, cluster, taker, room, nodes, now_s):
    """A quick bound before any node is looked at: False = no set of victims makes room for the claimant."""
    way = way_of(lab, board, policy, cluster, taker)
    if way == ANYTHING:
        return True
    gone_s = 0  # its own promised nodes are its own
    if board.stays.plan[taker] == NONE:
        gone_s = now_s + policy.grace_budgeted_s + protection_s(policy, lab.jobs.min_runtime_s[taker])
    use_pool = lane_of(board, taker) != BUDGETED
    return enough_to_clear(board, cluster, room, nodes, way, use_pool, gone_s)
