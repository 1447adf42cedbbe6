"""Was a swap right? Targets of accounts worked out a second time, from the lines of a story alone (S8, S12).

For one cluster shared by targets: what is due flows down the tree, debts and credits are due minus delivered
over the lookback, credit is called back as far as others are in debt. Plain floats and whole sums at each
instant that matters; slow, and meant for small stories.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from checker_facts import Facts, facts_of, knobs_of, seconds

HOUR = 3600
NEAR = 0.01  #: GPUs; the scheduler rounds to whole seconds and micro-GPUs
OWN = "(own)"  #: the leaf of work given to an inner account itself


class Leaf(NamedTuple):
    due: float
    debt_gpu_s: float  #: due minus delivered over the lookback
    target: float


class Rates(NamedTuple):
    begin_s: int
    end_s: int
    due: dict[str, float]
    held: dict[str, int]


@dataclass
class Work:
    account: str
    gpus: int
    min_runtime_s: int
    running: bool = False
    stopping: bool = False
    claimed: bool = False
    held: bool = False
    over: bool = False
    leaf: str = ""
    nodes: dict[str, int] = field(default_factory=dict)


@dataclass
class Books:
    """What each leaf asked for, held and was due, moment by moment."""

    facts: Facts
    shares: dict[str, float]
    lookback_s: int
    repay_s: int
    bound_gpus: float
    jobs: dict[str, Work] = field(default_factory=dict)
    history: list[Rates] = field(default_factory=list)
    state: dict[str, str] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    now_s: int = 0

    # --- the tree -------------------------------------------------------------------------------------

    def children(self, above: str) -> list[str]:
        depth = above.count("/") + 1 if above else 0
        start = f"{above}/" if above else ""
        return [p for p in self.shares if p and p.startswith(start) and p.count("/") == depth]

    def leaf(self, account: str) -> str:
        return f"{account}/{OWN}" if self.children(account) else account

    def leaves(self, path: str) -> list[str]:
        below = self.children(path)
        return [leaf for child in below for leaf in self.leaves(child)] if below else [path]

    def healthy_gpus(self) -> int:
        def there(name: str) -> bool:
            state = self.state.get(name, "up")
            return state == "up" or (state != "down" and self.used[name] > 0)

        return sum(node.gpus for name, node in self.facts.nodes.items() if there(name))

    def entitlements(self) -> dict[str, float]:
        gpus = {"": float(self.healthy_gpus())}
        for path in sorted(self.shares, key=lambda p: p.count("/") + (p != "")):
            if path:
                gpus[path] = gpus[path.rpartition("/")[0]] * self.shares[path]
        return gpus

    # --- due, debt, target ----------------------------------------------------------------------------

    def demand(self) -> dict[str, int]:
        asked: dict[str, int] = defaultdict(int)
        for job in self.jobs.values():
            if job.min_runtime_s and not job.over and (job.running or not job.held):
                asked[job.leaf] += job.gpus
        return asked

    def due(self) -> dict[str, float]:
        """S8: top-level accounts get what they ask for, to their entitlement; below it flows."""
        asked, part = self.demand(), self.entitlements()
        dem = {path: float(sum(asked[leaf] for leaf in self.leaves(path))) for path in part}
        due = {path: min(dem[path], part[path]) for path in self.children("")}
        todo = list(due)
        while todo:
            above = todo.pop()
            below = self.children(above)
            due.update(poured(due[above], {c: part[c] for c in below}, {c: dem[c] for c in below}))
            todo += below
        return due

    def delivering(self) -> dict[str, int]:
        held: dict[str, int] = defaultdict(int)
        for job in self.jobs.values():
            if job.running and job.min_runtime_s:
                held[job.leaf] += job.gpus
        return held

    def pass_time(self, t: int) -> None:
        if t > self.now_s:
            self.history.append(Rates(self.now_s, t, self.due(), self.delivering()))
            self.now_s = t

    def debts(self) -> dict[str, float]:
        since_s = self.now_s - self.lookback_s
        debt: dict[str, float] = defaultdict(float)
        for begin_s, end_s, due, held in self.history:
            long_s = end_s - max(begin_s, since_s)
            if long_s > 0:
                for leaf in self.leaves(""):
                    debt[leaf] += (due.get(leaf, 0.0) - held.get(leaf, 0)) * long_s
        return debt

    def standing(self) -> dict[str, Leaf]:
        part, due, debt = self.entitlements(), self.due(), self.debts()
        back = self.called_back(debt)
        found = {}
        for leaf in self.leaves(""):
            bound = max(0.25 * part[leaf], self.bound_gpus)
            move = (debt[leaf] if debt[leaf] > 0 else -back[leaf]) / self.repay_s
            target = max(part[leaf], due[leaf]) + max(-bound, min(bound, move))
            found[leaf] = Leaf(due[leaf], debt[leaf], target)
        return found

    def called_back(self, debt: Mapping[str, float]) -> dict[str, float]:
        def net(path: str) -> float:
            return sum(debt[leaf] for leaf in self.leaves(path))

        back, todo = {"": 0.0}, [""]
        while todo:
            above = todo.pop()
            below = self.children(above)
            owed = sum(max(0.0, net(c)) for c in below) + back[above]
            credit = sum(max(0.0, -net(c)) for c in below)
            for child in below:
                back[child] = (min(1.0, owed / credit) if credit else 0.0) * max(0.0, -net(child))
            todo += below
        return back

    def holds(self, leaf: str) -> int:
        """Running, less what is stopping, and what is being cleared for it."""
        mine = [j for j in self.jobs.values() if j.leaf == leaf and j.min_runtime_s]
        return sum(j.gpus for j in mine if (j.running and not j.stopping) or j.claimed)

    def slack(self, leaf: str, gpus: int) -> float:
        return min(0.5 * gpus, max(self.bound_gpus, 0.1 * self.entitlements()[leaf]))


def poured(gpus: float, part: Mapping[str, float], dem: Mapping[str, float]) -> dict[str, float]:
    """`gpus` among children by their parts, each capped at its demand; what those with a part leave goes to
    those without one, alike."""
    found: dict[str, float] = {}
    left = gpus
    for still in (
        {child: p for child, p in part.items() if p > 0},
        {child: 1.0 for child, p in part.items() if p <= 0},
    ):
        while still:
            each = left / sum(still.values())
            met = [c for c in still if dem[c] <= each * still[c]]
            if not met:
                found |= {c: each * p for c, p in still.items()}
                left = 0.0
                break
            for child in met:
                found[child] = dem[child]
                left -= dem[child]
                del still[child]
    return found


def books_of(began: Mapping[str, Any]) -> Books | None:
    """None for what this second opinion does not cover: other orders, several clusters, hard limits."""
    facts, knobs = facts_of(began, None, None), knobs_of(began.get("policy"))
    order = knobs.get("order", "targets")
    ordinary = str(knobs.get("half_life", "off")) == "off" and knobs.get("name", "budget") == "budget"
    if order not in ("targets", 0) or not ordinary or len(facts.clusters) != 1 or facts.max_gpus:
        return None
    (cluster,) = facts.clusters
    total = sum(node.gpus for node in facts.nodes.values())
    node_gpus = max(node.gpus for node in facts.nodes.values())
    shares = {path: part.get(cluster, 0.0) for path, part in facts.accounts.items() if path}
    books = Books(
        facts,
        shares,
        seconds(knobs.get("lookback", "7d")),
        seconds(knobs.get("repay_over", "48h")),
        2.0 * node_gpus if total >= 512 else 1.0 * node_gpus,
    )
    for path in list(shares):
        if books.children(path) and f"{path}/{OWN}" not in shares:
            shares[f"{path}/{OWN}"] = max(0.0, 1 - sum(shares[c] for c in books.children(path)))
    return books


def check_swaps(lines: Iterable[Mapping[str, Any]]) -> list[str]:
    """Stops for which the victim's account was not in the state. Empty: none, or not covered."""
    story = list(lines)
    books = books_of(story[0])
    if books is None:
        return []
    broken: list[str] = []
    decided: tuple[int, dict[str, Leaf]] = (-1, {})
    for line in story[1:]:
        books.pass_time(line["t"])
        if line["event"] == "stopping" and line["cause"] == "preempted":
            if decided[0] != line["t"]:
                decided = (line["t"], books.standing())
            broken += [f"line {line['n']}: S12: {what}" for what in swap_wrong(books, line, decided[1])]
        note(books, line)
    return broken


