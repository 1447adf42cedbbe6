"""A lab as the tables a decision reads: names become row numbers here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tenure.core.columns import ACCOUNT, CLUSTER, NODE
from tenure.core.tables import Table, empty
from tenure.core.words import NEVER_S, NONE
from tenure.settings.lab import Account, Lab, Node


class LabTables(NamedTuple):
    """`shares`: (clusters, accounts), millionths of the parent's. `gpu_types`: what the rows are called."""

    nodes: Table  #: columns.NODE
    clusters: Table  #: columns.CLUSTER
    accounts: Table  #: columns.ACCOUNT
    shares: NDArray[np.int64]
    gpu_types: list[str]


def lab_tables(lab: Lab) -> LabTables:
    """The tables of a lab, rows as in the lab."""
    gpu_types = sorted({node.gpu for node in lab.nodes if node.gpu is not None})
    nodes = _nodes(lab.nodes, gpu_types)
    shares = np.array([account.shares for account in lab.accounts], np.int64)
    return LabTables(
        nodes,
        _clusters(nodes, len(lab.clusters)),
        _accounts(lab.accounts),
        np.ascontiguousarray(shares.T),
        gpu_types,
    )


def _nodes(nodes: Sequence[Node], gpu_types: list[str]) -> Table:
    table = empty(len(nodes), NODE)
    row_of: dict[str | None, int] = {gpu: row for row, gpu in enumerate(gpu_types)}
    row_of[None] = NONE
    table["gpus"] = [node.gpus for node in nodes]
    table["cluster"] = [node.cluster for node in nodes]
    table["rack"] = [node.rack for node in nodes]
    table["gpu_type"] = [row_of[node.gpu] for node in nodes]
    return table


def _clusters(nodes: Table, n_clusters: int) -> Table:
    table = empty(n_clusters, CLUSTER)
    for cluster in range(n_clusters):
        rows = np.flatnonzero(nodes["cluster"] == cluster)
        gpus = nodes["gpus"][rows]
        table[cluster] = (rows[0], len(rows), gpus.sum(), gpus.max())
    return table


def _accounts(accounts: Sequence[Account]) -> Table:
    table = empty(len(accounts), ACCOUNT, max_gpus=NEVER_S, first_child=NONE, next_sibling=NONE)
    last_child: dict[int, int] = {}
    for row, account in enumerate(accounts):
        table["parent"][row] = account.parent if account.parent >= 0 else NONE
        table["own_leaf"][row] = account.own_leaf_of is not None
        if account.max_gpus is not None:
            table["max_gpus"][row] = account.max_gpus
        if account.parent < 0:
            continue
        table["depth"][row] = table["depth"][account.parent] + 1
        if account.parent in last_child:
            table["next_sibling"][last_child[account.parent]] = row
        else:
            table["first_child"][account.parent] = row
        last_child[account.parent] = row
    for row in range(len(accounts) - 1, 0, -1):  # children stand after their parents
        table["n_below"][accounts[row].parent] += table["n_below"][row] + 1
    return table


class Holder:
    """Which clusters could hold a job if they were empty and whole."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        #: by cluster and type: node size → nodes in all, and in the rack with most of them
        self._sizes: dict[tuple[int, str | None], dict[int, tuple[int, int]]] = {}
        by_rack: dict[tuple[int, str | None, int], dict[int, int]] = {}
        for node in lab.nodes:
            for gpu in {None, node.gpu}:
                racks = by_rack.setdefault((node.cluster, gpu, node.gpus), {})
                racks[node.rack] = racks.get(node.rack, 0) + 1
        for (cluster, gpu, size), racks in by_rack.items():
            counts = self._sizes.setdefault((cluster, gpu), {})
            counts[size] = (sum(racks.values()), max(racks.values()))

    def clusters(self, gpus: int, *, gpu: str | None = None, same_rack: bool = False) -> int:
        """
        Bits of the clusters that hold so many GPUs (`core.fit.node_size_for`).

        Up to the cluster's largest node: on one node. More: on whole nodes of one size, the largest that goes
        into it and has enough nodes.
        """
        bits = 0
        for cluster in range(len(self.lab.clusters)):
            sizes, suited = self._sizes[cluster, None], self._sizes.get((cluster, gpu), {})
            if gpus <= max(sizes):
                bits |= (gpus <= max(suited, default=0)) << cluster
                continue
            whole = [size for size in sizes if gpus % size == 0 and gpus // size <= sizes[size][0]]
            counts = suited.get(max(whole), (0, 0)) if whole else (0, 0)
            bits |= (0 < gpus <= counts[same_rack] * max(whole, default=0)) << cluster
        return bits

    def rounded_up(self, gpus: int) -> int | None:
        """The smallest size from `gpus` on that some cluster can hold; None if there is none."""
        if self.clusters(gpus):
            return gpus
        sizes = {size for (_, gpu), found in self._sizes.items() if gpu is None for size in found}
        held = [up for size in sizes if self.clusters(up := -(-gpus // size) * size)]
        return min(held, default=None)

    def allowed(self, clusters: Sequence[int], *, gpu: str | None = None, same_rack: bool = False) -> str:
        """What these clusters can hold, in words."""
        told = []
        for cluster in clusters:
            largest = max(self._sizes[cluster, None])
            for size, counts in sorted(self._sizes.get((cluster, gpu), {}).items()):
                most = counts[same_rack] * size
                text = f"up to {size} GPUs on one node"
                if most > largest:
                    text += f", or a multiple of {size} up to {most}"
                told.append(f"{text} ({self.lab.clusters[cluster]})")
        where = f" with {gpu}" if gpu else ""
        return (
            f"{'; '.join(told[:4])}{where}{' in one rack' if same_rack else ''}" if told else "nothing there"
        )
