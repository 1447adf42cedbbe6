"""What a person can ask about buying for a run: what is for sale, sign, approve, buy, void, how it stands.

Offers are judged by the run's own plan, so that each stands beside its expected cost and its chance of being
overrun. A `CannotBuy` is a no with its reason: nothing was sent, or what was sent is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from tenure.engines.clock import Clock, RealClock
from tenure.ledger.records import LedgerError
from tenure.planner.of_file import run_of
from tenure.planner.plan_window import plan_window
from tenure.planner.window import Offer as Judged
from tenure.planner.window import judge
from tenure.providers.opening import provider_for
from tenure.providers.protocol import Ask, Offer, Provider, ProviderError
from tenure.runs import buying, signing
from tenure.runs.signing import BuyingError, Plan, Rules
from tenure.service import people
from tenure.service.run_place import AskedBook, database, signing_key
from tenure.settings.errors import BadInput, nearest, shown
from tenure.settings.run_file import Run, read_run_file
from tenure.settings.units import number

DAY_S = 86400.0
MOST_LENGTHS = 12  #: asked of a provider where none are given


class CannotBuy(Exception):
    """A no, with its reason."""


@dataclass(frozen=True)
class Place:
    """Where the book is kept, and who asks."""

    data: Path = Path(".tenure")
    db: str | None = None
    person: str = field(default_factory=lambda: people.logged_in())
    clock: Clock = field(default_factory=RealClock)
    client: Any = None  #: in place of boto3's
    told: Callable[[float, str], None] | None = None  #: how far it is, from 0 to 1, and what is being done


class _Waiting:
    """The clock, with a word of what is waited for."""

    def __init__(self, place: Place, longest_s: float) -> None:
        self._place, self._longest_s, self._waited_s = place, longest_s, 0.0

    def now(self) -> float:
        """Epoch seconds."""
        return self._place.clock.now()

    def wait(self, seconds: float) -> None:
        """Come back after so long."""
        if self._place.told is not None:
            part = min(1.0, self._waited_s / self._longest_s)
            self._place.told(part, "the answer was lost: looking for what was bought")
        self._place.clock.wait(seconds)
        self._waited_s += seconds


@contextmanager
def _desk(file: Path, place: Place) -> Iterator[tuple[Run, Provider, AskedBook, Rules]]:
    run = read_run_file(file)
    provider = provider_for(run, place.clock, client=place.client)
    rules = Rules(signing_key(place.data), run.file.approval.above, run.file.approval.budget)
    try:
        with database(place.data, place.db) as db:
            yield run, provider, AskedBook(db, run.file.run, place.clock), rules
    except (BuyingError, ProviderError, LedgerError) as no:
        raise CannotBuy(str(no)) from no


class Wanted(NamedTuple):
    """What is looked for: lengths (None: those of the provider around the plan's best), nodes (None: all)."""

    days: Sequence[float] | None = None
    nodes: int | None = None


ALL = Wanted()


def offers(file: Path, place: Place, wanted: Wanted = ALL) -> dict[str, Any]:
    """What is for sale for the run, the cheapest in expectation first."""
    with _desk(file, place) as (run, provider, _, _):
        found = _for_sale(run, provider, wanted, place)
        return {"run": run.file.run, "offers": _judged(run, found)}


def _for_sale(run: Run, provider: Provider, wanted: Wanted, place: Place) -> list[Offer]:
    """Each offer once, whatever length it was found under."""
    asked = list(_lengths(run, provider) if wanted.days is None else wanted.days)
    kind = str(run.file.provider.get("instance_type", ""))
    earliest = None if run.file.start is None else run.file.start.timestamp()
    found: dict[str, Offer] = {}
    for done, one in enumerate(asked):
        if place.told is not None:
            place.told(done / len(asked), f"asking {provider.name} for {one:g} days")
        ask = Ask(kind, wanted.nodes or run.nodes, round(one * 24), earliest)
        for offer in provider.offers(ask):
            found[offer.id] = offer
    return list(found.values())


def _lengths(run: Run, provider: Provider) -> list[float]:
    """Lengths the provider sells: around the plan's best where a day has a price, else around the run's."""
    known = provider.capability.durations.in_days()
    if run.plan.prices.day("reserved", run.nodes) is None:
        about = run_of(run.plan)[0].length().mean
    else:
        about = plan_window(run.plan, offers=[Judged(one) for one in known]).chosen.days
    return sorted(sorted(known, key=lambda one: abs(one - about))[:MOST_LENGTHS])


def _judged(run: Run, found: Sequence[Offer]) -> list[dict[str, Any]]:
    if not found:
        return []
    # a part of the gang is judged as if the rest came at the same price
    sold = [
        Judged(one.length_s / DAY_S, float(one.fee) * run.nodes / max(1, min(one.nodes, run.nodes)), one.id)
        for one in found
    ]
    plan = plan_window(run.plan, offers=sold)
    rows = judge(plan.length, plan.terms, sold)
    told = [
        {**told_offer(offer), "cost": row.cost, "p_overrun": row.p_overrun}
        for offer, row in zip(found, rows, strict=True)
    ]
    return sorted(told, key=lambda one: (round(one["cost"]), one["start"], one["id"]))


def told_offer(offer: Offer) -> dict[str, Any]:
    """An offer as JSON has it."""
    return {
        "id": offer.id,
        "start": iso(offer.start),
        "end": iso(offer.end),
        "days": offer.length_s / DAY_S,
        "nodes": offer.nodes,
        "zone": offer.zone,
        "fee": str(offer.fee),
        "currency": offer.currency,
        "per_gpu_hour": str((offer.fee / Decimal(repr(offer.gpu_hours))).quantize(Decimal("0.0001")))
        if offer.gpu_hours
        else None,
        "expires": None if offer.expires is None else iso(offer.expires),
        "extends": offer.extends,
    }


def iso(at: float) -> str:
    """ISO 8601, UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def sign(
    file: Path, place: Place, offer: str, wanted: Wanted = ALL, *, budget: str | None = None
) -> dict[str, Any]:
    """Sign for an offer. `budget`: of all the run's purchases; default: the run file's, else the fee.

    `wanted.nodes`: the offer is for so many of the gang, and other windows hold the rest.
    """
    with _desk(file, place) as (run, provider, book, rules):
        found = {one.id: one for one in _for_sale(run, provider, wanted, place)}
        if offer not in found:
            raise BadInput("sign", "offer", shown(offer), nearest(offer, found))
        chosen = found[offer]
        money = _budget(budget) or rules.budget or chosen.fee
        if money < chosen.fee:
            where = ("sign", "--budget") if budget is not None else (file.name, "approval.budget")
            raise BadInput(*where, str(money), f"at least the fee of {chosen.fee} {chosen.currency}")
        plan = Plan(run.file.run, chosen, money, wanted.nodes or run.nodes)
        against = [*provider.against(chosen), *_apart(book, plan, run.nodes)]
        plan_id = signing.sign(book, plan, place.person, rules, place.clock.now(), against)
        return _standing(book, plan_id, rules)


def _apart(book: AskedBook, plan: Plan, nodes: int) -> list[str]:
    """Windows that are bought, hold a part of the gang at the same time as this one, and in another zone."""
    if plan.nodes >= nodes:
        return []
    told = []
    for event in book.events(signing.INTENDED):
        outcome = buying.outcome_of(book, event.body["intent"])
        other = signing.offer_of(event.body["offer"])
        together = other.start < plan.offer.end and plan.offer.start < other.end
        bought = outcome is not None and outcome.kind == signing.MADE
        if bought and together and other.zone != plan.offer.zone:
            told.append(f"a part of the gang is in {other.zone}, this one would be in {plan.offer.zone}")
    return told


def _budget(text: str | None) -> Decimal | None:
    allowed = "a sum of money above 0, such as 1200000"
    try:
        money = None if text is None else number(text, allowed)
        if money is not None and money <= 0:
            raise ValueError(allowed)
    except ValueError as wrong:
        raise BadInput("sign", "--budget", shown(text), str(wrong)) from None
    return money


def approve(file: Path, place: Place, plan: str) -> dict[str, Any]:
    """A person says yes to what another has signed. CannotBuy for who signed it first."""
    with _desk(file, place) as (_, _, book, rules):
        planned = next((one for one in book.events(signing.PLANNED) if one.body["plan"] == plan), None)
        if planned is not None and planned.body["by"] == place.person:
            raise CannotBuy(f"{place.person} has signed plan {plan} already: to approve it is for another")
        signing.approve(book, plan, place.person, rules, place.clock.now())
        return _standing(book, plan, rules)


def buy(file: Path, place: Place, plan: str) -> dict[str, Any]:
    """Buy what was signed, once; asked again, it gives what was bought or reads what became of it."""
    with _desk(file, place) as (_, provider, book, rules):
        buying.buy(book, provider, plan, rules, _Waiting(place, rules.settle_s))
        return _standing(book, plan, rules)


def void(file: Path, place: Place, intent: str) -> dict[str, Any]:
    """A person has looked at the provider's own page: an intent whose outcome is not known bought nothing."""
    with _desk(file, place) as (_, _, book, _):
        buying.void(book, intent, place.person)
        return {"intent": intent, "void": True}


def purchases(file: Path, place: Place) -> dict[str, Any]:
    """All plans of the run: who signed, and what became of them."""
    with _desk(file, place) as (run, _, book, rules):
        plans = [_standing(book, event.body["plan"], rules) for event in book.events(signing.PLANNED)]
        return {"run": run.file.run, "plans": plans}


def _standing(book: AskedBook, plan_id: str, rules: Rules) -> dict[str, Any]:
    plan = signing.find_plan(book, plan_id)
    people, want = signing.signers(book, plan_id, rules), signing.needed(plan, rules)
    tried = buying.intents(book, plan_id)
    told: dict[str, Any] = {
        "plan": plan_id,
        "offer": told_offer(plan.offer),
        "budget": str(plan.budget),
        "signed_by": people,
        "needs": want,
        "state": "signed" if len(people) >= want else "waits for a second person",
    }
    if tried:
        intent = tried[-1].body["intent"]
        outcome = buying.outcome_of(book, intent)
        told |= {"intent": intent, "state": "not known" if outcome is None else WORDS[outcome.kind]}
        if outcome is not None:
            told |= {key: outcome.body[key] for key in ("window", "message", "code") if key in outcome.body}
    return told


WORDS = {
    signing.MADE: "bought",
    signing.REFUSED: "refused",
    signing.NOT_SENT: "not sent",
    signing.VOIDED: "void",
    signing.FAILED: "payment failed",
}
