"""Small random labs and work, as scenarios a person could have written."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

MINUTE, HOUR, DAY = 60, 3600, 86400
SHARES = ((50, 50), (70, 30), (100, 0), (34, 33, 33), (60, 25, 10), (40, 30, 20, 10))
#: Minimums on and around what the rules treat apart: unbudgeted, quick, at and over the cap.
MINIMUMS_S = (0, 0, 60, 900, 901, HOUR, 2 * HOUR, 5 * HOUR)


@st.composite
def clusters(draw: st.DrawFn) -> dict[str, Any]:
    """One or two clusters of up to five nodes, some with racks, types or nodes of two sizes."""
    found: dict[str, Any] = {}
    for name in ("mars", "venus")[: draw(st.integers(1, 2))]:
        size = draw(st.sampled_from((1, 2, 4, 8)))
        count = draw(st.integers(1, 5))
        cluster: dict[str, Any] = {"nodes": count, "gpus_per_node": size}
        if draw(st.booleans()):
            cluster["nodes_per_rack"] = draw(st.integers(1, 3))
        if draw(st.integers(0, 3)) == 0:
            kinds = [draw(st.sampled_from(("H100", "A100"))) for _ in range(count)]
            cluster["nodes"] = [{"name": f"{name}-{i}", "gpu": kind} for i, kind in enumerate(kinds)]
            cluster.pop("nodes_per_rack", None)
        found[name] = cluster
    return found


@st.composite
def trees(draw: st.DrawFn, largest: int) -> dict[str, Any]:
    """Two to four accounts, some with two below them, some with a limit that still lets any job run."""
    accounts: dict[str, Any] = {}
    for name, share in zip("abcd", draw(st.sampled_from(SHARES))):
        account: dict[str, Any] = {"share": f"{share}%"}
        if draw(st.integers(0, 3)) == 0:
            account["max_gpus"] = largest + draw(st.integers(0, 4))
        if draw(st.integers(0, 3)) == 0:
            part = draw(st.sampled_from((50, 80, 100)))
            account["accounts"] = {"x": {"share": f"{part}%"}, "y": {"share": f"{100 - part}%"}}
        accounts[name] = account
    return accounts


def nodes_of(cluster: dict[str, Any]) -> list[str | None]:
    """The GPU type of each node."""
    nodes = cluster["nodes"]
    return [None] * nodes if isinstance(nodes, int) else [node.get("gpu") for node in nodes]


def rooms(labs: dict[str, Any]) -> list[tuple[str, str | None, int, int]]:
    """(cluster, type, GPUs of a node, nodes) for each set of like nodes, and for each whole cluster."""
    found = []
    for name, cluster in labs.items():
        kinds = nodes_of(cluster)
        found.append((name, None, cluster["gpus_per_node"], len(kinds)))
        found += [(name, k, cluster["gpus_per_node"], kinds.count(k)) for k in sorted({*kinds} - {None})]
    return found


@st.composite
def jobs(draw: st.DrawFn, labs: dict[str, Any], paths: list[str], longest_s: int) -> dict[str, Any]:
    """A job that at least one cluster can hold."""
    cluster, kind, size, count = draw(st.sampled_from(rooms(labs)))
    gpus = draw(st.integers(1, size)) if draw(st.booleans()) else size * draw(st.integers(1, count))
    job: dict[str, Any] = {
        "account": draw(st.sampled_from(paths)),
        "gpus": gpus,
        "min_runtime": draw(st.sampled_from(MINIMUMS_S)),
        "runtime": draw(st.sampled_from((1, 59, 601, HOUR, 3 * HOUR, longest_s))),
        "submit": draw(st.sampled_from((0, 0, 1, 60, 601, HOUR, HOUR + 7, 4 * HOUR))),
    }
    sizes = {one["gpus_per_node"] for one in labs.values()}
    if kind or (len(labs) > 1 and (len(sizes) > 1 or draw(st.booleans()))):
        job["clusters"] = [cluster]
    choices: dict[str, Any] = {
        "gpu": kind,
        "resumable": False,
        "priority": draw(st.integers(-1, 2)),
        "kind": draw(st.sampled_from(("debug", "session"))),
        "checkpoint_every": draw(st.sampled_from((0, 7 * MINUTE, 2 * HOUR))),
        "saves_when_asked": draw(st.booleans()),
        "restart": draw(st.sampled_from((0, 5 * MINUTE))),
        "fails": True,
    }
    for key, value in choices.items():
        if (key == "gpu" and kind) or (key != "gpu" and draw(st.integers(0, 5)) == 0):
            job[key] = value
    return job


@st.composite
def policies(draw: st.DrawFn) -> dict[str, Any]:
    knobs: dict[str, Any] = {
        "order": draw(st.sampled_from(("targets", "targets", "window"))),
        "max_protected": draw(st.sampled_from(("30m", "2h", "8h"))),
    }
    choices: dict[str, Any] = {
        "grace": {"budgeted": "0s", "unbudgeted": "0s"},
        "lookback": "3h",
        "pool": {"nodes": 1},
        "plan": {"above": 0},
        "patience": {"wait": "0s"},
        "depth": 2,
        "notice": "0s",
        "back_off": "0s",
    }
    for key, value in choices.items():
        if draw(st.integers(0, 4)) == 0:
            knobs[key] = value
    return knobs


def names_of(nodes: dict[str, Any]) -> list[str]:
    names = []
    for cluster, told in nodes.items():
        listed = told["nodes"]
        if isinstance(listed, int):
            names += [f"{cluster}-{i:04d}" for i in range(listed)]
        else:
            names += [node["name"] for node in listed]
    return names


@st.composite
def events(
    draw: st.DrawFn, labs: dict[str, Any], work: list[dict[str, Any]], tree: dict[str, Any]
) -> list[dict[str, Any]]:
    """Nodes that fail, drain or close and come back, shares that shrink, jobs cancelled and held."""
    found: list[dict[str, Any]] = []
    instants = st.sampled_from((0, 60, HOUR, HOUR + 7, 2 * HOUR, 5 * HOUR))
    for _ in range(draw(st.integers(0, 3))):
        state = draw(st.sampled_from(("down", "draining")))
        node = draw(st.sampled_from(names_of(labs)))
        lasts = draw(st.sampled_from((1, 300, 2 * HOUR)))
        found.append({"at": draw(instants), "node": node, "state": state, "for": lasts})
    if draw(st.integers(0, 3)) == 0:
        at, ahead_s = draw(instants), draw(st.sampled_from((1, 1800, 3 * HOUR)))
        node = draw(st.sampled_from(names_of(labs)))
        found.append(
            {"at": at, "node": node, "closed_from": at + ahead_s, "for": draw(st.sampled_from((1, HOUR)))}
        )
    if draw(st.booleans()):
        account = draw(st.sampled_from(sorted(tree)))
        less = int(tree[account]["share"].rstrip("%")) // 2
        found.append(
            {"at": draw(instants), "account": account, "share": f"{less}%", "by": "pia", "reason": "x"}
        )
    for row in draw(st.lists(st.integers(0, len(work) - 1), max_size=2, unique=True)):
        job = work[row]["id"]
        at = work[row]["submit"] + draw(st.sampled_from((0, 30, 700, 2 * HOUR)))
        if draw(st.booleans()):
            found.append({"at": at, "job": job, "do": "cancel", "by": "ann", "reason": "x"})
        else:
            found.append({"at": at, "job": job, "do": "hold", "by": "ann", "reason": "x"})
            found.append({"at": at + 1801, "job": job, "do": "release", "by": "ann", "reason": "y"})
    return sorted(found, key=lambda event: event["at"])


def paths_of(tree: dict[str, Any], above: str = "") -> list[str]:
    found = []
    for name, account in tree.items():
        path = f"{above}{name}"
        found += [path, *paths_of(account.get("accounts", {}), f"{path}/")]
    return found


@st.composite
def scenarios(draw: st.DrawFn, *, until_s: int = 12 * HOUR, longest_s: int = 30 * DAY) -> dict[str, Any]:
    """A lab, up to twelve jobs that fit it, and what happens from outside."""
    labs = draw(clusters())
    largest = max(size * count for _, _, size, count in rooms(labs))
    tree = draw(trees(largest))
    paths = paths_of(tree)
    work = draw(st.lists(jobs(labs, paths, longest_s), min_size=1, max_size=12))
    for row, job in enumerate(work):
        job["id"] = f"j{row}"
    return {
        "lab": {"lab": "random", "clusters": labs, "accounts": tree, "policy": draw(policies())},
        "until": until_s,
        "jobs": work,
        "events": draw(events(labs, work, tree)),
    }


@st.composite
def modest_and_greedy(draw: st.DrawFn) -> dict[str, Any]:
    """1-GPU jobs without end: account `a` asks for no more than its part, `b` and `c` for all there is."""
    size, count = draw(st.sampled_from((1, 2, 8))), draw(st.integers(1, 4))
    parts = draw(st.sampled_from(((50, 30, 20), (25, 75, 0), (75, 15, 10))))
    modest = size * count * parts[0] // 100
    minimum = st.sampled_from((900, HOUR, 3 * HOUR))
    shape = {"gpus": 1, "runtime": 30 * DAY}
    work = [
        {"id": "b", "account": "b", "min_runtime": draw(minimum), "count": size * count, **shape},
        {"id": "c", "account": "c", "min_runtime": 0, "count": size * count, "submit": 60, **shape},
    ]
    if modest:
        submit = draw(st.sampled_from((0, 1, 2 * HOUR, 9 * HOUR)))
        every = draw(st.sampled_from((0, 17, 1200)))
        told = {"min_runtime": draw(minimum), "submit": submit, "every": every}
        work.append({"id": "a", "account": "a", "count": modest, **told, **shape})
    accounts = {name: {"share": f"{part}%"} for name, part in zip("abc", parts)}
    nodes = {"jupiter": {"nodes": count, "gpus_per_node": size}}
    return {"lab": {"clusters": nodes, "accounts": accounts}, "until": 5 * DAY, "jobs": work}
