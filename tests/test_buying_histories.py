"""Buying through drawn histories, and by a controller that neither waits nor signs for a second person."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from buying_world import BOOK_CALLS, NOW, PROVIDER_CALLS, RULES, Crash, Dying, Steps, Town
from tenure.providers.fake_ec2 import Behaviour, Faults
from tenure.providers.protocol import ProviderError
from tenure.runs.buying import buy, look_again
from tenure.runs.extending import Extender
from tenure.runs.signing import MADE, BuyingError, NotAllowed, Rules, approve, check, find_plan, spent

READS = (
    "DescribeCapacityBlocks",
    "DescribeCapacityReservations",
    "DescribeCapacityBlockOfferings",
    "DescribeCapacityBlockExtensionOfferings",
    "DescribeCapacityBlockExtensionHistory",
    "DescribeSubnets",
    "DescribeImages",
)
SPENDS = {"window": "PurchaseCapacityBlock", "extension": "PurchaseCapacityBlockExtension"}
FATES = ("", "", "503", "drop", "hang", "503_after", "drop_after", "hang_after")
LIVES = 6


def history(seed: int) -> tuple[Town, str, int, int]:
    """A drawn one, lived: (town, what was bought, times bought, times sent)."""
    rng = np.random.default_rng([seed, 17])
    what = ("window", "extension")[int(rng.integers(2))]
    lag = {"lag_s": float(rng.choice([0.0, 0.0, 20.0])), "keeps_tags": bool(rng.random() < 0.6)}
    town = Town(Behaviour(**lag))  # type: ignore[arg-type]
    offer = town.offer()
    if what == "extension":
        first = town.aws().buy(offer, "before")
        town.clock.wait(120.0)
        offer = town.aws().extension_offers(first, 24)[0]
    plan = town.signed(offer)
    town.world.sends.clear()
    plan_of_faults = {(SPENDS[what], 0): str(rng.choice(FATES))}
    for read in READS:
        for call in range(1, 9):
            if rng.random() < 0.2:
                plan_of_faults[read, call] = str(rng.choice(["503", "drop", "hang"]))
    town.world.faults = Faults({key: kind for key, kind in plan_of_faults.items() if kind})
    for _ in range(LIVES):
        steps = Steps(int(rng.integers(1, 24)) if rng.random() < 0.6 else None)
        book: Any = Dying(town.book, steps, BOOK_CALLS)
        provider: Any = Dying(town.aws(), steps, PROVIDER_CALLS)
        rules = RULES._replace(waits=bool(rng.random() < 0.5))
        try:
            buy(book, provider, plan, rules, town.clock)
        except (Crash, BuyingError, ProviderError):
            town.clock.wait(float(rng.choice([0.0, 5.0, 100.0])))
    town.world.faults = Faults()
    town.clock.wait(60.0)
    look_again(town.book, town.aws(), RULES)
    world = town.world
    bought = world.extensions_bought() if what == "extension" else world.purchases()
    return town, what, bought, world.sends[SPENDS[what]]


def check_histories(first: int, number: int) -> tuple[int, int]:
    """(how many bought, how many sent nothing)."""
    done = unsent = 0
    for seed in range(first, first + number):
        town, what, bought, sent = history(seed)
        assert sent <= 1, f"seed {seed}: {what} sent {sent} times"
        assert bought <= 1, f"seed {seed}: {what} bought {bought} times"
        known = len(town.book.events(MADE))
        assert known == bought, f"seed {seed}: {what} bought {bought}, known {known}"
        done += bought
        unsent += sent == 0
    return done, unsent


@pytest.mark.slow
def test_in_no_drawn_history_is_anything_bought_twice_or_lost() -> None:
    done, unsent = check_histories(0, 150)
    assert 50 < done < 140
    assert 0 < unsent < 60


@pytest.mark.slow
def test_in_a_thousand_more_neither() -> None:
    done, _ = check_histories(1000, 1000)
    assert 300 < done < 500


class Desk:
    """A window that runs, and the controller's hand that extends it."""

    def __init__(self, above: Decimal = Decimal(10_000), budget: Decimal = Decimal(10_000_000)) -> None:
        self.town = Town()
        self.rules = Rules(RULES.key, above, settle_s=60.0, look_s=15.0)
        window = self.town.aws().buy(self.town.offer(), "before")
        self.town.clock.set(window.start)
        (self.window,) = self.town.aws().windows()
        self.extend = Extender(
            self.town.book,
            self.town.aws(),
            self.rules,
            self.town.clock,
            nodes=32,
            budget=budget,
            person="ann",
        )

    def offer(self, days: int = 1) -> Any:
        return self.town.aws().extension_offers(self.window, 24 * days)[0]


