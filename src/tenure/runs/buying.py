"""How is a window bought at most once, by a call that nothing makes safe to send twice?

The offer is looked at again, the intent is written down, and the purchase is sent once. Where its answer is
lost, and after a crash at any point, what was bought is *read*: by the tag that carries the intent, and where
tags are missing by what was ordered (dates, zone, nodes, type) among what was not there before. An intent
without an outcome is never sent again: found, it is taken as ours; not found for long enough, a person looks
and says that it is void. Extensions take no tags: their offer's id is what they are found by.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tenure.engines.clock import Clock
from tenure.providers.protocol import (
    FAILED as FELL_THROUGH,
)
from tenure.providers.protocol import (
    INTENT_TAG,
    Extension,
    NotSent,
    Offer,
    Provider,
    Refused,
    Unclear,
    Window,
)
from tenure.runs.signing import (
    ABSENT,
    APPEARED,
    EXTENSION,
    FAILED,
    INTENDED,
    MADE,
    NOT_SENT,
    REFUSED,
    UNCLEAR,
    VOIDED,
    BuyingError,
    Changed,
    NeedsPerson,
    NotAllowed,
    NotYet,
    Plan,
    Rules,
    check,
    find_plan,
    misfit,
    offer_dict,
    offer_of,
)
from tenure.runs.words import AlreadyRecorded, Book, Event

SAME_S = 60.0
OUTCOMES = (MADE, REFUSED, NOT_SENT, VOIDED)


class Bought(NamedTuple):
    """What is ours. `adopted`: found by reading, its answer was lost."""

    intent: str
    window: str
    reservations: tuple[str, ...]
    end: float
    adopted: bool
    extension: str = ""  #: id of the extension's offer


def buy(book: Book, provider: Provider, plan_id: str, rules: Rules, clock: Clock) -> Bought:
    """
    Buy what was signed, once. Called again, it gives what was bought, or goes on where it was cut off.

    Raises NotAllowed, Changed, NeedsPerson; Refused with the provider's own words; NotSent where nothing has
    happened and it may be called again.
    """
    plan = find_plan(book, plan_id)
    before = intents(book, plan_id)
    note_failed(book, provider)
    if before:
        last = before[-1]
        outcome = outcome_of(book, last.body["intent"])
        if outcome is None:
            return settle(book, provider, last, rules, clock)
        if outcome.kind == MADE:
            return _bought(outcome)
        if outcome.kind == REFUSED:
            raise Refused(outcome.body["code"], outcome.body["message"])
    check(book, plan, rules)
    offer, seen = _again(provider, plan, clock)
    intent = f"{book.run}-{plan_id[:12]}-{len(before) + 1}"
    body = {
        "intent": intent,
        "plan": plan_id,
        "kind": plan.kind,
        "offer": offer_dict(offer),
        "seen": seen,
    }
    try:
        intended = book.record(INTENDED, body, key=f"intent/{plan_id}/{len(before) + 1}")
    except AlreadyRecorded as theirs:  # another process was quicker: it sends, this one only reads
        return settle(book, provider, theirs.event, rules, clock)
    return _send(book, provider, intended, rules, clock)


def _again(provider: Provider, plan: Plan, clock: Clock) -> tuple[Offer, list[str]]:
    """The offer as it stands now, and what there was before it is bought. Raises Changed, NotSent."""
    signed = plan.offer
    offer = provider.offer_again(signed)
    if offer is None:
        raise Changed(f"the offer {signed.id} is gone")
    told = [
        f"{name} is {getattr(offer, name)}, signed was {getattr(signed, name)}"
        for name in ("start", "end", "zone", "nodes", "instance_type", "platform", "currency")
        if getattr(offer, name) != getattr(signed, name)
    ]
    if offer.fee > signed.fee:
        told.append(f"the fee is {offer.fee}, signed was {signed.fee}")
    told += misfit(plan._replace(offer=offer), provider.against(offer))
    if told:
        raise Changed("; ".join(told))
    if plan.kind == EXTENSION:
        window = _window(provider, offer.extends)
        seen = [_key(one) for one in provider.extensions(window)]
    else:
        seen = [window.id for window in provider.windows()]
    now = clock.now()
    if offer.expires is not None and now >= offer.expires:
        raise Changed(f"the offer {offer.id} expired {now - offer.expires:.0f} s ago")
    if plan.kind != EXTENSION and now >= offer.end:
        raise Changed("the offer's window is over")
    return offer, seen


def _window(provider: Provider, window_id: str) -> Window:
    found = provider.windows([window_id])
    if not found:
        raise Changed(f"the window {window_id} is gone")
    return found[0]


def _key(extension: Extension) -> str:
    return f"{extension.offer} {extension.bought}"


def _send(book: Book, provider: Provider, intended: Event, rules: Rules, clock: Clock) -> Bought:
    """The one send."""
    intent, offer = intended.body["intent"], offer_of(intended.body["offer"])
    if clock.now() - intended.at > rules.settle_s / 2:  # we slept; by now somebody may have looked and voided
        return settle(book, provider, intended, rules, clock)
    try:
        if intended.body["kind"] == EXTENSION:
            window = _window(provider, offer.extends)
            return _made(book, intent, window, provider.extend(window, offer, intent))
        return _made(book, intent, provider.buy(offer, intent), None)
    except NotSent as lost:
        _write(book, NOT_SENT, {"intent": intent, "message": str(lost)}, f"outcome/{intent}")
        raise
    except Changed as gone:
        _write(book, NOT_SENT, {"intent": intent, "message": str(gone)}, f"outcome/{intent}")
        raise
    except Refused as no:
        told = {"intent": intent, "code": no.code, "message": no.message}
        _write(book, REFUSED, told, f"outcome/{intent}")
        raise
    except Unclear as unclear:
        _write(book, UNCLEAR, {"intent": intent, "message": str(unclear)}, f"unclear/{intent}")
    return settle(book, provider, intended, rules, clock)


def settle(book: Book, provider: Provider, intended: Event, rules: Rules, clock: Clock) -> Bought:
    """
    What became of an intent whose answer is not known: read it, for `settle_s` at most; never send.

    Raises NeedsPerson where it is not seen by then, or more than one thing could be it; NotYet where `rules`
    say not to wait.
    """
    intent = intended.body["intent"]
    outcome = outcome_of(book, intent)
    if outcome is not None and outcome.kind == MADE:
        return _bought(outcome)
    until = (clock.now() if rules.waits else intended.at) + rules.settle_s
    said, looks = "nobody answered", 0
    while True:
        try:
            found = _find(book, provider, intended, rules)
            looks += 1
            said = "it is not to be seen there"
        except NotSent as silent:
            found, said = None, str(silent)
        if found is not None:
            return _made(book, intent, *found, adopted=True)
        if clock.now() >= until:
            break
        if not rules.waits:
            raise NotYet(f"{intent}: {said}; it is looked for again")
        clock.wait(rules.look_s)
    told = {"intent": intent, "looks": looks, "said": said}
    _write(book, ABSENT, told, f"absent/{intent}")
    raise NeedsPerson(
        f"{intent} was perhaps sent; after {rules.settle_s:.0f} s {said}. It is not sent again: look at the "
        f"provider's own page, then void it or let it be looked for again"
    )


def _find(
    book: Book, provider: Provider, intended: Event, rules: Rules
) -> tuple[Window, Extension | None] | None:
    """What was bought by an intent, as the provider shows it; None where nothing is."""
    intent, offer = intended.body["intent"], offer_of(intended.body["offer"])
    if intended.body["kind"] == EXTENSION:
        return _find_extension(provider, intended, offer)
    windows = provider.windows()
    mine = [window for window in windows if window.tags.get(INTENT_TAG) == intent]
    if not mine:
        mine = _alike(book, windows, intended, offer, rules)
    if len(mine) > 1:
        names = ", ".join(window.id for window in mine)
        raise NeedsPerson(f"{names} could each be what {intent} bought: a person must say which")
    return (mine[0], None) if mine else None


def _alike(
    book: Book, windows: Sequence[Window], intended: Event, offer: Offer, rules: Rules
) -> list[Window]:
    """Windows without anybody's tag that were not there before and are what was ordered."""
    taken = {event.body.get("window") for event in book.events(MADE, APPEARED)}
    return [
        window
        for window in windows
        if window.id not in intended.body["seen"]
        and window.id not in taken
        and INTENT_TAG not in window.tags
        and window.zone == offer.zone
        and _near(window.start, offer.start)
        and _near(window.end, offer.end)
        and window.nodes in (0, offer.nodes)  # 0: nothing of its size is told before it starts
        and window.instance_type in ("", offer.instance_type)
        and (window.fee is None or window.fee == offer.fee)
        and (window.created is None or window.created >= intended.at - rules.skew_s)
    ]


