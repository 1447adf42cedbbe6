"""The words of decisions and events, as numbers that kernels can hold.

Numbers never change and are never used again; new members are added at the end.
"""

from __future__ import annotations

from enum import IntEnum

NEVER_S = 1 << 60  #: an instant that does not come; also "no limit"
NONE = -1  #: no row


class Phase(IntEnum):
    """Where a job is. Adjectives: what it is now, not what happened to it."""

    ABSENT = 0  #: not submitted yet (a simulated world knows it already)
    WAITING = 1
    RESTING = 2  #: waiting, but not before an instant: an unbudgeted job stopped a while ago
    HELD = 3  #: a person says: do not consider
    CLAIMING = 4  #: its place is chosen and being cleared; starts as soon as it is clear
    RUNNING = 5
    STOPPING = 6  #: told to stop, within its grace; still holds its GPUs
    ENDED = 7


class Kind(IntEnum):
    """What a job is for, as its owner says."""

    BATCH = 0
    DEBUG = 1
    SESSION = 2


class Happened(IntEnum):
    """The events of a story; the names in lower case are those of its file."""

    BEGAN = 0
    SUBMITTED = 1
    PLANNED = 2
    STARTED = 3
    NOTICE = 4
    STOPPING = 5
    STOPPED = 6
    REQUEUED = 7
    CANCELLED = 8
    HELD = 9
    RELEASED = 10
    WAITING = 11
    NODE = 12
    SHARE = 13
    UNPLANNED = 14  #: a promise was withdrawn: its job left or started otherwise, or a node failed
    CLAIMED = 15  #: GPUs are being cleared for a job, and held for it
    UNCLAIMED = 16  #: such a hold ended without a start
    FIRST_AT_HEAD = 17  #: a multi-node job came to the head of its account
    UTILISATION = 18  #: how busy an attempt kept its GPUs since it started or was last measured


class End(IntEnum):
    """How an attempt ended; `NOT_YET` while it has not."""

    NOT_YET = 0
    FINISHED = 1
    FAILED = 2
    PREEMPTED = 3
    NODE_FAILED = 4
    CANCELLED = 5
    TIMED_OUT = 6


class Cause(IntEnum):
    """Why an attempt is being stopped."""

    NONE = 0
    PREEMPTED = 1
    DRAIN = 2
    NODE_DOWN = 3
    CANCELLED = 4
    TIMED_OUT = 5
    MOVED = 6
    FORCED = 7


class NodeState(IntEnum):
    """Health of a node. All but UP take nothing new; DOWN has lost what ran on it."""

    UP = 0
    DRAINING = 1
    DOWN = 2
    DRAINED = 3
    REPAIRING = 4
    TESTING = 5


class Rule(IntEnum):
    """Why a job was started, or by which rule an attempt may be stopped."""

    NONE = 0
    OWED = 1  #: started within its account's target
    QUICK = 2  #: started in the quick lane
    PLANNED = 3  #: started on its promise
    CROSSING = 4  #: one job over the target, where nobody is owed the room
    UNBUDGETED = 5
    LOAN = 6  #: started on idle GPUs nobody else could use
    FIRST_COME = 7  #: started by arrival (fifo)
    BACKFILL = 8  #: started past a waiting head without delaying it
    LEVEL = 9  #: started by priority level
    FREE_WORK = 20  #: stopped: it was unbudgeted
    ABOVE_TARGET = 21  #: stopped: past protection, its account at or above target after the swap
    SAVED_UP = 22  #: stopped: past protection, its account in credit, for a job that saved up
    OWN_GANG = 23  #: stopped: past protection, for its own account's planned gang
    DISPLACED = 24  #: stopped: past protection, to clear a promised node
    WINDOW_RATIO = 25  #: stopped: past protection, its account's ratio above the taker's (order: window)
    DRAINING = 26  #: stopped: past protection on a draining node
    OVER_LIMIT = 27  #: stopped: unbudgeted, making way for its own account under a hard limit
    LOWER_LEVEL = 28  #: stopped: preemptible, for a job within its team's limit
    OWNER = 29  #: stopped by its owner
    OPERATOR = 30  #: stopped by a manager, with name and reason
    RUNTIME_LIMIT = 31  #: stopped at its own max_runtime
    DEAD_NODE = 32  #: ended with its node
    SHARE_CUT = 33  #: reserved: budget cuts never stop protected work


class Reason(IntEnum):
    """Why a job waits, in order of precedence: where two hold, the smaller number is told.

    Save CLOSING, which came later: it is told where NO_PLACE, SHAPE or NO_FREE_GPUS would be.
    """

    NONE = 0
    HELD = 1  #: a person put it on hold
    RESTING = 2  #: unbudgeted and stopped lately: not before an instant
    CANNOT_FIT = 3  #: no healthy set of nodes could hold it even if empty
    OWN_LIMIT = 4  #: its account's (or an ancestor's) max_gpus
    CLAIMING = 5  #: its place is being cleared
    PROMISED = 6  #: it has a promise
    SAVING_UP = 7  #: larger than its account's target: saving up
    BEHIND_OWN = 8  #: behind its own account's earlier work
    OVER_TARGET = 9  #: its account is at its target
    ORDER = 10  #: others are further below what they are owed
    HELD_FOR_GANG = 11  #: GPUs that would do are kept for a promise it would break
    PATIENCE = 12  #: a place exists, but taking it now would lose too much work
    NO_PLACE = 13  #: within target, but nothing that may be taken makes a place
    SHAPE = 14  #: enough GPUs are free, but not together
    NO_FREE_GPUS = 15  #: unbudgeted or first-come work: too few GPUs are free
    NOT_REACHED = 16  #: beyond the depth this turn looked at
    CLOSING = 17  #: a place would do, but a node of it is going to close before the protection would end