def swap_wrong(books: Books, line: Mapping[str, Any], now: Mapping[str, Leaf]) -> list[str]:
    victim, taker = books.jobs[line["job"]], books.jobs.get(str(line["by"]))
    if taker is None or not victim.min_runtime_s or line["rule"] not in ("above_target", "saved_up"):
        return []
    leaf = victim.leaf
    if line["rule"] == "saved_up":
        if now[leaf].debt_gpu_s < NEAR * HOUR:
            return []
        return [f"{line['job']} goes for a saver, and {leaf} is owed {now[leaf].debt_gpu_s / HOUR:g} GPU-h"]
    after, least = books.holds(leaf) - victim.gpus, now[leaf].target - books.slack(leaf, victim.gpus)
    if after < least - NEAR:
        return [f"{leaf} would hold {after} GPUs without {line['job']}, below {least:.3f}"]
    return []


def note(books: Books, line: Mapping[str, Any]) -> None:
    """What a line changes in the books."""
    event, job = line["event"], books.jobs.get(line.get("job", ""))
    if event == "submitted":
        leaf = books.leaf(line["account"])
        over = line["gpus"] > sum(node.gpus for node in books.facts.nodes.values())
        books.jobs[line["job"]] = Work(
            line["account"], line["gpus"], line["min_runtime_s"], over=over, leaf=leaf
        )
    elif event == "node":
        books.state[line["node"]] = line["state"]
    elif event == "share":
        books.shares[line["account"]] = float(line["new"])
        above = line["account"].rpartition("/")[0]
        if f"{above}/{OWN}" in books.shares:
            others = [c for c in books.children(above) if not c.endswith(OWN)]
            books.shares[f"{above}/{OWN}"] = max(0.0, 1 - sum(books.shares[c] for c in others))
    if job is None:
        return
    if event == "started":
        job.running, job.stopping, job.claimed = True, False, False
        for node, gpus in line["nodes"].items():
            books.used[node] += gpus
        job.nodes = dict(line["nodes"])
    elif event == "stopping":
        job.stopping = True
    elif event == "stopped":
        job.running = job.stopping = False
        for node, gpus in job.nodes.items():
            books.used[node] -= gpus
        job.over = True  # until it is queued again
    elif event == "requeued":
        job.over = False
    elif event == "cancelled":
        job.over, job.claimed = True, False
    elif event in ("held", "released"):
        job.held = event == "held"
        job.claimed = job.claimed and not job.held
    elif event in ("claimed", "unclaimed"):
        job.claimed = event == "claimed"
