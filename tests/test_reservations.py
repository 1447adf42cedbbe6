"""Maintenance windows, with the real loop and record on a chosen clock: announced, begun, over, undone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenure.core.words import NEVER_S
from tenure.daemon.run import Daemon
from tenure.engines.fake import ChosenClock, FakeCluster
from tenure.ledger.ledger import open_ledger
from tenure.ledger.records import Asked
from tenure.service.live import reservations as room
from tenure.service.live.acting import nodes, set_node
from tenure.service.live.desk import Desk
from tenure.service.live.errors import Forbidden, NotKnown, NotNow
from tenure.service.live.people import Who
from tenure.service.live.reservations import Keeper, reservations, reserve, unreserve
from tenure.settings.errors import BadInput
from tenure.settings.lab import lab_of

HOUR = 3600
PIA, ANN = Who("pia", admin=True), Who("ann")
LAB = {
    "lab": "two",
    "clusters": {"c": {"nodes": [{"name": "n0"}, {"name": "n1"}], "gpus_per_node": 8}},
    "accounts": {"a": {"share": "100%"}},
    "policy": {"grace": {"budgeted": "1s", "unbudgeted": "1s"}},
}


class Site:
    """A lab of two nodes whose clock is moved by hand; turns are taken when it is."""

    def __init__(self, folder: Path) -> None:
        lab = lab_of(LAB)
        self.clock = ChosenClock(1_767_571_200.0)
        self.ledger = open_ledger(folder / "record.db")
        engine = FakeCluster({node.name: node.gpus for node in lab.nodes}, self.clock)
        self.daemon = Daemon(lab, self.ledger, engine, self.clock, lease_s=1e9)
        self.desk = Desk(lab, self.ledger, self.daemon, engine, now=self.clock.now)
        self.keeper = Keeper(self.desk)
        self.number = 0
        self.on()

    def on(self, seconds: float = 1.0, *, kept: bool = True) -> None:
        """Time passes; a few turns are taken, and the keeper looks in between."""
        self.clock.wait(seconds)
        for _ in range(3):
            self.daemon.turn_now()
            if kept:
                self.keeper.look()
            self.clock.wait(0.5)
        self.daemon.turn_now()

    def submit(self, minimum: int, gpus: int = 8) -> str:
        spec = {"account": "a", "gpus": gpus, "min_runtime": minimum, "command": ["sleep", "10d"]}
        (number,) = self.ledger.ask([Asked("ann", "submit", "", {"spec": spec}, self.clock.now())])
        self.on()
        answer = self.ledger.answer(number)
        assert answer is not None
        assert answer.ok, answer.body
        return str(answer.body["job"])

    def state(self, node: str) -> str:
        return next(one.state for one in nodes(self.desk, PIA) if one.node == node)

    def jobs_on(self, node: str) -> list[str]:
        return next(one.jobs for one in nodes(self.desk, PIA) if one.node == node)

    def reserve(self, given: str, begins: str, length: str, **keys: Any) -> Any:
        body = {"nodes": given, "from": begins, "for": length, "reason": "firmware"} | keys
        return reserve(self.desk, PIA, body)

    def closes(self) -> list[int | None]:
        view = self.daemon.view()
        assert view is not None
        closed = view.board.posts["closed_s"].tolist()
        return [None if second >= NEVER_S else second for second in closed]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    one = Site(tmp_path)
    yield one
    one.daemon.stop()
    one.ledger.close()


def test_nothing_protected_crosses_the_beginning_of_a_window_and_the_node_comes_back_by_itself(
    site: Site,
) -> None:
    told = site.reserve("n0", "2h", "3h")
    assert (told.state, told.nodes, told.by) == ("to come", ["n0"], "pia")
    site.on()
    long, short = site.submit(4 * HOUR), site.submit(HOUR)
    assert (site.jobs_on("n1"), site.jobs_on("n0")) == ([long], [short])
    site.on(2 * HOUR)
    assert site.state("n0") in ("draining", "drained")
    site.on(60)
    assert (site.state("n0"), site.jobs_on("n0")) == ("drained", [])
    assert [one.state for one in reservations(site.desk, ANN)] == ["open"]
    site.on(3 * HOUR)
    assert site.state("n0") == "up"
    site.on()
    assert reservations(site.desk, ANN) == []
    assert site.jobs_on("n0") == [short]


def test_a_window_that_begins_now_leaves_running_work_its_protection(site: Site) -> None:
    job = site.submit(HOUR)
    (node,) = [name for name in ("n0", "n1") if site.jobs_on(name)]
    site.reserve(node, "now", "1d")
    site.on()
    assert (site.state(node), site.jobs_on(node)) == ("draining", [job])
    site.on(HOUR)
    site.on(60)
    assert (site.state(node), site.jobs_on(node)) == ("drained", [])


def test_the_earliest_of_several_windows_counts_and_the_next_one_after_it(site: Site) -> None:
    site.reserve("n0", "4h", "1h")
    site.reserve("n*", "2h", "1h")
    site.on()
    start = site.desk.start
    begins = [round(one.begins - start) for one in room._read(site.desk)[1]]
    assert site.closes() == [min(begins)] * 2
    unreserve(site.desk, PIA, "2")
    site.on()
    assert site.closes() == [max(begins), None]
    assert [one.id for one in reservations(site.desk, PIA)] == ["1"]


def test_taken_back_while_it_is_open_the_node_comes_back(site: Site) -> None:
    site.reserve("n1", "now", "1d")
    site.on()
    assert site.state("n1") == "drained"
    assert unreserve(site.desk, PIA, "1").text == "reservation 1 of n1 is taken back"
    site.on()
    assert site.state("n1") == "up"


def test_a_persons_word_during_a_window_holds(site: Site) -> None:
    site.reserve("n0", "now", "5h")
    site.on()
    _say(site, "n0", "up", "pia")
    site.on(HOUR)
    assert site.state("n0") == "up"
    _say(site, "n0", "draining", "pia")
    site.on(5 * HOUR)
    site.on()
    assert (
        site.state("n0") == "drained"
    )  # she took it out herself: the end of the window does not bring it back


def _say(site: Site, node: str, state: str, by: str) -> None:
    site.ledger.ask([Asked(by, "node", node, {"state": state, "reason": "by hand"}, site.clock.now())])
    site.on()


def test_an_announcement_that_was_lost_is_made_again_and_one_missed_altogether_begins_late(
    site: Site,
) -> None:
    begins = float(int(site.clock.now()) + HOUR)
    told = room.Window("7", ("n0",), begins, begins + 2 * HOUR, "pia", "fan")
    room._write(site.desk, 8, [told])
    site.on()
    assert site.closes()[0] == begins - site.desk.start
    gone = told._replace(id="8", nodes=("n1",), begins=site.clock.now() - 10)
    room._write(site.desk, 9, [told, gone])
    site.on()
    assert site.state("n1") == "drained"


def test_a_window_lives_in_the_record(site: Site, tmp_path: Path) -> None:
    site.reserve("n0", "2h", "3h")
    site.on()
    closes = site.closes()
    site.daemon.stop()
    again = Daemon(site.desk.lab, site.ledger, site.desk.engine, site.clock, lease_s=1e9)
    again.turn_now()
    site.daemon = site.desk.daemon = again
    assert site.closes() == closes
    site.on(2 * HOUR)
    assert site.state("n0") == "drained"


def test_only_administrators_reserve_and_anybody_may_look(site: Site) -> None:
    with pytest.raises(Forbidden, match="a reservation of nodes is for administrators"):
        reserve(site.desk, ANN, {})
    with pytest.raises(Forbidden):
        unreserve(site.desk, ANN, "1")
    assert reservations(site.desk, ANN) == []


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"nodes": "n7"}, "nodes: found 'n7'; allowed: n0, n1"),
        ({"nodes": []}, "nodes: found []"),
        ({"nodes": 3}, "nodes: found 3; allowed: names of nodes, or patterns"),
        ({"from": "tomorrow"}, "from: found 'tomorrow'; allowed: a date and time"),
        ({"from": "2020-01-01T00:00:00Z"}, "from: found 2020-01-01T00:00:00Z; allowed: an instant from now"),
        ({"for": "0s"}, "for: found 0s; allowed: up to 366d, above 0"),
        ({"for": "2 years"}, "for: found '2 years'"),
        ({"for": None}, "for: found None"),
        ({"reason": ""}, "reason: found nothing"),
        ({"reason": ["x"]}, "reason: found something else"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_kept(site: Site, keys: dict[str, Any], words: str) -> None:
    body = {"nodes": "n0", "from": "1h", "for": "1h", "reason": "firmware"} | keys
    with pytest.raises(BadInput) as refused:
        reserve(site.desk, PIA, body)
    assert words in str(refused.value)
    assert reservations(site.desk, PIA) == []


def test_what_is_not_there_cannot_be_taken_back(site: Site) -> None:
    with pytest.raises(NotKnown, match="there is no reservation '9'"):
        unreserve(site.desk, PIA, "9")


def test_set_node_speaks_the_flow_of_repair(site: Site) -> None:
    with pytest.raises(NotNow, match="a node that is up cannot be told 'repair'"):
        set_node(site.desk, PIA, "n0", {"state": "repair", "reason": "fan"})
