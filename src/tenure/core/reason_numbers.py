"""S21: the numbers of a reason, as "have of need", and the instant by which it is known to pass.

One unit a reason: GPUs, save for RESTING and PATIENCE (seconds), SAVING_UP (GPU-seconds), PROMISED (nodes)
and HELD (one word from a person, not given). The instant is NEVER_S where only the future can tell.
"""

from __future__ import annotations

from tenure.core.board import BUDGETED, LANES
from tenure.core.columns import UGPU
from tenure.core.contract import protection_s, rule_to_take
from tenure.core.fit import find_place, node_size_for, suits
from tenure.core.kernel import kernel
from tenure.core.order import slack
from tenure.core.places import gpus_on
from tenure.core.plan_gang import earliest_promise_s
from tenure.core.reasons import (
    BEHIND_OWN,
    CANNOT_FIT,
    CLAIMING,
    CLOSING,
    HELD,
    HELD_FOR_GANG,
    NO_PLACE,
    ORDER,
    OVER_TARGET,
    OWN_LIMIT,
    PATIENCE,
    PROMISED,
    RESTING,
    SAVING_UP,
    SHAPE,
    free_gpus,
    last_in_the_way,
    most_if_empty,
    someone_to_stop,
    stands_before,
)
from tenure.core.words import NEVER_S, NONE, Kind, Phase

RUNNING, STOPPING, SESSION = int(Phase.RUNNING), int(Phase.STOPPING), int(Kind.SESSION)


@kernel
def room_under_target(board, policy, cluster, row, job):
    """GPUs that its account may still take with this job, rounded to the nearest job."""
    rows = board.standings
    gap = rows.target[row] + slack(board, policy, cluster, row, board.stays.gpus[job]) - rows.running[row]
    return max(0, int(gap))


@kernel
def to_save_gpu_s(board, policy, lab, row, job):
    """(GPU-seconds its account must be owed before it gets a date, what it is owed now). See `has_saved`."""
    beyond = board.stays.gpus[job] - board.standings.base[row]
    cost = policy.saved_pm / 1000.0 * beyond * protection_s(policy, lab.jobs.min_runtime_s[job])
    most = board.standings.entitled_ugpu[row] / UGPU * policy.lookback_s / 2.0
    return max(1, int(min(cost, most))), max(0, int(board.standings.debt[row]))


@kernel
def gpus_clear(lab, board, job):
    """Of the GPUs a claim waits for, those that are free already."""
    stays, posts = board.stays, board.posts
    if stays.n_nodes[job] == 1:
        return min(stays.gpus[job], posts.free[stays.node[job]])
    node, clear = stays.node[job], 0
    for _ in range(stays.n_nodes[job]):
        clear += posts.free[node]
        node = posts.next_of_claim[node]
    return clear


@kernel
def nodes_clear(lab, board, row, now_s):
    """Of the nodes of a promise, those on which nothing is protected any more."""
    stays, posts = board.stays, board.posts
    node, clear = board.plans.first_node[row], 0
    for _ in range(board.plans.n_nodes[row]):
        latest_s = now_s
        for k in range(posts.n_jobs[node]):
            other = board.on_node[node, k]
            if stays.budgeted[other] and stays.phase[other] == RUNNING:
                latest_s = max(latest_s, stays.protected_until_s[other])
        clear += 1 if latest_s <= now_s else 0
        node = posts.next_of_plan[node]
    return clear


@kernel
def _place_for(lab, board, policy, cluster, job, gpus, now_s):
    """Whether a job as this one but of so many GPUs would find a place, stops included."""
    asked = board.stays.gpus[job]
    board.stays.gpus[job] = gpus
    found = find_place(lab, board, policy, cluster, job, now_s)
    if not found:
        found = someone_to_stop(lab, board, policy, cluster, job, now_s) != NONE
    board.stays.gpus[job] = asked
    return found


@kernel
def most_in_one_place(lab, board, policy, cluster, job, now_s):
    """The most GPUs, fewer than it asks for, for which a place could be made now."""
    gpus = board.stays.gpus[job]
    unit = max(1, node_size_for(lab, cluster, gpus))
    low, high = 0, gpus // unit - 1
    while low < high:
        middle = (low + high + 1) // 2
        if _place_for(lab, board, policy, cluster, job, middle * unit, now_s):
            low = middle
        else:
            high = middle - 1
    return low * unit


@kernel
def _room_by(lab, board, policy, node, job, at_s):
    """GPUs of the node that could be taken for the job at that instant, were all else as it is now."""
    stays, room = board.stays, board.posts.avail[node]
    for k in range(board.posts.n_jobs[node]):
        other = board.on_node[node, k]
        if stays.phase[other] != RUNNING:
            continue
        if rule_to_take(lab, board, policy, other, job, at_s) != 0:
            room += gpus_on(lab, board, other, node)
    return room


@kernel
def _node_by_s(lab, board, policy, node, job, now_s):
    """The first end of a protection on the node from which the job would find room there; NEVER_S if none."""
    stays, best_s = board.stays, NEVER_S
    for k in range(board.posts.n_jobs[node]):
        other = board.on_node[node, k]
        if stays.phase[other] != RUNNING:
            continue
        at_s = max(now_s, stays.protected_until_s[other] if stays.budgeted[other] else now_s)
        if lab.jobs.kind[other] == SESSION:
            at_s = max(at_s, stays.submit_s[job] + policy.session_patience_s)
        if at_s < best_s and _room_by(lab, board, policy, node, job, at_s) >= board.stays.gpus[job]:
            best_s = at_s
    return best_s


