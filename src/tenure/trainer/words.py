"""Which words does a trainer hear and say? Answers, states, exit codes, and the variables it looks at."""

from __future__ import annotations

from typing import NamedTuple

#: What a trainer is told to do after a step.
CONTINUE, CHECKPOINT, DRAIN = "continue", "checkpoint", "drain"
URGENCY = {CONTINUE: 0, CHECKPOINT: 1, DRAIN: 2}

#: What a trainer is doing when it polls.
TRAIN, EVAL, WARM_UP, DATA = "train", "eval", "warm-up", "data"
#: … and what it says of itself besides.
STARTING, SAVING, DRAINING = "starting", "saving", "draining"
DRAINED_STATE, INCOMPLETE_STATE, FINISHED, FAILED = "drained", "drained-incomplete", "finished", "failed"
ENDS = (DRAINED_STATE, INCOMPLETE_STATE, FINISHED, FAILED)

#: Exit codes: everything up to the last step is in a committed checkpoint; or it is not.
DRAINED, INCOMPLETE = 0, 75

HOOK = "TENURE_HOOK"  #: the hook folder; without it only signals are heard
BEAT_S = "TENURE_BEAT_S"  #: seconds between heartbeats
ATTEMPT = ("TENURE_RUN_ATTEMPT", "TENURE_ATTEMPT", "SLURM_RESTART_COUNT")  #: the first that is there
DONE, SAVED, NOTICE = "TENURE_DONE", "TENURE_SAVED", "TENURE_NOTICE"
ASKED = "TENURE_ASKED"  #: a file that a launcher on this node touches where it was told to end

REQUEST_FILE, WINDOW_FILE = "request.json", "window.json"


class Answer(NamedTuple):
    """What to do now: the same on every rank, at the same step."""

    do: str = CONTINUE
    deadline: float | None = None  #: epoch seconds by which it must be done; None: as soon as it can be
    reason: str = ""
    request: str = ""  #: id of what asked for it; "" where another rank alone knows it

    @property
    def saves(self) -> bool:
        """Whether a checkpoint is to be written now (before a drain, too)."""
        return self.do != CONTINUE

    @property
    def drains(self) -> bool:
        """Whether to leave after it."""
        return self.do == DRAIN


GO_ON = Answer()
