"""What starts, stops and ends do to the board. Each change says its event; nothing else moves GPUs.

`LEGAL` is the one table of a job's life: which event moves it from which phase to which.
"""

from __future__ import annotations

from collections.abc import Mapping

from tenure.core.contract import protection_s
from tenure.core.kernel import kernel
from tenure.core.order import entitle
from tenure.core.places import gpus_on
from tenure.core.room import join_soft, leave_soft, recount
from tenure.core.say import name_node, say, two_ratios
from tenure.core.usage import change_charge
from tenure.core.waiting import add_demand, forget_lists, rest, stop_waiting, wait
from tenure.core.words import NONE, Cause, End, Happened, NodeState, Phase

RUNNING, CLAIMING, STOPPING, ENDED = (
    int(Phase.RUNNING),
    int(Phase.CLAIMING),
    int(Phase.STOPPING),
    int(Phase.ENDED),
)
WAITING = int(Phase.WAITING)
UP, DRAINING, DRAINED = int(NodeState.UP), int(NodeState.DRAINING), int(NodeState.DRAINED)
SAY_NODE = int(Happened.NODE)
SAY_STARTED, SAY_CLAIMED, SAY_UNCLAIMED = (
    int(Happened.STARTED),
    int(Happened.CLAIMED),
    int(Happened.UNCLAIMED),
)
SAY_STOPPING, SAY_STOPPED, SAY_REQUEUED = (
    int(Happened.STOPPING),
    int(Happened.STOPPED),
    int(Happened.REQUEUED),
)
SAY_NOTICE = int(Happened.NOTICE)
PREEMPTED, NODE_FAILED = int(End.PREEMPTED), int(End.NODE_FAILED)
CAUSE_PREEMPTED, CAUSE_DRAIN, CAUSE_MOVED = int(Cause.PREEMPTED), int(Cause.DRAIN), int(Cause.MOVED)

#: (phase, event) -> phase. What is not here cannot happen; a test walks it, the docs draw it.
LEGAL: Mapping[tuple[Phase, Happened], tuple[Phase, ...]] = {
    (Phase.ABSENT, Happened.SUBMITTED): (Phase.WAITING,),
    (Phase.WAITING, Happened.HELD): (Phase.HELD,),
    (Phase.HELD, Happened.RELEASED): (Phase.WAITING,),
    (Phase.WAITING, Happened.CANCELLED): (Phase.ENDED,),
    (Phase.HELD, Happened.CANCELLED): (Phase.ENDED,),
    (Phase.RESTING, Happened.CANCELLED): (Phase.ENDED,),
    (Phase.RESTING, Happened.HELD): (Phase.HELD,),
    (Phase.WAITING, Happened.CLAIMED): (Phase.CLAIMING,),
    (Phase.CLAIMING, Happened.UNCLAIMED): (Phase.WAITING,),
    (Phase.WAITING, Happened.STARTED): (Phase.RUNNING,),
    (Phase.CLAIMING, Happened.STARTED): (Phase.RUNNING,),
    (Phase.RUNNING, Happened.NOTICE): (Phase.RUNNING,),
    (Phase.RUNNING, Happened.STOPPING): (Phase.STOPPING,),
    (Phase.RUNNING, Happened.STOPPED): (Phase.ENDED, Phase.WAITING, Phase.RESTING),
    (Phase.STOPPING, Happened.STOPPED): (Phase.ENDED, Phase.WAITING, Phase.RESTING),
}


@kernel
def hold_gpus(lab, board, job, sign):
    """GPUs held by its account and all above it, for hard limits (S9)."""
    account = board.stays.account[job]
    gpus = sign * board.stays.gpus[job]
    while account != NONE:
        board.purses.held[account] += gpus
        if not board.stays.budgeted[job]:
            board.purses.unbudgeted[account] += gpus
        account = lab.accounts.parent[account]


