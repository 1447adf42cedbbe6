"""What happens from outside, and what it does to the board: ends, nodes, shares, and what people ask for.

A simulated clock and a live one both tell it here, each at the instant at which it happened.
"""

from __future__ import annotations

from tenure.core.kernel import kernel
from tenure.core.lifecycle import end_attempt, give_up_claim, set_node_state, settle_sick, stop
from tenure.core.order import entitle
from tenure.core.say import say
from tenure.core.waiting import leave_waiting, submit, wait
from tenure.core.words import NONE, Cause, End, Happened, NodeState, Phase, Rule

WAITING, RESTING, HELD = int(Phase.WAITING), int(Phase.RESTING), int(Phase.HELD)
RUNNING, STOPPING, CLAIMING, ENDED = (
    int(Phase.RUNNING),
    int(Phase.STOPPING),
    int(Phase.CLAIMING),
    int(Phase.ENDED),
)
PREEMPTED, NODE_FAILED, CANCELLED = int(End.PREEMPTED), int(End.NODE_FAILED), int(End.CANCELLED)
BY_CANCEL, BY_TIME, BY_NODE = int(Cause.CANCELLED), int(Cause.TIMED_OUT), int(Cause.NODE_DOWN)
BY_FORCE = int(Cause.FORCED)
R_OWNER, R_LIMIT, R_DEAD = int(Rule.OWNER), int(Rule.RUNTIME_LIMIT), int(Rule.DEAD_NODE)
R_OPERATOR = int(Rule.OPERATOR)
SAY_SUBMITTED, SAY_STOPPING, SAY_CANCELLED = (
    int(Happened.SUBMITTED),
    int(Happened.STOPPING),
    int(Happened.CANCELLED),
)
SAY_HELD, SAY_RELEASED, SAY_SHARE = int(Happened.HELD), int(Happened.RELEASED), int(Happened.SHARE)
DOWN = int(NodeState.DOWN)


@kernel
def worked_s(lab, board, job, now_s):
    """Useful work of the present stay so far."""
    ran_s = now_s - board.stays.started_s[job]
    return max(0, ran_s - (lab.jobs.restart_s[job] if board.stays.attempt[job] > 1 else 0))


@kernel
def kept_s(lab, board, job, end, saved_s, now_s):
    """Useful work of a stay that ends before its work does, kept by its saves.

    `saved_s`: the instant of its newest save; NONE = nobody knows: by what the job is said to save.
    """
    jobs = lab.jobs
    if (end != PREEMPTED and end != NODE_FAILED) or not jobs.resumable[job]:
        return 0
    worked = worked_s(lab, board, job, now_s)
    if saved_s != NONE:
        return max(0, worked - max(0, now_s - saved_s))
    if end == PREEMPTED and jobs.saves_when_asked[job]:
        return worked
    every_s = jobs.save_every_s[job]
    return worked // every_s * every_s if every_s > 0 else 0


@kernel
def lost_s(lab, board, job, end, saved_s, now_s):
    """What a stay that ends before its work does has lost, the next one's restart included."""
    jobs = lab.jobs
    if end != PREEMPTED and end != NODE_FAILED:
        return 0
    ran_s = now_s - board.stays.started_s[job]
    if not jobs.resumable[job]:
        return ran_s
    if saved_s == NONE and end == PREEMPTED and jobs.saves_when_asked[job]:
        return jobs.restart_s[job]
    worked = worked_s(lab, board, job, now_s)
    kept = kept_s(lab, board, job, end, saved_s, now_s)
    return (worked - kept if worked > 0 else ran_s) + jobs.restart_s[job]


@kernel
def end_stay(lab, board, policy, job, end, saved_s, now_s):
    """An attempt ends: what it lost is counted, and an emptied node that drains is drained."""
    lost_gpu_s = lost_s(lab, board, job, end, saved_s, now_s) * board.stays.gpus[job]
    end_attempt(lab, board, policy, job, end, lost_gpu_s, now_s)
    settle_sick(lab, board, policy, board.stays.cluster[job], now_s)


