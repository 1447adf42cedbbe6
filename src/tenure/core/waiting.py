"""Waiting lists: one an account, cluster and lane, in order of S7; and what waiting adds to demand.

A job that may run on several clusters waits in each (an entry a cluster) and demands once, on the cluster
where its account is furthest below its target.
"""

from __future__ import annotations

from tenure.core.board import BUDGETED, LANES, QUICK, UNBUDGETED
from tenure.core.kernel import kernel
from tenure.core.words import NEVER_S, NONE, Phase

STOPS_A_ROUND = 15  #: so often unbudgeted work is stopped before what was stopped less goes first
WAITING, RESTING, HELD = int(Phase.WAITING), int(Phase.RESTING), int(Phase.HELD)


@kernel
def is_quick(policy, min_runtime_s, gpus):
    """The quick lane takes small jobs that declare a short protection."""
    return 0 < min_runtime_s <= policy.quick_runtime_s and gpus <= policy.quick_gpus


@kernel
def lane_of(board, job):
    if board.counts.one_list[0]:
        return BUDGETED
    if not board.stays.budgeted[job]:
        return UNBUDGETED
    return QUICK if board.stays.quick[job] else BUDGETED


@kernel
def disturbance(board, job):
    """(rounds of stops, first submission, row): of unbudgeted jobs of one priority the least goes first."""
    return board.stays.preempted[job] // STOPS_A_ROUND, board.stays.submit_s[job], job


@kernel
def less_disturbed(board, job, other):
    """Of unbudgeted jobs of the same priority: fewer rounds of stops, then earlier first submission."""
    return disturbance(board, job) < disturbance(board, other)


@kernel
def earlier(lab, board, job, other):
    """S7: larger priority, then earlier first submission, then the order of the record.

    Unbudgeted work that was stopped many times comes after other: else it is stopped again and again.
    """
    if lab.jobs.priority[job] != lab.jobs.priority[other] and not board.counts.by_arrival[0]:
        return lab.jobs.priority[job] > lab.jobs.priority[other]
    if lane_of(board, job) == UNBUDGETED and lane_of(board, other) == UNBUDGETED:
        return less_disturbed(board, job, other)
    if board.stays.submit_s[job] != board.stays.submit_s[other]:
        return board.stays.submit_s[job] < board.stays.submit_s[other]
    return job < other


@kernel
def _insert(lab, board, queue, entry):
    """Walk in from both ends at once: arrivals belong near the tail, requeued jobs near the head."""
    entries, queues = board.entries, board.queues
    job = entries.job[entry]
    entries.gpus[entry], entries.min_runtime_s[entry] = board.stays.gpus[job], lab.jobs.min_runtime_s[job]
    entries.typed[entry] = lab.jobs.gpu_type[job] != NONE
    front, back = queues.head[queue], queues.tail[queue]
    before, after = NONE, NONE  # the neighbours it ends up between
    while True:
        if back == NONE or not earlier(lab, board, job, entries.job[back]):
            before = back
            after = queues.head[queue] if back == NONE else entries.next[back]
            break
        if earlier(lab, board, job, entries.job[front]):
            after = front
            before = entries.prev[front]
            break
        front = entries.next[front]
        back = entries.prev[back]
    entries.prev[entry], entries.next[entry], entries.queue[entry] = before, after, queue
    if before == NONE:
        queues.head[queue] = entry
    else:
        entries.next[before] = entry
    if after == NONE:
        queues.tail[queue] = entry
    else:
        entries.prev[after] = entry
    queues.n[queue] += 1
    if after != NONE or not queues.deeper[queue]:  # else it lies deeper than what is known of
        queues.least[queue] = 0
    queues.gpus[queue] += board.stays.gpus[job]


