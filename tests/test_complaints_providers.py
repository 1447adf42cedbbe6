"""Public complaints about buying and placing, each a test that the obvious way of doing it fails."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from buying_world import KIND, NOW, RULES, Town
from run_world import DAY, HOUR, START, World, run_of
from tenure.engines.clock import RealClock
from tenure.ledger.opening import open_database
from tenure.providers.fake_ec2 import Behaviour, Faults, Listing, Server, Zone
from tenure.providers.fake_ec2 import World as Cloud
from tenure.providers.opening import provider_of
from tenure.providers.protocol import (
    EXPIRED,
    ON_DEMAND,
    RESERVED,
    Ask,
    Expired,
    NoCapacity,
    Refused,
)
from tenure.runs.buying import buy
from tenure.runs.signing import Changed, NotAllowed, NotSigned, Plan, Rules, approve, misfit, sign, spent
from tenure.service.run_place import AskedBook, database

TAGS = {"tenure:run": "run-1"}


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Any]:
    worlds: list[World] = []

    def made(plan: dict[str, Any] | None = None, **keys: Any) -> World:
        worlds.append(World(tmp_path, open_database(tmp_path / "runs.db"), run_of(tmp_path, plan, **keys)))
        return worlds[-1]

    yield made
    for world in worlds:
        assert world.db is not None
        world.db.engine.dispose()


def bought(town: Town, nodes: int = 32) -> Any:
    """A window of the town that has begun."""
    window = town.aws().buy(town.offer(nodes), "intent")
    town.clock.set(window.start)
    return town.aws().windows([window.id])[0]


def test_02_a_plan_is_signed_approved_and_bought_once_within_its_budget_and_refused_over_it() -> None:
    """skypilot#4765: wants the tool to buy."""
    town = Town()
    offer = town.offer()
    with pytest.raises(NotAllowed, match="over the budget"):
        town.signed(offer, budget=offer.fee - Decimal("0.01"))
    plan_id = town.signed(offer, budget=offer.fee, people=1)
    provider, book, clock = town.aws(), town.book, town.clock
    with pytest.raises(NotSigned, match="second person"):
        buy(book, provider, plan_id, RULES, clock)
    approve(book, plan_id, "ann", RULES, NOW)  # the first again is no second person
    with pytest.raises(NotSigned, match="signed by ann"):
        buy(book, provider, plan_id, RULES, clock)
    assert town.world.sends["PurchaseCapacityBlock"] == 0
    approve(book, plan_id, "ben", RULES, NOW)
    first = buy(book, provider, plan_id, RULES, clock)
    assert buy(book, provider, plan_id, RULES, clock) == first
    assert town.world.sends["PurchaseCapacityBlock"] == 1
    assert spent(book, "USD") == offer.fee
    another = town.aws().offers(Ask(KIND, 32, 48))[1]
    second = town.signed(another, budget=offer.fee + another.fee - 1)
    with pytest.raises(NotAllowed, match="already spent"):
        buy(book, provider, second, RULES, clock)
    assert town.world.purchases() == 1


def test_02_a_signature_that_nobody_made_with_the_key_counts_for_nothing() -> None:
    """skypilot#4765, the other side: a row written into the database by hand buys nothing."""
    town = Town()
    plan_id = town.signed(town.offer(), people=1)
    forged = {"plan": plan_id, "by": "ben", "at": NOW, "mac": "00" * 32}
    town.book.record("purchase_approved", forged, key=f"approved/{plan_id}/ben")
    signed = town.book.events("purchase_approved")[0]
    town.book.record("purchase_approved", signed.body, key=f"approved/{plan_id}/copied")
    with pytest.raises(NotSigned):
        buy(town.book, town.aws(), plan_id, RULES, town.clock)
    planned = town.book.rows[0]
    cheaper = {**planned.body, "offer": {**planned.body["offer"], "fee": "1.00"}}
    town.book.rows[0] = planned._replace(body=cheaper)
    with pytest.raises(NotAllowed, match="changed after it was signed"):
        buy(town.book, town.aws(), plan_id, RULES, town.clock)