@kernel
def say_abrupt(board, job, end, now_s):
    """A running attempt is stopped at the instant it ends: its node died, its limit came, somebody did it."""
    if board.stays.phase[job] != RUNNING:
        return
    row = say(board, SAY_STOPPING, job, now_s)
    cause, rule = BY_TIME, R_LIMIT
    if end == NODE_FAILED:
        cause, rule = BY_NODE, R_DEAD
    elif end == CANCELLED:
        cause, rule = BY_CANCEL, R_OWNER
    board.out.code[row], board.out.rule[row] = cause, rule
    board.out.x[row] = now_s


@kernel
def fail_node(lab, board, policy, node, now_s):
    """S20: a dead node ends its attempts at once, on all their nodes; nobody else is touched."""
    while board.posts.n_jobs[node] > 0:
        job = board.on_node[node, 0]
        say_abrupt(board, job, NODE_FAILED, now_s)
        end_stay(lab, board, policy, job, NODE_FAILED, NONE, now_s)


@kernel
def arrive(lab, board, policy, job, now_s):
    """A job is submitted."""
    say(board, SAY_SUBMITTED, job, now_s)
    submit(lab, board, policy, job, now_s)


@kernel
def cancel(lab, board, policy, job, note, now_s):
    """Its owner takes a job back, wherever it is; True if it waited, and so has left at once."""
    phase = board.stays.phase[job]
    if phase == RUNNING:
        stop(lab, board, policy, job, BY_CANCEL, NONE, R_OWNER, now_s)
    elif phase == STOPPING:
        board.stays.cause[job] = BY_CANCEL
    elif phase == WAITING or phase == RESTING or phase == HELD or phase == CLAIMING:
        if phase == CLAIMING:
            give_up_claim(lab, board, job, ENDED, now_s)
        else:
            leave_waiting(lab, board, job, ENDED, now_s)
        row = say(board, SAY_CANCELLED, job, now_s)
        board.out.y[row] = note
        return True
    return False


@kernel
def hold_or_release(lab, board, job, hold, note, now_s):
    """A person says: do not consider this waiting job; or: do again. What runs is not touched."""
    phase = board.stays.phase[job]
    if hold and (phase == WAITING or phase == RESTING or phase == CLAIMING):
        if phase == CLAIMING:
            give_up_claim(lab, board, job, WAITING, now_s)
        leave_waiting(lab, board, job, HELD, now_s)
        row = say(board, SAY_HELD, job, now_s)
        board.out.y[row] = note
    elif not hold and phase == HELD:
        row = say(board, SAY_RELEASED, job, now_s)
        board.out.y[row] = note
        wait(lab, board, job, now_s)


@kernel
def force_stop(lab, board, policy, job, note, now_s):
    """A manager stops a running attempt before the contract allows it; the event names who and why."""
    if board.stays.phase[job] != RUNNING:
        return
    row = board.counts.n_out[0]
    stop(lab, board, policy, job, BY_FORCE, NONE, R_OPERATOR, now_s)
    board.out.nodes_at[row], board.out.n_nodes[row] = note, 1


@kernel
def set_share(lab, board, policy, account, cluster, share, note, now_s):
    """An account's share is another from now on, on one cluster or (NONE) on all; `share` in millionths."""
    for c in range(len(lab.clusters)):
        if cluster == NONE or cluster == c:
            board.shares[c, account] = share
            entitle(lab, board, policy, c, now_s)
    out = say(board, SAY_SHARE, NONE, now_s)
    board.out.y[out] = note


@kernel
def set_node(lab, board, policy, node, state, note, now_s):
    """Somebody says how a node is; what ran on a dead one ends."""
    set_node_state(lab, board, policy, node, state, note, now_s)
    if state == DOWN:
        fail_node(lab, board, policy, node, now_s)
