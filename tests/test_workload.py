"""Drawn work: its table of numbers, pairing, prefixes, lists that never run dry."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from tenure.core.words import NEVER_S, NONE, Kind
from tenure.settings.errors import BadInput
from tenure.settings.lab import lab_of, leaf_paths
from tenure.simulator.workload import (
    SHAPES,
    Drawn,
    Leaf,
    Shape,
    draw_workload,
    shape_from,
    shape_lab,
)
from tenure.simulator.workload_lists import Draw, cap_gpus, draw_block
from tenure.simulator.world import What

DAY_S, HOUR_S = 86400, 3600


def flat(shape: Shape, **changed: float) -> list[Leaf]:
    """The leaves of a flat lab; `changed` gives some accounts another share of the cluster."""
    shares = {f"a{row:02d}": share / 100 for row, share in enumerate(shape.shares_percent)} | changed
    return [Leaf(name, row + 1, share) for row, (name, share) in enumerate(shares.items())]


def leaves_of(raw: dict) -> list[Leaf]:
    """The leaves of a lab's mapping, as the lab's own reader sees them: shares in millionths."""
    lab = lab_of(raw)
    whole = [1.0]
    for account in lab.accounts[1:]:
        whole.append(whole[account.parent] * account.shares[0] / 1_000_000)
    rows = lab.rows()
    return [Leaf(path, rows[path], whole[rows[path]]) for path in leaf_paths(lab)]


def drawn(shape: Shape, *, leaves: list[Leaf] | None = None, seed: int = 1, days: float = 37) -> Drawn:
    return draw_workload(
        shape,
        leaves=flat(shape) if leaves is None else leaves,
        cluster_gpus=shape.cluster_gpus,
        seed=seed,
        until_s=round(days * DAY_S),
    )


def by_id(work: Drawn, begins: str) -> dict[str, tuple]:
    """What chance decided about the jobs whose name begins so."""
    columns = [work.jobs["gpus"], work.jobs["min_runtime_s"], work.hidden["work_s"], work.hidden["arrive_s"]]
    rows = zip(work.ids, *[column.tolist() for column in columns], strict=True)
    return {name: tuple(values) for name, *values in rows if name.startswith(begins)}


def one_class(name: str, n_blocks: int = 60, cap: int = 1024):
    """Many jobs of one class."""
    row = ("small", "medium", "interactive", "large").index(name)
    given = {
        key: {"part": float(place == row)}
        for place, key in enumerate(("small", "medium", "interactive", "large"))
    }
    shape = shape_from({"shape": "ai2", "classes": given})
    rng = np.random.default_rng(7)
    blocks = [draw_block(shape, rng, cap) for _ in range(n_blocks)]
    return [np.concatenate(column) for column in zip(*blocks, strict=True)]


@pytest.mark.parametrize(
    ("name", "sizes", "protection_h", "median_h", "sigma"),
    [
        ("small", {1: 2, 2: 1, 4: 1, 8: 2}, (0.5, 4), 3, 1),
        ("medium", {8: 1, 16: 2, 32: 2, 64: 1}, (2, 8), 8, 0.8),
        ("interactive", {1: 2, 2: 1, 4: 1, 8: 1}, (2, 8), 5.5, None),
        ("large", {128: 2, 256: 2, 384: 1}, (4, 8), 30, 0.6),
    ],
)
def test_a_class_has_the_sizes_protections_and_run_lengths_of_its_row(
    name, sizes, protection_h, median_h, sigma
):
    gpus, min_runtime_s, work_s, session, _ = one_class(name)
    jobs = len(gpus)
    assert set(np.unique(gpus).tolist()) == set(sizes)
    for size, weight in sizes.items():
        assert (gpus == size).mean() == pytest.approx(weight / sum(sizes.values()), abs=0.01)
    low, high = protection_h
    assert min_runtime_s.min() >= low * HOUR_S
    assert min_runtime_s.max() <= high * HOUR_S
    assert min_runtime_s.mean() == pytest.approx((low + high) / 2 * HOUR_S, rel=0.01)
    assert np.median(work_s) == pytest.approx(median_h * HOUR_S, rel=0.03)
    if sigma is None:
        assert work_s.min() >= HOUR_S
        assert work_s.max() <= 10 * HOUR_S
    else:
        assert np.log(work_s).std() == pytest.approx(sigma, rel=0.03)
        assert 60 <= work_s.min()
        assert work_s.max() <= 10 * DAY_S
    assert session.sum() == (jobs if name == "interactive" else 0)


def test_classes_come_in_their_proportions():
    shape = SHAPES["ai2"]
    rng = np.random.default_rng(3)
    blocks = [draw_block(shape, rng, 1024) for _ in range(200)]
    gpus = np.concatenate([block.gpus for block in blocks])
    session = np.concatenate([block.session for block in blocks])
    assert session.mean() == pytest.approx(0.085, abs=0.002)
    assert (gpus >= 128).mean() == pytest.approx(0.015, abs=0.001)
    assert ((gpus >= 16) & (gpus <= 64)).mean() == pytest.approx(0.28 * 5 / 6, abs=0.004)


@pytest.mark.parametrize(
    ("shape", "entitled", "largest"),
    [
        ("ai2", 10.24, 8),
        ("ai2", 25.6, 24),
        ("ai2", 384, 384),
        ("ai2", 3, 8),
        ("small", 0.88, 4),
        ("small", 7.9, 4),
        ("small", 8.8, 8),
        ("small", 33, 32),
    ],
)
def test_no_job_is_larger_than_its_accounts_entitlement_on_whole_nodes(shape, entitled, largest):
    assert cap_gpus(entitled, Draw(SHAPES[shape], 1, DAY_S, SHAPES[shape].cluster_gpus)) == largest


def test_sizes_in_a_drawn_list_keep_the_cap_and_fit_nodes():
    for name in ("ai2", "small"):
        shape = SHAPES[name]
        work = drawn(shape, days=10)
        gpus, account = work.jobs["gpus"], work.jobs["account"]
        listed = (work.jobs["kind"] != Kind.DEBUG) & (work.jobs["min_runtime_s"] > 0)
        for leaf in flat(shape):
            own = gpus[listed & (account == leaf.account)]
            assert own.max() == cap_gpus(
                leaf.share * shape.cluster_gpus, Draw(shape, 1, 1, shape.cluster_gpus)
            )
        assert np.all((gpus % 8 == 0) | np.isin(gpus, (1, 2, 4)))


def test_every_job_has_what_the_table_says_of_its_kind():
    work = drawn(SHAPES["ai2"], days=10)
    jobs, hidden = work.jobs, work.hidden
    debug, session = jobs["kind"] == Kind.DEBUG, jobs["kind"] == Kind.SESSION
    free = jobs["min_runtime_s"] == 0
    assert debug.any()
    assert session.any()
    assert free.any()
    assert np.array_equal(jobs["resumable"], ~(debug | session))
    assert np.array_equal(jobs["saves_when_asked"], jobs["resumable"] & ~free)
    assert set(jobs["min_runtime_s"][debug].tolist()) == {300, 600, 900}
    assert jobs["gpus"][debug].max() == 8
    assert set(jobs["gpus"][free].tolist()) == {1, 2, 4, 8}
    assert hidden["work_s"][debug].min() >= 20
    assert hidden["work_s"][debug].max() == 1800
    assert hidden["work_s"][free].max() <= 5 * DAY_S
    assert np.median(hidden["work_s"][free]) == pytest.approx(2 * HOUR_S, rel=0.05)
    assert jobs["min_runtime_s"].max() <= 8 * HOUR_S
    assert set(jobs["save_every_s"].tolist()) == {1800}
    assert set(jobs["restart_s"].tolist()) == {60}
    assert np.array_equal(jobs["first_entry"], np.arange(len(jobs)))
    assert (jobs["clusters"] == 1).all()
    assert (jobs["gpu_type"] == NONE).all()
    assert (jobs["max_runtime_s"] == NEVER_S).all()
    assert not hidden["fails"].any()
    assert len(set(work.ids)) == len(jobs)
    quiet = drawn(shape_from({"shape": "ai2", "save_on_notice": False}), days=2)
    assert not quiet.jobs["saves_when_asked"].any()


def test_debug_jobs_arrive_by_chance_and_by_weight():
    shape = SHAPES["ai2"]
    counts: Counter[int] = Counter()
    days = 0
    for seed in range(1, 5):
        work = drawn(shape, seed=seed, days=30)
        debug = work.jobs["kind"] == Kind.DEBUG
        arrive = work.hidden["arrive_s"][debug]
        assert np.all(np.diff(arrive) >= 0)
        assert np.array_equal(arrive, work.jobs["submit_s"][debug])
        assert (work.hidden["stream"][debug] == NONE).all()
        assert np.diff(arrive).mean() == pytest.approx(120, rel=0.03)
        assert np.diff(arrive).std() == pytest.approx(120, rel=0.03)
        counts.update(work.jobs["account"][debug].tolist())
        days += 30
    for leaf in flat(shape):
        weight = 0.5 * leaf.share + 0.5 / 15
        assert counts[leaf.account] == pytest.approx(30 * 24 * days * weight, rel=0.06)


def test_lists_are_consecutive_rows_and_the_unbudgeted_one_is_everybodys():
    work = drawn(SHAPES["sat"], days=5)
    first = 0
    for row, stream in enumerate(work.streams):
        assert stream["first_job"] == first
        rows = slice(first, first + int(stream["n_jobs"]))
        assert (work.hidden["stream"][rows] == row).all()
        assert (work.jobs["submit_s"][rows] == NEVER_S).all()
        assert (work.hidden["arrive_s"][rows] == 0).all()
        first = rows.stop
    assert (work.hidden["stream"][first:] == NONE).all()
    assert len(work.streams) == 16
    assert work.streams["target"][15] == 256
    free = work.jobs["account"][work.jobs["min_runtime_s"] == 0]
    shares = np.bincount(free, minlength=16)[1:] / len(free)
    assert shares == pytest.approx(np.full(15, 1 / 15), abs=0.02)


@pytest.mark.slow
def test_phases_alternate_with_the_shapes_means_and_start_by_probability():
    shape = shape_from({"shape": "ai2", "unbudgeted_target": 0, "debug_per_hour": 0})
    starts, busy_s, quiet_s = [], [], []
    for seed in range(12):
        work = draw_workload(shape, leaves=flat(shape), cluster_gpus=256, seed=seed, until_s=200 * DAY_S)
        assert np.all(np.diff(work.happenings["t"]) >= 0)
        assert (work.happenings["what"] == What.PHASE).all()
        for row, leaf in enumerate(flat(shape)):
            busy, quiet = (int(np.ceil(times * leaf.share * 256 - 1e-9)) for times in (2.6, 0.2))
            mine = work.happenings[work.happenings["row"] == row]
            targets = [int(work.streams["target"][row]), *mine["value"].tolist()]
            assert set(targets[::2]) | set(targets[1::2]) <= {busy, quiet}
            assert all(one != after for one, after in itertools.pairwise(targets))
            starts.append(targets[0] == busy)
            for length, target in zip(np.diff(mine["t"]), mine["value"], strict=False):
                (busy_s if target == busy else quiet_s).append(length)
    assert np.mean(starts) == pytest.approx(3 / 7, abs=0.1)
    assert np.mean(busy_s) / DAY_S == pytest.approx(3, rel=0.1)
    assert np.mean(quiet_s) / DAY_S == pytest.approx(4, rel=0.1)


def test_same_seed_same_work_and_another_seed_other_work():
    shape = SHAPES["sat95"]
    one, again, other = drawn(shape, days=4), drawn(shape, days=4), drawn(shape, days=4, seed=2)
    for name in ("jobs", "hidden", "streams", "happenings"):
        assert getattr(one, name).tobytes() == getattr(again, name).tobytes()
    assert one.ids == again.ids
    mine, theirs = by_id(one, "a00-"), by_id(other, "a00-")
    assert sum(mine[name] == theirs.get(name) for name in mine) < len(mine) / 100


def test_a_longer_simulation_has_the_same_work_and_more():
    short, long = drawn(SHAPES["ai2"], days=3), drawn(SHAPES["ai2"], days=45)
    before, after = by_id(short, ""), by_id(long, "")
    assert len(before) < len(after)
    assert before.items() <= after.items()
    rows = short.happenings.tobytes()
    assert long.happenings.tobytes()[: len(rows)] == rows


def test_one_accounts_share_changes_nobody_elses_work():
    shape = SHAPES["ai2"]
    one, other = drawn(shape, days=5), drawn(shape, days=5, leaves=flat(shape, a03=0.02))
    assert by_id(one, "a03-") != by_id(other, "a03-")
    mine, theirs = by_id(one, ""), by_id(other, "")
    for name in set(mine) | set(theirs):
        assert name.startswith("a03-") or mine[name] == theirs[name], name


def test_a_tree_has_the_jobs_of_the_flat_lab():
    flat_work = drawn(SHAPES["ai2"], days=6)
    shape = shape_from({"shape": "ai2", "tree": "programs"})
    leaves = leaves_of(shape_lab(shape))
    tree_work = drawn(shape, days=6, leaves=leaves)
    for account in ("a00", "a03", "a14"):
        mine = by_id(flat_work, account + "-")
        theirs = by_id(tree_work, account + "-")
        assert all(mine[name] == theirs[name] for name in set(mine) & set(theirs))
        assert len(set(mine) & set(theirs)) > 0.99 * len(mine)


def test_researchers_share_their_accounts_jobs_and_have_their_own_phases():
    shape = shape_from({"shape": "ai2", "tree": "researchers"})
    leaves = leaves_of(shape_lab(shape))
    assert len(leaves) == 25
    assert sum(leaf.share for leaf in leaves) == pytest.approx(1, abs=1e-5)
    work, flat_work = drawn(shape, days=6, leaves=leaves), drawn(SHAPES["ai2"], days=6)
    rows = {leaf.path: leaf.account for leaf in leaves}
    account_of = dict(zip(work.ids, work.jobs["account"].tolist(), strict=True))
    mine, theirs = by_id(flat_work, "a00-"), by_id(work, "a00-")
    for place in range(300):
        name = f"a00-{place}"
        assert account_of[name] == rows[f"p0/a00/r{place % 3}"]
        assert mine[name] == theirs[name]
    assert max(gpus for gpus, *_ in theirs.values()) == 384, "sized by the whole account, not by a researcher"
    thirds = [int(np.ceil(2.6 * 128 - 1e-9)), int(np.ceil(0.2 * 128 - 1e-9))]
    times = set()
    for part in range(3):
        stream = int(work.hidden["stream"][work.ids.index(f"a00-{part}")])
        assert int(work.streams["target"][stream]) in thirds
        times.add(tuple(work.happenings["t"][work.happenings["row"] == stream].tolist()))
    assert len(times) == 3
    free = Counter(work.jobs["account"][work.jobs["min_runtime_s"] == 0].tolist())
    assert free[rows["p0/a13"]] == pytest.approx(3 * free[rows["p0/a00/r1"]], rel=0.2)


@pytest.mark.parametrize("name", ["ai2", "sat", "small"])
@pytest.mark.parametrize("stop_sessions", [False, True])
def test_no_list_runs_dry_even_if_its_account_never_waits(name, stop_sessions):
    """The fastest any policy can eat a list: all that is outstanding runs at once, on an empty cluster."""
    shape = SHAPES[name]
    days = 37
    work = drawn(shape, days=days)
    busy = {row: int(target) for row, target in enumerate(work.streams["target"])}
    for change in work.happenings:
        busy[int(change["row"])] = max(busy[int(change["row"])], int(change["value"]))
    for row in (0, 7, 14, 15):
        stream = work.streams[row]
        rows = slice(int(stream["first_job"]), int(stream["first_job"] + stream["n_jobs"]))
        assert outlasts(
            work.jobs[rows],
            work.hidden["work_s"][rows],
            busy[row],
            days * DAY_S,
            stop_sessions=stop_sessions,
        )


def outlasts(jobs, work_s, target: int, until_s: int, *, stop_sessions: bool) -> bool:
    """Whether a list played with every job started at once still has jobs at `until_s`."""
    ends: list[tuple[int, int]] = []
    now_s = outstanding = 0
    for gpus, least_s, long_s, resumable in zip(
        jobs["gpus"].tolist(),
        jobs["min_runtime_s"].tolist(),
        work_s.tolist(),
        jobs["resumable"].tolist(),
        strict=True,
    ):
        while outstanding >= target:
            now_s, freed = heapq.heappop(ends)
            outstanding -= freed
        if now_s >= until_s:
            return True
        held_s = long_s if resumable or not stop_sessions else min(least_s, long_s)
        heapq.heappush(ends, (now_s + held_s, gpus))
        outstanding += gpus
    return False


def test_a_month_of_the_largest_shape_is_drawn_in_a_few_megabytes():
    work = drawn(SHAPES["ai2"])
    assert 60_000 < len(work.jobs) < 200_000
    assert work.jobs.nbytes + work.hidden.nbytes < 20_000_000


def test_the_table_of_shapes_is_as_published():
    rows = {
        name: (
            shape.nodes,
            shape.busy_target,
            shape.quiet_target,
            shape.quiet_days,
            shape.unbudgeted_target,
            shape.debug_per_hour,
        )
        for name, shape in SHAPES.items()
    }
    assert rows == {
        "ai2": (128, 2.6, 0.2, 4.0, 0.55, 30),
        "sat": (128, 2.6, 0.4, 0.8, 0.25, 30),
        "sat95": (128, 2.6, 0.4, 1.8, 0.25, 30),
        "small": (11, 2.6, 0.2, 4.0, 0.55, 2.6),
        "philly": (128, 2.6, 2.6, 0.0, 0.55, 10),
    }
    assert sum(SHAPES["ai2"].shares_percent) == 100


@pytest.mark.parametrize("tree", ["flat", "programs", "researchers"])
def test_a_shapes_lab_gives_each_account_its_share(tree):
    shape = shape_from({"shape": "ai2", "tree": tree})
    lab = shape_lab(shape)
    assert lab["clusters"] == {"main": {"nodes": 128, "gpus_per_node": 8}}
    shares: Counter[str] = Counter()
    for leaf in leaves_of(lab):
        name = next(part for part in leaf.path.split("/") if part.startswith("a"))
        shares[name] += leaf.share  # type: ignore[assignment]
    expected = {f"a{row:02d}": share / 100 for row, share in enumerate(shape.shares_percent)}
    assert shares == pytest.approx(expected, abs=1e-6)

    def sums(accounts: dict) -> None:
        whole = sum(Fraction(account["share"].rstrip("%")) for account in accounts.values())
        assert whole == 100, "siblings' shares are exact in millionths"
        for account in accounts.values():
            if "accounts" in account:
                sums(account["accounts"])

    sums(lab["accounts"])
    if tree != "flat":
        assert [account["share"] for account in lab["accounts"].values()] == ["40%", "32%", "28%"]


def test_parameters_of_a_shape_can_be_given_and_wrong_ones_are_named():
    shape = shape_from(
        {"shape": "ai2", "nodes": 64, "debug_per_hour": 10, "classes": {"small": {"gpus": [1, 2]}}}
    )
    assert (shape.nodes, shape.debug_per_hour, shape.classes[0].gpus) == (64, 10.0, (1, 2))
    assert SHAPES["ai2"].nodes == 128
    text = shape_from({"shape": "sat", "debug_per_hour": "12.5", "restart_s": "2m", "debug_by_share": "40%"})
    assert (text.debug_per_hour, text.restart_s, text.debug_by_share) == (12.5, 120, 0.4)
    assert shape_from({"shape": "philly", "file": "jobs.csv"}) == SHAPES["philly"]
    for given, words in [
        ({"shape": "huge"}, "workload.shape"),
        ({}, "workload.shape"),
        (
            {"shape": "ai2", "node": 3},
            "workload.node: found an unknown parameter; allowed: did you mean nodes",
        ),
        ({"shape": "ai2", "file": "jobs.csv"}, "workload.file"),
        ({"shape": "ai2", "nodes": "many"}, "whole number"),
        ({"shape": "ai2", "nodes": 0}, "more than 0"),
        ({"shape": "ai2", "busy_target": -1}, "from 0"),
        ({"shape": "ai2", "save_on_notice": 3}, "true or false"),
        ({"shape": "ai2", "tree": "bush"}, "flat | programs | researchers"),
        ({"shape": "ai2", "classes": [1]}, "workload.classes"),
        ({"shape": "ai2", "classes": {"small": {"part": 0.9}}}, "sum to 1"),
        ({"shape": "ai2", "classes": {"tiny": {"part": 0.9}}}, "workload.classes.tiny"),
        ({"shape": "ai2", "classes": {"large": {"gpus": [12]}}}, "workload.classes.large.gpus"),
        ({"shape": "ai2", "classes": {"large": {"protection_h": [1, 2, 3]}}}, "list of 2 numbers"),
        ({"shape": "ai2", "shares_percent": [80, 30]}, "at most 100"),
    ]:
        with pytest.raises(BadInput) as caught:
            shape_from(given)
        assert words in str(caught.value)
    with pytest.raises(BadInput, match="a trace of arrivals"):
        draw_workload(
            SHAPES["philly"], leaves=flat(SHAPES["philly"]), cluster_gpus=1024, seed=1, until_s=DAY_S
        )


def test_a_lab_of_ones_own_draws_work_for_its_own_accounts():
    leaves = [Leaf("language/olmo", 2, 0.6), Leaf("vision", 3, 0.4), Leaf("nobody", 4, 0.0)]
    work = draw_workload(SHAPES["ai2"], leaves=leaves, cluster_gpus=64, seed=1, until_s=5 * DAY_S)
    budgeted = (work.jobs["min_runtime_s"] > 0) & (work.jobs["kind"] != Kind.DEBUG)
    assert set(work.jobs["account"][budgeted].tolist()) == {2, 3}
    assert work.jobs["gpus"].max() == 32
    assert "language/olmo-0" in work.ids
