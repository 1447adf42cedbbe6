"""The lab: clusters of nodes, and the tree of accounts that shares them (`lab.yaml`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BeforeValidator

from tenure.core.columns import WHOLE
from tenure.core.policy import Policy
from tenure.settings.errors import BadInput, Checked, checked, dotted, nearest
from tenure.settings.live_file import LiveFile
from tenure.settings.policy_file import policy_of
from tenure.settings.units import AccountPath, Money, Name, Share, share_text, whole
from tenure.settings.yaml_file import read_yaml

MOST_NODES = 100_000
MOST_GPUS = 1_000_000
MOST_CLUSTERS = 62  #: a job's clusters are bits of one int64
DEEPEST_TREE = 20
OWN = "(own)"  #: the name of the leaf for work given to an inner account itself

Gpus = Annotated[int, BeforeValidator(whole(1, 65_536, "a whole number of GPUs"))]
NodeCount = Annotated[int, BeforeValidator(whole(1, MOST_NODES, "a whole number of nodes"))]
Limit = Annotated[int, BeforeValidator(whole(0, MOST_GPUS, "a whole number of GPUs"))]


class NodeFile(Checked):
    """One node of a list."""

    name: Name
    gpus: Gpus | None = None
    rack: Name | None = None
    gpu: Name | None = None


def _nodes(value: Any) -> Any:
    """A count, or the list as it is (its entries are checked one by one)."""
    if isinstance(value, (list, tuple)):
        if not value or len(value) > MOST_NODES:
            raise ValueError(f"a list of 1 to {MOST_NODES} nodes")
        return [NodeFile.model_validate(entry) if isinstance(entry, NodeFile) else entry for entry in value]
    if isinstance(value, Mapping):
        raise ValueError("a number of nodes, or a list of {name, gpus, rack, gpu}")
    return whole(1, MOST_NODES, "a list of {name, gpus, rack, gpu}, or a whole number of nodes")(value)


class ClusterFile(Checked):
    """Nodes with one fast network, shared by one tree."""

    nodes: Annotated[Any, BeforeValidator(_nodes)]
    gpus_per_node: Gpus | None = None
    gpu: Name | None = None
    nodes_per_rack: NodeCount | None = None
    price_per_gpu_hour: Money | None = None
    shares: dict[AccountPath, Share] = {}


class AccountFile(Checked):
    """An account and all below it. `share`: millionths of the parent's."""

    share: Share | None = None
    managers: list[Name] = []
    researchers: list[Name] = []
    accounts: dict[Name, AccountFile] = {}
    max_gpus: Limit | None = None


def _some_clusters(clusters: dict[str, ClusterFile]) -> dict[str, ClusterFile]:
    if not 1 <= len(clusters) <= MOST_CLUSTERS:
        raise ValueError(f"at least one cluster and at most {MOST_CLUSTERS}, such as {{mars: {{nodes: 2}}}}")
    return clusters


class LabFile(Checked):
    """The file, each value checked by itself."""

    lab: Name = "lab"
    clusters: Annotated[dict[Name, ClusterFile], AfterValidator(_some_clusters)]
    accounts: dict[Name, AccountFile] = {}
    policy: dict[str, Any] = {}
    live: LiveFile = LiveFile()


class Node(NamedTuple):
    name: str
    cluster: int
    gpus: int
    rack: int  #: unique over clusters
    gpu: str | None


class Account(NamedTuple):
    path: str
    parent: int  #: row; -1 for the root
    shares: tuple[int, ...]  #: millionths of the parent's, by cluster row
    managers: tuple[str, ...]
    max_gpus: int | None
    own_leaf_of: int | None  #: the inner account whose own work this row holds
    researcher: bool = False  #: one of its parent's `researchers`: named by, and only for, that person


