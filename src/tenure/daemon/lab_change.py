"""The lab's file has changed since the record was last written: what of it can be carried over, and how?

Nodes and accounts may be added, and those taken away that nothing runs or waits on. Where the file says
another share than it said last time, that is a change of share from now on; what people changed in between
stays as it is. Rows are made anew: from here on the record speaks in those of the new lab.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tenure.core.words import NEVER_S, NONE, Phase
from tenure.daemon.book import leaves_of, with_all_leaves
from tenure.daemon.patch import apply
from tenure.daemon.state import State, gpu_types_of
from tenure.settings.errors import BadInput
from tenure.settings.lab import OWN, Lab

WORKS = (Phase.WAITING, Phase.RESTING, Phase.HELD, Phase.CLAIMING, Phase.RUNNING, Phase.STOPPING)


class CarriedOver(NamedTuple):
    """A state under the lab as it is now."""

    state: State
    is_new: bool  #: its rows are others than the record's
    told: Sequence[str]  #: what is different, a sentence each
    shares: Sequence[Mapping[str, Any]]  #: {account, share, cluster}: what the file says anew, by itself


def written_lab(lab: Lab) -> dict[str, Any]:
    """What a later start compares with: what the file says of nodes and shares."""
    return {
        "nodes": {node.name: [lab.clusters[node.cluster], node.gpus, node.gpu] for node in lab.nodes},
        "shares": {
            cluster: {account.path: account.shares[c] for account in lab.accounts}
            for c, cluster in enumerate(lab.clusters)
        },
    }


def carry_over(state: State, lab: Lab, last: Mapping[str, Any]) -> CarriedOver:
    """The state under this lab. `last`: `written_lab` of the one it was written under.

    Raises BadInput where work would be lost.
    """
    lab = with_all_leaves(lab)
    now, told = written_lab(lab), []
    new_nodes = [node.name for node in lab.nodes]
    new_accounts = [account.path for account in lab.accounts]
    changed = sorted(
        name for name in now["nodes"] if last["nodes"].get(name, now["nodes"][name]) != now["nodes"][name]
    )
    gone_nodes = [name for name in state.nodes if name not in now["nodes"]] + changed
    gone_accounts = [path for path in state.accounts if path not in set(new_accounts)]
    _refuse_lost_work(state, lab, set(gone_nodes))
    if gone_accounts:  # of jobs that ended, those of accounts that are gone have no row any more
        ended = np.flatnonzero(state.stays["phase"] == Phase.ENDED).tolist()
        apply(state, {"turn": state.turn, "dropped": ended})
    told += [f"node {name} is new" for name in new_nodes if name not in set(state.nodes)]
    told += [f"node {name} is gone or another" for name in gone_nodes]
    told += [f"account {path} is new" for path in new_accounts if path not in set(state.accounts)]
    told += [f"account {path} is gone" for path in gone_accounts]
    shares = _new_shares(state, lab, last["shares"], now["shares"])
    told += [f"the share of {one['account']} is another" for one in shares]
    is_new = (
        (state.nodes, state.accounts, state.clusters) != (new_nodes, new_accounts, list(lab.clusters))
        or bool(changed)
        or state.gpu_types != gpu_types_of(lab)
    )
    return CarriedOver(_moved(state, lab) if is_new else state, is_new, told, shares)


def _refuse_lost_work(state: State, lab: Lab, gone_nodes: set[str]) -> None:
    for row, place in state.places.items():
        lost = sorted({state.nodes[node] for node, _ in place} & gone_nodes)
        if lost:
            found = f"no node {lost[0]} as it was, on which job {state.cards[row].job} runs"
            raise BadInput(
                lab.file, "clusters", found, "drain it first (tenure node drain), then take it out"
            )
    alive = np.isin(state.stays["phase"], WORKS)
    rows = lab.rows()
    for row in np.flatnonzero(alive).tolist():
        card = state.cards[row]
        if card.account not in rows:
            found = f"no account {card.account}, of which job {card.job} has not ended"
            raise BadInput(lab.file, "accounts", found, "an account is taken out when its work has ended")
    clusters = set(state.clusters) - set(lab.clusters)
    if clusters and alive.any():
        found = f"no cluster {sorted(clusters)[0]}"
        raise BadInput(lab.file, "clusters", found, "a cluster is taken out when no job waits or runs")


def _new_shares(
    state: State, lab: Lab, last: Mapping[str, Any], now: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Where the file says another share than it said, or a first one; own leaves follow by themselves."""
    found = []
    own = {account.path for account in lab.accounts if account.own_leaf_of is not None}
    for cluster, shares in now.items():
        for path, share in shares.items():
            if path and path not in own and last.get(cluster, {}).get(path) != share:
                found.append({"account": path, "share": share / 1_000_000, "cluster": cluster})
    return found


