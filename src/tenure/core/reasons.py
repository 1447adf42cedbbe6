"""S21: the one reason a job waits for, asked of the board as a turn has left it.

Every question here is put to the predicates the turn itself decides by, so that a reason cannot contradict
a decision. Nothing changes: what a trial touches is put back. `docs/reasons.md` has the reasons in words,
`reason_numbers.py` their numbers.
"""

from __future__ import annotations

from tenure.core.board import BUDGETED, LANES, QUICK, UNBUDGETED
from tenure.core.claims import within_limits
from tenure.core.fit import could_ever_fit, find_place, keeps_promise, node_size_for, suits, whole_pool_nodes
from tenure.core.kernel import kernel
from tenure.core.order import WINDOW, slack
from tenure.core.owed import find_to_clear, must_save, quick_allowed, spoils_own_promise
from tenure.core.plan_gang import earliest_promise_s
from tenure.core.victims import drop_picks
from tenure.core.waiting import lane_of
from tenure.core.words import NEVER_S, NONE, NodeState, Phase, Reason

UP = int(NodeState.UP)
P_WAITING, P_RESTING, P_HELD, P_CLAIMING = (
    int(Phase.WAITING),
    int(Phase.RESTING),
    int(Phase.HELD),
    int(Phase.CLAIMING),
)
HELD, RESTING, CANNOT_FIT = int(Reason.HELD), int(Reason.RESTING), int(Reason.CANNOT_FIT)
OWN_LIMIT, CLAIMING, PROMISED = int(Reason.OWN_LIMIT), int(Reason.CLAIMING), int(Reason.PROMISED)
SAVING_UP, BEHIND_OWN, OVER_TARGET = int(Reason.SAVING_UP), int(Reason.BEHIND_OWN), int(Reason.OVER_TARGET)
ORDER, HELD_FOR_GANG, PATIENCE = int(Reason.ORDER), int(Reason.HELD_FOR_GANG), int(Reason.PATIENCE)
NO_PLACE, SHAPE, NO_FREE_GPUS = int(Reason.NO_PLACE), int(Reason.SHAPE), int(Reason.NO_FREE_GPUS)
NOT_REACHED, CLOSING = int(Reason.NOT_REACHED), int(Reason.CLOSING)


@kernel
def could_hold(lab, board, cluster, job):
    """Whether the nodes in service could hold it if they were empty, racks included."""
    if not could_ever_fit(lab, board, cluster, job):
        return False
    return not lab.jobs.same_rack[job] or most_if_empty(lab, board, cluster, job) >= board.stays.gpus[job]


@kernel
def most_if_empty(lab, board, cluster, job):
    """The most GPUs that healthy nodes of its type, in one rack where asked, could give it together."""
    size = node_size_for(lab, cluster, board.stays.gpus[job])
    first = lab.clusters.first_node[cluster]
    last = first + lab.clusters.n_nodes[cluster]
    for node in range(first, last):
        board.racks[lab.nodes.rack[node]] = 0
    most = 0
    for node in range(first, last):
        wrong_type = lab.jobs.gpu_type[job] != NONE and lab.jobs.gpu_type[job] != lab.nodes.gpu_type[node]
        if board.posts.state[node] != UP or wrong_type:
            continue
        if size <= 0:
            most = max(most, lab.nodes.gpus[node])
        elif lab.nodes.gpus[node] == size:
            rack = lab.nodes.rack[node] if lab.jobs.same_rack[job] else lab.nodes.rack[first]
            board.racks[rack] += size
            most = max(most, board.racks[rack])
    return most


@kernel
def asking_cluster(lab, board, job):
    """The cluster whose answer is told: its home, or the first of its others if its home cannot hold it."""
    home = board.stays.cluster[job]
    if could_hold(lab, board, home, job):
        return home
    for cluster in range(len(lab.clusters)):
        if (lab.jobs.clusters[job] >> cluster) & 1 and could_hold(lab, board, cluster, job):
            return cluster
    return home


@kernel
def limit_in_the_way(lab, board, job):
    """S9: the account, its own or one above, whose hard limit the job would pass; NONE if there is none."""
    if within_limits(lab, board, job, board.stays.gpus[job]):
        return NONE
    account = board.stays.account[job]
    while board.purses.held[account] + board.stays.gpus[job] <= lab.accounts.max_gpus[account]:
        account = lab.accounts.parent[account]
    return account


@kernel
def last_in_the_way(lab, board, job):
    """Of the jobs that stop for a claim, the one whose grace ends last; NONE if nobody is there any more."""
    stays, posts = board.stays, board.posts
    node, last = stays.node[job], NONE
    for _ in range(stays.n_nodes[job]):
        for k in range(posts.n_jobs[node]):
            other = board.on_node[node, k]
            if stays.taker[other] == job and (last == NONE or stays.stop_s[other] > stays.stop_s[last]):
                last = other
        node = posts.next_of_claim[node]
    return last