@kernel
def _count_running(lab, board, job, sign):
    """GPUs counted against its account's target: running and claimed ones, not stopping ones."""
    stays = board.stays
    if stays.budgeted[job]:
        row = stays.cluster[job] * len(lab.accounts) + stays.account[job]
        board.standings.running[row] += sign * stays.gpus[job]
        board.scenes.stirred[stays.cluster[job]] = True
        if stays.quick[job]:
            board.standings.quick[row] += sign * stays.gpus[job]


@kernel
def move_demand(lab, board, job, cluster):
    """A waiting job demands where it is going to run."""
    if board.stays.cluster[job] != cluster:
        add_demand(lab, board, job, -1)
        board.stays.cluster[job] = cluster
        add_demand(lab, board, job, 1)


@kernel
def claim(lab, board, job, cluster, rule, now_s):
    """S14: take the job from its lists and pledge it its nodes: `stays.node`, or `board.chosen[:n_nodes]`.

    The caller has set `stays.node` and `stays.n_nodes`; for a gang the nodes are `board.chosen`.
    """
    stays, posts = board.stays, board.posts
    stop_waiting(lab, board, job)
    move_demand(lab, board, job, cluster)
    stays.phase[job], stays.since_s[job] = CLAIMING, now_s
    _count_running(lab, board, job, 1)
    hold_gpus(lab, board, job, 1)
    n = board.counts.n_claims[0]
    board.claims[n] = job
    board.counts.n_claims[0] = n + 1
    row = say(board, SAY_CLAIMED, job, now_s)
    board.out.rule[row] = rule
    board.out.x[row] = stays.gpus[job]
    if stays.n_nodes[job] == 1:
        node = stays.node[job]
        posts.pledged[node] += stays.gpus[job]
        name_node(board, row, node, stays.gpus[job])
        recount(board, lab, node)
    else:
        last = NONE
        for k in range(stays.n_nodes[job]):
            node = board.chosen[k]
            posts.pledged[node] += lab.nodes.gpus[node]
            posts.next_of_claim[node] = NONE
            if last == NONE:
                stays.node[job] = node
            else:
                posts.next_of_claim[last] = node
            last = node
            name_node(board, row, node, lab.nodes.gpus[node])
            recount(board, lab, node)


@kernel
def _unpledge(lab, board, job):
    """Give back the pledge of a job whose claim is forgotten, on its node or along its chain."""
    stays, posts = board.stays, board.posts
    if stays.n_nodes[job] == 1:
        posts.pledged[stays.node[job]] -= stays.gpus[job]
        recount(board, lab, stays.node[job])
        return
    node = stays.node[job]
    while node != NONE:
        posts.pledged[node] -= lab.nodes.gpus[node]
        recount(board, lab, node)
        node = posts.next_of_claim[node]


@kernel
def forget_claim(board, job):
    """Take it from the list of claims, keeping the others' order."""
    n = board.counts.n_claims[0]
    found = 0
    for k in range(n):
        if board.claims[k] == job:
            found = 1
        elif found:
            board.claims[k - 1] = board.claims[k]
    board.counts.n_claims[0] = n - found


@kernel
def give_up_claim(lab, board, job, phase, now_s):
    """The hold ends without a start: back to waiting, or to `phase` if it leaves."""
    forget_claim(board, job)
    _unpledge(lab, board, job)
    _count_running(lab, board, job, -1)
    hold_gpus(lab, board, job, -1)
    board.stays.node[job] = NONE
    say(board, SAY_UNCLAIMED, job, now_s)
    add_demand(lab, board, job, -1)
    if phase == WAITING:
        wait(lab, board, job, now_s)
    else:
        board.stays.phase[job] = phase


@kernel
def _occupy(lab, board, job, node, gpus):
    posts = board.posts
    posts.free[node] -= gpus
    board.on_node[node, posts.n_jobs[node]] = job
    posts.n_jobs[node] += 1
    if board.stays.soft[job]:  # unbudgeted
        posts.soft[node] += gpus
        posts.lax[node] += gpus
    board.scenes.free[lab.nodes.cluster[node]] -= gpus


