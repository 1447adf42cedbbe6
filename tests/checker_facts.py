"""What the checker knows beforehand (the first line of a story) and what it remembers of a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

NEVER_S = 1 << 60
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def seconds(value: Any) -> int:
    """`90s`, `1.5h`, `7d` or plain seconds."""
    if isinstance(value, str) and value[-1] in UNITS:
        return round(float(value[:-1]) * UNITS[value[-1]])
    return round(float(value))


def part(value: Any) -> float:
    """`35%`, 0.35, or millionths, as a part of one."""
    if isinstance(value, str):
        return float(value.rstrip("%")) / 100 if value.endswith("%") else float(value)
    return value / 1e6 if isinstance(value, int) and value > 1 else float(value)


class Node(NamedTuple):
    name: str
    cluster: str
    gpus: int
    rack: Any = 0
    gpu: str | None = None


@dataclass
class Facts:
    """Of the lab and its policy. Seconds and GPUs."""

    nodes: dict[str, Node]
    clusters: list[str]
    accounts: dict[str, dict[str, float]]  #: path -> share of its parent's by cluster
    max_gpus: dict[str, int]
    until_s: int | None
    max_protected_s: int
    grace_budgeted_s: int
    grace_unbudgeted_s: int
    notice_s: int
    hold_s: int
    tick_s: int
    back_off_s: int
    quick_runtime_s: int
    quick_gpus: int
    quotas: bool  #: policy `priority`: within its quota work is kept for good, beyond it not at all

    def grace_s(self, job: Job) -> int:
        return self.grace_budgeted_s if job.min_runtime_s else self.grace_unbudgeted_s

    @staticmethod
    def line_of(account: str) -> list[str]:
        """The account, those above it and the lab itself."""
        names = account.split("/") if account else []
        return ["/".join(names[:depth]) for depth in range(len(names) + 1)]


@dataclass
class Attempt:
    number: int
    t: int
    nodes: dict[str, int]
    protected_until_s: int
    leaves_s: int  #: from when it leaves a draining node
    notice: Mapping[str, Any] | None = None
    stopping: Mapping[str, Any] | None = None
    grace_until_s: int | None = None
    causes: list[str] = field(default_factory=list)
    told_late: bool = False

    def stop(self, line: Mapping[str, Any]) -> None:
        until_s = line["grace_until_s"]
        self.grace_until_s = until_s if self.grace_until_s is None else min(until_s, self.grace_until_s)
        self.stopping = line
        self.causes.append(line["cause"])


@dataclass
class Job:
    id: str
    account: str
    gpus: int
    min_runtime_s: int
    resumable: bool
    quick: bool
    clusters: set[str]
    gpu: str | None
    same_rack: bool
    restart_s: int
    max_runtime_s: int | None
    runtime_s: int | None
    phase: str = "waiting"
    held: bool = False
    attempts: int = 0
    attempt: Attempt | None = None
    stops: int = 0
    last_stop_s: int = 0
    held_gpu_s: int = 0
    lost_gpu_s: int = 0

    @staticmethod
    def submitted(line: Mapping[str, Any], wish: Mapping[str, Any], facts: Facts) -> Job:
        def wished(key: str) -> int | None:
            value = wish.get(key, wish.get(f"{key}_s"))
            return None if value is None else seconds(value)

        runtime_s, gpus = line["min_runtime_s"], line["gpus"]
        clusters = wish.get("clusters") or []
        restart_s = wished("restart")
        return Job(
            id=line["job"],
            account=line["account"],
            gpus=gpus,
            min_runtime_s=runtime_s,
            resumable=bool(line["resumable"]),
            quick=0 < runtime_s <= facts.quick_runtime_s and gpus <= facts.quick_gpus,
            clusters={clusters} if isinstance(clusters, str) else set(clusters),
            gpu=wish.get("gpu"),
            same_rack=bool(wish.get("same_rack")),
            restart_s=60 if restart_s is None else restart_s,
            max_runtime_s=wished("max_runtime"),
            runtime_s=wished("runtime"),
        )

    def start(self, attempt: Attempt) -> None:
        self.phase, self.attempts, self.attempt = "running", attempt.number, attempt

    def stop(self, line: Mapping[str, Any], attempt: Attempt) -> None:
        """Afterwards `stopped` (to be queued again) or `ended`."""
        again = line["end"] in ("preempted", "node_failed") and self.resumable
        self.phase, self.attempt = ("stopped" if again else "ended"), None
        self.held_gpu_s += line["held_gpu_s"]
        self.lost_gpu_s += line["lost_gpu_s"]
        if line["end"] == "preempted" and attempt.stopping:
            self.stops += 1
            self.last_stop_s = attempt.stopping["t"]


def facts_of(
    began: Mapping[str, Any], lab: Mapping[str, Any] | None, policy: Mapping[str, Any] | None
) -> Facts:
    """From the first line of a story; `lab` and `policy` where it is silent."""
    knobs = {**knobs_of(began.get("policy")), **knobs_of(policy)}

    def knob(name: str, default_s: int) -> int:
        value = knobs.get(f"{name}_s", knobs.get(name))
        return default_s if value is None else seconds(value)

    clusters, nodes = _told_nodes(began) if began.get("nodes") else _lab_nodes(lab or {})
    accounts, max_gpus = _accounts(began, lab or {}, clusters)
    return Facts(
        nodes={node.name: node for node in nodes},
        clusters=clusters,
        accounts=accounts,
        max_gpus=max_gpus,
        until_s=began.get("until_s"),
        max_protected_s=knob("max_protected", 8 * 3600),
        grace_budgeted_s=knob("grace_budgeted", 120),
        grace_unbudgeted_s=knob("grace_unbudgeted", 15),
        notice_s=knob("notice", 300),
        hold_s=knob("hold", 600),
        tick_s=knob("tick", 300),
        back_off_s=knob("back_off", 1800),
        quick_runtime_s=knob("quick_runtime", 900),
        quick_gpus=int(knobs.get("quick_gpus") or 8),
        quotas=knobs.get("rule", knobs.get("name")) == "priority",
    )


def knobs_of(knobs: Mapping[str, Any] | None) -> dict[str, Any]:
    """`grace: {budgeted: 2m}` and `grace.budgeted: 2m` as `grace_budgeted: 2m`."""
    flat: dict[str, Any] = {}
    for key, value in (knobs or {}).items():
        below = knobs_of(value) if isinstance(value, Mapping) else {"": value}
        flat.update({f"{key}_{inner}".strip("_").replace(".", "_"): v for inner, v in below.items()})
    return flat


def _told_nodes(began: Mapping[str, Any]) -> tuple[list[str], list[Node]]:
    told = began.get("clusters") or sorted({str(node["cluster"]) for node in began["nodes"]})
    clusters = [c["name"] if isinstance(c, Mapping) else str(c) for c in told]
    nodes = []
    for node in began["nodes"]:
        cluster = node["cluster"]
        name = clusters[cluster] if isinstance(cluster, int) else cluster
        nodes.append(Node(node["name"], name, node["gpus"], node.get("rack", 0), node.get("gpu")))
    return clusters, nodes


def _lab_nodes(lab: Mapping[str, Any]) -> tuple[list[str], list[Node]]:
    nodes = []
    for name, cluster in (lab.get("clusters") or {}).items():
        listed, size = cluster["nodes"], cluster.get("gpus_per_node", 8)
        if isinstance(listed, int):
            rack_nodes = cluster.get("nodes_per_rack") or listed
            listed = [{"name": f"{name}-{i:04d}", "rack": i // rack_nodes} for i in range(listed)]
        for node in listed:
            kind = node.get("gpu", cluster.get("gpu"))
            rack = (name, node.get("rack", 0))
            nodes.append(Node(node["name"], name, node.get("gpus", size), rack, kind))
    return list(lab.get("clusters") or {}), nodes


def _accounts(
    began: Mapping[str, Any], lab: Mapping[str, Any], clusters: list[str]
) -> tuple[dict[str, dict[str, float]], dict[str, int]]:
    shares: dict[str, dict[str, float]] = {}
    limits: dict[str, int] = {}
    for row in began.get("accounts") or _lab_accounts(lab.get("accounts") or {}, ""):
        path, told = row["path"], row.get("shares")
        if row.get("own_leaf_of") is not None:
            continue  # what an inner account's children leave of it, for work given to itself
        if row.get("max_gpus") is not None:
            limits[path] = min(row["max_gpus"], limits.get(path, row["max_gpus"]))
        if isinstance(told, Mapping):
            shares[path] = {c: part(told[c]) for c in clusters if c in told}
        elif isinstance(told, (list, tuple)):
            shares[path] = {c: part(s) for c, s in zip(clusters, told)}
        else:
            shares[path] = {c: part(told or 0) for c in clusters}
    return shares, limits


def _lab_accounts(accounts: Mapping[str, Any], above: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for name, account in accounts.items():
        path = f"{above}/{name}" if above else name
        rows.append({"path": path, "shares": account.get("share", 0), "max_gpus": account.get("max_gpus")})
        people = account.get("researchers") or []
        below = {**{p: {"share": 1 / len(people)} for p in people}, **(account.get("accounts") or {})}
        rows += _lab_accounts(below, path)
    return rows