class Lab(NamedTuple):
    """A lab whose parts fit together. Rows of `accounts` are in depth-first order, the root first."""

    name: str
    file: str
    clusters: tuple[str, ...]
    prices: tuple[float | None, ...]
    nodes: tuple[Node, ...]  #: grouped by cluster
    accounts: tuple[Account, ...]
    policy: Mapping[str, Any]  #: as written
    own_shares: tuple[frozenset[str], ...] = ()  #: by cluster: accounts shared otherwise there
    live: LiveFile = LiveFile()  #: what only a running scheduler is told

    def knobs(self, overrides: Mapping[str, Any] | None = None) -> Policy:
        """The policy of the file, with these keys changed."""
        return policy_of(self.policy, overrides, file=self.file, at=("policy",))

    def rows(self) -> dict[str, int]:
        """Row of each account by the path people give."""
        return {account.path: row for row, account in enumerate(self.accounts) if account.own_leaf_of is None}

    def researcher_of(self, path: str) -> str | None:
        """Whose own account this is; None where it is nobody's in particular, or unknown."""
        own = next((account for account in self.accounts if account.path == path), None)
        return path.rsplit("/", 1)[-1] if own is not None and own.researcher else None


def read_lab(path: Path) -> Lab:
    """The lab of a file; BadInput where it is wrong."""
    return lab_of(read_yaml(path), file=str(path))


def lab_of(raw: Any, *, file: str = "lab", at: tuple[str, ...] = ()) -> Lab:
    """The lab of a mapping. `at`: where the mapping stands in `file`."""
    written = checked(LabFile, raw, file=file, at=at)
    policy_of(written.policy, None, file=file, at=(*at, "policy"))
    accounts = account_rows(written.accounts, written.clusters, file=file, at=at)
    nodes = tuple(_node_rows(written, file, at))
    prices = tuple(cluster.price_per_gpu_hour for cluster in written.clusters.values())
    own_shares = tuple(frozenset(cluster.shares) for cluster in written.clusters.values())
    clusters = tuple(written.clusters)
    return Lab(written.lab, file, clusters, prices, nodes, accounts, written.policy, own_shares, written.live)


def _node_rows(lab: LabFile, file: str, at: tuple[str, ...]) -> Iterator[Node]:
    racks: dict[tuple[str, Any], int] = {}
    taken: set[str] = set()
    for row, (cluster, written) in enumerate(lab.clusters.items()):
        total = 0
        here = (*at, "clusters", cluster)
        for index, node in enumerate(_listed_nodes(cluster, written, file, here)):
            gpus = node.gpus or written.gpus_per_node
            if gpus is None:
                path = dotted([*here, "nodes", index, "gpus"])
                if not isinstance(written.nodes, list):
                    path = dotted([*here, "gpus_per_node"])
                raise BadInput(file, path, "nothing", "the GPUs of a node: gpus_per_node, or gpus of each")
            if node.name in taken:
                raise BadInput(
                    file,
                    dotted([*here, "nodes", index, "name"]),
                    f"'{node.name}' again",
                    "a name used once in the lab",
                )
            taken.add(node.name)
            block = None if written.nodes_per_rack is None else index // written.nodes_per_rack
            rack = racks.setdefault((cluster, node.rack or block), len(racks))
            total += gpus
            yield Node(node.name, row, gpus, rack, node.gpu or written.gpu)
        if total > MOST_GPUS:
            raise BadInput(file, dotted(here), f"{total} GPUs", f"at most {MOST_GPUS} in a cluster")


def _listed_nodes(cluster: str, written: ClusterFile, file: str, at: tuple[str, ...]) -> list[NodeFile]:
    if isinstance(written.nodes, list):
        return [
            checked(NodeFile, entry, file=file, at=[*at, "nodes", index])
            for index, entry in enumerate(written.nodes)
        ]
    return [NodeFile.model_construct(name=f"{cluster}-{index:04d}") for index in range(written.nodes)]


def account_rows(
    tree: Mapping[str, AccountFile],
    clusters: Mapping[str, ClusterFile],
    *,
    file: str,
    at: tuple[str, ...] = (),
) -> tuple[Account, ...]:
    """All accounts, depth first; BadInput where siblings' shares do not fit into their parent's."""
    rows = [Account("", -1, (WHOLE,) * len(clusters), (), None, None)]
    known: set[tuple[str, str]] = set()

    def walk(
        children: Mapping[str, AccountFile], parent: int, where: tuple[str, ...], people: frozenset[str]
    ) -> None:
        above = rows[parent].path
        if len(where) > 2 * DEEPEST_TREE + len(at):
            raise BadInput(file, dotted(where), "a deeper tree", f"at most {DEEPEST_TREE} levels of accounts")
        for own_name, child in children.items():
            path = f"{above}/{own_name}" if above else own_name
            shares = []
            for cluster, written in clusters.items():
                known.add((cluster, path))
                shares.append(written.shares.get(path, child.share or 0))
            managers, own = tuple(child.managers), own_name in people
            rows.append(Account(path, parent, tuple(shares), managers, child.max_gpus, None, own))
            here = (*where, own_name)
            people_below = frozenset(child.researchers) - child.accounts.keys()
            walk(_below(child, file, here), len(rows) - 1, (*here, "accounts"), people_below)

    _check_named(tree, file, (*at, "accounts"))
    walk(tree, 0, (*at, "accounts"), frozenset())
    for cluster, written in clusters.items():
        for path in written.shares:
            if (cluster, path) not in known:
                where = dotted([*at, "clusters", cluster, "shares", path])
                raise BadInput(file, where, "an unknown account", nearest(path, [r.path for r in rows[1:]]))
    check_shares(rows, tuple(clusters), file=file, at=at)
    return tuple(rows)