@kernel
def last_protected(lab, board, row):
    """Of the jobs on the nodes of a promise, the one whose protection ends last; NONE if there is none."""
    stays, posts = board.stays, board.posts
    node, last = board.plans.first_node[row], NONE
    for _ in range(board.plans.n_nodes[row]):
        for k in range(posts.n_jobs[node]):
            other = board.on_node[node, k]
            if stays.budgeted[other] and (
                last == NONE or stays.protected_until_s[other] > stays.protected_until_s[last]
            ):
                last = other
        node = posts.next_of_plan[node]
    return last


@kernel
def is_within(board, policy, cluster, row, job):
    """Whether the turn looks for a place for it by right: its quick right, its target, or what was saved."""
    rows = board.standings
    gpus = board.stays.gpus[job]
    if policy.order == WINDOW:
        return True
    if board.stays.quick[job] and quick_allowed(board, policy, cluster, row, gpus):
        return True
    if rows.running[row] + 0.5 > rows.target[row]:
        return False
    return board.stays.saved[job] or rows.running[row] + gpus <= rows.target[row] + slack(
        board, policy, cluster, row, gpus
    )


@kernel
def saves_up(lab, board, policy, cluster, row, job):
    """S8: larger than any target of its account, and not saved up yet."""
    if policy.order == WINDOW or board.stays.saved[job]:
        return False
    return must_save(board, policy, cluster, row, job)


@kernel
def place_in_list(lab, board, policy, cluster, job):
    """(jobs before it in its list, the one of them that holds it up or NONE)."""
    row = cluster * len(lab.accounts) + board.stays.account[job]
    lane = lane_of(board, job)
    list_row = cluster * len(lab.accounts) if board.counts.one_list[0] else row
    entry = board.queues.head[list_row * LANES + lane]
    place, blocker = 0, NONE
    while entry != NONE and board.entries.job[entry] != job:
        other = board.entries.job[entry]
        if blocker == NONE and holds_up(lab, board, policy, cluster, row, other):
            blocker = other
        place += 1
        entry = board.entries.next[entry]
    return place, blocker


@kernel
def holds_up(lab, board, policy, cluster, row, job):
    """Whether a waiting job keeps back all that stands behind it in its list."""
    if board.counts.one_list[0]:  # first come: the first that could ever fit; by level: nobody
        return board.counts.by_arrival[0] and could_ever_fit(lab, board, cluster, job)
    if not board.stays.budgeted[job] or board.stays.quick[job] or board.stays.plan[job] != NONE:
        return False
    if not saves_up(lab, board, policy, cluster, row, job):
        return False
    return within_limits(lab, board, job, board.stays.gpus[job]) and could_ever_fit(lab, board, cluster, job)


@kernel
def comes_first(lab, board, policy, cluster, row, other, job):
    """Whether `other`, of an account ahead, would take whatever place `job` could take."""
    stays = board.stays
    if stays.gpus[other] > stays.gpus[job] or stays.plan[other] != NONE:
        return False
    types = lab.jobs.gpu_type
    if types[other] != NONE and types[other] != types[job]:
        return False
    if not is_within(board, policy, cluster, row, other):
        return False
    return within_limits(lab, board, other, stays.gpus[other])


@kernel
def stands_before(lab, board, policy, cluster, leaves, job):
    """Waiting jobs of accounts ahead that come first: (how many, their GPUs, the first of them or NONE)."""
    mine = cluster * len(lab.accounts) + board.stays.account[job]
    count, gpus, first = 0, 0, NONE
    for k in range(leaves):
        row = board.walk[k]
        if row == mine:
            break
        for lane in range(QUICK, lane_of(board, job) + 1):
            entry, looked = board.queues.head[row * LANES + lane], 0
            while entry != NONE and looked < policy.depth:
                other = board.entries.job[entry]
                if comes_first(lab, board, policy, cluster, row, other, job):
                    count += 1
                    gpus += board.stays.gpus[other]
                    first = other if first == NONE else first
                looked += 1
                entry = board.entries.next[entry]
    return count, gpus, first


@kernel
def promise_in_the_way(lab, board, policy, cluster, job, now_s):
    """The promised job whose nodes, free now, would do for this one; NONE if they would not."""
    gpus = board.stays.gpus[job]
    size = node_size_for(lab, cluster, gpus)
    need, found, gang = 1 if size <= 0 else gpus // size, 0, NONE
    use_pool = board.stays.quick[job] or size > 0
    first = lab.clusters.first_node[cluster]
    for node in range(first, first + lab.clusters.n_nodes[cluster]):
        posts = board.posts
        wrong_type = lab.jobs.gpu_type[job] != NONE and lab.jobs.gpu_type[job] != lab.nodes.gpu_type[node]
        if posts.state[node] != UP or wrong_type or (posts.pool[node] and not use_pool):
            continue
        if posts.avail[node] < (gpus if size <= 0 else size) or (size > 0 and lab.nodes.gpus[node] != size):
            continue
        found += 1
        if gang == NONE and not keeps_promise(lab, board, policy, node, job, now_s):
            gang = board.plans.job[posts.plan[node]]
    return gang if found >= need else NONE


