"""Windows whose nodes are assigned by name: agreed by hand, or reserved on one's own machines, in memory."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from buying_world import NOW, RULES, MemoryBook
from tenure.client.asking import Client
from tenure.engines.clock import ChosenClock
from tenure.providers.manual import Manual
from tenure.providers.own import Own
from tenure.providers.own_reserving import Held
from tenure.providers.protections import Protections
from tenure.providers.protocol import (
    RUNNING,
    Ask,
    Expired,
    NoCapacity,
    NotSent,
    Refused,
)
from tenure.runs.buying import buy
from tenure.runs.signing import Changed, Plan, approve, sign

TAG = ("tenure:run", "run-1")
TAGS = dict([TAG])


# --- agreed by hand ---------------------------------------------------------------------------------

AGREED = """
windows:
  - {id: lambda-1, start: 2026-12-01T00:00:00Z, end: 2026-12-21T00:00:00Z, fee: 1000000.50, currency: USD,
     nodes: "gpu[01-04]", gpus_per_node: 8, zone: us-south-1}
  - {id: lambda-1b, start: 2026-12-21T00:00:00Z, end: 2026-12-23T00:00:00Z, fee: 90000, currency: USD,
     nodes: "gpu[01-04]", gpus_per_node: 8, zone: us-south-1, extends: lambda-1}
