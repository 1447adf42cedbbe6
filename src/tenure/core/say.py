"""What a turn says: rows of events, in order, and the nodes they speak of."""

from __future__ import annotations

from tenure.core.kernel import kernel
from tenure.core.words import NONE, Happened

STARTED, CLAIMED = int(Happened.STARTED), int(Happened.CLAIMED)
PPM, MOST_PPM = 1_000_000, (1 << 31) - 1


@kernel
def say(board, event, job, now_s):
    """A new event row with nothing but its kind; gives its row."""
    row = board.counts.n_out[0]
    board.counts.n_out[0] = row + 1
    out = board.out
    out.t[row], out.event[row], out.job[row] = now_s, event, job
    out.attempt[row] = board.stays.attempt[job] if job != NONE else 0
    out.x[row], out.y[row], out.nodes_at[row], out.n_nodes[row] = 0, 0, 0, 0
    out.by[row], out.code[row], out.rule[row] = NONE, 0, 0
    return row


@kernel
def two_ratios(mine, theirs):
    """Both ratios in one whole number, as parts per million, capped."""
    first = min(MOST_PPM, int(min(2000.0, max(0.0, mine)) * PPM))
    second = min(MOST_PPM, int(min(2000.0, max(0.0, theirs)) * PPM))
    return (first << 32) | second


@kernel
def name_node(board, row, node, gpus):
    """Add a node to the event `row`, which must be the newest one."""
    at = board.counts.n_placed[0]
    if board.out.n_nodes[row] == 0:
        board.out.nodes_at[row] = at
    board.placed.node[at] = node
    board.placed.gpus[at] = gpus
    board.counts.n_placed[0] = at + 1
    board.out.n_nodes[row] += 1
