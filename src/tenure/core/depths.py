"""What the first jobs of a waiting list ask for: a list of which nothing can start is not looked through.

A turn looks `depth` jobs deep into every list. Most lists are as they were a moment ago, and nothing that
their smallest job could use has come free. The smallest and the largest request of each list are kept until
the list changes; `is_fruitless` says when looking through it could not change the board at all.
"""

from __future__ import annotations

from tenure.core.board import BUDGETED, LANES, QUICK
from tenure.core.claims import within_limits
from tenure.core.columns import UGPU
from tenure.core.contract import protection_s
from tenure.core.fit import needs_pool, node_size_for, room_needed
from tenure.core.kernel import kernel
from tenure.core.order import WINDOW, reach, slack
from tenure.core.places import LAX, RIPE
from tenure.core.room import enough_to_clear, most_free, refresh_gives
from tenure.core.words import NONE

NO_LIMIT = 1 << 40  #: GPUs


@kernel
def look_again(board, deeper, started):
    """A list goes on `deeper` than was looked, and of what was looked at something started.

    So more may start at once: else it would wait beside free GPUs until something happens (S16).
    """
    if deeper and started:
        board.counts.more[0] = True


@kernel
def price_of(board, policy, row, gpus, for_s):
    """S8: GPU-seconds that an account must be owed to start a job larger than its target, protected so long.

    A quarter of what it will hold beyond its account's due while it is protected, and never more than half
    of what a lookback entitles the account to.
    """
    beyond = gpus - board.standings.base[row]
    most = board.standings.entitled_ugpu[row] / UGPU * policy.lookback_s / 2.0
    return min(policy.saved_pm / 1000.0 * beyond * for_s, most)


