"""What nobody is owed: one crossing job an account, unbudgeted work, and loans to budgeted work."""

from __future__ import annotations

from tenure.core.board import BUDGETED, LANES, QUICK, UNBUDGETED
from tenure.core.claims import within_limits
from tenure.core.columns import UGPU
from tenure.core.contract import protection_s
from tenure.core.depths import NO_LIMIT, fits_target, gone_s, is_hopeless_loan, know_list, look_again
from tenure.core.fit import could_ever_fit, find_place, room_needed
from tenure.core.kernel import kernel
from tenure.core.lifecycle import notice
from tenure.core.order import WINDOW, reach, slack
from tenure.core.owed import (
    PASSED,
    STARTED,
    fit_or_clear,
    forget_failures,
    must_save,
    spoils_own_promise,
    start_here,
)
from tenure.core.room import most_free
from tenure.core.waiting import less_disturbed
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
def _next_unbudgeted(lab, board, cluster):
    """The least disturbed of the next unbudgeted jobs of all accounts, or NONE; moves a pointer on."""
    base = cluster * len(lab.accounts)
    best, best_job = NONE, NONE
    for account in range(1, len(lab.accounts)):
        entry = board.by_account.next_entry[base + account]
        if entry != NONE:
            job = board.entries.job[entry]
            if best == NONE or less_disturbed(board, job, best_job):
                best, best_job = base + account, job
    if best != NONE:
        board.by_account.next_entry[best] = board.entries.next[board.by_account.next_entry[best]]
    return best_job


@kernel
def pass_unbudgeted(lab, board, policy, cluster, now_s):
    """Unbudgeted work, least disturbed first, on whatever is free now: pool and promised nodes first."""
    base = cluster * len(lab.accounts)
    waiting, most = 0, most_free(board, cluster, True, 0)
    for account in range(1, len(lab.accounts)):
        queue = (base + account) * LANES + UNBUDGETED
        head = board.queues.head[queue]
        board.by_account.next_entry[base + account] = head
        if head != NONE and most > 0:
            know_list(lab, board, policy, cluster, queue)
            waiting += board.queues.least[queue] <= most
    looked, fail_gpus, started = 0, NO_LIMIT, False
    while waiting > 0 and looked < policy.depth and fail_gpus > 1:
        job = _next_unbudgeted(lab, board, cluster)
        if job == NONE:
            break
        looked += 1
        gpus = board.stays.gpus[job]
        if gpus >= fail_gpus or board.purses.waiting_on_limit[board.stays.account[job]]:
            continue
        if not within_limits(lab, board, job, gpus):
            continue
        if find_place(lab, board, policy, cluster, job, now_s):
            start_here(lab, board, policy, cluster, job, BY_UNBUDGETED, now_s)
            started = True
        elif lab.jobs.gpu_type[job] == NONE and gpus <= lab.clusters.node_gpus[cluster]:
            fail_gpus = gpus
    look_again(board, waiting > 0 and fail_gpus > 1 and looked >= policy.depth, started)
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
    most = most_free(board, cluster, lane == QUICK, gone_s(board, policy, row, lane, now_s))
    if board.queues.least[queue] > most or _beyond_base(board, row, board.queues.few[queue]) > spare:
        return 0.0
    entry = board.queues.head[queue]
    looked, lent, rows, started = 0, 0.0, board.standings, False
    no_saver = reach(board, policy, cluster, row, 0, rows.base[row] + rows.bound[row])
    fail_gpus, fail_s = NO_LIMIT, 0
    while entry != NONE and looked < policy.depth:
        job = board.entries.job[entry]
        entry = board.entries.next[entry]
        gpus = board.stays.gpus[job]
        looked += 1
        done = PASSED
        needed = room_needed(lab, cluster, gpus)
        for_s = protection_s(policy, lab.jobs.min_runtime_s[job])
        if needed <= most and (gpus < fail_gpus or for_s < fail_s):
            more = _beyond_base(board, row, gpus)
            if lent + more <= spare:
                done = _lend(lab, board, policy, cluster, row, job, now_s)
            if done == STARTED:
                started = True
                lent += more
                most = most_free(board, cluster, lane == QUICK, gone_s(board, policy, row, lane, now_s))
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
            if stays.phase[job] != RUNNING or not stays.budgeted[job] or stays.noticed[job]:
                continue
            ends_s = stays.protected_until_s[job]
            if ends_s <= now_s or ends_s > now_s + 2 * policy.notice_s:
                continue
            row = cluster * len(lab.accounts) + stays.account[job]
            challenger = second_job if row == first_row else first_job
            gpus = stays.gpus[job]
            bound = board.standings.target[row] - slack(board, policy, cluster, row, gpus)
            if challenger != NONE and board.standings.running[row] - gpus >= bound:
                notice(board, job, challenger, ends_s, now_s)
