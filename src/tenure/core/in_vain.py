"""What was looked for in vain while an account has its turn: a job that asks for no less is not looked for.

Kept by account in `by_account`, and forgotten when a pass comes to the account. While work only starts,
whole nodes get no more, so a gang that found too few need not be tried again; a free place for smaller work
may come with a promise that falls, so that is forgotten whenever something starts (`fit_or_clear`).
"""

from __future__ import annotations

from tenure.core.contract import protection_s
from tenure.core.depths import NO_LIMIT
from tenure.core.fit import node_size_for
from tenure.core.kernel import kernel
from tenure.core.room import count_whole
from tenure.core.words import NONE, Kind

SESSION = int(Kind.SESSION)


@kernel
def forget_places(board, row):
    """Something starts: a promise may have gone with it, and its nodes are open to others again."""
    board.by_account.full_gpus[row], board.by_account.kept_gpus[row] = NO_LIMIT, NO_LIMIT


@kernel
def forget_failures(board, row):
    """A pass begins with the account: nothing is known yet of what finds no victims."""
    board.by_account.fail_gpus[row], board.by_account.fail_s[row] = NO_LIMIT, 0
    board.by_account.gang_gpus[row] = NO_LIMIT
    forget_places(board, row)


@kernel
def no_victims(board, row, gpus, for_s):
    """Whether a job that asks for no more than this has found no victims in this pass."""
    return gpus >= board.by_account.fail_gpus[row] and for_s >= board.by_account.fail_s[row]


@kernel
def is_hopeless(lab, board, policy, row, job):
    """The same of a job. What has saved up may take more."""
    if board.stays.saved[job]:
        return False
    return no_victims(board, row, board.stays.gpus[job], protection_s(policy, lab.jobs.min_runtime_s[job]))


@kernel
def note_failure(lab, board, policy, row, job):
    """Remember what found no victims.

    Not of a job that asked for a type or a rack, nor of one that has saved up and may take more.
    """
    if lab.jobs.gpu_type[job] == NONE and not lab.jobs.same_rack[job] and not board.stays.saved[job]:
        board.by_account.fail_gpus[row] = board.stays.gpus[job]
        board.by_account.fail_s[row] = protection_s(policy, lab.jobs.min_runtime_s[job])


@kernel
def _no_nodes(lab, board, cluster, row, gpus, for_s, typed):
    """`no_place` for a gang. Types matter: who asks for one may need the pool where others do not."""
    known = board.by_account
    if gpus == known.kept_gpus[row] and for_s >= known.kept_s[row] and not typed:
        return True
    if gpus <= known.gang_gpus[row]:
        return gpus == known.gang_gpus[row]
    return node_size_for(lab, cluster, gpus) == known.gang_size[row]


@kernel
def no_place(lab, board, cluster, row, gpus, for_s, typed):
    """Whether a job of the account that asks for no more than this found no free nodes in this pass."""
    if board.counts.thorough[0]:
        return False
    if gpus > lab.clusters.node_gpus[cluster]:
        return _no_nodes(lab, board, cluster, row, gpus, for_s, typed)
    return gpus >= board.by_account.full_gpus[row] and for_s >= board.by_account.full_s[row]


@kernel
def may_have_place(lab, board, policy, cluster, row, job):
    """False: it need not be looked for. A job with a promise has nodes that others have not."""
    if board.stays.plan[job] != NONE:
        return True
    for_s = protection_s(policy, lab.jobs.min_runtime_s[job])
    typed = lab.jobs.gpu_type[job] != NONE
    return not no_place(lab, board, cluster, row, board.stays.gpus[job], for_s, typed)


@kernel
def _note_too_few(lab, board, cluster, row, gpus):
    """Remember a gang for which too few nodes are whole, whichever they are: then so for a larger one."""
    size = node_size_for(lab, cluster, gpus)
    if size != NONE and gpus < board.by_account.gang_gpus[row]:
        if count_whole(board, cluster, size, True) < gpus // size:
            board.by_account.gang_gpus[row], board.by_account.gang_size[row] = gpus, size


@kernel
def note_no_place(lab, board, policy, cluster, row, job):
    """Remember what fits on no free node. Not of what promises, types or a rack may keep out."""
    known, gpus = board.by_account, board.stays.gpus[job]
    gang = gpus > lab.clusters.node_gpus[cluster]
    if gang:
        _note_too_few(lab, board, cluster, row, gpus)
    if board.stays.quick[job] or lab.jobs.kind[job] == SESSION or lab.jobs.gpu_type[job] != NONE:
        return
    for_s = protection_s(policy, lab.jobs.min_runtime_s[job])
    if not gang:
        known.full_gpus[row], known.full_s[row] = gpus, for_s
    elif not lab.jobs.same_rack[job] and board.stays.plan[job] == NONE:
        known.kept_gpus[row], known.kept_s[row] = gpus, for_s


@kernel
def finds_nothing(lab, board, policy, cluster, row, job):
    """Whether a job that asks for no more has found neither a free node nor victims in this pass."""
    hopeless = is_hopeless(lab, board, policy, row, job)
    return hopeless and not may_have_place(lab, board, policy, cluster, row, job)
