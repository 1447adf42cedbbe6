"""Kernels against the second way of naive.py, at many turns of small plays."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from naive import NEVER, Books, Held, Knobs, Tree
from stepping import Ledger, staged, turns
from strategies import scenarios
from tenure.core.columns import UGPU, WHOLE
from tenure.core.words import NEVER_S, NONE, Happened, Phase
from tenure.simulator.simulate import Stage

pytestmark = pytest.mark.core
SCENARIOS = Path(__file__).parent / "scenarios"
HOUR = 3600
EXAMPLES = int(os.environ.get("TENURE_EXAMPLES", "20"))
tried = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
ASKING = (Phase.WAITING, Phase.CLAIMING, Phase.RUNNING, Phase.STOPPING)
GPUS_NEAR, GPU_S_NEAR = 1e-4, 30.0  #: shares are whole millionths of a GPU, rounded down at each level


class Watching(Ledger):
    """Keeps, beside the record, who held what from when to when."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.stage = stage
        self.stays: dict[int, int] = {}
        self.over: list[tuple[int, Held]] = []  #: cluster and charge

    def note(self, stage: Stage) -> None:
        board = stage.board
        for out in board.out[self.out_read : int(board.counts["n_out"][0])]:
            event, job, t = int(out["event"]), int(out["job"]), int(out["t"])
            if event == Happened.STARTED and stage.lab.jobs["min_runtime_s"][job] > 0:
                self.stays[job] = t
            elif event == Happened.STOPPED and job in self.stays:
                self.over.append((int(board.stays["cluster"][job]), self.charge(job, self.stays.pop(job), t)))
        super().note(stage)

    def charge(self, job: int, begin_s: int, end_s: int) -> Held:
        jobs = self.stage.lab.jobs
        return Held(int(jobs["account"][job]), int(jobs["gpus"][job]), begin_s, end_s)

    def charges(self, cluster: int, now_s: int) -> list[Held]:
        running = [(int(self.stage.board.stays["cluster"][job]), job, t) for job, t in self.stays.items()]
        gone = [held for where, held in self.over if where == cluster]
        return gone + [self.charge(job, t, now_s) for where, job, t in running if where == cluster]


def tree_of(stage: Stage, cluster: int) -> Tree:
    accounts = stage.lab.accounts
    limits = np.where(accounts["max_gpus"] >= NEVER_S, np.inf, accounts["max_gpus"])
    return Tree(accounts["parent"].tolist(), (stage.board.shares[cluster] / WHOLE).tolist(), limits.tolist())


def books_of(stage: Stage, cluster: int) -> Books:
    total, unit = int(stage.lab.clusters["gpus"][cluster]), int(stage.lab.clusters["node_gpus"][cluster])
    bound = 2.0 * unit if total >= 512 else float(unit)
    half_s = None if stage.policy.half_life_s == NEVER_S else stage.policy.half_life_s
    return Books(tree_of(stage, cluster), Knobs(stage.policy.lookback_s, half_s, bound_gpus=bound))


def asked(stage: Stage, cluster: int) -> dict[int, float]:
    stays, found = stage.board.stays, dict[int, float]()
    wants = np.isin(stays["phase"], ASKING) & stays["budgeted"] & (stays["cluster"] == cluster)
    for job in np.flatnonzero(wants).tolist():
        leaf = int(stays["account"][job])
        found[leaf] = found.get(leaf, 0.0) + int(stays["gpus"][job])
    return found


def healthy(stage: Stage, cluster: int) -> int:
    here = stage.lab.nodes["cluster"] == cluster
    posts = stage.board.posts[here]
    serves = (posts["state"] == 0) | ((posts["state"] == 1) & (posts["n_jobs"] > 0))
    return int(stage.lab.nodes["gpus"][here][serves].sum())


def compare(source: Any, until_s: int | None = None) -> int:
    """Plays a scenario; at each turn both ways must agree. Gives how often they were compared."""
    stage = staged(source, until_s=until_s)
    if stage.policy.repay_bound_gpus >= 0:
        return 0
    ledger, compared = Watching(stage), 0
    books = [books_of(stage, cluster) for cluster in range(len(stage.lab.clusters))]
    for cluster, book in enumerate(books):
        book.from_now(0, healthy(stage, cluster), {})  # entitlements count from the start of the record (S3)
    for now_s in turns(stage, ledger):
        for cluster, book in enumerate(books):
            book.tree = tree_of(stage, cluster)
            book.held = ledger.charges(cluster, now_s)
            book.from_now(now_s, healthy(stage, cluster), asked(stage, cluster))
            moved = len(books) > 1 and bool(stage.board.scenes["dirty"][cluster])
            if stage.board.scenes["n_waiting"][cluster] > 0 and not moved:
                check_accounts(stage, cluster, book, now_s)
                compared += 1
            elif moved:
                return compared  # what moved between clusters within the turn is due there from the next on
    return compared


