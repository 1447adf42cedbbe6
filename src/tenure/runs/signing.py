"""Who said that this may be bought, and for how much? A plan to buy, signed by one person or two.

A plan is an offer, a budget and the nodes that the run needs; its digest is over all three, so that whatever
changes is another plan. Signatures are HMACs over the digest, the person and the instant: a row written into
the database by hand approves nothing. Above a set sum a second person must sign, who is not the first.

    BuyingError
    ├── NotAllowed      over the budget, sold already, the offer does not fit the run
    │   └── NotSigned   a person, or a second one, has yet to sign
    ├── NotYet          sent, outcome not known: it is looked for again, by whoever asks next
    ├── Changed         the offer is gone or not what was signed
    └── NeedsPerson     sent, and nobody knows whether it was bought: a person must look
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from tenure.providers.protocol import Offer, Segment
from tenure.runs.words import AlreadyRecorded, Book, Event

PLANNED, APPROVED = "purchase_planned", "purchase_approved"
INTENDED, MADE, REFUSED = "purchase_intended", "purchase_made", "purchase_refused"
NOT_SENT, UNCLEAR, ABSENT = "purchase_not_sent", "purchase_unclear", "purchase_absent"
VOIDED, APPEARED, FAILED = "purchase_voided", "purchase_appeared", "purchase_failed"

WINDOW, EXTENSION = "window", "extension"
TWO_ABOVE = Decimal(10_000)  #: in the currency of the purchase


class BuyingError(Exception):
    """It was not bought, as far as anybody knows."""


class NotAllowed(BuyingError):
    """Nobody who may has said yes, it is over the budget, or it does not fit the run."""


class NotSigned(NotAllowed):
    """Not enough people have signed."""


class NotYet(BuyingError):
    """It was sent and is not seen so far; it is not sent again."""


class Changed(BuyingError):
    """The offer is gone, or is not what was signed."""


class NeedsPerson(BuyingError):
    """It was sent and is not seen, or is seen more than once. It is not sent again."""


class Rules(NamedTuple):
    """What buying is bound by."""

    key: bytes  #: of the signatures
    two_above: Decimal = TWO_ABOVE
    budget: Decimal | None = None  #: of the whole run; None: each plan's own
    settle_s: float = 900.0  #: a purchase whose answer was lost is looked for so long
    look_s: float = 15.0  #: between two looks
    skew_s: float = 300.0  #: clocks of two machines may differ by so much
    waits: bool = True  #: for an outcome that is not known; False: one look, and NotYet


class Plan(NamedTuple):
    """What would be bought, for a run, within a budget."""

    run: str
    offer: Offer
    budget: Decimal  #: of the run, all its purchases together
    nodes: int  #: that the run needs

    @property
    def kind(self) -> str:
        """WINDOW or EXTENSION."""
        return EXTENSION if self.offer.extends else WINDOW

    @property
    def id(self) -> str:
        """Its digest: what is signed."""
        offer = {key: value for key, value in offer_dict(self.offer).items() if key != "expires"}
        told = {"run": self.run, "offer": offer, "nodes": self.nodes, "budget": str(self.budget)}
        text = json.dumps(told, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:24]


def offer_dict(offer: Offer) -> dict[str, Any]:
    """As JSON can hold it: money as text."""
    return {
        **offer._asdict(),
        "fee": str(offer.fee),
        "segments": [list(part) for part in offer.segments],
    }


def offer_of(told: Mapping[str, Any]) -> Offer:
    """Back from `offer_dict`."""
    parts = tuple(Segment(*part) for part in told.get("segments") or ())
    return Offer(**{**told, "fee": Decimal(told["fee"]), "segments": parts})


def plan_of(event: Event) -> Plan:
    """Of a `purchase_planned` event."""
    body = event.body
    return Plan(body["run"], offer_of(body["offer"]), Decimal(body["budget"]), int(body["nodes"]))


def misfit(plan: Plan, against: Sequence[str]) -> list[str]:
    """What speaks against the plan before any money: size, zone, platform, dates; one line each."""
    offer, told = plan.offer, list(against)
    if offer.nodes < plan.nodes:
        told.append(
            f"{offer.nodes} nodes are offered, the run needs {plan.nodes}: {plan.nodes - offer.nodes} short"
        )
    if offer.end <= offer.start:
        told.append("the offer ends before it starts")
    if offer.fee > plan.budget:
        told.append(f"the fee of {offer.fee} {offer.currency} is over the budget of {plan.budget}")
    if not offer.currency:
        told.append("the offer names no currency")
    if len({part.zone for part in offer.segments}) > 1:
        told.append(f"its parts lie in several zones: {', '.join(part.zone for part in offer.segments)}")
    return told


def sign(book: Book, plan: Plan, person: str, rules: Rules, at: float, against: Sequence[str] = ()) -> str:
    """
    Write the plan down, signed by its first person; its id. Signing what is signed changes nothing.

    `against`: what the provider has against it (`Provider.against`). Raises NotAllowed where anything is.
    """
    wrong = misfit(plan, against)
    if plan.offer.expires is not None and at >= plan.offer.expires:
        wrong.append(f"the offer {plan.offer.id} expired {at - plan.offer.expires:.0f} s ago")
    if wrong:
        raise NotAllowed("; ".join(wrong))
    body = {
        "plan": plan.id,
        "run": plan.run,
        "offer": offer_dict(plan.offer),
        "budget": str(plan.budget),
        "nodes": plan.nodes,
        "by": person,
    }
    _write(book, PLANNED, body, f"plan/{plan.id}")
    approve(book, plan.id, person, rules, at)
    return plan.id


def approve(book: Book, plan_id: str, person: str, rules: Rules, at: float) -> int:
    """A person says yes to a plan; how many different people have by now. Raises NotAllowed: unknown plan."""
    if not person:
        raise NotAllowed("nobody: a signature needs a name")
    find_plan(book, plan_id)
    body = {"plan": plan_id, "by": person, "at": at, "mac": _mac(rules.key, plan_id, person, at)}
    _write(book, APPROVED, body, f"approved/{plan_id}/{person}")
    return len(signers(book, plan_id, rules))


def find_plan(book: Book, plan_id: str) -> Plan:
    """The plan of an id; NotAllowed where it was never written down or is not what its id says."""
    for event in book.events(PLANNED):
        if event.body["plan"] == plan_id:
            plan = plan_of(event)
            if plan.id != plan_id:
                raise NotAllowed(f"plan {plan_id} was changed after it was signed")
            return plan
    raise NotAllowed(f"no plan {plan_id} in the book of {book.run}")


def signers(book: Book, plan_id: str, rules: Rules) -> list[str]:
    """Different people whose signatures hold."""
    found = [
        event.body["by"]
        for event in book.events(APPROVED)
        if event.body["plan"] == plan_id
        and hmac.compare_digest(
            event.body["mac"], _mac(rules.key, plan_id, event.body["by"], event.body["at"])
        )
    ]
    return list(dict.fromkeys(found))  # a row copied by hand is still the same person


def needed(plan: Plan, rules: Rules) -> int:
    """How many people must sign."""
    return 2 if plan.offer.fee > rules.two_above else 1


def check(book: Book, plan: Plan, rules: Rules) -> None:
    """Raise NotAllowed unless enough people have signed and the budget holds it."""
    people, want = signers(book, plan.id, rules), needed(plan, rules)
    if len(people) < want:
        have = f"signed by {', '.join(people)}" if people else "signed by nobody"
        more = "a second person" if people else f"{want} {'people' if want > 1 else 'person'}"
        fee = f"{plan.offer.fee} {plan.offer.currency}"
        raise NotSigned(f"{fee} needs {more} to sign (above {rules.two_above}: two); {have}")
    budget = plan.budget if rules.budget is None else min(plan.budget, rules.budget)
    before = spent(book, plan.offer.currency)
    if before + plan.offer.fee > budget:
        fee = f"{plan.offer.fee} {plan.offer.currency}"
        raise NotAllowed(f"{fee} after {before} already spent is over the budget of {budget}")
    _check_not_sold(book, plan)


def _check_not_sold(book: Book, plan: Plan) -> None:
    """One offer is bought under one plan, however many were signed for it."""
    ended = {event.body["intent"] for event in book.events(REFUSED, NOT_SENT, VOIDED, FAILED)}
    for event in book.events(INTENDED):
        other = offer_of(event.body["offer"])
        same = other.id == plan.offer.id or (
            other.extends != "" and (other.extends, other.start) == (plan.offer.extends, plan.offer.start)
        )
        if same and event.body["plan"] != plan.id and event.body["intent"] not in ended:
            raise NotAllowed(f"the offer {other.id} was bought, or perhaps, under plan {event.body['plan']}")


def spent(book: Book, currency: str) -> Decimal:
    """What the run's purchases came to; one whose outcome is not known counts as made.

    Raises NotAllowed where some were in another currency: sums of two currencies are none.
    """
    fees: dict[str, tuple[Decimal, str]] = {}
    for event in book.events(INTENDED, MADE, REFUSED, NOT_SENT, VOIDED, APPEARED, FAILED):
        intent, body = event.body["intent"], event.body
        if event.kind in (INTENDED, APPEARED):
            fees[intent] = (Decimal(body["offer"]["fee"]), body["offer"]["currency"])
        elif event.kind != MADE:
            fees.pop(intent, None)
    others = {told for _, told in fees.values()} - {currency}
    if others:
        raise NotAllowed(f"the run has paid in {', '.join(sorted(others))}; this is {currency}")
    return sum((fee for fee, _ in fees.values()), Decimal(0))


def _mac(key: bytes, plan_id: str, person: str, at: float) -> str:
    return hmac.new(key, f"{plan_id}\0{person}\0{at!r}".encode(), hashlib.sha256).hexdigest()


def _write(book: Book, kind: str, body: Mapping[str, Any], key: str) -> Event:
    try:
        return book.record(kind, body, key=key)
    except AlreadyRecorded as before:
        return before.event
