"""How does this cloud behave? What its zones hold and charge, how long things take, what fails of itself.

Everything drawn is drawn from `seed`, so that a rehearsal can be repeated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple

import numpy as np

HOUR_S = 3600.0
OPEN, TIGHT = "open", "tight"


class Regime(NamedTuple):
    """From an instant on a zone is open, or tight: nothing on demand, no extension."""

    since: float
    word: str


@dataclass(frozen=True)
class Zone:
    """An availability zone with its stock."""

    name: str
    subnet: str = ""  #: id of our subnet there; "" = "subnet-" and its name
    block_nodes: int = 64  #: nodes of a type that can be in blocks at one time
    success: float = 1.0  #: while open: chance of one node in one on-demand launch
    regimes: tuple[Regime, ...] = ()  #: by time; open before the first
    extensions: bool = True  #: whether extensions are ever offered (while open)

    @property
    def subnet_id(self) -> str:
        """Of our subnet in it."""
        return self.subnet or f"subnet-{self.name}"

    def regime_at(self, at: float) -> str:
        """OPEN or TIGHT."""
        word = OPEN
        for regime in self.regimes:
            if regime.since > at:
                break
            word = regime.word
        return word


class Kind(NamedTuple):
    """An instance type and its prices, of a node-hour."""

    gpus: int = 8
    block: Decimal = Decimal("70.00")
    extension: Decimal = Decimal("70.00")
    on_demand: Decimal = Decimal("100.00")


class Listing(NamedTuple):
    """An offer that is for sale besides those of the lattice, as it stands here."""

    zone: str
    start: float
    end: float
    nodes: int
    fee: Decimal
    instance_type: str = "p5.48xlarge"


@dataclass(frozen=True)
class Behaviour:
    """All there is to choose."""

    zones: tuple[Zone, ...] = (Zone("us-east-1a"), Zone("us-east-1b"))
    kinds: dict[str, Kind] = field(default_factory=lambda: {"p5.48xlarge": Kind()})
    listings: tuple[Listing, ...] = ()
    lattice: bool = True  #: offers of whole days besides the listings
    images: dict[str, str] = field(default_factory=dict)  #: platform by image; any other is Linux/UNIX
    seed: int = 1
    currency: str = "USD"
    quota: int = 64  #: nodes in one block; 0: describing offers is refused, as where the quota is zero
    payment_s: float = 60.0  #: from the purchase until the payment is through
    payment_fails: bool = False  #: … or has failed
    extension_payment_s: float | None = None  #: None: as `payment_s`
    extension_payment_fails: bool = False
    offer_lives_s: float = 6 * HOUR_S  #: an offering is good for so long
    sells_again: bool = True  #: an offering can be bought twice while there is stock (the worst case)
    keeps_tags: bool = True  #: tags given with a purchase are kept
    misses: int = 0  #: of the launches into a block, so many come up outside of it and bill on demand
    boots_s: float = 120.0
    stops_s: float = 60.0
    cleans_s: float = 300.0  #: after a node is gone, until its place in a block takes another
    failures_per_node_day: float = 0.0
    lag_s: float = 0.0  #: what is new is seen by describes only after so long
    lag_reads: int = 0  #: … and not by the next so many of them
    remembers_s: float = HOUR_S  #: a terminated instance is shown for so long


def drawn_regimes(seed: int, since: float, until: float, open_h: float, tight_h: float) -> tuple[Regime, ...]:
    """Open and tight in turn, each exponential with its mean; the start is stationary."""
    rng = np.random.default_rng([seed, 7])
    tight = bool(rng.random() < tight_h / (open_h + tight_h))
    at, found = since, []
    while at < until:
        found.append(Regime(at, TIGHT if tight else OPEN))
        at += float(rng.exponential(tight_h if tight else open_h)) * HOUR_S
        tight = not tight
    return tuple(found)