@kernel
def _note_largest(board, row, gpus, sign):
    """A budgeted attempt of the account starts (1) or has ended (-1): keep what is known of its largest."""
    rows = board.standings
    if sign > 0 and (rows.charged[row] == gpus or gpus > rows.largest[row] > 0):
        rows.largest[row], rows.n_largest[row] = gpus, 1
    elif gpus == rows.largest[row]:
        rows.n_largest[row] += sign
        if rows.n_largest[row] == 0:
            rows.largest[row] = 0


@kernel
def start(lab, board, policy, job, cluster, rule, now_s):
    """S10, S18: the job starts whole, on `stays.node` (one node), its claim's chain, or `board.chosen`."""
    stays, posts = board.stays, board.posts
    claimed = stays.phase[job] == CLAIMING
    if claimed:
        forget_claim(board, job)
        _unpledge(lab, board, job)
    else:
        stop_waiting(lab, board, job)
        move_demand(lab, board, job, cluster)
        _count_running(lab, board, job, 1)
        hold_gpus(lab, board, job, 1)
    stays.attempt[job] += 1
    stays.started_s[job] = now_s
    stays.protected_until_s[job] = now_s + protection_s(policy, lab.jobs.min_runtime_s[job])
    stays.soft[job] = not stays.budgeted[job]
    stays.noticed[job], stays.saved[job] = False, False
    stays.taker[job] = NONE
    row = say(board, SAY_STARTED, job, now_s)
    board.out.x[row] = stays.protected_until_s[job]
    board.out.code[row], board.out.rule[row] = cluster, rule
    node = stays.node[job]
    last = NONE
    for k in range(stays.n_nodes[job]):
        if not claimed and stays.n_nodes[job] > 1:
            node = board.chosen[k]
        gpus = gpus_on(lab, board, job, node)
        following = posts.next_of_claim[node]
        if last == NONE:
            stays.node[job] = node
        else:
            posts.next_of_gang[last] = node
        posts.next_of_gang[node] = NONE
        last = node
        _occupy(lab, board, job, node, gpus)
        name_node(board, row, node, gpus)
        recount(board, lab, node)
        node = following
    stays.phase[job], stays.since_s[job] = RUNNING, now_s
    if stays.budgeted[job]:
        row_of = cluster * len(lab.accounts) + stays.account[job]
        change_charge(board, policy, row_of, stays.gpus[job], now_s)
        board.standings.protected[row_of] += stays.gpus[job]
        board.standings.after[row_of] = 0
        _note_largest(board, row_of, stays.gpus[job], 1)


@kernel
def unprotect(lab, board, job):
    """Its protection has ended while it runs: it can be weighed as a victim from now on."""
    stays = board.stays
    if stays.soft[job] or stays.phase[job] != RUNNING:
        return
    board.standings.protected[stays.cluster[job] * len(lab.accounts) + stays.account[job]] -= stays.gpus[job]
    join_soft(lab, board, job)


@kernel
def notice(board, job, by, at_s, now_s):
    """S15: it will become interruptible and somebody is waiting for it: save now."""
    if board.stays.noticed[job]:
        return
    board.stays.noticed[job] = True
    row = say(board, SAY_NOTICE, job, now_s)
    board.out.x[row] = at_s
    board.out.by[row] = by


@kernel
def stop(lab, board, policy, job, cause, taker, rule, now_s):
    """S15, S22: tell an attempt to stop; it holds its GPUs for its grace.

    The event names the taker, the rule and both ratios.
    """
    stays, posts = board.stays, board.posts
    budgeted = stays.budgeted[job]
    if budgeted and (cause == CAUSE_PREEMPTED or cause == CAUSE_DRAIN or cause == CAUSE_MOVED):
        notice(board, job, taker, now_s, now_s)
    grace_s = policy.grace_budgeted_s if budgeted else policy.grace_unbudgeted_s
    row = say(board, SAY_STOPPING, job, now_s)
    out = board.out
    out.code[row], out.by[row], out.rule[row] = cause, taker, rule
    out.x[row] = now_s + grace_s
    base = stays.cluster[job] * len(lab.accounts)
    if taker != NONE:
        mine = board.standings.ratio[base + stays.account[taker]]
        out.y[row] = two_ratios(mine, board.standings.ratio[base + stays.account[job]])
    _quit_running(lab, board, job)
    stays.phase[job], stays.cause[job] = STOPPING, cause
    stays.taker[job] = taker
    node = stays.node[job]
    for _ in range(stays.n_nodes[job]):
        gpus = gpus_on(lab, board, job, node)
        posts.freeing[node] += gpus
        recount(board, lab, node)
        node = posts.next_of_gang[node]
    stays.stop_s[job] = now_s + grace_s
    if cause == CAUSE_PREEMPTED:
        stays.evicted[job] = True


