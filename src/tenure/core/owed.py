"""Budgeted work within its target: the quick lane, the accounts in order, savers, and plans for gangs."""

from __future__ import annotations

from tenure.core.board import BUDGETED, LANES, QUICK
from tenure.core.claims import is_below, take_place, within_limits, within_one_limit
from tenure.core.columns import UGPU
from tenure.core.contract import loss_gpu_s, lost_gpu_s, protection_s
from tenure.core.depths import (
    NO_LIMIT,
    fits_target,
    is_fruitless,
    is_hopeless_quick,
    largest_own,
    look_again,
    plain_up_to,
    price_of,
)
from tenure.core.fit import could_ever_fit, find_place
from tenure.core.in_vain import (
    finds_nothing,
    forget_failures,
    forget_places,
    is_hopeless,
    may_have_place,
    no_place,
    no_victims,
    note_failure,
    note_no_place,
)
from tenure.core.kernel import kernel
from tenure.core.lifecycle import start
from tenure.core.order import WINDOW, reach, slack
from tenure.core.plan_gang import plan, unplan
from tenure.core.say import say
from tenure.core.victims import drop_picks, find_node_to_clear, find_nodes_to_clear
from tenure.core.waiting import lane_of
from tenure.core.words import NEVER_S, NONE, Happened, Kind, Phase, Rule

RUNNING, STOPPING, SESSION = int(Phase.RUNNING), int(Phase.STOPPING), int(Kind.SESSION)
OWED, BY_QUICK, PLANNED, SAVED_UP = int(Rule.OWED), int(Rule.QUICK), int(Rule.PLANNED), int(Rule.SAVED_UP)
AT_HEAD = int(Happened.FIRST_AT_HEAD)
PASSED, STARTED, BLOCKS = (
    0,
    1,
    2,
)  #: a job was passed over; has its place now; holds its account's later work up


@kernel
def start_here(lab, board, policy, cluster, job, rule, now_s):
    """Start on the place that `find_place` has set; a promise it had is kept early."""
    if board.stays.plan[job] != NONE:
        unplan(lab, board, board.stays.plan[job], False, now_s)
    start(lab, board, policy, job, cluster, rule, now_s)


@kernel
def find_to_clear(lab, board, policy, cluster, job, now_s):
    """Least loss for a claimant of any size: (victims in `picked`, loss). Sets `stays.node` and `n_nodes`."""
    stays = board.stays
    if stays.gpus[job] <= lab.clusters.node_gpus[cluster]:
        node, n, loss = find_node_to_clear(lab, board, policy, cluster, job, now_s)
        if node == NONE:
            return -1, loss
        stays.node[job], stays.n_nodes[job] = node, 1
        return n, loss
    need, n, loss = find_nodes_to_clear(lab, board, policy, cluster, job, now_s)
    if need == 0:
        return -1, loss
    stays.node[job], stays.n_nodes[job] = board.chosen[0], need
    return n, loss


@kernel
def is_overdue(board, policy, row):
    """Whether an account is owed more than a small part of what a lookback entitles it to.

    That is no matter of timing any more: shapes have kept its jobs out.
    """
    entitled = board.standings.entitled_ugpu[row] / UGPU
    return board.standings.debt[row] * 1000.0 > policy.plan_debt_pm * entitled * policy.lookback_s


@kernel
def _is_patient(lab, board, policy, cluster, job, n, now_s):
    """A set `picked[:n]` that loses much waits for a cheaper moment, save for quick jobs and gangs.

    What counts is work lost: the toll for earlier stops (`loss_gpu_s`) gets no cheaper by waiting.
    """
    stays = board.stays
    if stays.quick[job] or stays.gpus[job] > board.scenes.plan_above[cluster]:
        return False
    if is_overdue(board, policy, cluster * len(lab.accounts) + stays.account[job]):
        return False
    lost = 0.0
    for k in range(n):
        if lab.jobs.kind[board.picked[k]] == SESSION:  # who takes one has waited two hours for it
            return False
        lost += lost_gpu_s(lab, board, board.picked[k], now_s)
    if lost <= float(policy.patience_loss_s) * stays.gpus[job]:
        return False
    if stays.patient_s[job] == NEVER_S:
        stays.patient_s[job] = now_s
    return now_s - stays.patient_s[job] < policy.patience_s