@pytest.mark.parametrize(
    ("fee", "people"), [("10000.00", 1), ("10000.01", 2)], ids=["at the sum", "above the sum"]
)
def test_02_above_ten_thousand_two_people_must_sign(fee: str, people: int) -> None:
    """skypilot#4765: buying by a program needs a limit; ours is in the currency of the purchase."""
    listed = Listing("us-east-1a", NOW + 7200, NOW + 7200 + DAY, 32, Decimal(fee))
    town = Town(Behaviour(listings=(listed,), lattice=False))
    plan_id = town.signed(town.offer(hours=24), people=1)
    if people == 2:
        with pytest.raises(NotSigned):
            buy(town.book, town.aws(), plan_id, RULES, town.clock)
        approve(town.book, plan_id, "ben", RULES, NOW)
    buy(town.book, town.aws(), plan_id, RULES, town.clock)
    assert town.world.purchases() == 1


def test_03_where_one_of_the_reserved_nodes_is_missing_nothing_spills_to_on_demand_unasked(
    make: Any,
) -> None:
    """skypilot#3852: spills by design; 31 of 32 are free and the last one bills on demand, unsaid."""
    town = Town()
    window = bought(town)
    town.world.break_places(window.id, 1)
    assert town.aws().health(window).free == 31
    with pytest.raises(NoCapacity, match="31 of 32"):
        town.aws().launch("t", 32, 32, window, TAGS)
    assert town.world.alive() == []
    world = make(fallback="on-demand")
    world.provider.lend(START, START + 3 * DAY, 4, broken=1)
    world.controller()
    world.live(START + 6 * HOUR)
    assert "reservation short" in world.modes()
    assert not [node for node in world.provider.alive.values() if node.market == ON_DEMAND]


def test_03_what_spills_is_what_the_file_allows_and_no_more(make: Any) -> None:
    """skypilot#3852: on demand only where the plan says `spill: 1`, and it is in the cost."""
    world = make(fallback="on-demand", gang={"spill": 1})
    world.provider.lend(START, START + 3 * DAY, 4, broken=1)
    world.controller()
    world.live(START + HOUR)
    markets = [node.market for node in world.provider.alive.values()]
    assert sorted(markets) == [ON_DEMAND, RESERVED, RESERVED, RESERVED]
    assert world.provider.on_demand_hours(world.clock.now()) > 0


@pytest.mark.slow
def test_04_no_node_is_on_demand_while_a_reserved_one_is_idle(make: Any) -> None:
    """karpenter#2359: on-demand used while reserved is free."""
    world = make({"tokens": 1e15}, fallback="on-demand")
    world.provider.lend(START, START + DAY, 4)
    world.provider.lend(START + 2 * DAY, START + 4 * DAY, 4)
    looked: list[float] = []

    def check(world: World) -> None:
        now = world.clock.now()
        idle = any(
            one.start + 900 < now < world.provider.term(one) - HOUR
            and not any(node.window == one.id for node in world.provider.alive.values())
            for one in world.provider.lent.values()
        )
        wild = [node for node in world.provider.alive.values() if node.market == ON_DEMAND]
        assert not (idle and wild), f"{len(wild)} on demand beside an idle window"
        looked.append(len(wild))

    world.checks.append(check)
    world.controller()
    world.live(START + 4 * DAY)
    assert len(looked) > 100


def test_05_several_blocks_of_one_kind_fill_one_gang(make: Any) -> None:
    """karpenter-provider-aws#8514: only one of several blocks of the same type and zone is used."""
    world = make({"nodes": 8})
    for size in (3, 3, 2):
        world.provider.lend(START, START + 3 * DAY, size)
    world.controller()
    world.live(START + HOUR)
    held = [node.window for node in world.provider.alive.values()]
    assert sorted(held.count(f"cb-{n}") for n in (1, 2, 3)) == [2, 3, 3]
    assert world.state.phase == "running"