@kernel
def _quit_running(lab, board, job):
    """It no longer counts as running: not for targets, nor as protected, nor as a victim."""
    stays = board.stays
    _count_running(lab, board, job, -1)
    if stays.soft[job]:
        leave_soft(lab, board, job)
    else:
        row = stays.cluster[job] * len(lab.accounts) + stays.account[job]
        board.standings.protected[row] -= stays.gpus[job]
        board.standings.after[row] = 0


@kernel
def _vacate(lab, board, job):
    """Its GPUs are free from now on."""
    stays, posts = board.stays, board.posts
    node = stays.node[job]
    for _ in range(stays.n_nodes[job]):
        gpus = gpus_on(lab, board, job, node)
        found = 0
        for k in range(posts.n_jobs[node]):
            if board.on_node[node, k] == job:
                found = 1
            elif found:
                board.on_node[node, k - 1] = board.on_node[node, k]
        posts.n_jobs[node] -= 1
        posts.free[node] += gpus
        board.scenes.free[lab.nodes.cluster[node]] += gpus
        if stays.phase[job] == STOPPING:
            posts.freeing[node] -= gpus
        recount(board, lab, node)
        node = posts.next_of_gang[node]


@kernel
def end_attempt(lab, board, policy, job, end, lost_gpu_s, now_s):
    """An attempt has ended: say so, free its GPUs, and queue it again where that is due (S15, S20)."""
    stays = board.stays
    row = say(board, SAY_STOPPED, job, now_s)
    board.out.code[row] = end
    board.out.x[row] = stays.gpus[job] * (now_s - stays.started_s[job])
    board.out.y[row] = lost_gpu_s
    if stays.phase[job] == RUNNING:
        _quit_running(lab, board, job)
    _vacate(lab, board, job)
    cluster = stays.cluster[job]
    if stays.budgeted[job]:
        row_of = cluster * len(lab.accounts) + stays.account[job]
        change_charge(board, policy, row_of, -stays.gpus[job], now_s)
        board.standings.after[row_of] = 0
        _note_largest(board, row_of, stays.gpus[job], -1)
    hold_gpus(lab, board, job, -1)
    add_demand(lab, board, job, -1)
    again = lab.jobs.resumable[job] and (end == PREEMPTED or end == NODE_FAILED)
    if end == PREEMPTED:
        stays.preempted[job] += 1
    if not again:
        stays.phase[job] = ENDED
        return
    say(board, SAY_REQUEUED, job, now_s)
    if end == PREEMPTED and not stays.budgeted[job] and policy.back_off_s > 0:
        rest(board, job, now_s, now_s + policy.back_off_s * stays.preempted[job])
    else:
        wait(lab, board, job, now_s)


@kernel
def count_health(lab, board, policy, cluster, now_s):
    """S1: healthy GPUs are those of nodes that are up, or drain and still run something."""
    healthy = 0
    first = lab.clusters.first_node[cluster]
    for node in range(first, first + lab.clusters.n_nodes[cluster]):
        state = board.posts.state[node]
        if state == UP or (state == DRAINING and board.posts.n_jobs[node] > 0):
            healthy += lab.nodes.gpus[node]
    if healthy != board.scenes.healthy[cluster]:
        board.scenes.healthy[cluster] = healthy
        entitle(lab, board, policy, cluster, now_s)


