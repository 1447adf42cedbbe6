"""Holds and promises coming due: S14 claims start as soon as they are clear, S17 promises are kept.

Also S19: what runs on a draining node leaves when its protection ends.
"""

from __future__ import annotations

from tenure.core.board import PLANS
from tenure.core.closing import close_nodes
from tenure.core.contract import (
    interruptible,
    longest_grace_s,
    loss_gpu_s,
    rule_to_take,
    safe_until_s,
)
from tenure.core.fit import ends_before_closing
from tenure.core.kernel import kernel
from tenure.core.lifecycle import claim, give_up_claim, notice, start, stop
from tenure.core.plan_gang import unplan
from tenure.core.pledges import kept_for_claims
from tenure.core.victims import AVOIDED, NOT_FOUND, drop_picks, pick
from tenure.core.words import NONE, Cause, NodeState, Phase, Rule

RUNNING, WAITING, STOPPING = int(Phase.RUNNING), int(Phase.WAITING), int(Phase.STOPPING)
UP, DRAINING = int(NodeState.UP), int(NodeState.DRAINING)
PREEMPTED, DRAIN = int(Cause.PREEMPTED), int(Cause.DRAIN)
FREE_WORK, DISPLACED, OWN_GANG = int(Rule.FREE_WORK), int(Rule.DISPLACED), int(Rule.OWN_GANG)
BY_DRAIN, BY_PLAN, OVER_LIMIT = int(Rule.DRAINING), int(Rule.PLANNED), int(Rule.OVER_LIMIT)


@kernel
def within_one_limit(lab, board, account, more_gpus):
    return board.purses.held[account] + more_gpus <= lab.accounts.max_gpus[account]


@kernel
def is_below(lab, account, above):
    """Whether `account` is `above` or below it. Rows are in depth-first order."""
    return above <= account <= above + lab.accounts.n_below[above]


@kernel
def within_limits(lab, board, job, more_gpus):
    """S9: neither its account nor any above would hold more than its hard limit."""
    account = board.stays.account[job]
    while account != NONE:
        if not within_one_limit(lab, board, account, more_gpus):
            return False
        account = lab.accounts.parent[account]
    return True


@kernel
def _is_in_its_place(board, job, victim):
    """Whether the victim holds GPUs of a node that the gang is to take: `chosen[:n_nodes]`."""
    node = board.stays.node[victim]
    for _ in range(board.stays.n_nodes[victim]):
        for k in range(board.stays.n_nodes[job]):
            if board.chosen[k] == node:
                return True
        node = board.posts.next_of_gang[node]
    return False


@kernel
def take_place(lab, board, policy, cluster, job, n_victims, rule, now_s):
    """S13, S14: stop `picked[:n_victims]` and claim the place (`stays.node`, `chosen`) for the job.

    Stops come first, so that each is judged with those before it already done.
    """
    drop_picks(lab, board, 0, n_victims)
    over_limit = rule != BY_PLAN and not within_limits(lab, board, job, board.stays.gpus[job])
    for k in range(n_victims):
        victim = board.picked[k]
        why = rule_to_take(lab, board, policy, victim, job, now_s)
        if over_limit or (rule == BY_PLAN and not _is_in_its_place(board, job, victim)):
            why = OVER_LIMIT
        if why == 0:  # part of a promise: smaller work of others, or its account's own
            mine = board.stays.account[victim] == board.stays.account[job]
            why = OWN_GANG if mine else DISPLACED
        stop(lab, board, policy, victim, PREEMPTED, job, why, now_s)
    if board.stays.plan[job] != NONE:
        unplan(lab, board, board.stays.plan[job], False, now_s)
    board.stays.rule[job] = rule
    claim(lab, board, job, cluster, rule, now_s)


@kernel
def _is_clear(lab, board, job):
    stays, posts = board.stays, board.posts
    if stays.n_nodes[job] == 1:
        node = stays.node[job]
        if posts.free[node] < stays.gpus[job]:
            return False
        if posts.pledged[node] == stays.gpus[job]:
            return True
        return posts.free[node] - kept_for_claims(lab, board, node, job) >= stays.gpus[job]
    node = stays.node[job]
    while node != NONE:
        if posts.free[node] < lab.nodes.gpus[node]:
            return False
        node = posts.next_of_claim[node]
    return True


@kernel
def _closes_too_early(lab, board, policy, job, now_s):
    """Whether a node of its place closes before its protection would end, started now."""
    node = board.stays.node[job]
    for _ in range(board.stays.n_nodes[job]):
        if not ends_before_closing(lab, board, policy, node, job, now_s):
            return True
        node = board.posts.next_of_claim[node]
    return False


