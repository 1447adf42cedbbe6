"""What does a forecast need of the world? The time that is paid for, and what more of it is on sale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tenure.providers.protocol import (
    ACTIVE,
    EXPIRED,
    PAYMENT_PENDING,
    SCHEDULED,
    Offer,
    Provider,
    ProviderError,
    Window,
)
from tenure.runs.deciding import Deciding

EXTENSION_DAYS = range(1, 8)
LENT_S = 10 * 365 * 86400.0  #: a lab goes on lending: no window of it is overrun
PAID_FOR = (PAYMENT_PENDING, SCHEDULED, ACTIVE, EXPIRED)


class PaidTime(NamedTuple):
    """Seconds, net of what deadlines keep."""

    left: float  #: still to come, in windows bought for later too
    usable: float  #: of all windows, from their starts


def paid_time(d: Deciding, window: Window) -> PaidTime:
    """Of a run that trains in `window`, or will next."""
    left = min(d.ladder(window).drain - max(d.now, window.start), LENT_S)
    for coming in d.coming():
        if coming.id != window.id:
            left += max(0.0, d.ladder(coming).drain - coming.start)
    paid = [one for one in d.windows() if one.state in PAID_FOR]
    usable = min(LENT_S, sum(max(0.0, d.ladder(one).drain - one.start) for one in paid))
    return PaidTime(left, usable)


def extensions_on_sale(provider: Provider, window: Window) -> Sequence[Offer]:
    """Each once, whatever length it was found under."""
    found: dict[str, Offer] = {}
    for days in EXTENSION_DAYS:
        try:
            for offer in provider.extension_offers(window, 24 * days):
                found[offer.id] = offer
        except ProviderError:
            break
    return list(found.values())
