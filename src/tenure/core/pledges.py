"""S14: what of a node is kept for those whose place is being cleared there."""

from __future__ import annotations

from tenure.core.kernel import kernel
from tenure.core.places import gpus_on
from tenure.core.words import Phase

STOPPING = int(Phase.STOPPING)


@kernel
def _to_come(lab, board, node, taker):
    """GPUs of the node that attempts told to stop for the taker still hold."""
    stays, gpus = board.stays, 0
    for k in range(board.posts.n_jobs[node]):
        job = board.on_node[node, k]
        if stays.phase[job] == STOPPING and stays.taker[job] == taker:
            gpus += gpus_on(lab, board, job, node)
    return gpus


@kernel
def kept_for_claims(lab, board, node, but):
    """GPUs that claims need of what is free there, the claim of job `but` aside (NONE: of all).

    Each keeps what its own stops have not still to bring: what is to come for one is no room for another,
    which would then wait for it. A gang has the whole node.
    """
    stays, posts = board.stays, board.posts
    if posts.pledged[node] == 0:
        return 0
    kept, whole = 0, posts.pledged[node]
    for k in range(board.counts.n_claims[0]):
        job = board.claims[k]
        if stays.n_nodes[job] == 1 and stays.node[job] == node:
            whole -= stays.gpus[job]
            if job != but:
                kept += max(0, stays.gpus[job] - _to_come(lab, board, node, job))
    return kept + max(0, whole - posts.freeing[node])