@kernel
def own_after_s(lab, board, cluster, account, at_s):
    """GPUs of the account's own attempts still protected after that instant."""
    held = 0
    first = lab.clusters.first_node[cluster]
    stays = board.stays
    for node in range(first, first + lab.clusters.n_nodes[cluster]):
        for k in range(board.posts.n_jobs[node]):
            job = board.on_node[node, k]
            if stays.account[job] == account and stays.budgeted[job] and stays.node[job] == node:
                if stays.phase[job] == RUNNING and stays.protected_until_s[job] > at_s:
                    held += stays.gpus[job]
    return held


@kernel
def _all_spoil(lab, board, policy, cluster, row, lane, now_s):
    """Whether even the smallest and shortest job of a known list would spoil its account's promise."""
    own = board.standings.plan[row]
    if own == NONE or now_s + board.queues.least_s[row * LANES + lane] <= board.plans.at_s[own]:
        return False
    return _exceeds_at_date(lab, board, policy, cluster, row, board.queues.few[row * LANES + lane])


@kernel
def _exceeds_at_date(lab, board, policy, cluster, row, gpus):
    """Whether the account's planned gang would exceed its pinned target at its date beside new work."""
    own = board.standings.plan[row]
    gang = board.plans.job[own]
    room = board.plans.target[own] + slack(board, policy, cluster, row, board.stays.gpus[gang])
    more = board.stays.gpus[gang] + gpus
    if board.standings.protected[row] + more <= room:  # all of it, whenever it ends
        return False
    if board.standings.after[row] == 0:
        account = row - cluster * len(lab.accounts)
        board.standings.after[row] = 1 + own_after_s(lab, board, cluster, account, board.plans.at_s[own])
    return board.standings.after[row] - 1 + more > room


@kernel
def spoils_own_promise(lab, board, policy, cluster, row, job, now_s):
    """S17: own new work must not make the account's planned gang exceed its pinned target at its date."""
    own = board.standings.plan[row]
    if own == NONE or board.plans.job[own] == job:
        return False
    if now_s + protection_s(policy, lab.jobs.min_runtime_s[job]) <= board.plans.at_s[own]:
        return False
    return _exceeds_at_date(lab, board, policy, cluster, row, board.stays.gpus[job])


@kernel
def has_saved(lab, board, policy, cluster, row, job):
    """S8: the job is larger than its account's target, and the debt covers its price."""
    gpus, debt = board.stays.gpus[job], board.standings.debt[row]
    if gpus <= board.standings.target[row] + slack(board, policy, cluster, row, gpus):
        return False
    for_s = protection_s(policy, lab.jobs.min_runtime_s[job])
    return debt > 0.0 and debt >= price_of(board, policy, row, gpus, for_s)


@kernel
def must_save(board, policy, cluster, row, job):
    """S8: larger than any target its account can have."""
    gpus = board.stays.gpus[job]
    rows = board.standings
    return gpus > rows.base[row] + rows.bound[row] + slack(board, policy, cluster, row, gpus)


@kernel
def _note_head(lab, board, cluster, row, job, now_s):
    """Tell once when a job that gets a plan comes to the head of its account."""
    stays = board.stays
    if stays.at_head[job] or board.standings.running[row] >= board.standings.target[row]:
        return
    if largest_own(lab, board, cluster, row) < stays.gpus[job]:
        stays.at_head[job] = True
        say(board, AT_HEAD, job, now_s)