"""
FIRST = datetime(2026, 12, 1, tzinfo=UTC).timestamp()


@pytest.fixture
def agreed(tmp_path: Path) -> tuple[Manual, ChosenClock, Path]:
    path = tmp_path / "agreed.yaml"
    path.write_text(AGREED, encoding="utf-8")
    clock = ChosenClock(FIRST - 3600)
    return Manual(path, clock), clock, path


def test_an_agreed_window_is_signed_taken_up_lived_in_and_extended(
    agreed: tuple[Manual, ChosenClock, Path],
) -> None:
    manual, clock, _ = agreed
    (one,) = manual.offers(Ask("", 4, 480))
    book = MemoryBook("run-1", clock)
    plan_id = sign(book, Plan("run-1", one, Decimal(2_000_000), 4), "ann", RULES, clock.now())
    approve(book, plan_id, "ben", RULES, clock.now())
    bought = buy(book, manual, plan_id, RULES, clock)
    (held,) = manual.windows(tag=("tenure:intent", bought.intent))
    assert (held.state, held.fee, held.nodes) == ("scheduled", Decimal("1000000.50"), 4)
    with pytest.raises(Expired, match="scheduled"):
        manual.launch("t", 4, 4, held, TAGS)
    clock.set(FIRST)
    nodes = manual.launch("t", 4, 4, held, TAGS)
    assert [node.id for node in nodes] == ["gpu01", "gpu02", "gpu03", "gpu04"]
    assert [node.id for node in manual.launch("t", 4, 4, held, TAGS)] == [node.id for node in nodes]
    with pytest.raises(NoCapacity):
        manual.launch("t2", 1, 1, held, TAGS)
    with pytest.raises(Refused, match="on demand"):
        manual.launch("t3", 1, 1, None, TAGS)
    (more,) = manual.extension_offers(held, 48)
    manual.extend(held, more, "intent-2")
    assert manual.windows([held.id])[0].end == held.end + 2 * 86400
    assert [one.offer for one in manual.extensions(held)] == ["lambda-1b"]
    clock.set(held.end + 1)
    assert {node.state for node in manual.nodes(TAG)} == {RUNNING}
    manual.terminate([node.id for node in nodes])
    assert manual.nodes(TAG) == []


def test_what_was_taken_up_outlives_the_process_and_is_not_taken_up_twice(
    agreed: tuple[Manual, ChosenClock, Path],
) -> None:
    manual, clock, path = agreed
    (one,) = manual.offers(Ask("", 4, 480))
    manual.buy(one, "first")
    again = Manual(path, clock)
    assert [held.id for held in again.windows()] == ["lambda-1"]
    assert again.offer_again(one) is None
    with pytest.raises(Refused, match="first"):
        again.buy(one, "second")
    assert again.buy(one, "first").id == "lambda-1"


def test_nodes_that_are_down_are_not_given_out_and_are_told(
    agreed: tuple[Manual, ChosenClock, Path],
) -> None:
    manual, clock, path = agreed
    (one,) = manual.offers(Ask("", 4, 480))
    held = manual.buy(one, "first")
    clock.set(FIRST)
    path.write_text(AGREED + "down: [gpu02]\n", encoding="utf-8")
    assert manual.against(one) == ["1 of its nodes are down: gpu02"]
    assert manual.health(held).broken == 1
    assert [node.id for node in manual.launch("t", 4, 1, held, TAGS)] == ["gpu01", "gpu03", "gpu04"]
    path.write_text(AGREED + "down: [gpu03]\n", encoding="utf-8")
    assert [node.id for node in manual.nodes(TAG) if node.healthy is False] == ["gpu03"]


def test_a_file_that_is_wrong_says_where_at_first_and_later_is_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "agreed.yaml"
    path.write_text(AGREED, encoding="utf-8")
    manual = Manual(path, ChosenClock(FIRST))
    path.write_text(AGREED.replace("fee: 90000", "fee: many"), encoding="utf-8")
    with pytest.raises(NotSent, match=r"windows\[1\]\.fee"):
        manual.windows()


# --- one's own --------------------------------------------------------------------------------------


class Ledger:
    """Reservations in memory, as Slurm or a Tenure server would keep them."""

    def __init__(self, names: list[str]) -> None:
        self.names, self.kept = names, list[Held]()

    def reserve(self, name: str, nodes: Any, start: float, end: float) -> None:
        if any(one.name == name for one in self.kept):
            raise Refused("there", name)
        self.kept.append(Held(name, name, tuple(nodes), start, end))

    def held(self) -> list[Held]:
        return self.kept

    def usable(self) -> list[str]:
        return self.names


def test_a_window_of_ones_own_is_reserved_once_and_its_nodes_assigned_by_name(tmp_path: Path) -> None:
    clock = ChosenClock(NOW)
    ledger = Ledger(["n1", "n2", "n3"])
    own = Own(ledger, ["n1", "n2", "n3"], 8, tmp_path / "own.json", clock)
    ledger.reserve("somebody", ["n1"], NOW, NOW + 7200)
    (soon,) = own.offers(Ask("", 2, 1))
    assert soon.start == NOW + 900
    (later,) = own.offers(Ask("", 3, 1))
    assert later.start == NOW + 7200
    book = MemoryBook("run-1", clock)
    plan_id = sign(book, Plan("run-1", soon, Decimal(0), 2), "ann", RULES, NOW)
    bought = buy(book, own, plan_id, RULES, clock)
    assert buy(book, own, plan_id, RULES, clock) == bought
    held = own.windows([bought.window])[0]
    assert (held.state, held.nodes, held.fee) == ("scheduled", 2, Decimal(0))
    clock.set(soon.start)
    assert [node.id for node in own.launch("t", 2, 2, held, TAGS)] == ["n2", "n3"]
    assert own.health(held).free == 0
    clock.set(soon.end)
    with pytest.raises(Expired):
        own.launch("t2", 1, 1, held, TAGS)
    own.terminate(["n2", "n3"])
    assert own.nodes(TAG) == []


def test_an_offer_of_ones_own_that_others_took_meanwhile_is_changed(tmp_path: Path) -> None:
    clock, ledger = ChosenClock(NOW), Ledger(["n1"])
    own = Own(ledger, ["n1"], 8, tmp_path / "own.json", clock)
    (one,) = own.offers(Ask("", 1, 1))
    book = MemoryBook("run-1", clock)
    plan_id = sign(book, Plan("run-1", one, Decimal(0), 1), "ann", RULES, NOW)
    ledger.reserve("somebody", ["n1"], NOW, NOW + 7200)
    with pytest.raises(Changed, match="gone"):
        buy(book, own, plan_id, RULES, clock)


BEGAN = "2025-12-01T01:00:00Z"


class Queue(Client):
    """A server's queue as its client shows it."""

    def __init__(self, *rows: tuple[str, str | None]) -> None:
        self.rows = [SimpleNamespace(name=name, protected_until=until, since=BEGAN) for name, until in rows]

    def queue(  # type: ignore[override]
        self, *, state: str, account: str | None = None, limit: int = 1000, offset: int = 0
    ) -> SimpleNamespace:
        """Two a page, however many are asked for."""
        assert (state, limit) == ("running", 1000)
        return SimpleNamespace(jobs=self.rows[offset : offset + 2], total=len(self.rows))


def test_the_window_of_a_lab_ends_with_the_protection_of_the_runs_own_job(tmp_path: Path) -> None:
    clock = ChosenClock(NOW)
    until = "2025-12-01T02:00:00Z"
    queue = Queue(("run-10", "2025-12-02T00:00:00Z"), ("run-1-x", "2025-12-03T00:00:00Z"), ("run-1-2", until))
    (window,) = Protections(queue, "run-1", 2, 8, tmp_path / "a", clock).windows()
    assert window.end == datetime(2025, 12, 1, 2, tzinfo=UTC).timestamp()
    assert (window.end - window.start, window.soft, window.promised) == (3600.0, True, True)
    (bare,) = Protections(Queue(("run-1-2", None)), "run-1", 2, 8, tmp_path / "d", clock).windows()
    assert (bare.said, bare.promised) == ("not protected", False)
    (free,) = Protections(Queue(), "run-1", 2, 8, tmp_path / "b", clock).windows(["lab"])
    assert (free.said, free.promised, free.nodes) == ("no job runs", False, 2)
    assert Protections(queue, "run-1", 2, 8, tmp_path / "c", clock).windows(["another"]) == []
