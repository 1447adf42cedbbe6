"""What nobody is owed: one crossing job an account, unbudgeted work, and loans to budgeted work."""

from __future__ import annotations

from tenure.core.board import BUDGETED, LANES, QUICK, UNBUDGETED
from tenure.core.claims import within_limits
from tenure.core.columns import UGPU
from tenure.core.contract import protection_s
from tenure.core.depths import (
    NO_LIMIT,
    fits_target,
    gone_s,
    is_hopeless_loan,
    know_list,
    look_again,
    opens_pool,
)
from tenure.core.fit import (
    could_ever_fit,
    find_place,
    most_unbudgeted,
    needs_pool,
    node_size_for,
    room_needed,
)
from tenure.core.in_vain import forget_failures, forget_places, may_have_place, note_no_place
from tenure.core.kernel import kernel
from tenure.core.lifecycle import notice
from tenure.core.order import WINDOW, reach, slack
from tenure.core.owed import (
    PASSED,
    STARTED,
    fit_or_clear,
    must_save,
    spoils_own_promise,
    start_here,
)
from tenure.core.room import count_whole, most_free
from tenure.core.waiting import disturbance
from tenure.core.words import NONE, Phase, Rule

RUNNING = int(Phase.RUNNING)
NO_ROOM = 3  #: beside PASSED, STARTED, BLOCKS of `owed.py`
CROSSING, BY_UNBUDGETED, LOAN = int(Rule.CROSSING), int(Rule.UNBUDGETED), int(Rule.LOAN)


@kernel
def _loans_out(lab, board, cluster):
    """(GPUs that accounts hold, protected, beyond what is theirs; GPUs that somebody is due)."""
    base = cluster * len(lab.accounts)
    loans, due = 0.0, 0
    for account in range(1, len(lab.accounts)):
        if lab.accounts.first_child[account] == NONE:
            loans += max(
                0.0, board.standings.protected[base + account] - board.standings.base[base + account]
            )
            due += board.standings.due_ugpu[base + account]
    return loans, due / UGPU


@kernel
def _pool_gpus(lab, board, cluster):
    first, total = board.scenes.pool_first[cluster], 0
    for node in range(first, first + board.scenes.pool_nodes[cluster]):
        total += lab.nodes.gpus[node]
    return total


@kernel
def pass_crossing(lab, board, policy, cluster, leaves, now_s):
    """Where no job fits in an account's gap, one job may cross its target.

    All such loans together must fit in what nobody is owed.
    """
    rows, queues, entries = board.standings, board.queues, board.entries
    loans, due = _loans_out(lab, board, cluster)
    room = board.scenes.healthy[cluster] - due - _pool_gpus(lab, board, cluster)
    for k in range(leaves):
        if loans >= room:
            return
        row = board.walk[k]
        entry = queues.head[row * LANES + BUDGETED]
        looked = 0
        if rows.running[row] >= rows.target[row] or is_hopeless_loan(lab, board, policy, cluster, row, now_s):
            continue
        forget_failures(board, row)
        while entry != NONE and looked < policy.depth and rows.running[row] < rows.target[row]:
            following = entries.next[entry]
            job = entries.job[entry]
            gpus = board.stays.gpus[job]
            looked += 1
            if must_save(board, policy, cluster, row, job) and not board.stays.saved[job]:
                if could_ever_fit(lab, board, cluster, job):
                    break
            over = max(0.0, rows.protected[row] - rows.base[row])
            more = max(0.0, rows.protected[row] + gpus - rows.base[row]) - over
            gap = rows.target[row] + slack(board, policy, cluster, row, gpus) - rows.running[row]
            fits_loan = gpus > gap and loans + more <= room and within_limits(lab, board, job, gpus)
            if fits_loan and not spoils_own_promise(lab, board, policy, cluster, row, job, now_s):
                if fit_or_clear(lab, board, policy, cluster, job, CROSSING, now_s) == STARTED:
                    loans += more
            entry = following
        board.counts.looked[0] += looked


@kernel
def _next_disturbance(board, row):
    """That of the account's next unbudgeted job, as it was ranked."""
    scratch = board.by_account
    return scratch.next_stops[row], scratch.next_submit_s[row], scratch.next_job[row]


