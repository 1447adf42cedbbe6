"""At most one purchase, whatever fails and wherever the process dies; by boto3 over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from buying_world import BOOK_CALLS, NOW, PROVIDER_CALLS, RULES, Crash, Dying, MemoryBook, Steps, Town
from tenure.providers.aws import Aws
from tenure.providers.fake_ec2 import Behaviour, Faults, Server, World
from tenure.providers.protocol import ProviderError
from tenure.runs.buying import buy, look_again, note_failed, void
from tenure.runs.signing import MADE, BuyingError, NeedsPerson, spent

KINDS = ("", "503", "drop", "hang", "503_after", "drop_after", "hang_after")
ACTION = {"window": "PurchaseCapacityBlock", "extension": "PurchaseCapacityBlockExtension"}
MOST_STEPS = 60


class Case:
    """One history: a signed plan, a fault of the purchase, a process that dies at some steps."""

    def __init__(self, what: str, fault: str, behaviour: Behaviour | None = None) -> None:
        self.what = what
        self.town = town = Town(behaviour or Behaviour())
        offer = town.offer()
        if what == "extension":
            first = town.aws().buy(offer, "before")
            town.clock.wait(120.0)
            offer = town.aws().extension_offers(first, 24)[0]
        self.plan = town.signed(offer)
        if fault:
            town.world.faults = Faults({(ACTION[what], 0): fault})
        town.world.sends.clear()

    def bought(self) -> int:
        world = self.town.world
        return world.extensions_bought() if self.what == "extension" else world.purchases()

    def live(self, provider: Any, dies_at: int | None) -> tuple[list[str], bool]:
        """One life of the process; (its steps, whether it knows by its end that the thing is bought)."""
        steps = Steps(dies_at)
        book: Any = Dying(self.town.book, steps, BOOK_CALLS)
        try:
            buy(book, Dying(provider, steps, PROVIDER_CALLS), self.plan, RULES, self.town.clock)  # type: ignore[arg-type]
        except (Crash, BuyingError, ProviderError):
            return steps.seen, False
        return steps.seen, True

    def check(self, told: str) -> None:
        sends = self.town.world.sends[ACTION[self.what]]
        assert sends <= 1, f"{told}: sent {sends} times"
        assert self.bought() <= 1, f"{told}: bought {self.bought()} times"
        made = self.town.book.events(MADE)
        assert len(made) <= self.bought(), f"{told}: believed bought, and is not"


@pytest.fixture(scope="module")
def cloud() -> Iterator[tuple[Server, Aws]]:
    """One server and one real client for all histories; the world behind it changes."""
    town = Town()
    with Server(town.world, hang_s=0.3) as server:
        aws = town.hasty(server.url)
        yield server, aws
        aws.close()


def provider_of(cloud: tuple[Server, Aws], case: Case) -> Aws:
    server, aws = cloud
    server.world = case.town.world
    aws._clock = case.town.clock
    return aws


@pytest.mark.slow
@pytest.mark.parametrize("fault", KINDS)
@pytest.mark.parametrize("what", sorted(ACTION))
def test_a_process_that_dies_anywhere_with_any_fault_buys_at_most_once_and_never_loses_what_it_bought(
    what: str, fault: str, cloud: tuple[Server, Aws]
) -> None:
    died = 0
    for dies_at in range(1, MOST_STEPS):
        case = Case(what, fault)
        provider = provider_of(cloud, case)
        told = f"{what}, {fault or 'no fault'}, dies at step {dies_at}"
        steps, _ = case.live(provider, dies_at)
        if dies_at >= len(steps):
            break
        died += 1
        case.check(told)
        knows = False
        for _ in range(3):  # it is started again, and again
            knows = case.live(provider, None)[1] or knows
            case.check(told)
        assert knows == (case.bought() == 1), f"{told}: bought {case.bought()}, known {knows}"
        if case.bought() == 0 and (fault == "" or fault.endswith("_after")):
            assert case.town.world.sends[ACTION[what]] == 0, told
    assert died >= 8, f"only {died} places to die at were found"


@pytest.mark.slow
@pytest.mark.parametrize("fault", KINDS)
@pytest.mark.parametrize("what", sorted(ACTION))
def test_with_any_fault_the_purchase_is_sent_once_by_boto3(
    what: str, fault: str, cloud: tuple[Server, Aws]
) -> None:
    case = Case(what, fault)
    knows = case.live(provider_of(cloud, case), None)[1]
    assert case.town.world.sends[ACTION[what]] == 1
    assert case.bought() == int(fault == "" or fault.endswith("_after"))
    assert knows == (case.bought() == 1)


@pytest.mark.slow
@pytest.mark.parametrize("what", sorted(ACTION))
@pytest.mark.parametrize("fault", ["", "drop", "drop_after"])
def test_two_deaths_in_a_row_buy_at_most_once(what: str, fault: str) -> None:
    for first in range(1, MOST_STEPS):
        second = 0
        while True:
            second += 1
            case = Case(what, fault)
            provider = case.town.aws()
            steps, _ = case.live(provider, first)
            again, _ = case.live(provider, second)
            knows = case.live(provider, None)[1]
            told = f"{what}, {fault or 'no fault'}, dies at {first} and {second}"
            case.check(told)
            if case.bought():
                knows = knows or bool(look_again(case.town.book, provider, RULES))
                assert knows, told
            if second >= len(again):
                break
        if first >= len(steps):
            break
    else:
        pytest.fail("more steps than expected")


@pytest.mark.parametrize("what", sorted(ACTION))
@pytest.mark.parametrize("keeps_tags", [True, False])
@pytest.mark.parametrize(("lag_s", "lag_reads"), [(0.0, 0), (40.0, 0), (0.0, 3)])
def test_a_purchase_whose_answer_is_lost_is_found_late_and_without_its_tags(
    what: str, keeps_tags: bool, lag_s: float, lag_reads: int
) -> None:
    behaviour = Behaviour(keeps_tags=keeps_tags, lag_s=lag_s)
    case = Case(what, "drop_after", behaviour)
    object.__setattr__(case.town.world.behaviour, "lag_reads", lag_reads)
    assert case.live(case.town.aws(), None)[1]
    (made,) = case.town.book.events(MADE)
    assert made.body["adopted"]
    assert case.bought() == 1


def test_the_same_block_of_somebody_else_is_not_taken_for_ours() -> None:
    case = Case("window", "", Behaviour(keeps_tags=False))
    case.town.aws().buy(case.town.offer(), "of somebody else")  # before ours: it is among what was seen
    case.town.world.faults = Faults({("PurchaseCapacityBlock", 0): "drop"})
    assert not case.live(case.town.aws(), None)[1]
    assert not case.town.book.events(MADE)


def test_where_two_blocks_could_be_ours_a_person_must_say_which() -> None:
    case = Case("window", "drop_after", Behaviour(keeps_tags=False, lag_s=30.0))
    provider = case.town.aws()
    real = provider.buy

    def with_another(offer: Any, intent: str) -> Any:
        try:
            return real(offer, intent)
        finally:
            case.town.world.faults = Faults()
            real(offer, "of somebody else")

    provider.buy = with_another  # type: ignore[method-assign]
    with pytest.raises(NeedsPerson, match="could each be"):
        buy(case.town.book, provider, case.plan, RULES, case.town.clock)
    assert not case.town.book.events(MADE)


def test_what_was_not_bought_is_bought_again_only_after_a_person_has_looked() -> None:
    case = Case("window", "drop")
    provider, book, clock = case.town.aws(), case.town.book, case.town.clock
    for _ in range(3):
        with pytest.raises(NeedsPerson, match="not sent again"):
            buy(book, provider, case.plan, RULES, clock)
    assert case.town.world.sends["PurchaseCapacityBlock"] == 1
    case.town.world.faults = Faults()
    void(book, book.events("purchase_intended")[0].body["intent"], "ann")
    buy(book, provider, case.plan, RULES, clock)
    assert (case.town.world.sends["PurchaseCapacityBlock"], case.bought()) == (2, 1)


def test_what_a_person_voided_and_yet_shows_itself_is_told_and_counted() -> None:
    case = Case("window", "drop_after", Behaviour(lag_s=500.0))
    provider, book, clock = case.town.aws(), case.town.book, case.town.clock
    with pytest.raises(NeedsPerson):
        buy(book, provider, case.plan, RULES, clock)
    void(book, book.events("purchase_intended")[0].body["intent"], "ann")
    assert spent(book, "USD") == 0
    clock.wait(600.0)
    assert look_again(book, provider, RULES) == []
    (appeared,) = book.events("purchase_appeared")
    assert appeared.body["window"] in case.town.world.blocks
    assert spent(book, "USD") == case.town.offer().fee


@pytest.mark.parametrize("what", sorted(ACTION))
def test_what_was_never_paid_costs_nothing_and_may_be_bought_again(what: str) -> None:
    case = Case(what, "")
    behaviour = case.town.world.behaviour
    object.__setattr__(behaviour, "payment_fails", True)
    object.__setattr__(behaviour, "extension_payment_fails", True)
    provider, book, clock = case.town.aws(), case.town.book, case.town.clock
    assert case.live(provider, None)[1]
    clock.wait(120.0)
    assert note_failed(book, provider) == [book.events("purchase_intended")[0].body["intent"]]
    assert note_failed(book, provider) == []
    assert spent(book, "USD") == 0
    object.__setattr__(behaviour, "payment_fails", False)
    object.__setattr__(behaviour, "extension_payment_fails", False)
    assert case.live(provider, None)[1]
    clock.wait(120.0)
    assert note_failed(book, provider) == []
    assert spent(book, "USD") > 0
    assert case.bought() == 2


def test_two_processes_with_one_plan_send_once() -> None:
    case = Case("window", "")
    provider = case.town.aws()
    book = case.town.book

    class Racing(MemoryBook):
        """Another process is quicker by a hair: its intent is there when ours is to be written."""

        def record(self, kind: str, body: Any, *, key: str = "") -> Any:
            if kind == "purchase_intended" and not book.events("purchase_intended"):
                buy(book, provider, case.plan, RULES, case.town.clock)
            return book.record(kind, body, key=key)

        def events(self, *kinds: str) -> Any:
            return book.events(*kinds)

    bought = buy(Racing("run-1", case.town.clock), provider, case.plan, RULES, case.town.clock)
    assert case.bought() == 1
    assert bought.window == next(iter(case.town.world.blocks))


def test_a_process_that_slept_between_intent_and_send_does_not_send() -> None:
    case = Case("window", "")
    book, clock = case.town.book, case.town.clock
    record = book.record

    def sleepy(kind: str, body: Any, *, key: str = "") -> Any:
        event = record(kind, body, key=key)
        if kind == "purchase_intended":
            clock.set(clock.now() + RULES.settle_s)
        return event

    book.record = sleepy  # type: ignore[method-assign]
    assert not case.live(case.town.aws(), None)[1]
    assert case.town.world.sends["PurchaseCapacityBlock"] == 0


def test_the_world_sells_the_same_offer_twice_to_whoever_sends_twice() -> None:
    """The check above can fail: a client that retries by itself, as botocore's default does, buys twice."""
    import boto3

    town = Town(faults=Faults({("PurchaseCapacityBlock", 1): "drop_after"}))
    offer = town.offer()
    assert isinstance(town.world, World)
    assert NOW == town.clock.now()
    with Server(town.world) as server:
        client = boto3.client(
            "ec2", "us-east-1", endpoint_url=server.url, aws_access_key_id="a", aws_secret_access_key="b"
        )
        client.purchase_capacity_block(CapacityBlockOfferingId=offer.id, InstancePlatform="Linux/UNIX")
        client.close()
    assert town.world.purchases() == 2
