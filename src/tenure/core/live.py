"""One turn of a live scheduler: what has happened since the last one, each at its instant, then a decision.

News come from outside as rows; what follows from the board alone (protections and rests that end) is found
here. Of one instant everything goes in the order in which a simulation takes it: ends, then what the board
brings, then what people and nodes did, then arrivals.
"""

from __future__ import annotations

from tenure.core.closing import set_closing
from tenure.core.decide import decide_into
from tenure.core.kernel import entry, kernel
from tenure.core.lifecycle import count_health, unprotect
from tenure.core.order import entitle
from tenure.core.outside import (
    arrive,
    cancel,
    end_stay,
    force_stop,
    hold_or_release,
    say_abrupt,
    set_node,
    set_share,
)
from tenure.core.tables import I8, table_type
from tenure.core.waiting import wait
from tenure.core.words import NEVER_S, NONE, End, Phase

RUNNING, STOPPING, RESTING = int(Phase.RUNNING), int(Phase.STOPPING), int(Phase.RESTING)
NODE_FAILED, CANCELLED, TIMED_OUT = int(End.NODE_FAILED), int(End.CANCELLED), int(End.TIMED_OUT)


class News:
    """Kinds of news, in the order in which those of one instant are told.

    `value`: ENDED: words.End; NODE: words.NodeState; SHARE: millionths of the parent's; CLOSE: from when on
    the node is to be out of service, NEVER_S: not any more.
    """

    ENDED, NODE, SHARE, CANCEL, HOLD, RELEASE, STOP, SUBMIT, HOLD_NEW, CLOSE = range(10)


ENDED, NODE, SHARE, CANCEL, HOLD, RELEASE, STOP, SUBMIT, HOLD_NEW, CLOSE = (
    News.ENDED, News.NODE, News.SHARE, News.CANCEL, News.HOLD, News.RELEASE, News.STOP, News.SUBMIT,
    News.HOLD_NEW, News.CLOSE,
)  # fmt: skip

#: One thing that has happened.
NEWS = table_type(
    t=I8,  #: when, in seconds of the record; not before the last turn
    what=I8,  #: News
    row=I8,  #: of the job, node or account
    value=I8,
    cluster=I8,  #: SHARE: cluster row, NONE = all
    note=I8,  #: row of the turn's notes, or NONE
    saved_s=I8,  #: ENDED: second of its newest save, NONE = not known
    attempt=I8,  #: ENDED, STOP: which one
)


@kernel
def _end(lab, board, policy, news, k):
    job, end, t_s = news.row[k], news.value[k], news.t[k]
    phase = board.stays.phase[job]
    if board.stays.attempt[job] != news.attempt[k] or (phase != RUNNING and phase != STOPPING):
        return
    if end == NODE_FAILED or end == CANCELLED or end == TIMED_OUT:
        say_abrupt(board, job, end, t_s)
    end_stay(lab, board, policy, job, end, news.saved_s[k], t_s)


@kernel
def _hear(lab, board, policy, news, k):
    """One piece of news. What no longer applies changes nothing."""
    what, row, note, t_s = news.what[k], news.row[k], news.note[k], news.t[k]
    if what == ENDED:
        _end(lab, board, policy, news, k)
    elif what == NODE:
        set_node(lab, board, policy, row, news.value[k], note, t_s)
    elif what == CLOSE:
        set_closing(lab, board, row, news.value[k], note, t_s)
    elif what == SHARE:
        set_share(lab, board, policy, row, news.cluster[k], news.value[k], note, t_s)
    elif what == CANCEL:
        cancel(lab, board, policy, row, note, t_s)
    elif what == STOP:
        if board.stays.attempt[row] == news.attempt[k]:
            force_stop(lab, board, policy, row, note, t_s)
    elif what == SUBMIT:
        arrive(lab, board, policy, row, t_s)
    else:
        hold_or_release(lab, board, row, what != RELEASE, note, t_s)


@kernel
def next_due(board):
    """When the next protection or rest ends; NEVER_S = none will."""
    stays, t_s = board.stays, NEVER_S
    for job in range(len(stays)):
        if stays.phase[job] == RUNNING and not stays.soft[job]:
            t_s = min(t_s, stays.protected_until_s[job])
        elif stays.phase[job] == RESTING:
            t_s = min(t_s, stays.rest_until_s[job])
    return t_s


@kernel
def _let_pass(lab, board, t_s):
    """Protections and rests that have ended by then are over."""
    stays = board.stays
    for job in range(len(stays)):
        if stays.phase[job] == RUNNING and not stays.soft[job] and stays.protected_until_s[job] <= t_s:
            unprotect(lab, board, job)
        elif stays.phase[job] == RESTING and stays.rest_until_s[job] <= t_s:
            wait(lab, board, job, stays.rest_until_s[job])


@kernel
def live_turn(lab, board, policy, news, n_news, deciding, now_s):
    """Apply `news[:n_news]`, in order of their instants, then decide (`deciding` 0: only apply them).

    Writes the board; its new `out` rows are what has happened and what is decided.
    """
    k, due_s = 0, next_due(board)
    while k < n_news:
        t_s = news.t[k]
        if due_s < t_s:
            _let_pass(lab, board, t_s - 1)
            due_s = next_due(board)
        while k < n_news and news.t[k] == t_s and news.what[k] == ENDED:
            _hear(lab, board, policy, news, k)
            k += 1
        if due_s <= t_s:
            _let_pass(lab, board, t_s)
        while k < n_news and news.t[k] == t_s and news.what[k] != ENDED:
            _hear(lab, board, policy, news, k)
            k += 1
        due_s = next_due(board)
    if due_s <= now_s:
        _let_pass(lab, board, now_s)
    if deciding:
        decide_into(lab, board, policy, now_s)


@kernel
def next_instant(lab, board, policy, now_s):
    """When the next turn is due though nothing has happened: what the board brings, or a tick while somebody
    waits or a node is to close. Promises' dates are the caller's to remember. NEVER_S = none."""
    if board.counts.more[0]:
        return now_s
    t_s = max(next_due(board), now_s)
    for node in range(len(board.posts)):
        t_s = min(t_s, max(board.posts.closed_s[node], now_s))
    for cluster in range(len(lab.clusters)):
        if (
            board.scenes.n_waiting[cluster] > 0
            or board.counts.n_claims[0] > 0
            or board.scenes.n_sick[cluster] > 0
            or board.scenes.n_closing[cluster] > 0
        ):
            return min(t_s, (now_s // policy.tick_s + 1) * policy.tick_s)
    return t_s


@kernel
def take_stock(lab, board, policy, now_s):
    """Nodes or accounts are others than before: what they are entitled to is counted anew from now on."""
    for cluster in range(len(lab.clusters)):
        count_health(lab, board, policy, cluster, now_s)
        entitle(lab, board, policy, cluster, now_s)


live_turn_entry = entry(getattr(live_turn, "py_func", live_turn))
next_instant_entry = entry(getattr(next_instant, "py_func", next_instant))
take_stock_entry = entry(getattr(take_stock, "py_func", take_stock))

__all__ = ["NEWS", "NONE", "News", "live_turn_entry", "next_instant_entry", "take_stock_entry"]