@kernel
def place_by_s(lab, board, policy, cluster, job, now_s):
    """From when on a place could be made, by protections alone; NEVER_S where they do not tell."""
    if board.stays.gpus[job] > lab.clusters.node_gpus[cluster]:
        at_s, _, _ = earliest_promise_s(lab, board, policy, cluster, job, -1, now_s)
        return at_s
    first, best_s = lab.clusters.first_node[cluster], NEVER_S
    for node in range(first, first + lab.clusters.n_nodes[cluster]):
        if board.posts.pool[node] and not board.stays.quick[job]:
            continue
        if lab.nodes.gpus[node] < board.stays.gpus[job] or not suits(lab, board, policy, node, job, now_s):
            continue
        best_s = min(best_s, _node_by_s(lab, board, policy, node, job, now_s))
    return best_s


@kernel
def gpus_before(lab, board, policy, cluster, job, leaves):
    """GPUs of the waiting jobs that would take any place first: of accounts ahead, or ahead in one list."""
    if not board.counts.one_list[0]:
        _, before, _ = stands_before(lab, board, policy, cluster, leaves, job)
        return before
    item, before = board.queues.head[cluster * len(lab.accounts) * LANES + BUDGETED], 0
    while item != NONE and board.entries.job[item] != job:
        before += board.stays.gpus[board.entries.job[item]]
        item = board.entries.next[item]
    return before


@kernel
def _of_place(lab, board, policy, cluster, job, spot, reason, now_s):
    """(need, have) where what is missing is a place, in GPUs."""
    gpus = board.stays.gpus[job]
    if reason == NO_PLACE:
        return gpus, most_in_one_place(lab, board, policy, cluster, job, now_s)
    total, together = free_gpus(lab, board, policy, cluster, job, now_s)
    if reason == ORDER:
        need = gpus + gpus_before(lab, board, policy, cluster, job, spot[0])
        return need, min(total, need - 1)
    return gpus, min(gpus, together if reason in (SHAPE, HELD_FOR_GANG, CLOSING) else total)


@kernel
def _of_time(board, policy, job, reason, now_s):
    """(need, have) of a wait that ends by itself, in seconds."""
    stays = board.stays
    if reason == RESTING:
        return stays.rest_until_s[job] - stays.since_s[job], now_s - stays.since_s[job]
    if stays.patient_s[job] != NEVER_S and now_s - stays.patient_s[job] < policy.patience_s:
        return policy.patience_s, now_s - stays.patient_s[job]
    return policy.session_patience_s, now_s - stays.submit_s[job]


@kernel
def numbers(lab, board, policy, cluster, job, spot, told, now_s):
    """(need, have) of the reason `told` = (Reason, evidence), both whole numbers of one unit."""
    reason, evidence = told
    gpus = board.stays.gpus[job]
    row = cluster * len(lab.accounts) + board.stays.account[job]
    if reason == HELD:
        return 1, 0
    if reason == RESTING or reason == PATIENCE:
        return _of_time(board, policy, job, reason, now_s)
    if reason == CANNOT_FIT:
        return gpus, min(gpus, most_if_empty(lab, board, cluster, job))
    if reason == OWN_LIMIT:
        return gpus, max(0, lab.accounts.max_gpus[evidence] - board.purses.held[evidence])
    if reason == CLAIMING:
        return gpus, gpus_clear(lab, board, job)
    if reason == PROMISED:
        return board.plans.n_nodes[board.stays.plan[job]], nodes_clear(
            lab, board, board.stays.plan[job], now_s
        )
    if reason == SAVING_UP:
        return to_save_gpu_s(board, policy, lab, row, job)
    if reason == BEHIND_OWN or reason == OVER_TARGET:
        return gpus, min(gpus, room_under_target(board, policy, cluster, row, job))
    return _of_place(lab, board, policy, cluster, job, spot, reason, now_s)


@kernel
def cleared_by_s(lab, board, policy, job, now_s):
    """By when the place of a claim is clear: the end of the last grace there (S15)."""
    last = last_in_the_way(lab, board, job)
    if last != NONE and board.stays.phase[last] == STOPPING:
        return max(now_s, board.stays.stop_s[last])
    return board.stays.since_s[job] + max(policy.grace_budgeted_s, policy.grace_unbudgeted_s)


@kernel
def known_by_s(lab, board, policy, cluster, job, reason, now_s):
    """The instant by which the reason passes, so far as protections and dates tell; NEVER_S: not known."""
    stays = board.stays
    if reason == RESTING:
        return stays.rest_until_s[job]
    if reason == PROMISED:
        return board.plans.at_s[stays.plan[job]]
    if reason == CLAIMING:
        return cleared_by_s(lab, board, policy, job, now_s)
    if reason == PATIENCE:
        if stays.patient_s[job] != NEVER_S and now_s - stays.patient_s[job] < policy.patience_s:
            return stays.patient_s[job] + policy.patience_s
        return stays.submit_s[job] + policy.session_patience_s
    if reason in (HELD_FOR_GANG, ORDER, NO_PLACE, CLOSING):
        if not board.counts.one_list[0]:
            return place_by_s(lab, board, policy, cluster, job, now_s)
    return NEVER_S