@kernel
def _try_plan(lab, board, policy, cluster, row, job, now_s):
    """S17: a gang first in its account's order that does not fit gets a date."""
    if board.standings.plan[row] != NONE or board.scenes.n_plans[cluster] >= policy.max_plans:
        return False
    gpus = board.stays.gpus[job]
    if board.stays.saved[job] or policy.order == WINDOW:
        return plan(lab, board, policy, cluster, job, -1, SAVED_UP, now_s)
    room = board.standings.target[row] + slack(board, policy, cluster, row, gpus) - gpus
    if room < 0 or largest_own(lab, board, cluster, row) >= gpus:
        return False
    own_room = int(room) if policy.wait_for_own else -1
    return plan(lab, board, policy, cluster, job, own_room, PLANNED, now_s)


@kernel
def _make_own_way(lab, board, policy, cluster, job, now_s):
    """S9: under a hard limit the account's own unbudgeted work makes way, least loss first."""
    stays = board.stays
    account = stays.account[job]
    while account != NONE and within_one_limit(lab, board, account, stays.gpus[job]):
        account = lab.accounts.parent[account]
    if account == NONE:
        return False
    over = board.purses.held[account] + stays.gpus[job] - lab.accounts.max_gpus[account]
    if board.purses.unbudgeted[account] < over or not find_place(lab, board, policy, cluster, job, now_s):
        return False
    n, freed = 0, 0
    board.counts.stamp[0] += 1
    while freed < over:
        victim = _cheapest_unbudgeted(lab, board, policy, cluster, account, now_s)
        if victim == NONE:
            return False
        board.by_job.stamp[victim] = board.counts.stamp[0]
        board.picked[n] = victim
        freed += stays.gpus[victim]
        n += 1
    forget_places(board, cluster * len(lab.accounts) + stays.account[job])
    take_place(lab, board, policy, cluster, job, n, OWED, now_s)
    return True


@kernel
def _cheapest_unbudgeted(lab, board, policy, cluster, above, now_s):
    best, best_loss = NONE, 1e300
    first = lab.clusters.first_node[cluster]
    stays = board.stays
    for node in range(first, first + lab.clusters.n_nodes[cluster]):
        for k in range(board.posts.n_jobs[node]):
            job = board.on_node[node, k]
            if (
                stays.budgeted[job]
                or stays.phase[job] != RUNNING
                or not is_below(lab, stays.account[job], above)
            ):
                continue
            loss = loss_gpu_s(lab, board, policy, job, now_s) / stays.gpus[job]
            if loss < best_loss and board.by_job.stamp[job] != board.counts.stamp[0]:
                best, best_loss = job, loss
    return best


@kernel
def fit_or_clear(lab, board, policy, cluster, job, rule, now_s):
    """Start on free GPUs, else claim against the least loss: STARTED, or PASSED and nobody is stopped."""
    row = cluster * len(lab.accounts) + board.stays.account[job]
    if may_have_place(lab, board, policy, cluster, row, job):
        if find_place(lab, board, policy, cluster, job, now_s):
            forget_places(board, row)
            start_here(lab, board, policy, cluster, job, rule, now_s)
            return STARTED
        note_no_place(lab, board, policy, cluster, row, job)
    if is_hopeless(lab, board, policy, row, job):
        return PASSED
    n, _ = find_to_clear(lab, board, policy, cluster, job, now_s)
    if n < 0:
        note_failure(lab, board, policy, row, job)
        return PASSED
    if _is_patient(lab, board, policy, cluster, job, n, now_s):
        drop_picks(lab, board, 0, n)
        return PASSED
    forget_places(board, row)
    take_place(lab, board, policy, cluster, job, n, rule, now_s)
    return STARTED


@kernel
def _plan_if_due(lab, board, policy, cluster, job, first_gang, within, now_s):
    """S17: a gang at the head, a job that has saved up, or one whose account is overdue gets a date."""
    stays, rows = board.stays, board.standings
    if stays.plan[job] != NONE:
        return
    row = cluster * len(lab.accounts) + stays.account[job]
    at_head = first_gang and stays.gpus[job] > board.scenes.plan_above[cluster]
    at_head = at_head and (policy.order == WINDOW or rows.running[row] < rows.target[row])
    if rows.plan[row] != NONE or board.scenes.n_plans[cluster] >= policy.max_plans:
        return
    if at_head or stays.saved[job] or (within and is_overdue(board, policy, row)):
        _try_plan(lab, board, policy, cluster, row, job, now_s)


