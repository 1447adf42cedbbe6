"""S10–S12: the contract. One predicate answers whether an attempt may be interrupted now."""

from __future__ import annotations

from tenure.core.kernel import kernel
from tenure.core.order import WINDOW, slack
from tenure.core.words import Cause, Kind, Phase, Rule

RUNNING, SESSION = int(Phase.RUNNING), int(Kind.SESSION)
PREEMPTED, NODE_DOWN, CANCELLED = int(Cause.PREEMPTED), int(Cause.NODE_DOWN), int(Cause.CANCELLED)
TIMED_OUT, FORCED = int(Cause.TIMED_OUT), int(Cause.FORCED)
FREE_WORK, ABOVE_TARGET = int(Rule.FREE_WORK), int(Rule.ABOVE_TARGET)
SAVED_UP, WINDOW_RATIO = int(Rule.SAVED_UP), int(Rule.WINDOW_RATIO)
NOT_LEGAL = 0


@kernel
def protection_s(policy, min_runtime_s):
    """S10: how long an attempt is protected from its start."""
    return min(min_runtime_s, policy.max_protected_s)


@kernel
def longest_grace_s(policy):
    """Whatever is told to stop now is gone after so long."""
    return max(policy.grace_budgeted_s, policy.grace_unbudgeted_s)


@kernel
def interruptible(board, job, cause, now_s):
    """S11: may this running attempt be interrupted now, by this cause? Everything that stops work asks here.

    Only the death of its node, its owner, its own max_runtime and a manager's recorded force are exceptions.
    """
    if board.stays.phase[job] != RUNNING:
        return False
    if cause == NODE_DOWN or cause == CANCELLED or cause == TIMED_OUT or cause == FORCED:
        return True
    return not board.stays.budgeted[job] or now_s >= board.stays.protected_until_s[job]


@kernel
def safe_from_start_s(lab, board, policy, job, taker, start_s):
    """S10, S12: until when the job, started at `start_s`, is safe from this taker, whatever the targets.

    A quick job never stops a quick job: for as long as any protection may last. What says 15 minutes and
    runs for days is work like any other then; else it would keep an account from its part for ever.
    A session, whose state is lost with it, is taken only by who has waited for `patience.session`.
    """
    stays = board.stays
    if not stays.budgeted[job]:
        return start_s
    if stays.quick[job] and stays.quick[taker]:
        return start_s + policy.max_protected_s
    until_s = start_s + protection_s(policy, lab.jobs.min_runtime_s[job])
    if lab.jobs.kind[job] == SESSION:
        until_s = max(until_s, stays.submit_s[taker] + policy.session_patience_s)
    return until_s


@kernel
def safe_until_s(lab, board, policy, victim, taker):
    """S10, S12: until when a running attempt is safe from this taker."""
    return safe_from_start_s(lab, board, policy, victim, taker, board.stays.started_s[victim])


@kernel
def rule_to_take(lab, board, policy, victim, taker, now_s):
    """S12: the rule by which `taker` may take the place of `victim`, judged after the swap; 0 = none.

    `by_account.taken` holds what the set under trial takes from the owner already.
    """
    stays, rows = board.stays, board.standings
    if not interruptible(board, victim, PREEMPTED, now_s):
        return NOT_LEGAL
    if not stays.budgeted[victim]:
        return FREE_WORK
    if now_s < safe_until_s(lab, board, policy, victim, taker):
        return NOT_LEGAL
    cluster = stays.cluster[victim]
    base = cluster * len(lab.accounts)
    owner, mine = base + stays.account[victim], base + stays.account[taker]
    if owner == mine:
        return NOT_LEGAL
    if policy.order == WINDOW:
        margin = policy.window_margin_pm / 1000.0
        above = rows.ratio[owner] > 1.0 and rows.ratio[owner] > rows.ratio[mine] + margin
        return WINDOW_RATIO if above else NOT_LEGAL
    if not stays.quick[taker] and not stays.saved[taker]:
        reach = rows.running[mine] + stays.gpus[taker]
        if reach > rows.target[mine] + slack(board, policy, cluster, mine, stays.gpus[taker]):
            return NOT_LEGAL
    left = rows.running[owner] - board.by_account.taken[owner] - stays.gpus[victim]
    if left >= rows.target[owner] - slack(board, policy, cluster, owner, stays.gpus[victim]):
        return ABOVE_TARGET
    if stays.saved[taker] and rows.debt[owner] < 0.0:
        return SAVED_UP
    return NOT_LEGAL


@kernel
def unsaved_s(lab, board, job, now_s):
    """Work in seconds that a stop now would lose: since the last save, or all if it cannot resume."""
    stays, jobs = board.stays, lab.jobs
    ran_s = now_s - stays.started_s[job]
    if not jobs.resumable[job]:
        return ran_s
    if jobs.saves_when_asked[job]:
        return 0
    worked_s = ran_s - (jobs.restart_s[job] if stays.attempt[job] > 1 else 0)
    if worked_s <= 0:
        return ran_s
    every_s = jobs.save_every_s[job]
    return worked_s % every_s if every_s > 0 else worked_s


@kernel
def lost_gpu_s(lab, board, job, now_s):
    """Work that a stop now would lose, and the restart."""
    return float(board.stays.gpus[job]) * (unsaved_s(lab, board, job, now_s) + lab.jobs.restart_s[job])


@kernel
def loss_gpu_s(lab, board, policy, job, now_s):
    """S13: what stopping it costs: what it loses, and a toll that grows with its stops."""
    stays = board.stays
    gpus = stays.gpus[job]
    cost = lost_gpu_s(lab, board, job, now_s)
    if stays.budgeted[job]:
        return cost + float(policy.restart_penalty_s) * gpus * (1 + stays.preempted[job])
    return cost * (1 + stays.preempted[job])