@kernel
def _rank_unbudgeted(board, base, row, entry, n):
    """Put an account among the first `n` in `by_account.ranked`, whose next job is least disturbed last.

    Its next job is that of `entry`. Gives how many there are then; one that has no next job is left out.
    """
    scratch = board.by_account
    scratch.next_entry[row] = entry
    if entry == NONE:
        return n
    mine = disturbance(board, board.entries.job[entry])
    scratch.next_stops[row], scratch.next_submit_s[row], scratch.next_job[row] = mine
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if mine < _next_disturbance(board, scratch.ranked[base + middle]):
            low = middle + 1
        else:
            high = middle
    for k in range(n, low, -1):
        scratch.ranked[base + k] = scratch.ranked[base + k - 1]
    scratch.ranked[base + low] = row
    return n + 1


@kernel
def _rank_all_unbudgeted(lab, board, cluster):
    """Before the first `_next_unbudgeted`: every account at the head of its list; gives how many have one."""
    base, n = cluster * len(lab.accounts), 0
    for row in range(base + 1, base + len(lab.accounts)):
        n = _rank_unbudgeted(board, base, row, board.queues.head[row * LANES + UNBUDGETED], n)
    return n


@kernel
def _next_unbudgeted(board, base, n):
    """(the least disturbed of the next unbudgeted jobs of `n` accounts, how many have a next one then)."""
    row = board.by_account.ranked[base + n - 1]
    job, entry = board.by_account.next_job[row], board.by_account.next_entry[row]
    return job, _rank_unbudgeted(board, base, row, board.entries.next[entry], n - 1)