@kernel
def settle_sick(lab, board, policy, cluster, now_s):
    """S19: a draining node that has become empty is drained: no capacity any more."""
    if board.scenes.n_sick[cluster] == 0:
        return
    first = lab.clusters.first_node[cluster]
    for node in range(first, first + lab.clusters.n_nodes[cluster]):
        if board.posts.state[node] == DRAINING and board.posts.n_jobs[node] == 0:
            _say_node(board, node, DRAINED, NONE, now_s)
            board.posts.state[node] = DRAINED
            board.scenes.n_sick[cluster] -= 1
    count_health(lab, board, policy, cluster, now_s)


@kernel
def _say_node(board, node, state, note, now_s):
    row = say(board, SAY_NODE, NONE, now_s)
    board.out.by[row], board.out.code[row], board.out.y[row] = node, state, note


@kernel
def set_node_state(lab, board, policy, node, state, note, now_s):
    """Somebody says how a node is. What was claimed there is claimed anew.

    `fail_node` ends what ran there.
    """
    posts = board.posts
    cluster = lab.nodes.cluster[node]
    _say_node(board, node, state, note, now_s)
    if posts.state[node] == DRAINING:
        board.scenes.n_sick[cluster] -= 1
    posts.state[node] = state
    forget_lists(lab, board, cluster)
    if state == DRAINING:
        board.scenes.n_sick[cluster] += 1
    if state != UP and posts.pledged[node] > 0:
        _give_up_claims_on(lab, board, node, now_s)
    recount(board, lab, node)
    count_health(lab, board, policy, cluster, now_s)
    settle_sick(lab, board, policy, cluster, now_s)


@kernel
def _give_up_claims_on(lab, board, node, now_s):
    k = 0
    while k < board.counts.n_claims[0]:
        job = board.claims[k]
        here, place = False, board.stays.node[job]
        for _ in range(board.stays.n_nodes[job]):
            here = here or place == node
            place = board.posts.next_of_claim[place] if board.stays.n_nodes[job] > 1 else place
        if here:
            give_up_claim(lab, board, job, WAITING, now_s)
        else:
            k += 1


@kernel
def _has_like_outside(lab, cluster, pool):
    """Whether each of the last `pool` nodes has its like before them: else some work never runs."""
    first = lab.clusters.first_node[cluster]
    last = first + lab.clusters.n_nodes[cluster]
    for node in range(last - pool, last):
        found = False
        for other in range(first, last - pool):
            same = lab.nodes.gpu_type[other] == lab.nodes.gpu_type[node]
            found = found or (same and lab.nodes.gpus[other] >= lab.nodes.gpus[node])
        if not found:
            return False
    return True


@kernel
def resolve_scale(lab, board, policy, cluster):
    """Sizes that follow the cluster (rule.md §3): the pool, who gets a plan, the small bound."""
    scene = board.scenes
    unit, total = lab.clusters.node_gpus[cluster], lab.clusters.gpus[cluster]
    pool = policy.pool_nodes if policy.pool_nodes >= 0 else lab.clusters.n_nodes[cluster] // 64
    pool = min(pool, max(0, lab.clusters.n_nodes[cluster] - 1))
    while pool > 0 and not _has_like_outside(lab, cluster, pool):
        pool -= 1
    last = lab.clusters.first_node[cluster] + lab.clusters.n_nodes[cluster]
    scene.pool_nodes[cluster], scene.pool_first[cluster] = pool, last - pool
    above = policy.plan_above_gpus
    scene.plan_above[cluster] = above if above >= 0 else max(unit, total // 16 // unit * unit)
    scene.bound_gpus[cluster] = 2 * unit if total >= 512 else unit


@kernel
def open_board(lab, board, policy, now_s):
    """A new board made ready for its first turn: scales, pool, rooms, entitlements."""
    for cluster in range(len(lab.clusters)):
        resolve_scale(lab, board, policy, cluster)
        first = lab.clusters.first_node[cluster]
        for node in range(first, first + lab.clusters.n_nodes[cluster]):
            board.posts.pool[node] = node >= board.scenes.pool_first[cluster]
            recount(board, lab, node)
        entitle(lab, board, policy, cluster, now_s)