@kernel
def know_list(lab, board, policy, cluster, queue):
    """Find out what the first jobs of a list ask for, unless that is known; writes its row of `queues`."""
    queues, stays = board.queues, board.stays
    if queues.least[queue] != 0:
        return
    least, few, many, least_s = NO_LIMIT, NO_LIMIT, 0, NO_LIMIT
    gang, saved, looked = NONE, False, 0
    pooled, widest, largest = False, 0, lab.clusters.node_gpus[cluster]
    entry = queues.head[queue]
    while entry != NONE and looked < policy.depth:
        job, gpus = board.entries.job[entry], board.entries.gpus[entry]
        if gpus < few:
            few = gpus
        if gpus > many:
            many = gpus
        least = min(least, room_needed(lab, cluster, gpus))
        least_s = min(least_s, protection_s(policy, board.entries.min_runtime_s[entry]))
        if gpus > largest:
            gang = job if gang == NONE else gang
            typed, size = board.entries.typed[entry], node_size_for(lab, cluster, gpus)
            if size != NONE and (typed or size < largest or gpus > widest):
                pooled = pooled or needs_pool(lab, board, cluster, job, size, gpus // size)
                widest = widest if typed else max(widest, gpus)
        saved = saved or stays.saved[job]
        looked += 1
        entry = board.entries.next[entry]
    queues.least[queue], queues.few[queue], queues.many[queue] = least, few, many
    queues.least_s[queue], queues.gang[queue], queues.saved[queue] = least_s, gang, saved
    queues.deeper[queue], queues.pooled[queue] = looked >= policy.depth, pooled
    queues.fitting[queue], queues.beyond[queue] = NO_LIMIT, 0  # not known
    board.counts.looked[0] += looked


@kernel
def opens_pool(board, row, lane):
    """Whether a job so deep in a known list may take nodes of the pool."""
    return lane == QUICK or board.queues.pooled[row * LANES + lane]


@kernel
def gone_s(board, policy, row, lane, now_s):
    """When the first of the known jobs of a list, started now, could be stopped again."""
    if board.standings.plan[row] != NONE:
        return 0  # the nodes promised to one of the account's jobs are that job's own
    return now_s + board.queues.least_s[row * LANES + lane]


@kernel
def has_no_place(lab, board, policy, cluster, row, lane, way, now_s):
    """Whether no job of a known list can start, neither on what is free nor by stopping what is `way`.

    Not of a list in which a job has saved up: it may take more.
    """
    if board.counts.thorough[0]:
        return False
    queue, use_pool = row * LANES + lane, opens_pool(board, row, lane)
    least = board.queues.least[queue]
    until_s = gone_s(board, policy, row, lane, now_s)
    if least <= most_free(board, cluster, use_pool, until_s):
        return False
    if board.scenes.stirred[cluster]:
        refresh_gives(lab, board, policy, cluster)
    until_s += policy.grace_budgeted_s if until_s > 0 else 0
    return not enough_to_clear(board, cluster, least, 1, way, use_pool, until_s)


@kernel
def is_hopeless_quick(lab, board, policy, cluster, row, now_s):
    """Whether no job of the account's quick lane can start."""
    queue = row * LANES + QUICK
    if board.queues.head[queue] == NONE:
        return True
    know_list(lab, board, policy, cluster, queue)
    return not board.queues.saved[queue] and has_no_place(
        lab, board, policy, cluster, row, QUICK, RIPE, now_s
    )


@kernel
def is_hopeless_loan(lab, board, policy, cluster, row, now_s):
    """Whether none of the account's jobs can cross its target: free GPUs and unbudgeted work are too few."""
    queue = row * LANES + BUDGETED
    know_list(lab, board, policy, cluster, queue)
    if board.queues.saved[queue] or policy.order == WINDOW:
        return False
    return has_no_place(lab, board, policy, cluster, row, BUDGETED, LAX, now_s)


@kernel
def fits_target(board, policy, cluster, row, gpus):
    """Whether the account's target has room for a job of so many GPUs: if not, nor for a larger one."""
    rows = board.standings
    return rows.running[row] + gpus <= rows.target[row] + slack(board, policy, cluster, row, gpus)


@kernel
def plain_up_to(lab, board, policy, cluster, row, lane):
    """GPUs up to which a job of a known list needs no look when its account's target has no room for it now.

    It is no gang that gets a promise, needs not save up for its size, and no hard limit has to be told.
    """
    queue, rows = row * LANES + lane, board.standings
    if policy.order == WINDOW or board.counts.thorough[0]:
        return 0
    if not within_limits(lab, board, board.entries.job[board.queues.head[queue]], board.queues.many[queue]):
        return 0
    most = min(reach(board, policy, cluster, row, 0, rows.target[row]), board.scenes.plan_above[cluster])
    return min(most, reach(board, policy, cluster, row, 0, rows.base[row] + rows.bound[row]))


@kernel
def _is_beyond(board, policy, cluster, row, gpus):
    """Whether a job of so many GPUs is larger than its account's target: then so is a larger one."""
    return gpus > board.standings.target[row] + slack(board, policy, cluster, row, gpus)


@kernel
def _part_at_target(board, policy, cluster, row, queue):
    """Bring `fitting` and `beyond` of a known list up to date: they change when the target passes one."""
    queues = board.queues
    fitting, beyond = queues.fitting[queue], queues.beyond[queue]
    known = beyond > 0 and (fitting == 0 or not _is_beyond(board, policy, cluster, row, fitting))
    if known and (beyond == NO_LIMIT or _is_beyond(board, policy, cluster, row, beyond)):
        return
    fitting, beyond, looked = 0, NO_LIMIT, 0
    entry = queues.head[queue]
    while entry != NONE and looked < policy.depth:
        gpus = board.entries.gpus[entry]
        if gpus > fitting and not _is_beyond(board, policy, cluster, row, gpus):
            fitting = gpus
        elif gpus < beyond and gpus > fitting:
            beyond = gpus
        looked += 1
        entry = board.entries.next[entry]
    queues.fitting[queue], queues.beyond[queue] = fitting, beyond
    board.counts.looked[0] += looked


@kernel
def _may_save(board, policy, cluster, row, queue):
    """Whether a job of the list may have saved up (S8): the cheapest of those beyond the target decides."""
    rows = board.standings
    if rows.debt[row] <= 0.0 or not _is_beyond(board, policy, cluster, row, board.queues.many[queue]):
        return False
    _part_at_target(board, policy, cluster, row, queue)
    for_s = board.queues.least_s[queue]
    return rows.debt[row] >= price_of(board, policy, row, board.queues.beyond[queue], for_s)


@kernel
def largest_own(lab, board, cluster, row):
    """The most GPUs one attempt of the account holds; kept until the last so large ends (`lifecycle`)."""
    most, count = board.standings.largest[row], 0
    if most > 0 or board.standings.charged[row] == 0:
        return most
    account = row - cluster * len(lab.accounts)
    first = lab.clusters.first_node[cluster]
    for node in range(first, first + lab.clusters.n_nodes[cluster]):
        for k in range(board.posts.n_jobs[node]):
            job = board.on_node[node, k]
            stays = board.stays
            if stays.account[job] == account and stays.budgeted[job] and stays.node[job] == node:
                if stays.gpus[job] > most:
                    most, count = stays.gpus[job], 0
                count += stays.gpus[job] == most
    board.standings.largest[row], board.standings.n_largest[row] = most, count
    return most


@kernel
def _may_save_or_plan(lab, board, policy, cluster, row, queue, may_plan):
    """Whether a job of the list may be found to have saved up, be told of at its head, or get a promise."""
    rows, gang = board.standings, board.queues.gang[queue]
    if board.queues.saved[queue] or _may_save(board, policy, cluster, row, queue):
        return True
    above = board.scenes.plan_above[cluster]
    if above < lab.clusters.node_gpus[cluster] and board.queues.many[queue] > above:
        return True  # any of several jobs may be at the head
    if gang == NONE or board.stays.gpus[gang] <= above:
        return False
    if policy.order == WINDOW:
        return True
    if rows.running[row] >= rows.target[row]:
        return False
    gpus = board.stays.gpus[gang]
    may_plan = may_plan and not _is_beyond(board, policy, cluster, row, gpus)
    return (may_plan or not board.stays.at_head[gang]) and largest_own(lab, board, cluster, row) < gpus


@kernel
def is_fruitless(lab, board, policy, cluster, row, lane, overdue, now_s):
    """Whether looking through one of the account's lists could not change anything.

    `overdue`: the account is owed so much that any of its jobs may get a promise.
    """
    queue = row * LANES + lane
    if board.queues.head[queue] == NONE:
        return True
    if board.counts.thorough[0]:
        return False
    know_list(lab, board, policy, cluster, queue)
    may_plan = board.standings.plan[row] == NONE and board.scenes.n_plans[cluster] < policy.max_plans
    if _may_save_or_plan(lab, board, policy, cluster, row, queue, may_plan):
        return False
    if not within_limits(lab, board, board.entries.job[board.queues.head[queue]], board.queues.many[queue]):
        return False
    few = board.queues.few[queue]
    if policy.order != WINDOW and not fits_target(board, policy, cluster, row, few):
        return True
    if lane != BUDGETED:
        return False
    if overdue and may_plan:
        if policy.order == WINDOW:
            return False
        _part_at_target(board, policy, cluster, row, queue)
        if largest_own(lab, board, cluster, row) < board.queues.fitting[queue]:
            return False
    return has_no_place(lab, board, policy, cluster, row, lane, RIPE, now_s)
