"""S2–S5: what was used, due and entitled over a sliding window, exact to the second.

Rates change at instants. Each change is a row of a ring (`log`); two cursors walk over it: one at now,
one a lookback behind. An integral over the window is the difference of two sums of whole numbers, so GPU
time falls out exactly one lookback after it was held, and no order of adding can change a bit.

With a half-life instead (S5) the same rates feed a decayed sum in floating point; the two never mix.
"""

from __future__ import annotations

from tenure.core.columns import UGPU
from tenure.core.kernel import kernel
from tenure.core.words import NEVER_S

LN2 = 0.6931471805599453


@kernel
def bring_up(board, policy, standing, now_s):
    """Add what the present rates gave since the last change; writes the sums of one standing."""
    rows = board.standings
    span_s = now_s - rows.since_s[standing]
    if span_s == 0:
        return
    rows.used_gpu_s[standing] += rows.charged[standing] * span_s
    rows.owed_ugpu_s[standing] += rows.due_ugpu[standing] * span_s
    rows.titled_ugpu_s[standing] += rows.entitled_ugpu[standing] * span_s
    rows.since_s[standing] = now_s
    if policy.half_life_s != NEVER_S:
        fade = 0.5 ** (span_s / policy.half_life_s)
        gain = (1.0 - fade) * policy.half_life_s / LN2
        rows.decayed_used[standing] = rows.decayed_used[standing] * fade + rows.charged[standing] * gain
        rows.decayed_owed[standing] = (
            rows.decayed_owed[standing] * fade + rows.due_ugpu[standing] / UGPU * gain
        )
        rows.decayed_titled[standing] = (
            rows.decayed_titled[standing] * fade + rows.entitled_ugpu[standing] / UGPU * gain
        )


@kernel
def change_charge(board, policy, standing, gpus, now_s):
    """S2: from now on `gpus` more (or fewer) are charged; writes the standing and the log."""
    bring_up(board, policy, standing, now_s)
    board.standings.charged[standing] += gpus
    _note(board, standing, gpus, 0, 0, now_s)


@kernel
def set_due(board, policy, standing, due_ugpu, now_s):
    """From now on so much is due (S8); writes the standing and, where it differs, the log."""
    change = due_ugpu - board.standings.due_ugpu[standing]
    if change != 0:
        bring_up(board, policy, standing, now_s)
        board.standings.due_ugpu[standing] = due_ugpu
        _note(board, standing, 0, change, 0, now_s)


@kernel
def set_entitled(board, policy, standing, entitled_ugpu, now_s):
    """From now on this is its entitlement (S3: a budget change never rewrites the past)."""
    change = entitled_ugpu - board.standings.entitled_ugpu[standing]
    if change != 0:
        bring_up(board, policy, standing, now_s)
        board.standings.entitled_ugpu[standing] = entitled_ugpu
        _note(board, standing, 0, 0, change, now_s)


@kernel
def _note(board, standing, charged, due_ugpu, entitled_ugpu, now_s):
    head = board.counts.log_head[0]
    row = head % len(board.log)
    board.log.t[row] = now_s
    board.log.standing[row] = standing
    board.log.charged[row] = charged
    board.log.due_ugpu[row] = due_ugpu
    board.log.entitled_ugpu[row] = entitled_ugpu
    board.counts.log_head[0] = head + 1


@kernel
def let_fall(board, past_s):
    """Move the cursor that lies a lookback behind up to `past_s`; writes the past sums."""
    rows, log, counts = board.standings, board.log, board.counts
    n = len(log)
    while counts.log_tail[0] < counts.log_head[0]:
        row = counts.log_tail[0] % n
        t = log.t[row]
        if t > past_s:
            break
        standing = log.standing[row]
        _bring_past_up(board, standing, t)
        rows.past_charged[standing] += log.charged[row]
        rows.past_due_ugpu[standing] += log.due_ugpu[row]
        rows.past_entitled_ugpu[standing] += log.entitled_ugpu[row]
        counts.log_tail[0] += 1


@kernel
def _bring_past_up(board, standing, past_s):
    rows = board.standings
    span_s = past_s - rows.past_since_s[standing]
    rows.past_used_gpu_s[standing] += rows.past_charged[standing] * span_s
    rows.past_owed_ugpu_s[standing] += rows.past_due_ugpu[standing] * span_s
    rows.past_titled_ugpu_s[standing] += rows.past_entitled_ugpu[standing] * span_s
    rows.past_since_s[standing] = past_s


@kernel
def over_window(board, policy, standing, now_s):
    """(used GPU-s, due micro-GPU-s, entitled micro-GPU-s) of a leaf over the lookback. Exact.

    `let_fall(board, now_s - lookback_s)` must have been called for this instant.
    """
    bring_up(board, policy, standing, now_s)
    past_s = now_s - policy.lookback_s
    if past_s > board.standings.past_since_s[standing]:
        _bring_past_up(board, standing, past_s)
    rows = board.standings
    return (
        rows.used_gpu_s[standing] - rows.past_used_gpu_s[standing],
        rows.owed_ugpu_s[standing] - rows.past_owed_ugpu_s[standing],
        rows.titled_ugpu_s[standing] - rows.past_titled_ugpu_s[standing],
    )


@kernel
def in_gpu_s(board, policy, standing, now_s):
    """(used, due, entitled) in GPU-seconds as floats: over the lookback, or decayed by the half-life."""
    used, owed, titled = over_window(board, policy, standing, now_s)
    if policy.half_life_s != NEVER_S:
        rows = board.standings
        return rows.decayed_used[standing], rows.decayed_owed[standing], rows.decayed_titled[standing]
    return float(used), owed / UGPU, titled / UGPU
