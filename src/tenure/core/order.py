"""S6, S8: what is due, the targets that flow down the tree, and the order in which accounts are asked.

In one paragraph: every account has a target, in GPUs: its entitlement, or what flows to it from siblings
that cannot use theirs, plus what the lookback still owes it, repaid over two days and bounded; credit is
called back only as far as others are in debt, inside its parent first. Children are asked by their ratio
of use to entitlement, smallest first, at every level.
"""

from __future__ import annotations

from tenure.core.board import BUDGETED, LANES, QUICK
from tenure.core.columns import UGPU, WHOLE
from tenure.core.kernel import kernel
from tenure.core.policy import Order
from tenure.core.usage import in_gpu_s, set_due, set_entitled
from tenure.core.words import NEVER_S, NONE

FAR = 1e300  #: ratio of an account that is entitled to nothing: it ranks last
WINDOW = Order.WINDOW


@kernel
def most_slack(board, policy, cluster, standing):
    """By how many GPUs a job of any size may exceed its account's target."""
    bound = policy.round_bound_gpus
    if bound < 0:
        bound = board.scenes.bound_gpus[cluster]
    tenth = board.standings.entitled_ugpu[standing] / (10.0 * UGPU)
    return max(float(bound), tenth)


@kernel
def slack(board, policy, cluster, standing, gpus):
    """By how many GPUs one job may exceed its account's target: rounding to the nearest job."""
    return min(policy.round_pm / 1000.0 * gpus, most_slack(board, policy, cluster, standing))


@kernel
def reach(board, policy, cluster, standing, held, top):
    """GPUs of the largest job that, beside `held` GPUs, rounds to `top`: so do smaller ones, none larger."""
    over = top - held
    most = over + most_slack(board, policy, cluster, standing)
    if policy.round_pm < 1000:
        most = min(most, over * 1000.0 / (1000.0 - policy.round_pm))
    gpus = max(0, int(most) + 1)  # one more than the quotient says, so that no rounding can hide one
    while gpus > 0 and held + gpus > top + slack(board, policy, cluster, standing, gpus):
        gpus -= 1
    return gpus