@kernel
def _owed_job(lab, board, policy, cluster, row, job, first_gang, now_s):
    """One waiting job of an account in turn: PASSED, STARTED or BLOCKS."""
    stays = board.stays
    gpus = stays.gpus[job]
    within = policy.order == WINDOW or fits_target(board, policy, cluster, row, gpus)
    if not within and not stays.saved[job] and has_saved(lab, board, policy, cluster, row, job):
        stays.saved[job] = could_ever_fit(lab, board, cluster, job)
        board.queues.least[row * LANES + lane_of(board, job)] = 0
    if first_gang and gpus > board.scenes.plan_above[cluster]:
        _note_head(lab, board, cluster, row, job, now_s)
    if not within_limits(lab, board, job, gpus):
        if within and _make_own_way(lab, board, policy, cluster, job, now_s):
            return STARTED
        board.purses.waiting_on_limit[stays.account[job]] = True
        return PASSED
    if within or stays.saved[job]:
        if spoils_own_promise(lab, board, policy, cluster, row, job, now_s):
            return PASSED
        if not finds_nothing(lab, board, policy, cluster, row, job):
            if fit_or_clear(lab, board, policy, cluster, job, OWED, now_s) == STARTED:
                return STARTED
    _plan_if_due(lab, board, policy, cluster, job, first_gang, within, now_s)
    if policy.order != WINDOW and must_save(board, policy, cluster, row, job) and not stays.saved[job]:
        if could_ever_fit(lab, board, cluster, job):
            return BLOCKS
    return PASSED


@kernel
def _plan_head(lab, board, policy, cluster, row, now_s):
    """S17: an account at its target swaps its own smaller work for the gang that is first in its order."""
    entry = board.queues.head[row * LANES + BUDGETED]
    if entry == NONE or board.standings.plan[row] != NONE:
        return
    job = board.entries.job[entry]
    gpus = board.stays.gpus[job]
    if gpus > board.scenes.plan_above[cluster] and within_limits(lab, board, job, 0):
        _try_plan(lab, board, policy, cluster, row, job, now_s)


@kernel
def _is_full(board, policy, row):
    """At its target: not even one more GPU would round to it."""
    return policy.order != WINDOW and board.standings.running[row] + 0.5 > board.standings.target[row]


@kernel
def _calm_up_to(lab, board, policy, cluster, row, queue, overdue):
    """GPUs up to which a job within the target that finds no place changes nothing.

    It gets no promise, and no limit has to be told.
    """
    head = board.queues.head[queue]
    if head == NONE or not within_limits(lab, board, board.entries.job[head], board.queues.many[queue]):
        return 0
    if overdue and board.standings.plan[row] == NONE and board.scenes.n_plans[cluster] < policy.max_plans:
        return largest_own(lab, board, cluster, row)  # `_try_plan`: a larger job may get one
    return NO_LIMIT


@kernel
def _is_ordinary(board, job):
    """It has neither saved up nor a promise."""
    return not board.stays.saved[job] and board.stays.plan[job] == NONE


@kernel
def _asks_as_it_is(lab, board, row, queue):
    """Whether what the known jobs of a list may take follows from their sizes and protections alone.

    None has saved up, and the account has no promise, on this cluster or another.
    """
    if board.queues.saved[queue]:
        return False
    n_accounts = len(lab.accounts)
    for cluster in range(len(lab.clusters)):
        if board.standings.plan[cluster * n_accounts + row % n_accounts] != NONE:
            return False
    return True


