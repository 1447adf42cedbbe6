"""What there was to share: GPUs out of service, and each account's entitlement, moment by moment.

A node that is down is no capacity; one that is otherwise out of service (draining, drained, repairing,
testing) is none from the moment it is empty (S1). GPUs that a dead node's attempts have not given back
yet count as held, so that the parts always sum to the whole (S4).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tenure.audit.span import AuditError
from tenure.audit.stays import Attempts, last_where
from tenure.core.tables import Table
from tenure.core.words import NEVER_S, NONE, Happened, NodeState
from tenure.story.columns import Story

Ints = NDArray[np.int64]

WHOLE = 1_000_000
PATH_WHOLE = 1_000_000_000_000  #: shares along a path are kept in millionths of millionths, rounded down
UGPU_OF_PATH = PATH_WHOLE // 1_000_000


class Steps(NamedTuple):
    """Changes of step functions, one function a row: at `t` the function `row` changes by `delta`."""

    t: Ints
    row: Ints
    delta: Ints


def steps_between(from_s: Ints, to_s: Ints, row: Ints, height: Ints) -> Steps:
    """Steps of functions that are `height` higher from `from_s` to `to_s`."""
    real = (to_s > from_s) & (height != 0)
    from_s, to_s, row, height = from_s[real], to_s[real], row[real], height[real]
    return Steps(
        np.concatenate([from_s, to_s]), np.concatenate([row, row]), np.concatenate([height, -height])
    )


def down_steps(story: Story, attempts: Attempts) -> Steps:
    """GPUs out of service; row: cluster."""
    told = np.flatnonzero(story.events["event"] == Happened.NODE)
    nodes = np.unique(story.events["by"][told])
    if not len(told):
        none = np.zeros(0, np.int64)
        return Steps(none, none, none)
    held = _held_on(story, attempts, nodes)
    node = np.concatenate([story.events["by"][told].astype(np.int64), held.row])
    t = np.concatenate([story.events["t"][told], held.t])
    delta = np.concatenate([np.zeros(len(told), np.int64), held.delta])
    state = np.concatenate([story.events["code"][told].astype(np.int64), np.full(len(held.t), NONE)])
    order = np.lexsort((np.arange(len(t)), t, node))
    node, t, delta, state = node[order], t[order], delta[order], state[order]
    return _down_of(story, node, t, delta, state)


def _held_on(story: Story, attempts: Attempts, nodes: NDArray[np.generic]) -> Steps:
    """GPUs held on these nodes; row: node."""
    counted = np.zeros(len(story.nodes), bool)
    counted[nodes] = True
    starts: Table = story.events[attempts.event]
    which = np.repeat(np.arange(len(starts)), starts["n_nodes"])
    nth = np.arange(len(which)) - np.repeat(
        np.cumsum(starts["n_nodes"]) - starts["n_nodes"], starts["n_nodes"]
    )
    placed = story.placements[starts["nodes_at"][which] + nth]
    here = counted[placed["node"]]
    which, placed = which[here], placed[here]
    return steps_between(
        attempts.start_s[which],
        attempts.stop_s[which],
        placed["node"].astype(np.int64),
        placed["gpus"].astype(np.int64),
    )


def _down_of(story: Story, node: Ints, t: Ints, delta: Ints, state: Ints) -> Steps:
    """Rows sorted by node and time; `state` NONE where a row changes only what is held."""
    new = np.ones(len(node), bool)
    new[1:] = node[1:] != node[:-1]
    first = np.maximum.accumulate(np.where(new, np.arange(len(node)), 0))
    summed = np.cumsum(delta)
    held = summed - (summed - delta)[first]
    last = last_where(state != NONE, first)
    state = np.where(last >= 0, state[np.maximum(last, 0)], NodeState.UP)
    gpus = np.array([n.gpus for n in story.nodes], np.int64)[node]
    out_of_service = np.where(held == 0, gpus, 0)
    down = np.where(state == NodeState.UP, 0, np.where(state == NodeState.DOWN, gpus - held, out_of_service))
    settled = np.ones(len(node), bool)  # within an instant only its last word counts
    settled[:-1] = new[1:] | (t[1:] != t[:-1])
    node, t, down = node[settled], t[settled], down[settled]
    before = np.zeros(len(node), np.int64)
    before[1:] = np.where(node[1:] == node[:-1], down[:-1], 0)
    cluster = np.array([n.cluster for n in story.nodes], np.int64)[node]
    changed = (down != before) & (t < NEVER_S)
    return Steps(t[changed], cluster[changed], (down - before)[changed])


class Shares(NamedTuple):
    """Shares along each path: `path[epoch]` is (clusters, accounts), in force from `from_s[epoch]` on."""

    from_s: Ints
    path: Ints

    def entitled_ugpu(self, epochs: Ints, healthy: Ints) -> Ints:
        """(clusters, accounts, moments) of (moments,) epochs and (clusters, moments) healthy GPUs."""
        if len(self.from_s) == 1 or (epochs == epochs[0]).all():
            path = self.path[epochs[0]][:, :, None]
        else:
            path = np.moveaxis(self.path[epochs], 0, -1)
        return path * healthy[:, None, :] // UGPU_OF_PATH


def shares_of(story: Story) -> Shares:
    """The shares at the start and after each change.

    Raises AuditError where a change names an account or cluster that the story does not have.
    """
    shares = story.share_matrix()
    from_s, paths = [0], [_along_paths(story, shares)]
    row_of = {a.path: row for row, a in enumerate(story.accounts)}
    for event in story.events[story.events["event"] == Happened.SHARE]:
        note = story.notes[event["y"]]
        if note["account"] not in row_of:
            raise AuditError(f"a share is changed of {note['account']!r}, an account the story does not have")
        row, new = row_of[note["account"]], round(float(note["new"]) * WHOLE)
        where = _clusters_of(story, note)
        for own, account in enumerate(story.accounts):
            if account.own_leaf_of is not None and account.parent == story.accounts[row].parent:
                shares[own, where] += shares[row, where] - new  # it holds what its siblings leave
        shares[row, where] = new
        if from_s[-1] == event["t"]:
            from_s.pop(), paths.pop()
        from_s.append(int(event["t"]))
        paths.append(_along_paths(story, shares))
    return Shares(np.array(from_s, np.int64), np.stack(paths))


def _clusters_of(story: Story, note: dict[str, object]) -> Ints:
    named = note.get("cluster")
    if named is None:
        return np.arange(len(story.clusters))
    if named not in story.clusters:
        raise AuditError(f"a share is changed on {named!r}, a cluster the story does not have")
    return np.array([story.clusters.index(str(named))])


def _along_paths(story: Story, shares: Ints) -> Ints:
    """(clusters, accounts) products of shares from the root down; parents stand before their children."""
    path = np.full(shares.shape, PATH_WHOLE, np.int64)
    for row, account in enumerate(story.accounts):
        if account.parent != NONE:
            path[row] = path[account.parent] * np.maximum(shares[row], 0) // WHOLE
    return path.T.copy()