@kernel
def _read_unbudgeted(lab, board, policy, cluster):
    """Find out what each account has among the first unbudgeted jobs of all; writes rows of `queues`."""
    queues, base = board.queues, cluster * len(lab.accounts)
    for row in range(base + 1, base + len(lab.accounts)):
        queue = row * LANES + UNBUDGETED
        queues.least[queue], queues.nodes[queue] = NO_LIMIT, NO_LIMIT
    looked, n = 0, _rank_all_unbudgeted(lab, board, cluster)
    while n > 0 and looked < policy.depth:
        job, n = _next_unbudgeted(board, base, n)
        looked += 1
        queue, gpus = (base + board.stays.account[job]) * LANES + UNBUDGETED, board.stays.gpus[job]
        size = node_size_for(lab, cluster, gpus)
        if size == 0:
            queues.least[queue] = min(queues.least[queue], gpus)
        elif size != NONE:
            nodes = 0 if needs_pool(lab, board, cluster, job, size, gpus // size) else gpus // size
            queues.nodes[queue] = min(queues.nodes[queue], nodes)
    for row in range(base + 1, base + len(lab.accounts)):
        queues.deeper[row * LANES + UNBUDGETED] = board.by_account.next_entry[row] != NONE
    board.counts.looked[0] += looked


@kernel
def _least_unbudgeted(lab, board, cluster):
    """(fewest GPUs of one node, fewest nodes of a gang) that the first unbudgeted jobs of all ask for.

    NO_LIMIT: none does. (0, 0): a list has changed and they are not known.
    """
    queues, least, nodes = board.queues, NO_LIMIT, NO_LIMIT
    base = cluster * len(lab.accounts)
    for row in range(base + 1, base + len(lab.accounts)):
        queue = row * LANES + UNBUDGETED
        least, nodes = min(least, queues.least[queue]), min(nodes, queues.nodes[queue])
    return (least, nodes) if least > 0 else (0, 0)


@kernel
def _may_start_unbudgeted(lab, board, policy, cluster):
    """Whether one of the first unbudgeted jobs may have a place; False: looking at them changes nothing."""
    if board.counts.thorough[0]:
        return True
    if most_free(board, cluster, True, 0) == 0:
        return False
    least, nodes = _least_unbudgeted(lab, board, cluster)
    if least == 0:
        _read_unbudgeted(lab, board, policy, cluster)
        least, nodes = _least_unbudgeted(lab, board, cluster)
    if least <= most_unbudgeted(lab, board, cluster):
        return True
    if nodes == NO_LIMIT:
        return False
    # While nodes are out of service a gang may need the pool that needed it not when the lists were read
    use_pool = board.scenes.n_sick[cluster] > 0 or board.scenes.healthy[cluster] < lab.clusters.gpus[cluster]
    whole = 0
    for size in range(1, lab.clusters.node_gpus[cluster] + 1):
        if lab.sizes[cluster, size] > 0:
            whole += count_whole(board, cluster, size, use_pool)
    return nodes <= whole


@kernel
def pass_unbudgeted(lab, board, policy, cluster, now_s):
    """Unbudgeted work, least disturbed first, on whatever is free now: pool and promised nodes first."""
    base, n = cluster * len(lab.accounts), 0
    if _may_start_unbudgeted(lab, board, policy, cluster):
        n = _rank_all_unbudgeted(lab, board, cluster)
    looked, fail_gpus, started = 0, NO_LIMIT, False
    forget_failures(board, base)  # of the root, for all
    while n > 0 and looked < policy.depth and fail_gpus > 1:
        job, n = _next_unbudgeted(board, base, n)
        looked += 1
        gpus = board.stays.gpus[job]
        if gpus >= fail_gpus or board.purses.waiting_on_limit[board.stays.account[job]]:
            continue
        if not within_limits(lab, board, job, gpus):
            continue
        gang = gpus > lab.clusters.node_gpus[cluster]
        if gang and not may_have_place(lab, board, policy, cluster, base, job):
            continue
        if find_place(lab, board, policy, cluster, job, now_s):
            start_here(lab, board, policy, cluster, job, BY_UNBUDGETED, now_s)
            forget_places(board, base)
            started = True
        elif gang:
            note_no_place(lab, board, policy, cluster, base, job)
        elif lab.jobs.gpu_type[job] == NONE:
            fail_gpus = gpus
    look_again(board, fail_gpus > 1 and looked >= policy.depth, started)
    board.counts.looked[0] += looked
    for account in range(1, len(lab.accounts)):
        board.purses.waiting_on_limit[account] = False


@kernel
def _someone_is_short(lab, board, policy, cluster, leaves):
    """Whether a job waits that its account's target has room for.

    What is lent now might be part of its place.
    """
    for k in range(leaves):
        row = board.walk[k]
        for lane in range(QUICK, BUDGETED + 1):
            queue = row * LANES + lane
            if board.queues.head[queue] != NONE:
                know_list(lab, board, policy, cluster, queue)
                if fits_target(board, policy, cluster, row, board.queues.few[queue]):
                    return True
    return False


@kernel
def _lend(lab, board, policy, cluster, row, job, now_s):
    """Start one job on what is free: STARTED, PASSED (it may not), or NO_ROOM (nothing free holds it)."""
    if not within_limits(lab, board, job, board.stays.gpus[job]):
        return PASSED
    if spoils_own_promise(lab, board, policy, cluster, row, job, now_s):
        return PASSED
    if not find_place(lab, board, policy, cluster, job, now_s):
        return NO_ROOM
    start_here(lab, board, policy, cluster, job, LOAN, now_s)
    return STARTED


@kernel
def _beyond_base(board, row, gpus):
    """By how many GPUs more the account's protected work would exceed what is its own with such a job."""
    over = max(0.0, board.standings.protected[row] - board.standings.base[row])
    return max(0.0, board.standings.protected[row] + gpus - board.standings.base[row]) - over


@kernel
def _holds_up(lab, board, policy, cluster, row, job):
    """S8: a job that saves up holds up its account's later work."""
    if policy.order == WINDOW or board.stays.saved[job] or not must_save(board, policy, cluster, row, job):
        return False
    return could_ever_fit(lab, board, cluster, job)


@kernel
def _lend_lane(lab, board, policy, cluster, row, lane, spare, now_s):
    """Lend what is free to one waiting list, in its order, as far as `spare` GPUs go; gives the GPUs lent.

    A list of which no job fits any node is not looked through.
    """
    queue = row * LANES + lane
    if board.queues.head[queue] == NONE:
        return 0.0
    know_list(lab, board, policy, cluster, queue)
    use_pool = opens_pool(board, row, lane)
    most = most_free(board, cluster, use_pool, gone_s(board, policy, row, lane, now_s))
    if board.queues.least[queue] > most or _beyond_base(board, row, board.queues.few[queue]) > spare:
        return 0.0
    entry = board.queues.head[queue]
    looked, lent, rows, started = 0, 0.0, board.standings, False
    no_saver = reach(board, policy, cluster, row, 0, rows.base[row] + rows.bound[row])
    fail_gpus, fail_s = NO_LIMIT, 0
    while entry != NONE and looked < policy.depth:
        job, gpus = board.entries.job[entry], board.entries.gpus[entry]
        for_s = protection_s(policy, board.entries.min_runtime_s[entry])
        entry = board.entries.next[entry]
        looked += 1
        done = PASSED
        needed = room_needed(lab, cluster, gpus)
        if needed <= most and (gpus < fail_gpus or for_s < fail_s):
            more = _beyond_base(board, row, gpus)
            if lent + more <= spare:
                done = _lend(lab, board, policy, cluster, row, job, now_s)
            if done == STARTED:
                started = True
                lent += more
                most = most_free(board, cluster, use_pool, gone_s(board, policy, row, lane, now_s))
            elif done == NO_ROOM and lab.jobs.gpu_type[job] == NONE and not lab.jobs.same_rack[job]:
                fail_gpus, fail_s = gpus, for_s
        if done != STARTED and gpus > no_saver and _holds_up(lab, board, policy, cluster, row, job):
            break
    else:
        look_again(board, entry != NONE, started)
    board.counts.looked[0] += looked
    return lent


@kernel
def pass_loans(lab, board, policy, cluster, leaves, now_s):
    """What is still free goes to any budgeted job that fits, accounts in order.

    A loan is protected, so while somebody below its target waits, all loans together must fit in what
    nobody is owed; a free fragment that his jobs cannot use now may be part of a place they can use soon.
    """
    if most_free(board, cluster, True, 0) == 0:
        return
    loans, due = _loans_out(lab, board, cluster)
    room = board.scenes.healthy[cluster] - due - _pool_gpus(lab, board, cluster)
    if policy.order == WINDOW or not _someone_is_short(lab, board, policy, cluster, leaves):
        room = float(NO_LIMIT)
    for k in range(leaves):
        row = board.walk[k]
        for lane in range(QUICK, BUDGETED + 1):
            loans += _lend_lane(lab, board, policy, cluster, row, lane, room - loans, now_s)


@kernel
def pass_notices(lab, board, policy, cluster, leaves, now_s):
    """S15: what will become interruptible within two notices, and has a live challenger, is told to save."""
    first_row, first_job, second_job = NONE, NONE, NONE
    for k in range(leaves):
        row = board.walk[k]
        head = board.queues.head[row * LANES + BUDGETED]
        if head != NONE and board.standings.running[row] < board.standings.target[row]:
            if first_row == NONE:
                first_row, first_job = row, board.entries.job[head]
            elif second_job == NONE:
                second_job = board.entries.job[head]
    if first_row == NONE:
        return
    first = lab.clusters.first_node[cluster]
    for node in range(first, first + lab.clusters.n_nodes[cluster]):
        for k in range(board.posts.n_jobs[node]):
            job = board.on_node[node, k]
            stays = board.stays
            ends_s = stays.protected_until_s[job]
            if ends_s <= now_s or ends_s > now_s + 2 * policy.notice_s:
                continue
            if stays.phase[job] != RUNNING or not stays.budgeted[job] or stays.noticed[job]:
                continue
            row = cluster * len(lab.accounts) + stays.account[job]
            challenger = second_job if row == first_row else first_job
            gpus = stays.gpus[job]
            bound = board.standings.target[row] - slack(board, policy, cluster, row, gpus)
            if challenger != NONE and board.standings.running[row] - gpus >= bound:
                notice(board, job, challenger, ends_s, now_s)