@kernel
def _owed_lane(lab, board, policy, cluster, row, lane, now_s):
    """One waiting list of an account, so deep, as long as it is below its target."""
    if board.queues.head[row * LANES + lane] == NONE:
        return
    overdue = is_overdue(board, policy, row)
    if is_fruitless(lab, board, policy, cluster, row, lane, overdue, now_s):
        return
    entry = board.queues.head[row * LANES + lane]
    calm = _calm_up_to(lab, board, policy, cluster, row, row * LANES + lane, overdue)
    alike = _asks_as_it_is(lab, board, row, row * LANES + lane)
    looked, first_gang, rows, started = 0, True, board.standings, False
    plain = plain_up_to(lab, board, policy, cluster, row, lane)
    fits = reach(board, policy, cluster, row, rows.running[row], rows.target[row])
    if plain > 0 and _all_spoil(lab, board, policy, cluster, row, lane, now_s):
        fits = 0
    while entry != NONE and looked < policy.depth:
        following, gpus, done = board.entries.next[entry], board.entries.gpus[entry], PASSED
        looked += 1
        skipped = gpus <= plain and (alike or _is_ordinary(board, board.entries.job[entry]))
        if skipped and gpus <= fits:
            for_s = protection_s(policy, board.entries.min_runtime_s[entry])
            skipped = gpus <= calm and no_victims(board, row, gpus, for_s)
            typed = board.entries.typed[entry]
            skipped = skipped and no_place(lab, board, cluster, row, gpus, for_s, typed)
        if not skipped:
            job = board.entries.job[entry]
            done = _owed_job(lab, board, policy, cluster, row, job, first_gang, now_s)
            if done == STARTED:
                started = True
                calm = _calm_up_to(lab, board, policy, cluster, row, row * LANES + lane, overdue)
                fits = reach(board, policy, cluster, row, rows.running[row], rows.target[row])
        if gpus > lab.clusters.node_gpus[cluster] and done != STARTED:
            first_gang = False
        if done == BLOCKS or (done == STARTED and _is_full(board, policy, row)):
            break
        entry = following
    else:
        look_again(board, entry != NONE, started)
    board.counts.looked[0] += looked


@kernel
def pass_owed(lab, board, policy, cluster, leaves, now_s):
    """Accounts in order; in each its quick jobs first, then its own order."""
    for k in range(leaves):
        row = board.walk[k]
        if _is_full(board, policy, row):
            _plan_head(lab, board, policy, cluster, row, now_s)
            continue
        forget_failures(board, row)
        _owed_lane(lab, board, policy, cluster, row, QUICK, now_s)
        _owed_lane(lab, board, policy, cluster, row, BUDGETED, now_s)


@kernel
def quick_allowed(board, policy, cluster, row, gpus):
    """An account's quick jobs run up to a bound of their own, or within its target."""
    rows = board.standings
    bound = policy.quick_bound_gpus
    if bound < 0:
        bound = board.scenes.bound_gpus[cluster]
    if rows.quick[row] + gpus <= max(float(bound), rows.entitled_ugpu[row] / (10.0 * UGPU)):
        return True
    return fits_target(board, policy, cluster, row, gpus)


@kernel
def pass_quick(lab, board, policy, cluster, leaves, now_s):
    """The quick lane: short small jobs first; none stops another, nor anybody once stopped."""
    queues, entries = board.queues, board.entries
    for k in range(leaves):
        row = board.walk[k]
        entry = queues.head[row * LANES + QUICK]
        looked, waiting = 0, queues.n[row * LANES + QUICK]
        if is_hopeless_quick(lab, board, policy, cluster, row, now_s):
            continue
        forget_failures(board, row)
        while entry != NONE and looked < policy.depth:
            following = entries.next[entry]
            job = entries.job[entry]
            gpus = board.stays.gpus[job]
            looked += 1
            if quick_allowed(board, policy, cluster, row, gpus) and within_limits(lab, board, job, gpus):
                if board.stays.evicted[job]:
                    if find_place(lab, board, policy, cluster, job, now_s):
                        start_here(lab, board, policy, cluster, job, BY_QUICK, now_s)
                else:
                    fit_or_clear(lab, board, policy, cluster, job, BY_QUICK, now_s)
            entry = following
        look_again(board, entry != NONE, queues.n[row * LANES + QUICK] < waiting)
        board.counts.looked[0] += looked