@kernel
def pass_claims(lab, board, policy, cluster, now_s):
    """S14: start what is clear, oldest claim first; a hold that has lasted too long is given up."""
    longest_s = longest_grace_s(policy) + policy.hold_s
    k = 0
    while k < board.counts.n_claims[0]:
        job = board.claims[k]
        if board.stays.cluster[job] == cluster:
            closes = _closes_too_early(lab, board, policy, job, now_s)
            if not closes and _is_clear(lab, board, job) and within_limits(lab, board, job, 0):
                start(lab, board, policy, job, cluster, board.stays.rule[job], now_s)
                continue
            if closes or now_s >= board.stays.since_s[job] + longest_s:
                give_up_claim(lab, board, job, WAITING, now_s)
                continue
        k += 1


@kernel
def _give_notice(board, policy, node, by, from_s, now_s):
    """S15: what on this node may be stopped, at `from_s` or later, within two notices is told to save."""
    stays = board.stays
    for k in range(board.posts.n_jobs[node]):
        job = board.on_node[node, k]
        ends_s = max(from_s, stays.protected_until_s[job])
        if stays.phase[job] == RUNNING and stays.budgeted[job] and ends_s <= now_s + 2 * policy.notice_s:
            notice(board, job, by, ends_s, now_s)


@kernel
def pass_drains(lab, board, policy, cluster, now_s):
    """S19: a sick node is left by each attempt when its protection ends, whatever the ratios, with notice.

    So is one whose announced closing has come.
    """
    close_nodes(lab, board, policy, cluster, now_s)
    if board.scenes.n_sick[cluster] == 0 and board.scenes.n_closing[cluster] == 0:
        return
    first = lab.clusters.first_node[cluster]
    for node in range(first, first + lab.clusters.n_nodes[cluster]):
        if board.posts.state[node] == DRAINING:
            for k in range(board.posts.n_jobs[node]):
                job = board.on_node[node, k]
                if interruptible(board, job, DRAIN, now_s):
                    stop(lab, board, policy, job, DRAIN, NONE, BY_DRAIN, now_s)
            _give_notice(board, policy, node, NONE, now_s, now_s)
        elif board.posts.closed_s[node] <= now_s + 2 * policy.notice_s:
            _give_notice(board, policy, node, NONE, board.posts.closed_s[node], now_s)


@kernel
def _pick_on(lab, board, policy, node, taker, n, now_s):
    """Pick every running attempt of a promised node; n or -1 if one of them may not be stopped yet."""
    for k in range(board.posts.n_jobs[node]):
        job = board.on_node[node, k]
        if board.stays.phase[job] != RUNNING or board.by_job.stamp[job] == board.counts.stamp[0]:
            continue
        if not interruptible(board, job, PREEMPTED, now_s):
            return -1
        if now_s < safe_until_s(lab, board, policy, job, taker):
            return -1
        n = pick(lab, board, job, n)
    return n


@kernel
def _spare_needless(lab, board, policy, node, gpus, n, now_s):
    """A job smaller than its promised node stops no more than it needs: the dearest are let off."""
    room = board.posts.avail[node]
    for k in range(n):
        room += (
            board.stays.gpus[board.picked[k]]
            if board.stays.n_nodes[board.picked[k]] == 1
            else lab.nodes.gpus[node]
        )
    while True:
        dearest, loss = NONE, -1.0
        for k in range(n):
            job = board.picked[k]
            if board.stays.n_nodes[job] == 1 and room - board.stays.gpus[job] >= gpus:
                cost = loss_gpu_s(lab, board, policy, job, now_s)
                if cost > loss:
                    dearest, loss = k, cost
        if dearest == NONE:
            return n
        job = board.picked[dearest]
        room -= board.stays.gpus[job]
        board.picked[dearest] = board.picked[n - 1]
        board.picked[n - 1] = job
        n = drop_picks(lab, board, n - 1, n)


@kernel
def _over_limit(lab, board, job, n):
    """The first account above the job still over its limit once `picked[:n]` are gone; or NONE."""
    account = board.stays.account[job]
    while account != NONE:
        held = board.purses.held[account] + board.stays.gpus[job]
        for k in range(n):
            if is_below(lab, board.stays.account[board.picked[k]], account):
                held -= board.stays.gpus[board.picked[k]]
        if held > lab.accounts.max_gpus[account]:
            return account
        account = lab.accounts.parent[account]
    return NONE