def test_05_a_launch_goes_to_the_block_it_names_though_others_are_alike() -> None:
    """karpenter-provider-aws#8514, against the real client."""
    town = Town(Behaviour(zones=(Zone("a"),)))
    offers = [town.offer(nodes) for nodes in (3, 3, 2)]
    windows = [town.aws().buy(offer, f"i{n}") for n, offer in enumerate(offers)]
    town.clock.set(max(window.start for window in windows))
    with Server(town.world) as server:
        provider = town.aws(server.url)
        for window in provider.windows():
            made = provider.launch(f"t-{window.id}", window.nodes, window.nodes, window, TAGS)
            assert {node.window for node in made} == {window.id}
        provider.close()
    assert len(town.world.alive()) == 8
    assert town.world.bill().on_demand == 0


def test_12_an_offer_too_small_for_the_run_is_refused_before_any_money_with_what_is_missing() -> None:
    """dstack#2221: picked a fleet too small."""
    town = Town()
    with pytest.raises(NotAllowed, match="28 nodes are offered, the run needs 32: 4 short"):
        town.signed(town.offer(28), nodes=32)
    assert town.world.sends["PurchaseCapacityBlock"] == 0


@pytest.mark.slow
def test_15_a_process_killed_between_send_and_answer_finds_what_it_bought_and_buys_nothing_more(
    tmp_path: Path,
) -> None:
    """terraform-provider-aws#46829: apply fails after the purchase, and the next one buys again."""
    clock = RealClock()
    cloud = Cloud(Behaviour(), clock, Faults({("PurchaseCapacityBlock", 1): "hang_after"}))
    with Server(cloud) as server:
        access = {
            "name": "aws",
            "region": "us-east-1",
            "instance_type": KIND,
            "subnets": {zone.name: zone.subnet_id for zone in cloud.zones.values()},
            "endpoint": server.url,
            "read_timeout": 60,
        }
        provider = provider_of(access, tmp_path, clock)
        offer = provider.offers(Ask(KIND, 32, 48))[0]
        with database(tmp_path) as db:
            book = AskedBook(db, "run-1", clock)
            plan_id = sign(book, Plan("run-1", offer, offer.fee, 32), "ann", RULES, clock.now())
            approve(book, plan_id, "ben", RULES, clock.now())
        told = {"provider": access, "data": str(tmp_path), "run": "run-1", "plan": plan_id, "settle_s": 20.0}
        command = [sys.executable, str(Path(__file__).with_name("buying_killed.py")), json.dumps(told)]
        first = subprocess.Popen(command, stdout=subprocess.PIPE)
        given_up = time.monotonic() + 300
        while cloud.sends["PurchaseCapacityBlock"] == 0 and time.monotonic() < given_up:
            time.sleep(0.05)
        first.kill()
        first.communicate()
        assert cloud.purchases() == 1
        second = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert second.stdout.split() == [next(iter(cloud.blocks)), "True"], second.stderr[-500:]
        third = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert third.stdout == second.stdout
        provider.close()  # type: ignore[attr-defined]
    assert (cloud.purchases(), cloud.sends["PurchaseCapacityBlock"]) == (1, 1)


