"""What would this rank do by itself, of all it has heard? The most urgent: a request, a deadline, a signal.

One save answers all that was asked before it was begun, and whatever is asked for the sake of the same
window's end: the trainer's own deadline and the controller's request for it come within seconds.

Deadlines hang from this trainer's own saves: `window.json` brings the instants that the controller worked
out, and a save that has grown slower since pulls them forward. A controller that is dead or cut off changes
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

from tenure.trainer.agreement import mark
from tenure.trainer.words import CHECKPOINT, DRAIN, GO_ON, URGENCY, Answer

LOOK_S = 1.0  #: how late a deadline may be seen


class Heard(NamedTuple):
    """Everything that may ask something of this rank."""

    request: Mapping[str, Any] | None = None
    window: Mapping[str, Any] | None = None
    signal: str = ""  #: name of the signal that came
    launcher: bool = False  #: the launcher on this node was told to end
    notice: float | None = None  #: from when on this job may be interrupted, epoch seconds
    request_at: float = 0.0  #: when the request was first seen here, and the notice: by the steady clock
    notice_at: float = 0.0


class Asked(NamedTuple):
    """One thing that is asked."""

    answer: Answer
    due_s: float  #: for how long it has been asked, seconds
    cause: str  #: for whose sake: the same for all who ask because of one window's end


class Rungs(NamedTuple):
    """Own deadlines, epoch seconds; infinite where none is known."""

    checkpoint: float = math.inf
    drain: float = math.inf
    gone: float = math.inf  #: the last save must be committed by then
    ends: float = math.inf
    begin_by: float = math.inf  #: a save that is begun later would still be under way when the drain is due
    until: float = math.inf  #: what the checkpoint is for: the window's end, or that of a protection

    def leaves_room(self, now: float) -> bool:
        """Whether a save that is begun now does not hold up the drain's."""
        return now <= self.begin_by


def rungs_of(window: Mapping[str, Any] | None, save_s: float, step_s: float) -> Rungs:
    """The deadlines of a window, by the controller's word and by what a save and a step take here."""
    if window is None:
        return Rungs()
    ends = _instant(window.get("ends_at"))
    gone = ends - max(0.0, _number(window.get("margin_s"), 0.0))
    told, early = _instant(window.get("drain_at")), _instant(window.get("checkpoint_at"))
    drain = min(told, gone - save_s - step_s)
    # it begins a step after it was due, another step passes after it, and the drain must still be to come
    checkpoint = min(early, gone - 2 * save_s - 3 * step_s, drain)
    until = ends if ends < math.inf else _instant(window.get("until"))
    if save_s or drain == math.inf:
        return Rungs(checkpoint, drain, gone, ends, drain - save_s, until)
    # no save was measured: one takes what the controller's deadlines hold, and its own checkpoint may begin
    lasts = gone - drain - step_s if gone < math.inf else 0.0
    begin_by = max(drain - max(0.0, lasts), early + 2 * step_s + LOOK_S if early < math.inf else -math.inf)
    return Rungs(checkpoint, drain, gone, ends, min(begin_by, drain), until)


def asked_of(heard: Heard, now: float, ticks: float, attempt: int, rungs: Rungs) -> list[Asked]:
    """All that is asked of this rank. `now`: the time; `ticks`: of the steady clock."""
    return [
        *_of_request(heard, ticks, attempt),
        *_of_window(rungs, now, attempt),
        *_of_signals(heard, rungs),
        *_of_notice(heard, ticks, attempt),
    ]


def covered(asked: Asked, saved_s: float, kept: Container[int]) -> bool:
    """Whether a committed save has answered it: begun `saved_s` ago, or for the sake of one of `kept`."""
    return asked.answer.do == CHECKPOINT and (asked.due_s >= saved_s or mark(asked.cause) in kept)


def wish(asked: Sequence[Asked], now: float, rungs: Rungs, answered: Container[int]) -> Answer:
    """What to do, were this rank alone. `answered`: marks of requests that need nothing more."""
    left = [one.answer for one in asked if mark(one.answer.request) not in answered]
    if not rungs.leaves_room(now):  # a checkpoint begun now would hold up the drain's, which saves as much
        left = [one for one in left if one.do == DRAIN]
    return min(left, key=_most_urgent_first, default=GO_ON)


def wrong_request(request: Mapping[str, Any] | None) -> str:
    """What is wrong with a request; "" where it can be obeyed."""
    if request is None:
        return ""
    if not isinstance(request.get("id"), str) or not request["id"]:
        return "request.json has no id: it is not obeyed"
    if request.get("kind") not in (CHECKPOINT, DRAIN):
        return (
            f"request.json asks for {str(request.get('kind'))[:40]!r}, which is neither checkpoint nor drain"
        )
    return ""


def _most_urgent_first(one: Answer) -> tuple[int, float]:
    return -URGENCY[one.do], math.inf if one.deadline is None else one.deadline


def _of_request(heard: Heard, ticks: float, attempt: int) -> list[Asked]:
    request = heard.request
    if request is None or wrong_request(request):
        return []
    if request.get("attempt") not in (None, attempt):
        return []  # asked of those before us, or after
    deadline = _instant(request.get("deadline"))
    reason = str(request.get("reason") or "asked by the controller")
    answer = Answer(request["kind"], deadline if deadline < math.inf else None, reason, request["id"])
    until = _instant(request.get("until"))
    cause = answer.request if until == math.inf else _near_end(attempt, until)
    return [Asked(answer, ticks - heard.request_at, cause)]


def _near_end(attempt: int, ends: float) -> str:
    return f"window-checkpoint-{attempt}-{ends:.0f}"


def _of_window(rungs: Rungs, now: float, attempt: int) -> list[Asked]:
    if now >= rungs.drain:
        deadline = rungs.gone if rungs.gone < math.inf else None
        which = f"window-drain-{attempt}-{rungs.ends:.0f}"
        answer = Answer(DRAIN, deadline, "the window's end, by the trainer's own clock", which)
        return [Asked(answer, now - rungs.drain, which)]
    if now >= rungs.checkpoint:
        reason = "the window's end is near, by the trainer's own clock"
        which, deadline = _near_end(attempt, rungs.until), rungs.drain if rungs.drain < math.inf else None
        return [Asked(Answer(CHECKPOINT, deadline, reason, which), now - rungs.checkpoint, which)]
    return []


def _of_signals(heard: Heard, rungs: Rungs) -> list[Asked]:
    deadline = rungs.gone if rungs.gone < math.inf else None
    asked = []
    if heard.signal:
        asked.append(Answer(DRAIN, deadline, f"{heard.signal} came", f"signal-{heard.signal}"))
    if heard.launcher:
        asked.append(Answer(DRAIN, deadline, "the launcher was told to end", "launcher"))
    return [Asked(one, 0.0, one.request) for one in asked]


def _of_notice(heard: Heard, ticks: float, attempt: int) -> list[Asked]:
    if heard.notice is None:
        return []
    reason = "from then on this job may be interrupted"
    answer = Answer(CHECKPOINT, heard.notice, reason, f"notice-{attempt}-{heard.notice:.0f}")
    return [Asked(answer, ticks - heard.notice_at, answer.request)]


def _instant(value: Any) -> float:
    return _number(value, math.inf)


def _number(value: Any, otherwise: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return otherwise
    return float(value)