def check_accounts(stage: Stage, cluster: int, book: Books, now_s: int) -> None:
    n = len(stage.lab.accounts)
    rows = stage.board.standings[cluster * n : (cluster + 1) * n]
    _, due, title = book.dues[-1]
    targets, debts = book.targets(now_s), book.debts(now_s)
    for leaf in book.tree.leaves(0):
        if leaf == 0:
            continue
        assert rows["entitled_ugpu"][leaf] / UGPU == pytest.approx(title[leaf], abs=GPUS_NEAR)
        assert rows["due_ugpu"][leaf] / UGPU == pytest.approx(due[leaf], abs=GPUS_NEAR)
        assert rows["debt"][leaf] == pytest.approx(debts[leaf], abs=GPU_S_NEAR)
        assert rows["target"][leaf] == pytest.approx(targets[leaf], abs=1e-3)
    for row in range(1, n):
        ratio = book.ratio(row, now_s)
        assert rows["ratio"][row] == pytest.approx(ratio, rel=1e-4, abs=1e-6) or ratio > 1e6
    leaves = stage.board.walk[: len(book.tree.leaves(0))].tolist()
    if leaves[0] // n != cluster:
        return  # the walk is that of the cluster settled last
    assert sorted(row - cluster * n for row in leaves) == sorted(book.tree.leaves(0))
    for one, other in pairwise(leaves):
        first, second = parting(book.tree, one - cluster * n, other - cluster * n)
        assert rows["ratio"][first] <= rows["ratio"][second]


def parting(tree: Tree, one: int, other: int) -> tuple[int, int]:
    """The siblings below which two leaves lie."""
    paths = [list(up(tree, leaf))[::-1] for leaf in (one, other)]
    return next((a, b) for a, b in zip(*paths) if a != b)


def up(tree: Tree, row: int) -> Iterator[int]:
    while row != NONE:
        yield row
        row = tree.parents[row]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["case_03", "case_14", "case_16", "case_22", "case_23", "s01_dead", "s03", "s05", "s08", "s09_limits"],
)
def test_accounts_as_the_second_way(name: str) -> None:
    (path,) = SCENARIOS.glob(f"{name}*.yaml")
    assert compare(path, until_s=30 * HOUR) > 0


@pytest.mark.slow
@tried
@given(scenarios())
def test_accounts_as_the_second_way_whatever_happens(scenario: dict[str, Any]) -> None:
    compare(scenario)


@pytest.mark.slow
@tried
@given(scenarios(), st.sampled_from(("20m", "1h", "2d")))
def test_use_that_counts_half_after_a_while_as_the_second_way(scenario: dict[str, Any], half: str) -> None:
    """S5: decayed sums kept up from change to change are those over all that was ever held."""
    knobs = scenario["lab"]["policy"]
    knobs.pop("lookback", None)
    knobs["half_life"] = half
    compare(scenario)


@st.composite
def flowing(draw: st.DrawFn) -> dict[str, Any]:
    """Programs whose projects ask for more or less than their part, from time to time."""
    parts, jobs = draw(st.sampled_from(((50, 30, 20), (34, 33, 33), (80, 15, 5)))), []
    tree = {
        program: {"share": f"{share}%", "accounts": {n: {"share": f"{q}%"} for n, q in zip("xyz", parts)}}
        for program, share in (("p", 60), ("q", 30))
    }
    for row, path in enumerate([f"{program}/{name}" for program in "pq" for name in "xyz"] * 2):
        told = {"gpus": draw(st.sampled_from((1, 4, 8))), "count": draw(st.integers(1, 4))}
        times = {"submit": draw(st.integers(0, 4 * HOUR)), "runtime": draw(st.sampled_from((HOUR, 9 * HOUR)))}
        jobs.append({"id": f"j{row}", "account": path, "min_runtime": HOUR, **told, **times})
    lab = {"clusters": {"one": {"nodes": 4, "gpus_per_node": 8}}, "accounts": tree}
    return {"lab": lab, "until": 5 * HOUR, "jobs": draw(st.permutations(jobs))[: draw(st.integers(3, 12))]}


@pytest.mark.slow
@tried
@given(flowing())
def test_what_projects_leave_flows_as_the_second_way(scenario: dict[str, Any]) -> None:
    compare(scenario)


def test_never_is_one_word() -> None:
    assert NEVER == NEVER_S