@pytest.mark.slow
def test_16_waiting_for_capacity_ends_at_its_deadline_and_says_what_the_provider_said(make: Any) -> None:
    """terraform-provider-aws#34345, #30819, #36754: the wait for capacity loops for ever."""
    world = make(fallback="on-demand", gang={"rounds": 3, "retry": 600, "pause": 7200})
    world.provider.lend(START, START + DAY, 4)
    world.provider.open = lambda now: 0
    world.controller()
    world.live(START + 4 * DAY)
    on_demand = [at for _, at, window in world.provider.sent if not window]
    assert on_demand, "nothing was tried on demand"
    refused = world.book(world.clock.now).events("launch_refused")
    assert {event.body["code"] for event in refused} == {"InsufficientInstanceCapacity"}
    pauses = world.book(world.clock.now).events("launching_paused")
    assert pauses
    days = (world.clock.now() - on_demand[0]) / DAY
    assert len(on_demand) <= days * 24 / 2 * 4 + 4, f"{len(on_demand)} launches in {days:.1f} days"


def test_16_one_refusal_is_one_send_of_the_client_not_a_loop_inside_it() -> None:
    """terraform-provider-aws#34345: the last word of the provider is shown, at once."""
    town = Town(Behaviour(zones=(Zone("a", success=0.0),)))
    with Server(town.world) as server:
        provider = town.aws(server.url)
        with pytest.raises(NoCapacity) as caught:
            provider.launch("t", 4, 4, None, TAGS)
        provider.close()
    assert caught.value.code == "InsufficientInstanceCapacity"
    assert "do not have sufficient capacity" in caught.value.message
    assert town.world.sends["RunInstances"] == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"subnets": {"us-east-1a": "subnet-us-east-1b"}}, "lies in us-east-1b, the offer in us-east-1a"),
        ({"subnets": {}}, "no subnet is named for the zone us-east-1a"),
        ({"subnets": {"us-east-1a": "subnet-gone"}}, "lies in no zone"),
        ({"platform": "Red Hat Enterprise Linux"}, "the image ami-1 is Linux/UNIX"),
        ({"image": "ami-windows"}, "the image ami-windows is Windows"),
    ],
)
def test_17_zone_subnet_and_platform_are_checked_before_anything_is_bought(
    change: dict[str, Any], words: str
) -> None:
    """modelplane#184: a mismatch with the block is found only at launch."""
    town = Town(Behaviour(zones=(Zone("us-east-1a"), Zone("us-east-1b")), images={"ami-windows": "Windows"}))
    from tenure.providers.aws import Aws
    from tenure.providers.fake_ec2 import Direct

    provider = Aws(town.settings(**change), town.clock, Direct(town.world))
    offer = next(one for one in provider.offers(Ask(KIND, 32, 48)) if one.zone == "us-east-1a")
    plan = Plan("run-1", offer, offer.fee, 32)
    assert words in "; ".join(misfit(plan, provider.against(offer)))
    with pytest.raises(NotAllowed, match=r"subnet|image"):
        sign(town.book, plan, "ann", RULES, NOW, provider.against(offer))
    # signed while all was well, and changed since: found again just before the purchase
    plan_id = town.signed(offer)
    with pytest.raises(Changed, match=r"subnet|image"):
        buy(town.book, provider, plan_id, RULES, town.clock)
    assert town.world.sends["PurchaseCapacityBlock"] == 0


def test_17_an_offer_that_is_not_what_was_signed_is_not_bought() -> None:
    """modelplane#184: the window that was tracked is the one that is bought: fee, dates, count."""
    town = Town()
    offer = town.offer()
    for change in (
        {"fee": offer.fee - 1},
        {"end": offer.end + 86400},
        {"zone": "us-east-1b" if offer.zone == "us-east-1a" else "us-east-1a"},
        {"currency": "EUR"},
        {"nodes": 31},
    ):
        plan_id = town.signed(offer._replace(**change), nodes=16)  # type: ignore[arg-type]
        with pytest.raises(Changed, match=r"signed was|is gone"):
            buy(town.book, town.aws(), plan_id, RULES, town.clock)
    plan_id = town.signed(offer)
    town.clock.wait(7 * 86400.0)
    with pytest.raises(Changed, match="is gone"):
        buy(town.book, town.aws(), plan_id, RULES, town.clock)
    with pytest.raises(NotAllowed, match="expired"):
        town.signed(offer._replace(fee=offer.fee - 1))
    assert town.world.sends["PurchaseCapacityBlock"] == 0