def test_below_the_sum_a_controller_extends_by_itself_and_once() -> None:
    desk = Desk(above=Decimal(1_000_000))
    offer = desk.offer()
    assert desk.extend(desk.window, offer).state == "bought"
    assert desk.extend(desk.window, offer).state == "bought"
    assert desk.town.world.extensions_bought() == 1
    desk.town.clock.wait(120.0)
    assert desk.town.aws().windows()[0].end == desk.window.end + 86400


def test_above_the_sum_it_waits_for_a_second_person_and_then_buys_what_was_approved() -> None:
    desk = Desk()
    told = desk.extend(desk.window, desk.offer())
    assert told.state == "waiting"
    assert "second person" in told.text
    plan = told.text.rsplit(" ", 1)[1]
    before = desk.town.clock.now()
    assert desk.extend.pursue() == []
    assert desk.town.clock.now() == before, "a controller must never wait here"
    approve(desk.town.book, plan, "ben", desk.rules, NOW)
    (done,) = desk.extend.pursue()
    assert done.state == "bought"
    assert desk.extend.pursue() == []
    assert desk.town.world.extensions_bought() == 1


def test_of_two_extensions_of_one_end_that_were_approved_one_is_bought() -> None:
    desk = Desk()
    plans = [desk.extend(desk.window, desk.offer(days)).text.rsplit(" ", 1)[1] for days in (1, 2)]
    for plan in plans:
        approve(desk.town.book, plan, "ben", desk.rules, NOW)
    states = sorted(one.state for one in desk.extend.pursue())
    assert states == ["bought", "refused"]
    assert desk.town.world.extensions_bought() == 1


@pytest.mark.parametrize("kind", ["drop_after", "503_after", "hang_after"])
def test_an_answer_that_was_lost_is_read_at_the_next_look_without_waiting(kind: str) -> None:
    desk = Desk(above=Decimal(1_000_000))
    object.__setattr__(desk.town.world.behaviour, "lag_s", 30.0)
    desk.town.world.faults = Faults({("PurchaseCapacityBlockExtension", 1): kind})
    before = desk.town.clock.now()
    assert desk.extend(desk.window, desk.offer()).state == "waiting"
    assert desk.town.clock.now() == before, "a controller must never wait here"
    assert desk.extend.pursue() == []
    desk.town.clock.wait(40.0)
    desk.extend.pursue()
    (made,) = desk.town.book.events(MADE)
    assert made.body["adopted"]
    assert desk.town.world.sends["PurchaseCapacityBlockExtension"] == 1


def test_an_extension_over_the_budget_or_gone_is_refused() -> None:
    desk = Desk(above=Decimal(1_000_000), budget=Decimal(1000))
    assert desk.extend(desk.window, desk.offer()).state == "refused"
    desk = Desk(above=Decimal(1_000_000))
    offer = desk.offer()
    desk.town.world.set_regime(offer.zone, tight=True)
    told = desk.extend(desk.window, offer)
    assert (told.state, "gone" in told.text) == ("refused", True)
    assert desk.town.world.extensions_bought() == 0


def test_a_run_pays_in_one_currency() -> None:
    town = Town()
    buy(town.book, town.aws(), town.signed(town.offer()), RULES, town.clock)
    with pytest.raises(NotAllowed, match=r"paid in USD; this is EUR"):
        spent(town.book, "EUR")
    euros = town.signed(town.offer(16)._replace(currency="EUR"))
    with pytest.raises(NotAllowed, match="USD"):
        check(town.book, find_plan(town.book, euros), RULES)