def _find_extension(
    provider: Provider, intended: Event, offer: Offer
) -> tuple[Window, Extension | None] | None:
    window = next(iter(provider.windows([offer.extends])), None)
    if window is None:
        return None
    mine = [
        one
        for one in provider.extensions(window)
        if _key(one) not in intended.body["seen"]
        and (one.offer == offer.id or (not one.offer and _like(one, offer)))
    ]
    if len(mine) > 1:
        raise NeedsPerson(f"{window.id} was extended {len(mine)} times by {offer.id}: a person must look")
    return (window, mine[0]) if mine else None


def _like(extension: Extension, offer: Offer) -> bool:
    same = _near(extension.start, offer.start) and _near(extension.end, offer.end)
    return same and extension.fee == offer.fee


def _near(one: float, other: float) -> bool:
    """Whether two instants are one, told by two calls of a provider."""
    return abs(one - other) <= SAME_S


def look_again(book: Book, provider: Provider, rules: Rules) -> list[Bought]:
    """Look once for every intent without an outcome, and for those voided; what has appeared is ours.

    A controller asks this now and then: a purchase that shows itself late is never left to itself.
    """
    found = []
    for intended in book.events(INTENDED):
        outcome = outcome_of(book, intended.body["intent"])
        if outcome is not None and outcome.kind != VOIDED:
            continue
        seen = _find(book, provider, intended, rules)
        if seen is None:
            continue
        if outcome is None:
            found.append(_made(book, intended.body["intent"], *seen, adopted=True))
        else:
            told = {"intent": intended.body["intent"], "offer": intended.body["offer"], "window": seen[0].id}
            _write(book, APPEARED, told, f"appeared/{intended.body['intent']}")
    return found


