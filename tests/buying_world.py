"""A cloud, a book and a clock for what is tested about buying; crashes wherever one wants them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from tenure.engines.clock import ChosenClock
from tenure.providers.aws import Aws, AwsSettings
from tenure.providers.fake_ec2 import Behaviour, Direct, Faults, World
from tenure.providers.protocol import Ask, Offer
from tenure.runs.signing import Plan, Rules, approve, sign
from tenure.runs.words import AlreadyRecorded, Event

NOW = 1_764_547_200.0
KIND = "p5.48xlarge"
RULES = Rules(key=b"a key of tests", settle_s=60.0, look_s=15.0)
NOTHING_WRONG = Faults()


class Crash(BaseException):
    """The process dies here."""


class MemoryBook:
    """A book that outlives the crash of who writes it."""

    def __init__(self, run: str, clock: ChosenClock) -> None:
        self.run, self.clock = run, clock
        self.rows: list[Event] = []

    def record(self, kind: str, body: Mapping[str, Any], *, key: str = "") -> Event:
        for event in self.rows:
            if key and event.key == key:
                raise AlreadyRecorded(event)
        event = Event(len(self.rows) + 1, self.clock.now(), kind, dict(body), key)
        self.rows.append(event)
        return event

    def events(self, *kinds: str) -> Sequence[Event]:
        return [event for event in self.rows if not kinds or event.kind in kinds]


class Dying:
    """Whatever it wraps, and the end of the process before or after its n-th call."""

    def __init__(self, inner: Any, watch: Steps, names: Sequence[str]) -> None:
        self._inner, self._watch, self._names = inner, watch, names

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if name not in self._names:
            return value

        def call(*args: Any, **kwargs: Any) -> Any:
            self._watch.step(f"before {name}")
            answer = value(*args, **kwargs)
            self._watch.step(f"after {name}")
            return answer

        return call


class Steps:
    """Counts the places at which a process can die, and lets it."""

    def __init__(self, dies_at: int | None = None) -> None:
        self.dies_at, self.seen = dies_at, [""]

    def step(self, name: str) -> None:
        self.seen.append(name)
        if self.dies_at == len(self.seen) - 1:
            raise Crash(name)


PROVIDER_CALLS = ("offer_again", "against", "windows", "extensions", "buy", "extend")
BOOK_CALLS = ("record",)


class Town:
    """One cloud with its clock, and a provider that asks it."""

    def __init__(self, behaviour: Behaviour | None = None, faults: Faults | None = None) -> None:
        self.clock = ChosenClock(NOW)
        self.world = World(behaviour or Behaviour(), self.clock, faults)
        self.book = MemoryBook("run-1", self.clock)

    def settings(self, url: str = "", **more: Any) -> AwsSettings:
        subnets = {zone.name: zone.subnet_id for zone in self.world.zones.values()}
        told = {"image": "ami-1", "instance_type": KIND, "subnets": subnets, "gpus_per_node": {KIND: 8}}
        told |= {"endpoint": url, "credentials": ("a", "b"), "read_timeout_s": 10.0, "read_attempts": 1}
        return AwsSettings("us-east-1", **{**told, **more})

    def aws(self, url: str = "", client: Any = None) -> Aws:
        if not url and client is None:
            client = Direct(self.world)
        return Aws(self.settings(url), self.clock, client)

    def hasty(self, url: str) -> Aws:
        """One that waits long for what it reads, and hardly at all for a purchase that hangs."""
        aws, soon = self.aws(url), Aws(self.settings(url, read_timeout_s=0.15), self.clock)
        aws._once, soon._once = soon._once, aws._once
        soon.close()
        return aws

    def offer(self, nodes: int = 32, hours: int = 48) -> Offer:
        return self.aws().offers(Ask(KIND, nodes, hours))[-1]  # some days ahead

    def signed(
        self, offer: Offer, budget: Decimal = Decimal(10_000_000), nodes: int | None = None, people: int = 2
    ) -> str:
        plan = Plan("run-1", offer, budget, offer.nodes if nodes is None else nodes)
        plan_id = sign(self.book, plan, "ann", RULES, self.clock.now())
        if people > 1:
            approve(self.book, plan_id, "ben", RULES, self.clock.now())
        return plan_id
