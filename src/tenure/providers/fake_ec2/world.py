"""A cloud in memory: its stock, its books, its clock. What is due happens in order before anything is asked.

Fate has calls of its own (`fail_instance`, `set_regime`, `break_places` …); `bill` says what it all cost.
"""

from __future__ import annotations

import heapq
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, NamedTuple, Protocol

import numpy as np

from tenure.providers.fake_ec2.behaviour import OPEN, TIGHT, Behaviour, Regime, Zone
from tenure.providers.fake_ec2.faults import Ec2Error, Faults
from tenure.providers.fake_ec2.things import (
    DEAD_BLOCKS,
    PENDING,
    RUNNING,
    SHUTTING_DOWN,
    TERMINATED,
    TERMINATES_S,
    Block,
    Extension,
    Instance,
    Offering,
)

CENT = Decimal("0.01")
DAY_S = 86400.0


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> float:
        """Epoch seconds."""
        ...


class Bill(NamedTuple):
    """What was paid or is owed, and for what."""

    blocks: Decimal
    extensions: Decimal
    on_demand: Decimal

    @property
    def total(self) -> Decimal:
        """All of it."""
        return self.blocks + self.extensions + self.on_demand


class World:
    """The state. Every public method first lets happen what is due by now."""

    def __init__(self, behaviour: Behaviour, clock: Clock, faults: Faults | None = None) -> None:
        self.behaviour = behaviour
        self.clock = clock
        self.faults = faults or Faults()
        self.lock = threading.RLock()
        self.zones: dict[str, Zone] = {zone.name: zone for zone in behaviour.zones}
        self.regimes: dict[str, list[Regime]] = {zone.name: list(zone.regimes) for zone in behaviour.zones}
        self.offerings: dict[str, Offering] = {}
        self.blocks: dict[str, Block] = {}
        self.instances: dict[str, Instance] = {}
        self.launches: dict[str, tuple[str, list[str]]] = {}  #: by token: (what was asked, instances)
        self.sends: Counter[str] = Counter()  #: calls that arrived, by action
        self.misses = behaviour.misses
        self._due: list[tuple[float, int, Callable[[float], None]]] = []
        self._numbers: Counter[str] = Counter()
        self._spent = {"blocks": Decimal(0), "extensions": Decimal(0)}
        self._on_demand_gone = Decimal(0)

    # --- time -----------------------------------------------------------------------------------------

    @contextmanager
    def at_once(self) -> Iterator[float]:
        """Alone, with everything due done; gives the instant."""
        with self.lock:
            now = self.clock.now()
            while self._due and self._due[0][0] <= now:
                at, _, happen = heapq.heappop(self._due)
                happen(at)
            yield now

    def next_change(self) -> float | None:
        """When something happens next by itself; None: never."""
        with self.at_once():
            return self._due[0][0] if self._due else None

    def later(self, at: float, happen: Callable[[float], None]) -> None:
        """Let it happen then."""
        heapq.heappush(self._due, (at, self.number("due"), happen))

    def number(self, of: str) -> int:
        """1, 2, …"""
        self._numbers[of] += 1
        return self._numbers[of]

    def new_id(self, prefix: str) -> str:
        """As the cloud's look."""
        return f"{prefix}-{self.number(prefix):017x}"

    # --- what is there --------------------------------------------------------------------------------

    def regime(self, zone: str, at: float) -> str:
        """OPEN or TIGHT."""
        word = OPEN
        for regime in self.regimes[zone]:
            if regime.since > at:
                break
            word = regime.word
        return word

    def stock(self, zone: str, kind: str, start: float, end: float) -> int:
        """Nodes of a type that no block holds at any time of the stretch."""
        held = sum(
            block.nodes
            for block in self.blocks.values()
            if block.offering.zone == zone
            and block.offering.instance_type == kind
            and block.state not in DEAD_BLOCKS
            and block.start < end
            and start < block.end
        )
        return self.zones[zone].block_nodes - held

    def free_places(self, block: Block) -> int:
        """Places of an active block that a launch would get now."""
        if block.state != "active":
            return 0
        held = sum(one.block == block.id and not self._cleaned(one) for one in self.instances.values())
        return max(0, block.nodes - block.broken - held)

    def _cleaned(self, instance: Instance) -> bool:
        if instance.state != TERMINATED or instance.gone is None:
            return False
        return self.clock.now() >= instance.gone + self.behaviour.cleans_s

    def block_of(self, reservation: str) -> Block | None:
        """Whose reservation that is."""
        return next((block for block in self.blocks.values() if block.reservation == reservation), None)

    def hidden(self, created: float, thing: Block | Instance | Extension, now: float) -> bool:
        """Whether a describe does not show it yet; counts the read."""
        if now < created + self.behaviour.lag_s:
            return True
        if thing.hidden_reads > 0:
            thing.hidden_reads -= 1
            return True
        return False

    # --- a block's life -------------------------------------------------------------------------------

    def add_block(self, offering: Offering, platform: str, tags: dict[str, str], now: float) -> Block:
        """A block is bought; its payment is pending."""
        block = Block(
            self.new_id("cb"), self.new_id("cr"), offering, platform, now, offering.end, tags,
            hidden_reads=self.behaviour.lag_reads,
        )  # fmt: skip
        self.blocks[block.id] = block
        paid_at = now + self.behaviour.payment_s
        self.later(paid_at, lambda at: self._payment(block, at))
        return block

    def _payment(self, block: Block, at: float) -> None:
        if self.behaviour.payment_fails:
            block.state = "payment-failed"
            return
        block.paid = True
        self._spent["blocks"] += block.offering.fee
        block.state = "scheduled"
        if at >= block.start:
            self._begin(block, at)
        else:
            self.later(block.start, lambda then: self._begin(block, then))

    def _begin(self, block: Block, at: float) -> None:
        if block.state == "scheduled":
            block.state = "active"
            self._plan_end(block)

    def _plan_end(self, block: Block) -> None:
        end = block.end
        self.later(end - TERMINATES_S, lambda at: self._take_down(block, end, at))
        self.later(end, lambda at: self._expire(block, end))

    def _take_down(self, block: Block, end: float, at: float) -> None:
        if block.end == end:
            for instance in list(self.instances.values()):
                if instance.block == block.id:
                    self.stop(instance, at, "Server.CapacityBlockEnded")

    def _expire(self, block: Block, end: float) -> None:
        if block.end == end and block.state == "active":
            block.state = "expired"

    def add_extension(self, block: Block, offering: Offering, now: float) -> Extension:
        """More of a block is bought; its payment is pending, and fails 35 minutes before the end."""
        behaviour = self.behaviour
        extension = Extension(offering, block.reservation, now, hidden_reads=behaviour.lag_reads)
        block.extensions.append(extension)
        takes_s = behaviour.extension_payment_s
        takes_s = behaviour.payment_s if takes_s is None else takes_s
        last = min(now + 12 * 3600, block.end - 35 * 60)
        fails = behaviour.extension_payment_fails or now + takes_s > last
        self.later(min(now + takes_s, last), lambda at: self._extended(block, extension, fails))
        return extension

    def _extended(self, block: Block, extension: Extension, fails: bool) -> None:
        if fails:
            extension.state = "payment-failed"
            return
        extension.state = "payment-succeeded"
        self._spent["extensions"] += extension.offering.fee
        block.end = extension.offering.end
        if block.state == "active":
            self._plan_end(block)

    # --- an instance's life ---------------------------------------------------------------------------

    def add_instance(self, instance: Instance) -> None:
        """It is launched, boots, and may fail of itself."""
        instance.hidden_reads = self.behaviour.lag_reads
        self.instances[instance.id] = instance
        self.later(instance.launched + self.behaviour.boots_s, lambda at: self._booted(instance))
        rate = self.behaviour.failures_per_node_day
        if rate > 0:
            drawn = np.random.default_rng([self.behaviour.seed, 11, instance.number])
            at = instance.launched + float(drawn.exponential(DAY_S / rate))
            self.later(at, lambda then: self.stop(instance, then, "Server.InternalError"))

    def _booted(self, instance: Instance) -> None:
        if instance.state == PENDING:
            instance.state = RUNNING

    def stop(self, instance: Instance, at: float, reason: str) -> None:
        """It is going; it costs nothing from now on."""
        if instance.state not in (PENDING, RUNNING):
            return
        instance.state, instance.stopped, instance.reason = SHUTTING_DOWN, at, reason
        if not instance.block:
            self._on_demand_gone += self._cost(instance, at)
        self.later(at + self.behaviour.stops_s, lambda then: self._is_gone(instance, then))

    def _is_gone(self, instance: Instance, at: float) -> None:
        instance.state, instance.gone = TERMINATED, at
        keeps_s = max(self.behaviour.remembers_s, self.behaviour.cleans_s)
        self.later(at + keeps_s, lambda then: self._forget(instance))

    def _forget(self, instance: Instance) -> None:
        self.instances.pop(instance.id, None)

    def _cost(self, instance: Instance, now: float) -> Decimal:
        hours = Decimal(repr(now - instance.launched)) / 3600
        return (self.behaviour.kinds[instance.kind].on_demand * hours).quantize(CENT)

    # --- fate, and judgement --------------------------------------------------------------------------

    def fail_instance(self, instance_id: str) -> None:
        """Its hardware dies now."""
        with self.at_once() as now:
            self.stop(self.instances[instance_id], now, "Server.InternalError")

    def impair(self, instance_id: str, ill: bool = True) -> None:
        """It goes on running and fails the cloud's own checks, or passes them again."""
        with self.at_once():
            self.instances[instance_id].impaired = ill

    def break_places(self, block_id: str, places: int) -> None:
        """So many places of a block take no instance (0: all mended)."""
        with self.at_once():
            self.blocks[block_id].broken = places
            self.blocks[block_id].interconnect = "impaired" if places else "ok"

    def set_regime(self, zone: str, tight: bool) -> None:
        """From now on the zone is tight, or open."""
        with self.at_once() as now:
            kept = [regime for regime in self.regimes[zone] if regime.since < now]
            self.regimes[zone] = [*kept, Regime(now, TIGHT if tight else OPEN)]

    def bill(self) -> Bill:
        """What was paid for blocks and extensions, and what on-demand instances have cost so far."""
        with self.at_once() as now:
            running = [one for one in self.instances.values() if one.stopped is None and not one.block]
            on_demand = self._on_demand_gone + sum((self._cost(one, now) for one in running), Decimal(0))
            return Bill(self._spent["blocks"], self._spent["extensions"], on_demand)

    def purchases(self) -> int:
        """Blocks bought, whatever became of them."""
        with self.at_once():
            return len(self.blocks)

    def extensions_bought(self) -> int:
        """Extensions bought, whatever became of them."""
        with self.at_once():
            return sum(len(block.extensions) for block in self.blocks.values())

    def alive(self) -> list[Instance]:
        """Instances that cost something or hold a place: pending or running."""
        with self.at_once():
            return [one for one in self.instances.values() if one.state in (PENDING, RUNNING)]

    def tags_of(self, resource: str) -> dict[str, str]:
        """The tags of a block, reservation or instance, to be changed in place."""
        found: Block | Instance | None = self.blocks.get(resource) or self.block_of(resource)
        found = found or self.instances.get(resource)
        if found is None:
            raise Ec2Error("InvalidID", f"The ID '{resource}' is not valid")
        return found.tags


Params = Mapping[str, Any]
