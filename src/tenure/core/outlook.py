"""What is asked of a board at an instant: why one job waits, and which attempts may be stopped, from when on.

Read-only questions, put to a copy of the board; answers are rows that Python makes words of.
"""

from __future__ import annotations

from tenure.core.board import BUDGETED, LANES, QUICK
from tenure.core.claims import within_limits
from tenure.core.contract import rule_to_take, unsaved_s
from tenure.core.kernel import entry, kernel
from tenure.core.order import WINDOW, set_targets, set_walk, settle, slack
from tenure.core.reason_numbers import known_by_s, numbers
from tenure.core.reasons import asking_cluster, is_within, place_in_list, stands_before, why
from tenure.core.tables import B1, F8, I8, table_type
from tenure.core.usage import let_fall
from tenure.core.words import NEVER_S, NONE, Phase, Rule

WAITING, RUNNING, STOPPING = int(Phase.WAITING), int(Phase.RUNNING), int(Phase.STOPPING)
DISPLACED, OWN_GANG = int(Rule.DISPLACED), int(Rule.OWN_GANG)

#: Why one job waits.
LOOK = table_type(
    reason=I8,  #: words.Reason
    evidence=I8,  #: the row in the way: of an account or a job, as reasons.why says; or NONE
    need=I8,
    have=I8,
    known_by_s=I8,  #: by when the reason passes, so far as protections and dates tell; NEVER_S = not known
    cluster=I8,  #: the cluster whose answer this is
    leaves=I8,  #: accounts in `walk`
    place=I8,  #: jobs before it in its own list
    before=I8,  #: jobs of accounts ahead that would take any place it could take
    before_gpus=I8,
)

#: Whether and from when on an attempt may be stopped.
VERDICT = table_type(
    job=I8,
    from_s=I8,  #: from when on the contract lets it be interrupted
    taker=I8,  #: the first waiting job, in order, that might take its place then; NONE = none
    rule=I8,  #: words.Rule by which
    lost_gpu_s=I8,  #: what a stop at that instant loses
    cost=F8,  #: … for each GPU, unbudgeted work first: the order in which the contract prefers victims
    spare=B1,  #: its account would stay at or above its target without it, or it is unbudgeted
)


@kernel
def look_at(lab, board, policy, job, now_s, look):
    """Why the job waits; writes one row of LOOK. Rules without targets get theirs computed here."""
    if board.counts.one_list[0]:
        let_fall(board, now_s - policy.lookback_s)
        settle(lab, board, policy, board.stays.cluster[job], now_s)
    cluster = asking_cluster(lab, board, job)
    leaves = set_walk(lab, board, cluster)
    place, blocker = 0, NONE
    if board.stays.phase[job] == WAITING:
        place, blocker = place_in_list(lab, board, policy, cluster, job)
    spot = (leaves, place, blocker)
    told = why(lab, board, policy, cluster, job, spot, now_s)
    look.reason[0], look.evidence[0] = told
    look.need[0], look.have[0] = numbers(lab, board, policy, cluster, job, spot, told, now_s)
    look.known_by_s[0] = known_by_s(lab, board, policy, cluster, job, told[0], now_s)
    look.cluster[0], look.leaves[0], look.place[0] = cluster, leaves, place
    if not board.counts.one_list[0] and board.stays.budgeted[job]:
        look.before[0], look.before_gpus[0], _ = stands_before(lab, board, policy, cluster, leaves, job)


@kernel
def stand(lab, board, policy, now_s):
    """How every account stands at that instant: debt, ratio, target and order, from what it is due as of now.

    Writes the standings' columns that follow from the others. A board that was made from the record has none
    of them, and one that nobody waits on has those of its last decision.
    """
    for cluster in range(len(lab.clusters)):
        set_targets(lab, board, policy, cluster, now_s)
        set_walk(lab, board, cluster)


@kernel
def _gather_claimants(lab, board, policy, cluster, leaves):
    """Waiting jobs that may take a place by right, in order, into `picked`; gives how many."""
    n = 0
    for lane in range(QUICK, BUDGETED + 1):
        for k in range(leaves):
            row = board.walk[k]
            item, looked = board.queues.head[row * LANES + lane], 0
            while item != NONE and looked < policy.depth and n < len(board.picked):
                job = board.entries.job[item]
                if is_within(board, policy, cluster, row, job) and within_limits(
                    lab, board, job, board.stays.gpus[job]
                ):
                    board.picked[n] = job
                    n += 1
                looked += 1
                item = board.entries.next[item]
    return n


@kernel
def lost_at(lab, board, job, at_s):
    """GPU-seconds that a stop at that instant loses: work since the last save, and the restart."""
    lost_s = unsaved_s(lab, board, job, at_s)
    if lab.jobs.resumable[job]:
        lost_s += lab.jobs.restart_s[job]
    return lost_s * board.stays.gpus[job]


