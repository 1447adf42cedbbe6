"""What every engine does alike. `engine_sites.SITES` lists the places on which it is tried."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine_sites import NODES, SITES, Site, begun, ended, find, start, stop, wait_for
from tenure.engines.protocol import Enrol, Forget, Notice, OrderRefused, SetNode, Withdraw


@pytest.fixture(params=sorted(SITES))
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    place = SITES[request.param](tmp_path)
    yield place
    place.close()


def test_what_is_started_is_seen_running_where_it_was_told_to(site: Site) -> None:
    site.engine.carry_out(start("a", site.polite(60), nodes={"n1": 4, "n2": 2}))
    seen = wait_for(site, "a", that=begun)
    assert (seen.nodes, seen.ended, seen.told) == ({"n1": 4, "n2": 2}, None, False)
    assert seen.started is not None
    assert abs(site.engine.see().at - seen.started) < site.patience_s
    assert [(node.name, node.gpus, node.up) for node in site.engine.see().nodes] == [
        (name, gpus, True) for name, gpus in NODES.items()
    ]


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_its_exit_code_is_told(site: Site, code: int) -> None:
    site.engine.carry_out(start("a", site.exits(code)))
    seen = wait_for(site, "a", that=ended)
    assert (seen.exit_code, seen.signal, seen.told, seen.timed_out) == (code, None, False, False)
    assert seen.started is not None
    assert seen.ended is not None
    assert seen.started <= seen.ended


def test_what_is_told_to_stop_may_leave_before_its_grace_is_over(site: Site) -> None:
    site.engine.carry_out(start("a", site.polite(60)))
    wait_for(site, "a", that=begun)
    told_at = site.engine.see().at
    site.engine.carry_out(stop("a", 15))
    seen = wait_for(site, "a", that=ended)
    assert seen.told
    assert not seen.done
    assert seen.ended is not None
    assert seen.ended - told_at < 10


def test_what_does_not_leave_is_killed_at_the_end_of_its_grace_and_not_before(site: Site) -> None:
    site.engine.carry_out(start("a", site.stubborn(60)))
    wait_for(site, "a", that=begun)
    site.pass_s(0.3)
    told_at = site.engine.see().at
    site.engine.carry_out(stop("a", 0.8))
    assert find(site.engine, "a").ended is None  # type: ignore[union-attr]
    assert find(site.engine, "a").told  # type: ignore[union-attr]
    seen = wait_for(site, "a", that=ended)
    assert (seen.told, seen.exit_code, seen.signal) == (True, None, 9)
    assert seen.ended is not None
    assert 0.7 <= seen.ended - told_at < site.patience_s


def test_started_twice_it_runs_once(site: Site) -> None:
    order = start("a", site.polite(60), nodes={"n1": 3})
    for again in (order, order, order._replace(id="another")):
        site.engine.carry_out(again)
    wait_for(site, "a", that=begun)
    site.engine.carry_out(order)
    assert len(site.engine.see().attempts) == 1
    site.engine.carry_out(start("b", site.polite(60)))  # the fourth GPU is free
    wait_for(site, "b", that=begun)


def test_told_twice_to_stop_it_gets_no_more_time(site: Site) -> None:
    site.engine.carry_out(start("a", site.stubborn(60)))
    wait_for(site, "a", that=begun)
    site.pass_s(0.3)
    told_at = site.engine.see().at
    site.engine.carry_out(stop("a", 1))
    site.pass_s(0.4)
    site.engine.carry_out(stop("a", 1))
    site.engine.carry_out(stop("a", 60, again="!"))
    seen = wait_for(site, "a", that=ended)
    assert seen.ended is not None
    assert seen.ended - told_at < 1 + site.patience_s / 10
    site.engine.carry_out(stop("a", 1))
    assert find(site.engine, "a") == seen


def test_a_second_stop_may_shorten_the_time(site: Site) -> None:
    site.engine.carry_out(start("a", site.stubborn(600)))
    wait_for(site, "a", that=begun)
    site.pass_s(0.3)
    told_at = site.engine.see().at
    site.engine.carry_out(stop("a", 500))
    site.engine.carry_out(stop("a", 0, again="now"))
    seen = wait_for(site, "a", that=ended)
    assert seen.ended is not None
    assert seen.ended - told_at < site.patience_s


def test_told_to_stop_before_it_was_started_it_never_runs(site: Site) -> None:
    site.engine.carry_out(stop("a", 5))
    site.engine.carry_out(start("a", site.polite(60), nodes={"n1": 4}))
    site.pass_s(0.3)
    seen = wait_for(site, "a", that=ended)
    assert (seen.started, seen.told) == (None, True)
    site.engine.carry_out(start("b", site.polite(60), nodes={"n1": 4}))
    wait_for(site, "b", that=begun)
    site.engine.carry_out(Forget("f", "a", 1))
    assert find(site.engine, "a") is None


def test_what_is_forgotten_is_gone_and_never_starts_again(site: Site) -> None:
    site.engine.carry_out(start("a", site.exits(0)))
    wait_for(site, "a", that=ended)
    for _ in range(2):
        site.engine.carry_out(Forget("f", "a", 1))
        assert site.engine.see().attempts == []
    site.engine.carry_out(start("a", site.polite(60)))
    site.engine.carry_out(stop("a", 5))
    site.engine.carry_out(Notice("n", "a", 1, 0.0))
    site.pass_s(0.3)
    assert site.engine.see().attempts == []
    site.engine.carry_out(start("a", site.polite(60), 2))
    wait_for(site, "a", 2, that=begun)


def test_what_runs_is_not_forgotten(site: Site) -> None:
    site.engine.carry_out(start("a", site.polite(60)))
    wait_for(site, "a", that=begun)
    with pytest.raises(OrderRefused, match="running"):
        site.engine.carry_out(Forget("f", "a", 1))
    assert find(site.engine, "a") is not None


def test_what_it_has_never_heard_of_is_refused_with_a_reason(site: Site) -> None:
    with pytest.raises(OrderRefused, match="attempt 1 of job nobody"):
        site.engine.carry_out(Notice("n", "nobody", 1, 0.0))
    with pytest.raises(OrderRefused, match="no node n9"):
        site.engine.carry_out(start("a", site.polite(60), nodes={"n9": 1}))
    with pytest.raises(OrderRefused, match="no node n9"):
        site.engine.carry_out(SetNode("s", "n9", True, "broken"))
    assert site.engine.see().attempts == []
    if not site.engine.keeps_queue:
        with pytest.raises(OrderRefused, match="queue"):
            site.engine.carry_out(Enrol("e", "ann", {}, ["true"], {}, "/"))
        with pytest.raises(OrderRefused, match="queue"):
            site.engine.carry_out(Withdraw("w", "a"))


def test_a_notice_may_be_given_twice(site: Site) -> None:
    site.engine.carry_out(start("a", site.polite(60)))
    wait_for(site, "a", that=begun)
    for _ in range(2):
        site.engine.carry_out(Notice("n", "a", 1, site.engine.see().at + 300))
    assert find(site.engine, "a").ended is None  # type: ignore[union-attr]


def test_a_node_takes_no_new_work_where_it_was_told_so_and_still_after_a_restart(site: Site) -> None:
    site.engine.carry_out(SetNode("s", "n2", True, "fan"))
    site.reopen()
    assert [(node.name, node.draining) for node in site.engine.see().nodes] == [("n1", False), ("n2", True)]
    site.engine.carry_out(SetNode("s2", "n2", False, ""))
    assert not any(node.draining for node in site.engine.see().nodes)


def test_opened_again_it_goes_on_with_what_runs_and_sees_it_end(site: Site) -> None:
    site.engine.carry_out(start("a", site.polite(60)))
    site.engine.carry_out(start("b", site.polite(1)))
    before = wait_for(site, "a", that=begun)
    wait_for(site, "b", that=begun)
    site.reopen()
    assert find(site.engine, "a") == before
    assert wait_for(site, "b", that=ended).exit_code == 0
    site.engine.carry_out(start("a", site.polite(60)))
    site.engine.carry_out(stop("a", 5))
    assert wait_for(site, "a", that=ended).started == before.started


def test_its_time_limit_holds_while_nobody_watches(site: Site) -> None:
    site.engine.carry_out(start("a", site.stubborn(60), max_runtime_s=1))
    wait_for(site, "a", that=begun)
    site.reopen()
    site.pass_s(2.0)
    site.reopen()
    seen = wait_for(site, "a", that=ended)
    assert (seen.timed_out, seen.told, seen.signal) == (True, False, 9)
    assert seen.started is not None
    assert seen.ended is not None
    assert 1.0 <= seen.ended - seen.started < 1.9


def test_its_grace_ends_while_nobody_watches(site: Site) -> None:
    site.engine.carry_out(start("a", site.stubborn(60)))
    wait_for(site, "a", that=begun)
    site.pass_s(0.3)
    told_at = site.engine.see().at
    site.engine.carry_out(stop("a", 1))
    site.engine.close()
    site.pass_s(2.5)
    site.reopen()
    seen = wait_for(site, "a", that=ended)
    assert (seen.told, seen.signal) == (True, 9)
    assert seen.ended is not None
    assert 0.9 <= seen.ended - told_at < 2.3


def test_told_to_stop_before_its_limit_came_it_is_not_timed_out(site: Site) -> None:
    site.engine.carry_out(start("a", site.stubborn(60), max_runtime_s=2))
    wait_for(site, "a", that=begun)
    site.pass_s(0.3)
    site.engine.carry_out(stop("a", 30))
    seen = wait_for(site, "a", that=ended)
    assert (seen.timed_out, seen.told) == (False, True)
    assert seen.started is not None
    assert seen.ended is not None
    assert seen.ended - seen.started < 15


def test_a_log_is_bytes_and_nothing_where_nothing_is_known(site: Site) -> None:
    assert site.engine.log_of("nobody", 1) == b""
    site.engine.carry_out(start("a", site.exits(3)))
    wait_for(site, "a", that=ended)
    assert isinstance(site.engine.log_of("a", 1, last_bytes=5), bytes)
    assert len(site.engine.log_of("a", 1, last_bytes=5)) <= 5