def void(book: Book, intent: str, person: str) -> None:
    """A person has looked: it was not bought. What it would have cost is free again."""
    if not any(event.body["intent"] == intent for event in book.events(ABSENT)):
        raise NotAllowed(f"{intent} was not looked for to the end: ask for it first")
    _write(book, VOIDED, {"intent": intent, "by": person}, f"outcome/{intent}")


def note_failed(book: Book, provider: Provider) -> list[str]:
    """What was bought and whose payment fell through costs nothing: written down; intents newly noted."""
    noted = {event.body["intent"] for event in book.events(FAILED)}
    open_still = [event for event in book.events(MADE) if event.body["intent"] not in noted]
    if not open_still:
        return []
    windows = {window.id: window for window in provider.windows()}
    found = []
    for event in open_still:
        window = windows.get(event.body["window"])
        if window is not None and _fell_through(provider, window, event.body["extension"]):
            told = {"intent": event.body["intent"], "window": window.id}
            _write(book, FAILED, told, f"failed/{event.body['intent']}")
            found.append(event.body["intent"])
    return found


def _fell_through(provider: Provider, window: Window, extension: str) -> bool:
    if not extension:
        return window.state == FELL_THROUGH
    mine = [one for one in provider.extensions(window) if one.offer == extension]
    return bool(mine) and all(one.state == FELL_THROUGH for one in mine)


def intents(book: Book, plan_id: str) -> list[Event]:
    """All intents of a plan, in order."""
    return [event for event in book.events(INTENDED) if event.body["plan"] == plan_id]


def outcome_of(book: Book, intent: str) -> Event | None:
    """How an intent ended, what came of its payment included; None: not known."""
    ends = [event for event in book.events(*OUTCOMES, FAILED) if event.body["intent"] == intent]
    return next((event for event in ends if event.kind == FAILED), ends[0] if ends else None)


def _made(
    book: Book, intent: str, window: Window, extension: Extension | None, *, adopted: bool = False
) -> Bought:
    body: dict[str, Any] = {
        "intent": intent,
        "window": window.id,
        "reservations": list(window.reservations),
        "end": window.end if extension is None else extension.end,
        "adopted": adopted,
        "extension": "" if extension is None else extension.offer,
    }
    return _bought(_write(book, MADE, body, f"outcome/{intent}"))


def _bought(event: Event) -> Bought:
    body = event.body
    return Bought(
        body["intent"],
        body["window"],
        tuple(body["reservations"]),
        body["end"],
        body["adopted"],
        body["extension"],
    )


def _write(book: Book, kind: str, body: dict[str, Any], key: str) -> Event:
    try:
        return book.record(kind, body, key=key)
    except AlreadyRecorded as before:
        return before.event


__all__ = ["Bought", "BuyingError", "buy", "look_again", "note_failed", "settle", "void"]