def _moved(state: State, lab: Lab) -> State:
    """The state with the rows of the new lab. Promises are given up: they are made again by the next turn."""
    node_to = _rows(state.nodes, [node.name for node in lab.nodes])
    account_to = _rows(state.accounts, [account.path for account in lab.accounts])
    cluster_to = _rows(state.clusters, list(lab.clusters))
    work_to = _work_rows(state, lab)
    n, n_old = len(lab.accounts), len(state.accounts)
    standing_to = np.array(
        [
            NONE if min(cluster_to[c], work_to[a]) == NONE else cluster_to[c] * n + work_to[a]
            for c in range(len(state.clusters))
            for a in range(n_old)
        ],
        np.int64,
    )
    asked = _asked_moved(state, lab, cluster_to)
    stays = dict(state.stays)
    stays["cluster"] = np.maximum(0, _mapped(stays["cluster"], cluster_to))
    rates = state.rates.copy()
    rates["standing"] = standing_to[rates["standing"]]
    shares = np.zeros((len(lab.clusters), n), np.int64)
    for c, to in enumerate(cluster_to.tolist()):
        for a, row in enumerate(account_to.tolist()):
            if NONE not in (to, row):
                shares[to, row] = state.shares[c, a]
    shares[:, 0] = 1_000_000
    states = np.zeros(len(lab.nodes), np.int64)
    there = node_to != NONE
    states[node_to[there]] = state.node_states[there]
    closed_s = np.full(len(lab.nodes), NEVER_S, np.int64)
    closed_s[node_to[there]] = state.closed_s[there]

    def standings(columns: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        moved = {}
        known = standing_to != NONE
        for name, column in columns.items():
            moved[name] = np.zeros(len(lab.clusters) * n, column.dtype)
            moved[name][standing_to[known]] = column[known]
        return moved

    past = standings(state.past)
    new = np.ones(len(lab.clusters) * n, bool)
    new[standing_to[standing_to != NONE]] = False
    past["past_since_s"][new] = state.past["past_since_s"].max(initial=0)
    return replace(
        state,
        nodes=[node.name for node in lab.nodes],
        accounts=[account.path for account in lab.accounts],
        clusters=list(lab.clusters),
        gpu_types=gpu_types_of(lab),
        asked=asked,
        stays=stays,
        places={
            row: tuple((int(node_to[node]), gpus) for node, gpus in place)
            for row, place in state.places.items()
        },
        claims={
            row: tuple((int(node_to[node]), gpus) for node, gpus in place)
            for row, place in state.claims.items()
        },
        promises=[],
        node_states=states,
        closed_s=closed_s,
        words={int(node_to[row]): word for row, word in state.words.items() if node_to[row] != NONE},
        shares=shares,
        kept=standings(state.kept),
        past=past,
        rates=rates[rates["standing"] != NONE],
    )


def _asked_moved(state: State, lab: Lab, cluster_to: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    asked = dict(state.asked)
    bits = np.zeros(len(state.cards), np.int64)
    for c, to in enumerate(cluster_to.tolist()):
        if to != NONE:
            bits |= ((asked["clusters"] >> c) & 1) << to
    asked["clusters"] = np.where(bits == 0, 1, bits)
    asked["gpu_type"] = _mapped(asked["gpu_type"], _rows(state.gpu_types, gpu_types_of(lab)))
    return asked


def _work_rows(state: State, lab: Lab) -> NDArray[np.int64]:
    """Where the work of each old account is now: that of a leaf with new children, in its own leaf."""
    leaves, rows = leaves_of(lab), {account.path: row for row, account in enumerate(lab.accounts)}
    inner = {path.rpartition("/")[0] for path in state.accounts}
    found = []
    for path in state.accounts:
        given, _, last = path.rpartition("/")
        worked = given if last == OWN else path
        found.append(rows.get(path, NONE) if path in inner else leaves.get(worked, NONE))
    return np.array(found, np.int64)


def _rows(old: Sequence[str], new: Sequence[str]) -> NDArray[np.int64]:
    """Where each old row is now; NONE = nowhere."""
    rows = {name: row for row, name in enumerate(new)}
    return np.array([rows.get(name, NONE) for name in old], np.int64)


def _mapped(column: NDArray[Any], to: NDArray[np.int64]) -> NDArray[Any]:
    if not len(to):
        return column
    return np.where(column == NONE, NONE, to[np.maximum(column, 0)])


__all__ = ["CarriedOver", "carry_over", "written_lab"]
