"""What holds for every window of one's own? It costs nothing, and is not extended: another comes after it."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from tenure.providers.capability import Capability
from tenure.providers.capability import capability as record_of
from tenure.providers.protocol import Extension, Offer, Refused, Window

NAME, NO_MONEY, NOTHING = "own", "none", Decimal(0)


class OwnWindows:
    """What reservations and protections have in common. `next_is`: what comes after a window."""

    name = NAME
    capability: Capability = record_of(NAME)
    next_is = "another comes after it"

    def extension_offers(self, window: Window, hours: int) -> Sequence[Offer]:
        """None."""
        return []

    def extend(self, window: Window, offer: Offer, intent: str) -> Extension:
        """Never."""
        raise Refused("no-extension", f"a window of one's own is not extended: {self.next_is}")

    def extensions(self, window: Window) -> Sequence[Extension]:
        """None."""
        return []