@kernel
def _remove(board, entry):
    entries, queues = board.entries, board.queues
    queue = entries.queue[entry]
    if queue == NONE:
        return
    before, after = entries.prev[entry], entries.next[entry]
    if before == NONE:
        queues.head[queue] = after
    else:
        entries.next[before] = after
    if after == NONE:
        queues.tail[queue] = before
    else:
        entries.prev[after] = before
    entries.queue[entry] = NONE
    queues.n[queue] -= 1
    queues.least[queue] = 0
    queues.gpus[queue] -= entries.gpus[entry]


@kernel
def forget_lists(lab, board, cluster):
    """What is known of the cluster's lists does not hold any more: other nodes are in service."""
    first = cluster * len(lab.accounts) * LANES
    for queue in range(first, first + len(lab.accounts) * LANES):
        board.queues.least[queue] = 0


@kernel
def _home(lab, board, job):
    """The cluster where its account is furthest below its target, of those it may run on (S1)."""
    allowed = lab.jobs.clusters[job]
    n_accounts = len(lab.accounts)
    best, best_gap = NONE, 0.0
    for cluster in range(len(lab.clusters)):
        if (allowed >> cluster) & 1:
            row = cluster * n_accounts + board.stays.account[job]
            gap = board.standings.target[row] - board.standings.running[row]
            if best == NONE or gap > best_gap:
                best, best_gap = cluster, gap
    return best


@kernel
def add_demand(lab, board, job, sign):
    """The job's GPUs are (sign 1) or are no longer (-1) asked for on its cluster."""
    if not board.stays.budgeted[job]:
        return
    cluster = board.stays.cluster[job]
    row = cluster * len(lab.accounts) + board.stays.account[job]
    board.standings.demand[row] += sign * board.stays.gpus[job]
    board.scenes.dirty[cluster] = True


@kernel
def _each_list(lab, board, job, entering):
    """Enter the job in, or take it from, the list of each cluster it may run on."""
    lane = lane_of(board, job)
    entry = lab.jobs.first_entry[job]
    for cluster in range(len(lab.clusters)):
        if (lab.jobs.clusters[job] >> cluster) & 1:
            if entering:
                account = 0 if board.counts.one_list[0] else board.stays.account[job]
                row = cluster * len(lab.accounts) + account
                _insert(lab, board, row * LANES + lane, entry)
                board.scenes.n_waiting[cluster] += 1
            else:
                _remove(board, entry)
                board.scenes.n_waiting[cluster] -= 1
            entry += 1


@kernel
def wait(lab, board, job, now_s):
    """The job waits from now on: in every list it belongs to, and as demand on one cluster."""
    stays = board.stays
    stays.phase[job] = WAITING
    stays.since_s[job] = now_s
    stays.patient_s[job] = NEVER_S
    stays.rest_until_s[job] = 0
    stays.cluster[job] = _home(lab, board, job)
    _each_list(lab, board, job, True)
    add_demand(lab, board, job, 1)


@kernel
def stop_waiting(lab, board, job):
    """Take it from every list. Its demand is the caller's to keep (it starts) or to take away (it leaves)."""
    _each_list(lab, board, job, False)


@kernel
def submit(lab, board, policy, job, now_s):
    """A job comes: first submission."""
    stays = board.stays
    stays.submit_s[job] = now_s
    stays.quick[job] = is_quick(policy, lab.jobs.min_runtime_s[job], stays.gpus[job])
    wait(lab, board, job, now_s)


@kernel
def rest(board, job, now_s, until_s):
    """An unbudgeted job that was stopped keeps away for a while; `rest_until_s` ends it."""
    board.stays.phase[job] = RESTING
    board.stays.since_s[job] = now_s
    board.stays.rest_until_s[job] = until_s


@kernel
def leave_waiting(lab, board, job, phase, now_s):
    """A waiting or resting job is put on hold, or cancelled: no demand any more."""
    if board.stays.phase[job] == WAITING:
        stop_waiting(lab, board, job)
        add_demand(lab, board, job, -1)
    board.stays.phase[job] = phase
    board.stays.since_s[job] = now_s
