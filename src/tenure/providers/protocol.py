"""What a run asks of whoever sells or lends it nodes: a cloud, an operator's agreement, one's own lab.

Level, not edge: `windows` and `nodes` say what *is*, again and again. A purchase has no key by which sending
it twice would be as sending it once: every call that spends is sent **once**, and where its answer is lost
the truth is read (`windows`, `extensions`, `nodes`), never asked for by sending again (`runs/buying.py`).
Money is Decimal from text with its currency; instants are epoch seconds (UTC), lengths end less start.

    ProviderError
    ├── NotSent          nothing has happened: it may be asked again
    ├── Refused          answered with no; this very request is never sent again (code, message)
    │   ├── NoCapacity   there is none just now: a new request may be made later
    │   └── Expired      the offer or the window is gone: a state, not a fault
    └── Unclear          sent, outcome unknown: read what is, never send again
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple, Protocol

from tenure.providers.capability import Capability

#: Tags by which a run finds again what is its own. Values are the run's and the intent's ids.
INTENT_TAG, RUN_TAG, ATTEMPT_TAG = "tenure:intent", "tenure:run", "tenure:attempt"

#: States of a window. Whatever else a provider says is `unknown`: not usable, and a person is called.
PAYMENT_PENDING, SCHEDULED, ACTIVE, EXPIRED = "payment-pending", "scheduled", "active", "expired"
FAILED, UNKNOWN = "failed", "unknown"
WINDOW_STATES = (PAYMENT_PENDING, SCHEDULED, ACTIVE, EXPIRED, FAILED, UNKNOWN)

#: States of an extension: it lengthens its window only once it is paid.
PAID = "paid"
EXTENSION_STATES = (PAYMENT_PENDING, PAID, FAILED, UNKNOWN)

#: States of a node. A node that is stopping still holds its place in the window until it is gone.
STARTING, RUNNING, STOPPING, GONE = "starting", "running", "stopping", "gone"
NODE_STATES = (STARTING, RUNNING, STOPPING, GONE)

RESERVED, ON_DEMAND = "reserved", "on-demand"  #: what pays for a node


class ProviderError(Exception):
    """The provider did not do what it was asked."""


class NotSent(ProviderError):
    """Nothing has happened at the provider: it may be asked again."""


class Refused(ProviderError):
    """Answered with no. This very request is never sent again."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class NoCapacity(Refused):
    """There is no capacity just now. A new request (a new token) may be made later."""


class Expired(Refused):
    """The offer, window or node that was named is gone."""


class Unclear(ProviderError):
    """It was sent and its outcome is not known: read what is, by tags and by what was bought."""


class Ask(NamedTuple):
    """What is looked for. Instants are epoch seconds."""

    instance_type: str
    nodes: int
    hours: int  #: asked for; what is offered may have another length
    earliest: float | None = None  #: it starts no sooner
    latest: float | None = None  #: it ends no later
    zone: str = ""  #: only there; "" = anywhere


class Segment(NamedTuple):
    """A part of an offer with a zone and dates of its own."""

    zone: str
    start: float
    end: float
    nodes: int


class Offer(NamedTuple):
    """Something for sale: a window of its own, or (`extends`) more of one. Its length is `end` - `start`."""

    id: str
    provider: str
    instance_type: str
    nodes: int
    gpus_per_node: int
    zone: str
    start: float
    end: float
    fee: Decimal  #: of the whole window, up front
    currency: str
    platform: str
    segments: tuple[Segment, ...] = ()  #: empty: one part, as the offer says
    expires: float | None = None  #: after it the offer is no longer good; None = not told
    extends: str = ""  #: id of the window it makes longer

    @property
    def length_s(self) -> float:
        """Seconds bought and paid."""
        return self.end - self.start

    @property
    def gpu_hours(self) -> float:
        """GPU-hours bought and paid."""
        return self.nodes * self.gpus_per_node * self.length_s / 3600