@kernel
def _taker_of(lab, board, policy, job, claimants, at_s):
    """(the first claimant that may take the job's place at that instant, by which rule), or (NONE, 0)."""
    for k in range(claimants):
        taker = board.picked[k]
        rule = rule_to_take(lab, board, policy, job, taker, at_s)
        if rule != 0:
            return taker, rule
    return NONE, 0


@kernel
def _promised_to(lab, board, job):
    """The gang whose promise takes the job's nodes, and when; (NONE, 0) if no node of it is promised."""
    node = board.stays.node[job]
    for _ in range(board.stays.n_nodes[job]):
        plan = board.posts.plan[node]
        if plan != NONE:
            return board.plans.job[plan], board.plans.at_s[plan]
        node = board.posts.next_of_gang[node]
    return NONE, 0


@kernel
def _is_spare(lab, board, policy, cluster, job):
    """S12's half about the owner: its account stays at or above its target without the job."""
    if not board.stays.budgeted[job]:
        return True
    if board.counts.one_list[0]:  # by level: whatever is beyond its team's quota
        return board.stays.soft[job]
    rows = board.standings
    row = cluster * len(lab.accounts) + board.stays.account[job]
    gpus = board.stays.gpus[job]
    if policy.order == WINDOW:
        return rows.ratio[row] > 1.0
    return rows.running[row] - gpus >= rows.target[row] - slack(board, policy, cluster, row, gpus)


@kernel
def _judge(lab, board, policy, cluster, job, claimants, now_s, verdict):
    """Write the verdict on one running attempt; `verdict` is (table, row)."""
    table, row = verdict
    stays = board.stays
    table.job[row] = job
    if board.counts.by_arrival[0]:  # first come, first served: nobody is ever stopped
        table.from_s[row], table.taker[row] = NEVER_S, NONE
        return
    from_s = stays.protected_until_s[job] if stays.budgeted[job] else now_s
    table.from_s[row] = from_s
    at_s = max(now_s, from_s)
    taker, rule = _taker_of(lab, board, policy, job, claimants, at_s)
    if taker == NONE:
        gang, promised_s = _promised_to(lab, board, job)
        if gang != NONE and gang != job:
            taker, at_s = gang, max(at_s, promised_s)
            rule = rule_to_take(lab, board, policy, job, gang, at_s)
            if rule == 0:
                rule = OWN_GANG if stays.account[gang] == stays.account[job] else DISPLACED
            table.from_s[row] = at_s
    table.taker[row], table.rule[row] = taker, rule
    table.lost_gpu_s[row] = lost_at(lab, board, job, at_s)
    table.cost[row] = table.lost_gpu_s[row] / stays.gpus[job] * (1 + stays.preempted[job])
    if stays.budgeted[job]:
        table.cost[row] = table.lost_gpu_s[row] / stays.gpus[job] + policy.restart_penalty_s * (
            1 + stays.preempted[job]
        )
    table.spare[row] = _is_spare(lab, board, policy, cluster, job)


@kernel
def judge_attempts(lab, board, policy, now_s, verdicts):
    """A verdict on every running attempt, and on those just told to stop for somebody; gives how many."""
    n = 0
    for cluster in range(len(lab.clusters)):
        let_fall(board, now_s - policy.lookback_s)
        leaves = settle(lab, board, policy, cluster, now_s)
        claimants = 0 if board.counts.one_list[0] else _gather_claimants(lab, board, policy, cluster, leaves)
        first = lab.clusters.first_node[cluster]
        for node in range(first, first + lab.clusters.n_nodes[cluster]):
            for k in range(board.posts.n_jobs[node]):
                job = board.on_node[node, k]
                stays = board.stays
                if stays.node[job] != node or n >= len(verdicts):
                    continue
                if stays.phase[job] == RUNNING:
                    _judge(lab, board, policy, cluster, job, claimants, now_s, (verdicts, n))
                    n += 1
                elif stays.phase[job] == STOPPING and stays.taker[job] != NONE:
                    verdicts.job[n], verdicts.taker[n], verdicts.rule[n] = job, stays.taker[job], 0
                    verdicts.from_s[n] = stays.protected_until_s[job] if stays.budgeted[job] else now_s
                    verdicts.lost_gpu_s[n] = lost_at(lab, board, job, now_s)
                    verdicts.spare[n] = True
                    n += 1
    return n


stand_entry = entry(getattr(stand, "py_func", stand))
look_entry = entry(getattr(look_at, "py_func", look_at))
judge_entry = entry(getattr(judge_attempts, "py_func", judge_attempts))