def _below(account: AccountFile, file: str, at: tuple[str, ...]) -> dict[str, AccountFile]:
    """The accounts below: those written, then the researchers with equal parts of what those leave."""
    _check_named(account.accounts, file, (*at, "accounts"))
    children = dict(account.accounts)
    left = max(0, WHOLE - sum(child.share or 0 for child in account.accounts.values()))
    for index, researcher in enumerate(account.researchers):
        if researcher in children or researcher == OWN:
            where = dotted([*at, "researchers", index])
            raise BadInput(file, where, f"'{researcher}' again", "a name used once below an account")
        children[researcher] = AccountFile.model_construct(share=left // len(account.researchers))
    return children


def _check_named(children: Mapping[str, AccountFile], file: str, at: tuple[str, ...]) -> None:
    total = sum(child.share or 0 for child in children.values())
    if total > WHOLE:
        raise _too_much(file, dotted(at), total)
    for own_name, child in children.items():
        if child.share is None:
            raise BadInput(
                file, dotted([*at, own_name, "share"]), "nothing", "its part of its parent's, such as 35%"
            )
        if own_name == OWN:
            raise BadInput(
                file, dotted([*at, own_name]), f"'{OWN}'", "another name: this one is taken by the program"
            )


def check_shares(
    rows: Sequence[Account], clusters: Sequence[str], *, file: str, at: tuple[str, ...] = ()
) -> None:
    """BadInput where children were given more than all of their parent's, on any cluster."""
    given = [[0] * len(clusters) for _ in rows]
    for account in rows[1:]:
        for cluster, part in enumerate(account.shares):
            given[account.parent][cluster] += part
    for row, sums in enumerate(given):
        for cluster, part in enumerate(sums):
            if part > WHOLE:
                where = dotted([*at, "clusters", clusters[cluster], "shares"])
                below = f" below {rows[row].path}" if rows[row].path else ""
                raise _too_much(file, where, part, below)


def _too_much(file: str, where: str, part: int, below: str = "") -> BadInput:
    found = f"shares{below} that sum to {share_text(part)}"
    return BadInput(file, where, found, "shares of siblings that sum to at most 100%")


def with_own_leaves(accounts: tuple[Account, ...], paths: set[str]) -> tuple[Account, ...]:
    """The rows with a leaf of its own for each inner account of `paths`, first below it.

    Its share is what its siblings leave of their parent's.
    """
    inner = {account.parent for account in accounts if account.parent >= 0}
    moved: dict[int, int] = {-1: -1}
    rows: list[Account] = []
    for row, account in enumerate(accounts):
        moved[row] = len(rows)
        rows.append(account._replace(parent=moved[account.parent]))
        if row in inner and account.path in paths and row > 0:
            parts = [
                WHOLE - sum(other.shares[cluster] for other in accounts if other.parent == row)
                for cluster in range(len(account.shares))
            ]
            own = Account(f"{account.path}/{OWN}", moved[row], tuple(parts), (), None, moved[row])
            rows.append(own)
    return tuple(rows)


def leaf_paths(lab: Lab) -> list[str]:
    """Paths of the accounts with nobody below them, in row order."""
    inner = {account.parent for account in lab.accounts}
    return [a.path for row, a in enumerate(lab.accounts) if row not in inner and row > 0]


__all__ = ["Account", "Lab", "LabFile", "Node", "account_rows", "lab_of", "leaf_paths", "read_lab"]
