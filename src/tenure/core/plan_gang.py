"""S17: when can these N nodes be free together? A promise, made once and pinned.

Every attempt has an instant after which it may be interrupted; for a node that is the latest of them. The
promise is the first instant by which enough nodes, and enough of the account's own work, can be stopped.
Until then a promised node takes only work that is gone, or can be stopped, by then.
"""

from __future__ import annotations

from tenure.core.board import PLANS
from tenure.core.contract import longest_grace_s, loss_gpu_s, safe_until_s
from tenure.core.fit import ends_before_closing, needs_pool, node_size_for, rack_filled_first
from tenure.core.kernel import kernel
from tenure.core.order import WINDOW, slack
from tenure.core.places import rank
from tenure.core.room import recount
from tenure.core.say import say
from tenure.core.words import NEVER_S, NONE, Happened, NodeState, Phase

UP, RUNNING = int(NodeState.UP), int(Phase.RUNNING)
SAY_PLANNED, SAY_UNPLANNED = int(Happened.PLANNED), int(Happened.UNPLANNED)


@kernel
def _stays_legal_to_take(lab, board, policy, cluster, job, victim):
    """At its promise a gang may take unbudgeted work, smaller work of anybody, and work above its target.

    One that has saved up may also take work of any size of an account in credit (S12). By window order
    there is no target that would say that smaller work has room elsewhere: ratios decide.
    """
    stays, rows = board.stays, board.standings
    if not stays.budgeted[victim]:
        return True
    smaller = stays.gpus[victim] < stays.gpus[job]
    if stays.account[victim] == stays.account[job]:
        return smaller
    base = cluster * len(lab.accounts)
    owner = base + stays.account[victim]
    if policy.order == WINDOW:
        return rows.ratio[owner] > rows.ratio[base + stays.account[job]] + policy.window_margin_pm / 1000.0
    if smaller:
        return True
    if stays.saved[job] and rows.debt[owner] < 0.0:
        return True
    left = rows.running[owner] - stays.gpus[victim]
    return left >= rows.target[owner] - slack(board, policy, cluster, owner, stays.gpus[victim])


@kernel
def clear_from_s(lab, board, policy, cluster, job, node, now_s):
    """The instant from which the whole node can be taken for the job; NEVER_S if that is not known."""
    posts, stays = board.posts, board.stays
    if posts.state[node] != UP or posts.pledged[node] > 0:
        return NEVER_S
    if posts.plan[node] != NONE and board.plans.job[posts.plan[node]] != job:
        return NEVER_S
    if lab.jobs.gpu_type[job] != NONE and lab.jobs.gpu_type[job] != lab.nodes.gpu_type[node]:
        return NEVER_S
    latest_s = now_s
    for k in range(posts.n_jobs[node]):
        other = board.on_node[node, k]
        if stays.phase[other] != RUNNING:
            latest_s = max(latest_s, stays.stop_s[other])
            continue
        if not _stays_legal_to_take(lab, board, policy, cluster, job, other):
            return NEVER_S
        latest_s = max(latest_s, safe_until_s(lab, board, policy, other, job))
    if latest_s > now_s + max(policy.max_protected_s, policy.grace_budgeted_s):
        return NEVER_S  # a session to be waited for: no promise is further away than a protection
    return latest_s


@kernel
def _own_clear_s(lab, board, policy, cluster, job, room, now_s):
    """When enough of the account's own work is past its protection that the gang stays within its target.

    `room` is the most its own other work may hold then, GPUs. Walks its attempts through the nodes.
    """
    stays = board.stays
    account = stays.account[job]
    limit_s = now_s
    first = lab.clusters.first_node[cluster]
    while True:
        held, next_s = 0, NEVER_S
        for node in range(first, first + lab.clusters.n_nodes[cluster]):
            for k in range(board.posts.n_jobs[node]):
                other = board.on_node[node, k]
                if stays.account[other] != account or not stays.budgeted[other] or stays.node[other] != node:
                    continue
                if stays.phase[other] == RUNNING and stays.protected_until_s[other] > limit_s:
                    held += stays.gpus[other]
                    next_s = min(next_s, stays.protected_until_s[other])
        if held <= room or next_s == NEVER_S:
            return limit_s
        limit_s = next_s


@kernel
def _find_by_clear(lab, board, policy, cluster, job, size, now_s):
    """Candidates in `order`, with their instants in `by_node.clear_s`; gives how many."""
    n = 0
    first = lab.clusters.first_node[cluster]
    for node in range(first, first + lab.clusters.n_nodes[cluster]):
        if lab.nodes.gpus[node] != size or board.posts.pool[node]:
            continue
        clear_s = clear_from_s(lab, board, policy, cluster, job, node, now_s)
        if clear_s == NEVER_S:
            continue
        board.order[n], board.by_node.clear_s[node] = node, clear_s
        n += 1
    return n


@kernel
def _add_pool(lab, board, policy, cluster, job, size, n, now_s):
    """Candidates of the pool too, for a gang that fits nowhere without it."""
    first = board.scenes.pool_first[cluster]
    for node in range(first, first + board.scenes.pool_nodes[cluster]):
        if lab.nodes.gpus[node] != size:
            continue
        clear_s = clear_from_s(lab, board, policy, cluster, job, node, now_s)
        if clear_s != NEVER_S:
            board.order[n], board.by_node.clear_s[node] = node, clear_s
            n += 1
    return n


@kernel
def _loss_of_clearing(lab, board, policy, node, at_s):
    """What stopping all on the node at that instant would lose; a gang counts by this node's part."""
    total = 0.0
    for k in range(board.posts.n_jobs[node]):
        job = board.on_node[node, k]
        if board.stays.phase[job] == RUNNING:
            total += loss_gpu_s(lab, board, policy, job, at_s) / board.stays.n_nodes[job]
    return total