@kernel
def someone_to_stop(lab, board, policy, cluster, job, now_s):
    """A member of a set whose stop would make a place for the job now; NONE if there is no such set."""
    searched = board.counts.searched[0]
    n, _ = find_to_clear(lab, board, policy, cluster, job, now_s)
    victim = NONE
    if n > 0:
        victim = board.picked[0]
        drop_picks(lab, board, 0, n)
    board.counts.searched[0] = searched
    return victim


@kernel
def session_to_stop(lab, board, policy, cluster, job, now_s):
    """As `someone_to_stop`, had the job waited long enough to take a session past its protection."""
    stays = board.stays
    if now_s - stays.submit_s[job] >= policy.session_patience_s:
        return NONE
    submit_s = stays.submit_s[job]
    stays.submit_s[job] = now_s - policy.session_patience_s
    victim = someone_to_stop(lab, board, policy, cluster, job, now_s)
    stays.submit_s[job] = submit_s
    return victim


@kernel
def closing_in_the_way(lab, board, policy, cluster, job, may_stop, now_s):
    """Whether a job that finds no place now would find one, or a date, were no node about to close.

    `may_stop`: whether places count that would have to be cleared.
    """
    closing = board.scenes.n_closing[cluster]
    if closing == 0 or not board.stays.budgeted[job]:
        return False
    gang = may_stop and board.stays.gpus[job] > lab.clusters.node_gpus[cluster]
    dated_s = NEVER_S
    if gang:
        dated_s, _, _ = earliest_promise_s(lab, board, policy, cluster, job, -1, now_s)
    board.scenes.n_closing[cluster] = 0
    found = find_place(lab, board, policy, cluster, job, now_s)
    if not found and may_stop:
        found = someone_to_stop(lab, board, policy, cluster, job, now_s) != NONE
    if not found and gang and dated_s == NEVER_S:
        dated_s, _, _ = earliest_promise_s(lab, board, policy, cluster, job, -1, now_s)
        found = dated_s < NEVER_S
    board.scenes.n_closing[cluster] = closing
    return found


@kernel
def free_gpus(lab, board, policy, cluster, job, now_s):
    """(GPUs free that the job may use, the most of them together: on one node, or whole nodes for a gang)."""
    size = node_size_for(lab, cluster, board.stays.gpus[job])
    unbudgeted = lane_of(board, job) == UNBUDGETED
    use_pool = unbudgeted or board.stays.quick[job] or size > 0
    keep_one = (
        unbudgeted and board.scenes.pool_nodes[cluster] > 0 and whole_pool_nodes(lab, board, cluster) <= 1
    )
    first = lab.clusters.first_node[cluster]
    total, together = 0, 0
    for node in range(first, first + lab.clusters.n_nodes[cluster]):
        avail = board.posts.avail[node]
        if avail == 0 or not suits(lab, board, policy, node, job, now_s):
            continue
        if board.posts.pool[node] and (not use_pool or (keep_one and avail == lab.nodes.gpus[node])):
            continue
        total += avail
        if size <= 0:
            together = max(together, avail)
        elif avail == size and lab.nodes.gpus[node] == size:
            together += size
    return total, together


@kernel
def _why_by_free_gpus(lab, board, policy, cluster, job, now_s):
    """Work that takes what is free and nothing else."""
    if board.scenes.free[cluster] < board.stays.gpus[job]:
        return NO_FREE_GPUS, NONE
    if closing_in_the_way(lab, board, policy, cluster, job, False, now_s):
        return CLOSING, NONE
    total, _ = free_gpus(lab, board, policy, cluster, job, now_s)
    return (SHAPE if total >= board.stays.gpus[job] else NO_FREE_GPUS), NONE


@kernel
def _why_in_one_list(lab, board, policy, cluster, job, spot, now_s):
    """Under the rules that ask one list: first come, first served, with or without backfill, and by level."""
    _, place, blocker = spot
    if blocker != NONE:
        return ORDER, blocker
    if find_place(lab, board, policy, cluster, job, now_s) or (
        place >= policy.depth and not board.counts.by_arrival[0]
    ):
        return NOT_REACHED, NONE
    return _why_by_free_gpus(lab, board, policy, cluster, job, now_s)


