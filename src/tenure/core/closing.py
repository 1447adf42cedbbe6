"""Closings: nodes that are going to be out of service from an announced instant on.

Until then nothing is started or promised there whose protection would reach past the instant
(`fit.ends_before_closing`); unbudgeted work may run. Then the node drains like a sick one (S19), and is
left as soon as what was started before the announcement is past its protection.
"""

from __future__ import annotations

from tenure.core.kernel import kernel
from tenure.core.lifecycle import set_node_state
from tenure.core.say import say
from tenure.core.words import NEVER_S, NONE, Happened, NodeState

SAY_NODE, UP, DRAINING = int(Happened.NODE), int(NodeState.UP), int(NodeState.DRAINING)


@kernel
def set_closing(lab, board, node, closed_s, note, now_s):
    """Somebody announces that a node closes at `closed_s`; NEVER_S takes it back. What runs is not touched.

    `note`: row of the story's notes (who and why), or NONE. Promises and claims that would reach past it
    fall in the next turn.
    """
    posts, scenes, cluster = board.posts, board.scenes, lab.nodes.cluster[node]
    if posts.closed_s[node] < NEVER_S:
        scenes.n_closing[cluster] -= 1
    if closed_s < NEVER_S:
        scenes.n_closing[cluster] += 1
    posts.closed_s[node] = closed_s
    row = say(board, SAY_NODE, NONE, now_s)
    board.out.by[row], board.out.code[row] = node, posts.state[node]
    board.out.x[row], board.out.y[row] = closed_s, note


@kernel
def close_nodes(lab, board, policy, cluster, now_s):
    """The announced instant has come: a node in service drains from now on."""
    if board.scenes.n_closing[cluster] == 0:
        return
    first = lab.clusters.first_node[cluster]
    for node in range(first, first + lab.clusters.n_nodes[cluster]):
        if board.posts.closed_s[node] <= now_s:
            board.posts.closed_s[node] = NEVER_S
            board.scenes.n_closing[cluster] -= 1
            if board.posts.state[node] == UP:
                set_node_state(lab, board, policy, node, DRAINING, NONE, now_s)