@kernel
def _choose_cheapest(lab, board, policy, n, need, at_s, same_rack):
    """Of the candidates clear by then: one rack if one has enough, else the cheapest nodes.

    Writes `chosen[:need]`; False if a rack was asked for and none has enough.
    """
    count = 0
    for k in range(n):
        node = board.order[k]
        if board.by_node.clear_s[node] <= at_s:
            board.by_node.cost[node] = _loss_of_clearing(lab, board, policy, node, at_s)
            board.order[count] = node
            count += 1
    rank(board.order, board.by_node.cost, count, board.chosen)
    place = rack_filled_first(lab, board, count, need)
    rack = NONE if place == NONE else lab.nodes.rack[board.order[place]]
    if rack == NONE and (same_rack or count < need):
        return False
    chosen = 0
    for k in range(count):
        if chosen < need and (rack == NONE or lab.nodes.rack[board.order[k]] == rack):
            board.chosen[chosen] = board.order[k]
            chosen += 1
    return chosen == need


@kernel
def _drop_closed(lab, board, policy, job, n, at_s):
    """Candidates of `order[:n]` that do not close while a job promised that instant is protected there.

    Gives how many are left, in order. A later instant would lose those dropped too.
    """
    kept = 0
    for k in range(n):
        node = board.order[k]
        if ends_before_closing(lab, board, policy, node, job, at_s + longest_grace_s(policy)):
            board.order[kept] = node
            kept += 1
    return kept


@kernel
def earliest_promise_s(lab, board, policy, cluster, job, own_room, now_s):
    """The promise that could be made now: (instant, nodes needed, candidates in `order`); NEVER_S = none."""
    size = node_size_for(lab, cluster, board.stays.gpus[job])
    if size == NONE:
        return NEVER_S, 0, 0
    if size == 0:
        size = lab.clusters.node_gpus[cluster]
    need = max(1, board.stays.gpus[job] // size)
    n = _find_by_clear(lab, board, policy, cluster, job, size, now_s)
    if n < need and needs_pool(lab, board, cluster, job, size, need):
        n = _add_pool(lab, board, policy, cluster, job, size, n, now_s)
    rank(board.order, board.by_node.clear_s, n, board.chosen)  # earliest first
    own_s = now_s
    if n >= need and own_room >= 0:
        own_s = _own_clear_s(lab, board, policy, cluster, job, own_room, now_s)
    while n >= need:
        place = need - 1
        if lab.jobs.same_rack[job]:
            place = rack_filled_first(lab, board, n, need)
            if place == NONE:
                break
        at_s = max(board.by_node.clear_s[board.order[place]], own_s)
        open_still = _drop_closed(lab, board, policy, job, n, at_s)
        if open_still == n:
            return at_s, need, n
        n = open_still
    return NEVER_S, need, n


@kernel
def _free_plan_row(board, cluster):
    for row in range(cluster * PLANS, cluster * PLANS + PLANS):
        if not board.plans.open[row]:
            return row
    return NONE


@kernel
def plan(lab, board, policy, cluster, job, own_room, rule, now_s):
    """Make and pin a promise for the job if one can be made; True if made.

    `own_room`: GPUs the account's other work may hold at that instant; negative = do not wait for it.
    """
    at_s, need, n = earliest_promise_s(lab, board, policy, cluster, job, own_room, now_s)
    row = _free_plan_row(board, cluster)
    if at_s == NEVER_S or row == NONE:
        return False
    if not _choose_cheapest(lab, board, policy, n, need, at_s, lab.jobs.same_rack[job]):
        return False
    plans, posts = board.plans, board.posts
    plans.job[row], plans.at_s[row], plans.cluster[row], plans.open[row] = job, at_s, cluster, True
    plans.n_nodes[row], plans.rule[row] = need, rule
    base = cluster * len(lab.accounts)
    plans.target[row] = board.standings.target[base + board.stays.account[job]]
    last = NONE
    for k in range(need):
        node = board.chosen[k]
        posts.plan[node], posts.plan_s[node], posts.next_of_plan[node] = row, at_s, NONE
        if last == NONE:
            plans.first_node[row] = node
        else:
            posts.next_of_plan[last] = node
        last = node
        recount(board, lab, node)
    board.stays.plan[job] = row
    board.standings.plan[base + board.stays.account[job]] = row
    board.standings.after[base + board.stays.account[job]] = 0
    board.scenes.n_plans[cluster] += 1
    board.scenes.plan_rows[cluster] = max(board.scenes.plan_rows[cluster], row - cluster * PLANS + 1)
    out = say(board, SAY_PLANNED, job, now_s)
    board.out.x[out] = at_s
    return True


@kernel
def unplan(lab, board, row, said, now_s):
    """The promise is kept or falls: its nodes are ordinary again. `said`: tell it (it was not kept)."""
    plans, posts = board.plans, board.posts
    node = plans.first_node[row]
    for _ in range(plans.n_nodes[row]):
        following = posts.next_of_plan[node]
        posts.plan[node], posts.plan_s[node], posts.next_of_plan[node] = NONE, NEVER_S, NONE
        recount(board, lab, node)
        node = following
    job = plans.job[row]
    board.stays.plan[job] = NONE
    board.standings.plan[plans.cluster[row] * len(lab.accounts) + board.stays.account[job]] = NONE
    plans.open[row], plans.job[row] = False, NONE
    board.scenes.n_plans[plans.cluster[row]] -= 1
    if said:
        say(board, SAY_UNPLANNED, job, now_s)