@kernel
def entitle(lab, board, policy, cluster, now_s):
    """S1: entitlements are shares of the healthy GPUs of this moment; writes them down the tree."""
    n = len(lab.accounts)
    base = cluster * n
    set_entitled(board, policy, base, board.scenes.healthy[cluster] * UGPU, now_s)
    for account in range(1, n):
        above = board.standings.entitled_ugpu[base + lab.accounts.parent[account]]
        set_entitled(board, policy, base + account, above * board.shares[cluster, account] // WHOLE, now_s)
    board.scenes.dirty[cluster] = True


@kernel
def _sum_demand(lab, board, cluster):
    """Demand of inner accounts, and every demand capped at its hard limit (S9); writes `demand`."""
    n = len(lab.accounts)
    base = cluster * n
    rows = board.standings
    for account in range(n):
        if lab.accounts.first_child[account] != NONE:
            rows.demand[base + account] = 0
    for account in range(n - 1, 0, -1):
        wanted = min(rows.demand[base + account], lab.accounts.max_gpus[account])
        rows.demand[base + lab.accounts.parent[account]] += wanted


@kernel
def _capped_demand_ugpu(lab, board, base, account):
    return min(board.standings.demand[base + account], lab.accounts.max_gpus[account]) * UGPU


@kernel
def _pour(lab, board, policy, base, account, left, alike, now_s):
    """Share out `left` micro-GPUs among the open children of an account, each capped at demand.

    Weights are their entitlements, those without one left out; or all one (`alike`). Who is served is
    closed; gives what is left.
    """
    rows = board.standings
    weights = 0.0
    child = lab.accounts.first_child[account]
    while child != NONE:
        if rows.open[base + child]:
            weights += 1 if alike else rows.entitled_ugpu[base + child]
        child = lab.accounts.next_sibling[child]
    closing = True
    while closing and weights > 0.0:
        closing = False
        level = left / weights
        child = lab.accounts.first_child[account]
        while child != NONE:
            row = base + child
            weight = 1 if alike else rows.entitled_ugpu[row]
            wanted = _capped_demand_ugpu(lab, board, base, child)
            if rows.open[row] and weight > 0 and wanted <= level * weight:
                rows.open[row] = False
                left -= wanted
                weights -= weight
                set_due(board, policy, row, wanted, now_s)
                closing = True
            child = lab.accounts.next_sibling[child]
    level = left / weights if weights > 0.0 else 0.0
    child = lab.accounts.first_child[account]
    while child != NONE:
        row = base + child
        weight = 1 if alike else rows.entitled_ugpu[row]
        if rows.open[row] and weight > 0:
            set_due(board, policy, row, max(0, int(level * weight)), now_s)
            rows.open[row], left = False, 0.0
        child = lab.accounts.next_sibling[child]
    return left


@kernel
def _flow_to_children(lab, board, policy, base, account, now_s):
    """Share out what is due to an inner account among its children by entitlement, capped at demand.

    What all that have a share leave goes to those of share 0, in equal parts.
    """
    rows = board.standings
    child = lab.accounts.first_child[account]
    while child != NONE:
        rows.open[base + child] = True
        child = lab.accounts.next_sibling[child]
    left = _pour(lab, board, policy, base, account, float(rows.due_ugpu[base + account]), False, now_s)
    _pour(lab, board, policy, base, account, left, True, now_s)


@kernel
def settle_due(lab, board, policy, cluster, now_s):
    """S8: what a child cannot use is its siblings' first and leaves the parent last; the root keeps its own.

    Children of the root get the less of demand and entitlement: what they leave is for unbudgeted work.
    """
    n = len(lab.accounts)
    base = cluster * n
    _sum_demand(lab, board, cluster)
    for account in range(1, n):
        if lab.accounts.parent[account] == 0:
            wanted = _capped_demand_ugpu(lab, board, base, account)
            set_due(
                board,
                policy,
                base + account,
                min(wanted, board.standings.entitled_ugpu[base + account]),
                now_s,
            )
        if lab.accounts.first_child[account] != NONE:
            _flow_to_children(lab, board, policy, base, account, now_s)
    board.scenes.dirty[cluster] = False


@kernel
def _read_windows(lab, board, policy, cluster, now_s):
    """Debt and ratio of every account: leaves from their windows, inner ones as sums below."""
    n = len(lab.accounts)
    base = cluster * n
    rows = board.standings
    for account in range(n):
        if lab.accounts.first_child[account] != NONE:
            rows.debt[base + account] = 0.0
            rows.ratio[base + account] = 0.0
            rows.oldest_s[base + account] = NEVER_S
    for account in range(n - 1, 0, -1):
        row = base + account
        used, owed, titled = in_gpu_s(board, policy, row, now_s)
        if lab.accounts.first_child[account] == NONE:
            rows.debt[row] = owed - used
            rows.oldest_s[row] = _oldest_waiting_s(board, row)
        else:
            used = rows.ratio[row]  # the sum of use below, gathered by the lines that follow
        above = base + lab.accounts.parent[account]
        rows.debt[above] += rows.debt[row]
        rows.ratio[above] += used
        rows.oldest_s[above] = min(rows.oldest_s[above], rows.oldest_s[row])
        rows.ratio[row] = used / titled if titled > 0.0 else FAR


@kernel
def _oldest_waiting_s(board, standing):
    oldest_s = NEVER_S
    for lane in range(QUICK, BUDGETED + 1):
        entry = board.queues.head[standing * LANES + lane]
        if entry != NONE:
            oldest_s = min(oldest_s, board.stays.submit_s[board.entries.job[entry]])
    return oldest_s


@kernel
def _call_back(lab, board, base, account):
    """Credit is called back only as far as siblings are in debt, or the parent's own credit is called."""
    rows = board.standings
    owing = rows.called[base + account]
    credit = 0.0
    child = lab.accounts.first_child[account]
    while child != NONE:
        owing += max(0.0, rows.debt[base + child])
        credit += max(0.0, -rows.debt[base + child])
        child = lab.accounts.next_sibling[child]
    part = 0.0 if credit <= 0.0 else min(1.0, owing / credit)
    child = lab.accounts.first_child[account]
    while child != NONE:
        rows.called[base + child] = part * max(0.0, -rows.debt[base + child])
        child = lab.accounts.next_sibling[child]


@kernel
def set_targets(lab, board, policy, cluster, now_s):
    """S8: target = max(entitlement, due) + debt (or minus called credit) repaid over two days, bounded."""
    n = len(lab.accounts)
    base = cluster * n
    rows = board.standings
    _read_windows(lab, board, policy, cluster, now_s)
    board.scenes.stirred[cluster] = True
    rows.called[base] = 0.0
    bound_gpus = policy.repay_bound_gpus
    if bound_gpus < 0:
        bound_gpus = board.scenes.bound_gpus[cluster]
    for account in range(n):
        row = base + account
        if lab.accounts.first_child[account] != NONE:
            _call_back(lab, board, base, account)
        entitled = rows.entitled_ugpu[row] / UGPU
        rows.base[row] = max(entitled, rows.due_ugpu[row] / UGPU)
        rows.bound[row] = (
            max(policy.repay_bound_pm / 1000.0 * entitled, float(bound_gpus)) if entitled > 0.0 else 0.0
        )
        owing = rows.debt[row] if rows.debt[row] > 0.0 else -rows.called[row]
        repaid = owing / policy.repay_s
        rows.target[row] = rows.base[row] + min(rows.bound[row], max(-rows.bound[row], repaid))


@kernel
def _before(board, one, other):
    """S6: smaller ratio first; then the older waiting job; then the order of the lab."""
    rows = board.standings
    if rows.ratio[one] != rows.ratio[other]:
        return rows.ratio[one] < rows.ratio[other]
    if rows.oldest_s[one] != rows.oldest_s[other]:
        return rows.oldest_s[one] < rows.oldest_s[other]
    return one < other


@kernel
def _sort_children(board, parent):
    """Insertion into a chain: nearly sorted since the last turn, so nearly linear."""
    rows = board.standings
    child = rows.first_sorted[parent]
    head, tail = NONE, NONE
    while child != NONE:
        following = rows.next_sorted[child]
        if head == NONE:
            head, tail = child, child
            rows.next_sorted[child] = NONE
        elif not _before(board, child, tail):
            rows.next_sorted[tail] = child
            rows.next_sorted[child] = NONE
            tail = child
        elif _before(board, child, head):
            rows.next_sorted[child] = head
            head = child
        else:
            place = head
            while not _before(board, child, rows.next_sorted[place]):
                place = rows.next_sorted[place]
            rows.next_sorted[child] = rows.next_sorted[place]
            rows.next_sorted[place] = child
        child = following
    rows.first_sorted[parent] = head


@kernel
def set_walk(lab, board, cluster):
    """S6: leaves in the order of the tree walk, best child first; writes `walk`, gives how many."""
    n = len(lab.accounts)
    base = cluster * n
    rows = board.standings
    for account in range(n):
        if lab.accounts.first_child[account] != NONE:
            _sort_children(board, base + account)
    count = 0
    row = rows.first_sorted[base]
    while row != NONE:
        if rows.first_sorted[row] == NONE:
            board.walk[count] = row
            count += 1
            while row != base and rows.next_sorted[row] == NONE:
                row = base + lab.accounts.parent[row - base]
            row = NONE if row == base else rows.next_sorted[row]
        else:
            row = rows.first_sorted[row]
    return count


@kernel
def settle(lab, board, policy, cluster, now_s):
    """All that the passes of a turn need to know of accounts; gives the number of leaves in `walk`."""
    if board.scenes.dirty[cluster]:
        settle_due(lab, board, policy, cluster, now_s)
    set_targets(lab, board, policy, cluster, now_s)
    return set_walk(lab, board, cluster)