def test_18_a_window_that_is_over_or_gone_is_a_state_and_spoils_no_other_answer() -> None:
    """aws-parallelcluster#6870: an expired reservation's id breaks every later command."""
    town = Town()
    old = bought(town, 4)
    town.clock.set(old.end + 60.0)
    new = town.aws().buy(town.offer(4), "second")
    with Server(town.world) as server:
        provider = town.aws(server.url)
        states = {window.id: window.state for window in provider.windows([old.id, new.id])}
        assert states[old.id] == EXPIRED
        assert provider.extension_offers(old, 24) == []
        with pytest.raises(Expired):
            provider.launch("t", 1, 1, old, TAGS)
        del town.world.blocks[old.id]  # not even remembered any more
        assert [window.id for window in provider.windows([old.id, new.id])] == [new.id]
        assert provider.extension_offers(old, 24) == []
        assert provider.extensions(old) == []
        with pytest.raises(Expired):
            provider.health(old)
        with pytest.raises(Expired):
            provider.launch("t", 1, 1, old, TAGS)
        provider.terminate(["i-0000000000000dead"])
        provider.close()


def test_31_an_offer_outranks_what_the_record_knows_of_its_provider() -> None:
    """cluster-toolkit#3689: a provider halved a limit; what it sells is what it offers."""
    odd = Listing("us-east-1a", NOW + 7200, NOW + 7200 + 19.5 * DAY, 32, Decimal("1048320.00"))
    town = Town(Behaviour(listings=(odd,), lattice=False))
    offer = town.offer(hours=21 * 24)
    assert offer.length_s / DAY == 19.5
    assert 19.5 not in town.aws().capability.durations.in_days()
    buy(town.book, town.aws(), town.signed(offer), RULES, town.clock)
    (window,) = town.aws().windows()
    assert (window.end - window.start) / DAY == 19.5


def test_31_every_limit_of_every_provider_is_data_with_a_date_and_a_source() -> None:
    """cluster-toolkit#3689: limits are data, with who said so and when."""
    from tenure.providers.capability import capability, providers

    for name in providers():
        facts = capability(name).facts
        assert facts
        for key, fact in facts.items():
            assert fact.source.strip(), f"{name}.{key}"
            assert fact.date.year >= 2026, f"{name}.{key}"


def test_32_nothing_is_placed_before_the_start(make: Any) -> None:
    """karpenter-provider-azure#1423: pods are scheduled before the window."""
    town = Town()
    window = town.aws().buy(town.offer(), "intent")
    for at in (NOW, NOW + 120.0, window.start - 1.0):
        town.clock.set(at)
        with pytest.raises(Expired, match=r"payment-pending|scheduled"):
            town.aws().launch(f"t{at}", 32, 32, window, TAGS)
    assert town.world.alive() == []
    town.clock.set(window.start)
    assert len(town.aws().launch("t", 32, 32, window, TAGS)) == 32
    world = make()
    world.clock.set(START - DAY)
    world.provider.lend(START, START + DAY, 4)
    world.controller()
    world.live(START - 1.0)
    assert world.provider.sent == []


def test_a_launch_that_missed_its_reservation_is_ended_at_once_and_told() -> None:
    """A machine beside its idle reservation bills twice: read back, ended, named."""
    town = Town(Behaviour(misses=1))
    window = bought(town)
    with pytest.raises(Refused) as caught:
        town.aws().launch("t", 32, 32, window, TAGS)
    assert caught.value.code == "missed-reservation"
    assert town.world.alive() == []
    assert len(town.aws().launch("t2", 32, 32, window, TAGS)) == 32


def test_rules_hold_by_default_what_the_documentation_says() -> None:
    assert Rules(b"k").two_above == Decimal(10_000)