@kernel
def _cheapest_own(lab, board, policy, cluster, taker, limited, now_s):
    """Work that makes way for a gang of its own account under a limit: unbudgeted first; or NONE."""
    stays = board.stays
    best, best_loss = NONE, NOT_FOUND
    first = lab.clusters.first_node[cluster]
    for node in range(first, first + lab.clusters.n_nodes[cluster]):
        for k in range(board.posts.n_jobs[node]):
            job = board.on_node[node, k]
            if stays.phase[job] != RUNNING or board.by_job.stamp[job] == board.counts.stamp[0]:
                continue
            if stays.budgeted[job]:
                if stays.account[job] != stays.account[taker] or stays.gpus[job] >= stays.gpus[taker]:
                    continue
            elif not is_below(lab, stays.account[job], limited):
                continue
            if now_s < safe_until_s(lab, board, policy, job, taker):
                continue
            loss = loss_gpu_s(lab, board, policy, job, now_s) / stays.gpus[job]
            loss += AVOIDED if stays.budgeted[job] else 0.0
            if loss < best_loss:
                best, best_loss = job, loss
    return best


@kernel
def _pick_under_limit(lab, board, policy, cluster, taker, n, now_s):
    """S9: add to `picked[:n]` until the gang is within its limits; how many then, or -1 if that cannot be."""
    start = n
    while True:
        limited = _over_limit(lab, board, taker, n)
        if limited == NONE:
            return n
        job = _cheapest_own(lab, board, policy, cluster, taker, limited, now_s)
        if job == NONE:
            drop_picks(lab, board, start, n)
            return -1
        n = pick(lab, board, job, n)


@kernel
def _keep_promise(lab, board, policy, row, now_s):
    """Its date has come: take its nodes, whatever the targets are by now, with no patience."""
    plans, stays, posts = board.plans, board.stays, board.posts
    job, cluster = plans.job[row], plans.cluster[row]
    board.counts.stamp[0] += 1
    node, n = plans.first_node[row], 0
    for k in range(plans.n_nodes[row]):
        board.chosen[k] = node
        picked = _pick_on(lab, board, policy, node, job, n, now_s)
        if picked < 0:
            drop_picks(lab, board, 0, n)
            return
        n = picked
        node = posts.next_of_plan[node]
    stays.n_nodes[job] = plans.n_nodes[row]
    stays.node[job] = plans.first_node[row]
    if stays.gpus[job] < lab.nodes.gpus[stays.node[job]]:
        n = _spare_needless(lab, board, policy, stays.node[job], stays.gpus[job], n, now_s)
    more = _pick_under_limit(lab, board, policy, cluster, job, n, now_s)
    if more < 0:
        drop_picks(lab, board, 0, n)
        return
    take_place(lab, board, policy, cluster, job, more, BY_PLAN, now_s)


@kernel
def _nodes_in_service(lab, board, policy, row, now_s):
    """Whether all its nodes are up, and will be as long as the promised job is protected."""
    node, job = board.plans.first_node[row], board.plans.job[row]
    start_s = max(now_s, board.plans.at_s[row]) + longest_grace_s(policy)
    for _ in range(board.plans.n_nodes[row]):
        if board.posts.state[node] != UP:
            return False
        if not ends_before_closing(lab, board, policy, node, job, start_s):
            return False
        node = board.posts.next_of_plan[node]
    return True


@kernel
def pass_promises(lab, board, policy, cluster, now_s):
    """S17: promises whose date has come are kept; those whose job left or whose node failed fall."""
    if board.scenes.n_plans[cluster] == 0:
        return
    for row in range(cluster * PLANS, cluster * PLANS + PLANS):
        if not board.plans.open[row]:
            continue
        if board.stays.phase[board.plans.job[row]] != WAITING or not _nodes_in_service(
            lab, board, policy, row, now_s
        ):
            unplan(lab, board, row, True, now_s)
        elif now_s >= board.plans.at_s[row]:
            _keep_promise(lab, board, policy, row, now_s)
        elif now_s >= board.plans.at_s[row] - 2 * policy.notice_s:
            node = board.plans.first_node[row]
            for _ in range(board.plans.n_nodes[row]):
                _give_notice(board, policy, node, board.plans.job[row], now_s, now_s)
                node = board.posts.next_of_plan[node]


__all__ = ["NOT_FOUND", "pass_claims", "pass_drains", "pass_promises", "take_place", "within_limits"]
