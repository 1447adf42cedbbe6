"""What every engine does alike. `engine_sites.SITES` lists the places on which it is tried.

Where engines differ by nature, the engine says so itself: `keeps_queue`, `limit_step_s`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from engine_sites import ENGINES, SITES, Site, begun, ended, find, start, stop, wait_for
from tenure.engines.protocol import Enrol, Forget, Notice, OrderRefused, SetNode, Withdraw


def place(name: str, test: pytest.FixtureRequest, folder: Path) -> Iterator[Site]:
    site = SITES[name](test, folder)
    yield site
    site.close()


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.slow if name == "slurm" else ()) for name in sorted(SITES)]
)
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    yield from place(request.param, request, tmp_path)


@pytest.fixture(params=sorted(name for name, engine in ENGINES.items() if engine.limit_step_s == 1))
def punctual(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """Where a limit of seconds is kept to the second."""
    yield from place(request.param, request, tmp_path)


def running(
    site: Site, command: list[str], nodes: Mapping[str, int] | None = None, max_runtime_s: int | None = None
) -> str:
    """A job that has begun, on one GPU unless said otherwise; its id."""
    nodes = nodes or dict.fromkeys(list(site.nodes)[:1], 1)
    job = site.submitted(command, gpus=sum(nodes.values()))
    site.engine.carry_out(start(job, command, nodes=nodes, max_runtime_s=max_runtime_s))
    wait_for(site, job, that=begun)
    return job


def run_to_its_end(site: Site, command: list[str]) -> str:
    """A job that has ended by itself; its id."""
    job = site.submitted(command)
    site.engine.carry_out(start(job, command, nodes=dict.fromkeys(list(site.nodes)[:1], 1)))
    wait_for(site, job, that=ended)
    return job


def test_what_is_started_is_seen_running_where_it_was_told_to(site: Site) -> None:
    first, second = list(site.nodes)[:2]
    job = running(site, site.polite(60), {first: 4, second: 4})
    seen = find(site.engine, job)
    assert seen is not None
    assert (seen.nodes, seen.ended, seen.told) == ({first: 4, second: 4}, None, False)
    assert seen.started is not None
    assert abs(site.engine.see().at - seen.started) < site.patience_s
    assert [(node.name, node.gpus, node.up) for node in site.engine.see().nodes] == [
        (name, gpus, True) for name, gpus in site.nodes.items()
    ]


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_its_exit_code_is_told(site: Site, code: int) -> None:
    job = run_to_its_end(site, site.exits(code))
    seen = find(site.engine, job)
    assert seen is not None
    assert (seen.exit_code, seen.signal, seen.told, seen.timed_out) == (code, None, False, False)
    assert seen.started is not None
    assert seen.ended is not None
    assert seen.started <= seen.ended


def test_what_is_told_to_stop_may_leave_before_its_grace_is_over(site: Site) -> None:
    job = running(site, site.polite(60))
    told_at = site.engine.see().at
    site.engine.carry_out(stop(job, 600))
    seen = wait_for(site, job, that=ended)
    assert seen.told
    assert not seen.done
    assert seen.ended is not None
    assert seen.ended - told_at < 600


@pytest.mark.slow
def test_what_does_not_leave_is_killed_at_the_end_of_its_grace_and_not_before(site: Site) -> None:
    job = running(site, site.stubborn(60))
    site.deaf(job)
    told_at = site.engine.see().at
    site.engine.carry_out(stop(job, 0.8))
    assert find(site.engine, job).told  # type: ignore[union-attr]
    seen = wait_for(site, job, that=ended)
    assert (seen.told, seen.exit_code, seen.signal) == (True, None, None if site.engine.keeps_queue else 9)
    assert seen.ended is not None
    assert 0.7 <= seen.ended - told_at < site.patience_s


def test_started_twice_it_runs_once(site: Site) -> None:
    first, whole = next(iter(site.nodes.items()))
    job = site.submitted(site.polite(60), gpus=whole - 1)
    order = start(job, site.polite(60), nodes={first: whole - 1})
    for again in (order, order, order._replace(id="another")):
        site.engine.carry_out(again)
    wait_for(site, job, that=begun)
    site.engine.carry_out(order)
    assert len(site.engine.see().attempts) == 1
    running(site, site.polite(60))  # the node's last GPU is free


@pytest.mark.slow
def test_told_twice_to_stop_it_gets_no_more_time(site: Site) -> None:
    job = running(site, site.stubborn(60))
    site.deaf(job)
    told_at = site.engine.see().at
    site.engine.carry_out(stop(job, 1))
    site.pass_s(0.4)
    site.engine.carry_out(stop(job, 1))
    site.engine.carry_out(stop(job, 60, again="!"))
    seen = wait_for(site, job, that=ended)
    assert seen.ended is not None
    assert seen.ended - told_at < 1 + site.late_s
    site.engine.carry_out(stop(job, 1))
    assert find(site.engine, job) == seen


def test_a_second_stop_may_shorten_the_time(site: Site) -> None:
    job = running(site, site.stubborn(600))
    site.deaf(job)
    told_at = site.engine.see().at
    site.engine.carry_out(stop(job, 500))
    site.engine.carry_out(stop(job, 0, again="now"))
    seen = wait_for(site, job, that=ended)
    assert seen.ended is not None
    assert seen.ended - told_at < site.patience_s


def test_told_to_stop_before_it_was_started_it_never_runs(site: Site) -> None:
    first, whole = next(iter(site.nodes.items()))
    job = site.submitted(site.polite(60), gpus=whole)
    site.engine.carry_out(stop(job, 5))
    site.engine.carry_out(start(job, site.polite(60), nodes={first: whole}))
    site.pass_s(0.3)
    seen = wait_for(site, job, that=ended)
    assert (seen.started, seen.told) == (None, True)
    running(site, site.polite(60), {first: whole})
    site.engine.carry_out(Forget("f", job, 1))
    assert find(site.engine, job) is None


def test_what_is_forgotten_is_gone_and_never_starts_again(site: Site) -> None:
    first = next(iter(site.nodes))
    job = run_to_its_end(site, site.exits(0))
    for _ in range(2):
        site.engine.carry_out(Forget("f", job, 1))
        assert site.engine.see().attempts == []
    site.engine.carry_out(start(job, site.polite(60), nodes={first: 1}))
    site.engine.carry_out(stop(job, 5))
    site.engine.carry_out(Notice("n", job, 1, 0.0))
    site.pass_s(0.3)
    assert site.engine.see().attempts == []
    again = start(job, site.polite(60), 2, nodes={first: 1})
    if site.engine.keeps_queue:
        with pytest.raises(OrderRefused, match="is over"):
            site.engine.carry_out(again)
    else:
        site.engine.carry_out(again)
        wait_for(site, job, 2, that=begun)


def test_what_runs_is_not_forgotten(site: Site) -> None:
    job = running(site, site.polite(60))
    with pytest.raises(OrderRefused, match="running"):
        site.engine.carry_out(Forget("f", job, 1))
    assert find(site.engine, job) is not None


def test_what_it_has_never_heard_of_is_refused_with_a_reason(site: Site) -> None:
    first, known = next(iter(site.nodes)), site.submitted(site.polite(60))
    with pytest.raises(OrderRefused, match=r"no node n9|node name"):
        site.engine.carry_out(start(known, site.polite(60), nodes={"n9": 1}))
    with pytest.raises(OrderRefused, match="no node n9"):
        site.engine.carry_out(SetNode("s", "n9", True, "broken"))
    if site.engine.keeps_queue:
        with pytest.raises(OrderRefused, match="not know job nobody"):
            site.engine.carry_out(start("nobody", site.polite(60), nodes={first: 1}))
        for order in (Notice("n", "nobody", 1, 0.0), stop("nobody", 5), Withdraw("w", "nobody")):
            site.engine.carry_out(order)
    else:
        with pytest.raises(OrderRefused, match="attempt 1 of job nobody"):
            site.engine.carry_out(Notice("n", "nobody", 1, 0.0))
        with pytest.raises(OrderRefused, match="queue"):
            site.engine.carry_out(Enrol("e", "ann", {}, ["true"], {}, "/"))
        with pytest.raises(OrderRefused, match="queue"):
            site.engine.carry_out(Withdraw("w", "a"))
    assert site.engine.see().attempts == []


def test_a_notice_may_be_given_twice(site: Site) -> None:
    job = running(site, site.polite(60))
    for _ in range(2):
        site.engine.carry_out(Notice("n", job, 1, site.engine.see().at + 300))
    assert find(site.engine, job).ended is None  # type: ignore[union-attr]


def test_a_node_takes_no_new_work_where_it_was_told_so_and_still_after_a_restart(site: Site) -> None:
    _, second = list(site.nodes)[:2]
    site.engine.carry_out(SetNode("s", second, True, "fan"))
    site.reopen()
    assert [node.name for node in site.engine.see().nodes if node.draining] == [second]
    site.engine.carry_out(SetNode("s2", second, False, ""))
    assert not any(node.draining for node in site.engine.see().nodes)


@pytest.mark.slow
def test_opened_again_it_goes_on_with_what_runs_and_sees_it_end(site: Site) -> None:
    first = next(iter(site.nodes))
    goes_on, soon_over = running(site, site.polite(60)), running(site, site.polite(1))
    before = find(site.engine, goes_on)
    assert before is not None
    site.reopen()
    assert find(site.engine, goes_on) == before
    assert wait_for(site, soon_over, that=ended).exit_code == 0
    site.engine.carry_out(start(goes_on, site.polite(60), nodes={first: 1}))
    site.engine.carry_out(stop(goes_on, 5))
    assert wait_for(site, goes_on, that=ended).started == before.started


@pytest.mark.slow
def test_its_time_limit_holds_while_nobody_watches(punctual: Site) -> None:
    job = running(punctual, punctual.stubborn(60), max_runtime_s=1)
    punctual.reopen()
    punctual.pass_s(3.5)
    punctual.reopen()
    seen = wait_for(punctual, job, that=ended)
    assert (seen.timed_out, seen.told, seen.signal) == (True, False, 9)
    assert seen.started is not None
    assert seen.ended is not None
    assert 1.0 <= seen.ended - seen.started < 1 + punctual.late_s


@pytest.mark.slow
def test_its_grace_ends_while_nobody_watches(site: Site) -> None:
    job = running(site, site.stubborn(60))
    site.deaf(job)
    told_at = site.engine.see().at
    site.engine.carry_out(stop(job, 1))
    site.engine.close()
    site.pass_s(3.5)
    site.reopen()
    seen = wait_for(site, job, that=ended)
    assert (seen.told, seen.signal) == (True, None if site.engine.keeps_queue else 9)
    assert seen.ended is not None
    assert 0.9 <= seen.ended - told_at < 1 + site.late_s


@pytest.mark.slow
def test_told_to_stop_before_its_limit_came_it_is_not_timed_out(punctual: Site) -> None:
    for limit_s in (2, 20):  # of a busy machine told too late: more time
        job = running(punctual, punctual.stubborn(60), max_runtime_s=limit_s)
        punctual.deaf(job)
        punctual.engine.carry_out(stop(job, 30))
        told = find(punctual.engine, job)
        if told is not None and not told.timed_out:
            break
    seen = wait_for(punctual, job, that=ended)
    assert (seen.timed_out, seen.told) == (False, True)
    assert seen.started is not None
    assert seen.ended is not None
    assert seen.ended - seen.started < 60


def test_a_log_is_bytes_and_nothing_where_nothing_is_known(site: Site) -> None:
    assert site.engine.log_of("nobody", 1) == b""
    job = run_to_its_end(site, site.exits(3))
    assert isinstance(site.engine.log_of(job, 1, last_bytes=5), bytes)
    assert len(site.engine.log_of(job, 1, last_bytes=5)) <= 5
