"""Sums that must come out: shares of siblings (S1), GPU-seconds of the whole lab (S4), the measures."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from checker_facts import Facts, facts_of, part

if TYPE_CHECKING:
    from checker import Checker

ONE = 1 + 1e-6


class Shares:
    """What each account has of its parent's, in each cluster, as the story goes on."""

    def __init__(self, checker: Checker) -> None:
        self.checker = checker
        self.now = {path: dict(shares) for path, shares in checker.facts.accounts.items()}
        self.touched = bool(self.now)

    def changed(self, line: Mapping[str, Any]) -> None:
        path = line["account"]
        if path not in self.now:
            self.checker.says(line, "file", f"share of {path!r}, which is no account")
            return
        cluster = line.get("cluster")
        for name in self.now[path] if cluster is None else [cluster]:
            if cluster is not None and abs(self.now[path].get(name, 0) - part(line["old"])) > 1e-6:
                self.checker.says(line, "S3", f"the share of {path} was not {line['old']}")
            self.now[path][name] = part(line["new"])
        self.touched = True

    def of(self, account: str, cluster: str) -> float:
        """The part of a cluster that is for work given to this account itself: what its children leave."""
        names = account.split("/")
        whole = 1.0
        for depth in range(1, len(names) + 1):
            whole *= self.now["/".join(names[:depth])].get(cluster, 0.0)
        below = [p for p in self.now if p.startswith(f"{account}/") and p.count("/") == len(names)]
        return whole * max(0.0, 1 - sum(self.now[p].get(cluster, 0.0) for p in below))

    def after(self, line: Mapping[str, Any]) -> None:
        if not self.touched:
            return
        self.touched = False
        sums: dict[tuple[str, str], float] = defaultdict(float)
        for path, shares in self.now.items():
            if path:
                above = path.rpartition("/")[0]
                for cluster, share in shares.items():
                    sums[above, cluster] += share
        for (above, cluster), total in sums.items():
            if total > ONE:
                who = above or "the lab"
                self.checker.says(line, "S1", f"shares below {who} in {cluster} sum to {100 * total:g} %")


def span_of(story: list[Mapping[str, Any]]) -> tuple[int, int]:
    """From the end of the warm-up to the end; a story told none (`until_s` null) ends with its last line."""
    until_s = story[0]["until_s"]
    return story[0]["warmup_s"], story[-1]["t"] if until_s is None else until_s


def gpu_seconds(lines: Iterable[Mapping[str, Any]], lab: Mapping[str, Any] | None = None) -> dict[str, int]:
    """Where every GPU-second of the span went: `capacity`, `down`, `idle`, `budgeted`, `unbudgeted`, `lost`.

    Swept node by node: a node is down while `down`, or out of service and empty. Idle is summed by itself,
    not taken as the rest, so the five must add up (S4).
    """
    story = list(lines)
    facts = facts_of(story[0], lab, None)
    begin_s, end_s = span_of(story)
    changes: dict[str, list[tuple[int, int, int, str | None]]] = defaultdict(
        list
    )  # t, +budgeted, +free, state
    budgeted, nodes_of, lost = {}, {}, 0
    for line in story[1:]:
        t, event, job = line["t"], line["event"], line.get("job")
        if event == "submitted":
            budgeted[job] = line["min_runtime_s"] > 0
        elif event == "node":
            changes[line["node"]].append((t, 0, 0, line["state"]))
        elif event in ("started", "stopped"):
            if event == "started":
                nodes_of[job] = line["nodes"]
            elif t >= begin_s:
                lost += line["lost_gpu_s"]
            sign = 1 if event == "started" else -1
            for node, gpus in nodes_of[job].items():
                paid = sign * gpus if budgeted[job] else 0
                changes[node].append((t, paid, sign * gpus - paid, None))
    sums = Counter(capacity=sum(n.gpus for n in facts.nodes.values()) * (end_s - begin_s), lost=lost)
    for name in facts.nodes:
        sums.update(_node_seconds(facts, name, changes[name], (begin_s, end_s)))
    return {key: sums[key] for key in ("capacity", "down", "idle", "budgeted", "unbudgeted", "lost")}


def _node_seconds(
    facts: Facts, name: str, changes: list[tuple[int, int, int, str | None]], span: tuple[int, int]
) -> Counter[str]:
    size, paid, free_of_charge, state, since = facts.nodes[name].gpus, 0, 0, "up", span[0]
    sums: Counter[str] = Counter()
    for t, more_paid, more_free, new_state in [*changes, (span[1], 0, 0, None)]:
        long_s = max(0, min(t, span[1]) - since)
        since = max(since, min(t, span[1]))
        held = paid + free_of_charge
        gone = state == "down" or (state != "up" and held == 0)
        sums["budgeted"] += paid * long_s
        sums["unbudgeted"] += free_of_charge * long_s
        sums["down" if gone else "idle"] += (size - held) * long_s
        paid, free_of_charge, state = paid + more_paid, free_of_charge + more_free, new_state or state
    return sums


def check_measures(
    lines: Iterable[Mapping[str, Any]], measures: Mapping[str, Any], lab: Mapping[str, Any] | None = None
) -> list[str]:
    """Where the measures contradict the story they were taken from, or themselves."""
    story = list(lines)
    broken = []
    sums = gpu_seconds(story, lab)
    if sums["capacity"] != sums["down"] + sums["idle"] + sums["budgeted"] + sums["unbudgeted"]:
        broken.append(f"S4: the story itself does not add up: {sums}")
    for key, gpu_s in sums.items():
        told = measures["gpu_hours"][key]
        if abs(told * 3600 - gpu_s) > 0.5 + 1e-9 * gpu_s:
            broken.append(f"S4: {key} is {told} GPU-hours, the story has {gpu_s / 3600}")
    begin_s, end_s = span_of(story)
    span_s = end_s - begin_s
    if measures["span_s"] != span_s:
        broken.append(f"file: span_s is {measures['span_s']}, not {span_s}")
    held, up = sums["budgeted"] + sums["unbudgeted"], sums["capacity"] - sums["down"]
    ratios = {
        "occupancy": held / up if up else None,
        "availability": up / sums["capacity"] if sums["capacity"] else None,
        "unbudgeted_share": sums["unbudgeted"] / held if held else None,
    }
    for key, right in ratios.items():
        if right is not None and abs(measures[key] - right) > 1e-9:
            broken.append(f"{key} is {measures[key]}, not {right}")
    stops = preemptions(story)
    if measures["preemptions"]["count"] != sum(stops.values()):
        broken.append(f"preemptions: {measures['preemptions']['count']}, the story has {sum(stops.values())}")
    if measures["preemptions"]["max_per_job"] != max(stops.values(), default=0):
        broken.append(f"preemptions of one job: {measures['preemptions']['max_per_job']}")
    return broken


def preemptions(story: list[Mapping[str, Any]]) -> Counter[str]:
    """Attempts that ended `preempted` in the span, by job."""
    begin_s = story[0]["warmup_s"]
    ends = (x for x in story if x["event"] == "stopped" and x["t"] >= begin_s)
    return Counter(x["job"] for x in ends if x["end"] == "preempted")