@kernel
def has_limit(lab, account):
    """Whether its own or any account above has a hard limit."""
    while account != NONE:
        if lab.accounts.max_gpus[account] < NEVER_S:
            return True
        account = lab.accounts.parent[account]
    return False


@kernel
def limited_work_of(lab, board, policy, row, account):
    """A budgeted job of the account that waits on a limit: its unbudgeted work takes no GPUs before it."""
    if board.standings.running[row] + 0.5 > board.standings.target[row] and policy.order != WINDOW:
        return NONE
    if not has_limit(lab, account):
        return NONE
    for lane in range(QUICK, BUDGETED + 1):
        entry, looked = board.queues.head[row * LANES + lane], 0
        while entry != NONE and looked < policy.depth:
            other = board.entries.job[entry]
            if not within_limits(lab, board, other, board.stays.gpus[other]):
                return other
            looked += 1
            entry = board.entries.next[entry]
    return NONE


@kernel
def _why_unbudgeted(lab, board, policy, cluster, job, now_s):
    account = board.stays.account[job]
    ahead = limited_work_of(lab, board, policy, cluster * len(lab.accounts) + account, account)
    if ahead != NONE:
        return BEHIND_OWN, ahead
    if find_place(lab, board, policy, cluster, job, now_s):
        return NOT_REACHED, NONE
    return _why_by_free_gpus(lab, board, policy, cluster, job, now_s)


@kernel
def _why_no_place(lab, board, policy, cluster, leaves, job, now_s):
    """Budgeted work that may start by right: what it lacks is a place."""
    stays = board.stays
    if find_place(lab, board, policy, cluster, job, now_s):
        return NOT_REACHED, NONE  # a place that came free after the turn had looked
    gang = promise_in_the_way(lab, board, policy, cluster, job, now_s)
    may_stop = not (stays.quick[job] and stays.evicted[job])
    victim = someone_to_stop(lab, board, policy, cluster, job, now_s) if may_stop else NONE
    if victim != NONE:
        if gang != NONE:
            return HELD_FOR_GANG, gang
        waits = stays.patient_s[job] != NEVER_S and now_s - stays.patient_s[job] < policy.patience_s
        return (PATIENCE if waits else NOT_REACHED), victim
    _, _, ahead = stands_before(lab, board, policy, cluster, leaves, job)
    if ahead != NONE:
        return ORDER, ahead
    if gang != NONE:
        return HELD_FOR_GANG, gang
    victim = session_to_stop(lab, board, policy, cluster, job, now_s) if may_stop else NONE
    if victim != NONE:
        return PATIENCE, victim
    if closing_in_the_way(lab, board, policy, cluster, job, may_stop, now_s):
        return CLOSING, NONE
    return NO_PLACE, NONE


@kernel
def _why_budgeted(lab, board, policy, cluster, job, spot, now_s):
    leaves, place, blocker = spot
    account = board.stays.account[job]
    row = cluster * len(lab.accounts) + account
    within = is_within(board, policy, cluster, row, job)
    if not within and saves_up(lab, board, policy, cluster, row, job):
        return SAVING_UP, account
    if blocker != NONE:
        return BEHIND_OWN, blocker
    by_right = board.stays.quick[job] and within
    if not by_right and spoils_own_promise(lab, board, policy, cluster, row, job, now_s):
        return BEHIND_OWN, board.plans.job[board.standings.plan[row]]
    if not within:
        return OVER_TARGET, account
    if place >= policy.depth:
        return NOT_REACHED, NONE
    return _why_no_place(lab, board, policy, cluster, leaves, job, now_s)


@kernel
def why(lab, board, policy, cluster, job, spot, now_s):
    """(Reason, evidence) of a waiting job: the first that holds, and the row in the way.

    `spot`: (accounts in `walk`, jobs before it in its list, the one of them that holds it up or NONE), the
    last two from `place_in_list`. The evidence is the row of an account (OWN_LIMIT, SAVING_UP,
    OVER_TARGET), or of a job (all others), or NONE.
    """
    stays = board.stays
    phase = stays.phase[job]
    if phase == P_HELD:
        return HELD, NONE
    if phase == P_RESTING:
        return RESTING, NONE
    if phase == P_CLAIMING:
        return CLAIMING, last_in_the_way(lab, board, job)
    if not could_hold(lab, board, cluster, job):
        return CANNOT_FIT, NONE
    limit = limit_in_the_way(lab, board, job)
    if limit != NONE:
        return OWN_LIMIT, limit
    if stays.plan[job] != NONE:
        return PROMISED, last_protected(lab, board, stays.plan[job])
    if board.counts.one_list[0]:
        return _why_in_one_list(lab, board, policy, cluster, job, spot, now_s)
    if not stays.budgeted[job]:
        return _why_unbudgeted(lab, board, policy, cluster, job, now_s)
    return _why_budgeted(lab, board, policy, cluster, job, spot, now_s)