class Window(NamedTuple):
    """A stretch of time in which nodes are ours."""

    id: str
    reservations: tuple[str, ...]  #: one a segment: what a launch names
    state: str  #: of WINDOW_STATES
    zone: str
    start: float
    end: float  #: with every extension that is paid
    nodes: int
    fee: Decimal | None  #: None: the provider does not tell it afterwards
    currency: str
    tags: Mapping[str, str]
    instance_type: str = ""
    platform: str = ""
    gpus_per_node: int = 0
    created: float | None = None  #: when it was bought
    said: str = ""  #: the provider's own word for its state
    soft: bool = False  #: at its end nodes may be taken away, and need not be; at its start: no end yet

    @property
    def promised(self) -> bool:
        """Whether it is known until when its nodes are ours."""
        return not self.soft or self.end > self.start

    @property
    def usable(self) -> bool:
        """Whether nodes may be launched into it now."""
        return self.state == ACTIVE


class Extension(NamedTuple):
    """A purchase of more of a window."""

    offer: str  #: id of the offer that was bought
    window: str
    state: str  #: of EXTENSION_STATES
    start: float
    end: float
    fee: Decimal
    currency: str
    bought: float | None = None
    said: str = ""


class Node(NamedTuple):
    """A machine that is or was ours."""

    id: str
    state: str  #: of NODE_STATES
    zone: str
    window: str  #: id of the window whose reservation it fills; "" = none
    market: str  #: RESERVED or ON_DEMAND
    token: str  #: of the launch that made it
    launched: float
    tags: Mapping[str, str] = {}
    reservation: str = ""
    address: str = ""  #: where it is reached; "" while it is not known
    healthy: bool | None = None  #: None: nothing is said about it


class Health(NamedTuple):
    """A window's hardware, as its provider sees it."""

    window: str
    interconnect: str  #: "ok", "impaired", "unknown"
    nodes: int
    free: int  #: of `nodes`: a launch would get them now
    broken: int  #: of `nodes`: failed their provider's own check


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> float:
        """Epoch seconds."""
        ...


class Provider(Protocol):
    """One provider in one place (account, region). All calls may raise NotSent; those that spend, Unclear."""

    name: str
    capability: Capability

    def offers(self, ask: Ask) -> Sequence[Offer]:
        """What is for sale, soonest start first. Empty where nothing is."""
        ...

    def offer_again(self, offer: Offer) -> Offer | None:
        """The same offer as it stands now; None where it is gone. Asked just before it is bought."""
        ...

    def against(self, offer: Offer) -> Sequence[str]:
        """What stands against running in this offer from here (subnet's zone, platform …), one line each."""
        ...

    def buy(self, offer: Offer, intent: str) -> Window:
        """Buy it: sent once, tagged with the intent. Refused, or Unclear where the answer is lost."""
        ...

    def windows(
        self, ids: Sequence[str] | None = None, tag: tuple[str, str] | None = None
    ) -> Sequence[Window]:
        """Windows by id, by tag, or all. One that is gone is left out or `expired`, never an error."""
        ...

    def extension_offers(self, window: Window, hours: int) -> Sequence[Offer]:
        """What more of this window can be had now. Empty where nothing is, or it cannot be extended."""
        ...

    def extend(self, window: Window, offer: Offer, intent: str) -> Extension:
        """Buy more of it: sent once. Refused, or Unclear."""
        ...

    def extensions(self, window: Window) -> Sequence[Extension]:
        """All purchases of more of this window, oldest first."""
        ...

    def launch(
        self, token: str, count: int, at_least: int, window: Window | None, tags: Mapping[str, str]
    ) -> Sequence[Node]:
        """`at_least` to `count` nodes or none (NoCapacity), in the window or, None, on demand.

        The same token launches once: repeating the call returns what it made. A node that came up outside
        the window it was meant for is terminated again and told of as Refused("missed-reservation", …).
        """
        ...

    def nodes(self, tag: tuple[str, str]) -> Sequence[Node]:
        """All nodes with the tag that are not long gone."""
        ...

    def terminate(self, ids: Sequence[str]) -> None:
        """Let them go; those already gone are no error. May be repeated."""
        ...

    def health(self, window: Window) -> Health:
        """Its nodes and interconnect now."""
        ...
