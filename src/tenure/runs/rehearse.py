"""What would this run live through? All of it, against a cloud on this machine, in virtual time.

The controller, the buying and the provider's client are those of a real run; the cloud answers real requests
over HTTP on a clock one chooses, and the trainer is drawn. From event to event there is nothing to wait for,
so weeks take seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple

from tenure.engines.clock import ChosenClock
from tenure.providers.aws import Aws, AwsSettings
from tenure.providers.fake_ec2 import Behaviour, Bill, Kind, Listing, Regime, Server, World, Zone
from tenure.providers.protocol import Ask, Node, Offer, Window
from tenure.runs.book import RunBook
from tenure.runs.buying import buy
from tenure.runs.controller import Controller
from tenure.runs.drawn import NEVER, DrawnTrainer, Draws, Vault
from tenure.runs.extending import Extender
from tenure.runs.hook import Hook
from tenure.runs.look import Kept, Sound
from tenure.runs.parts import Gated, Parts
from tenure.runs.signing import Plan, Rules, approve, sign
from tenure.runs.state import State
from tenure.settings.run_file import Run

DAY_S, HOUR_S = 86400.0, 3600.0
TYPE, ZONE = "p5.48xlarge", "us-east-1a"
BEFORE_S = 2 * DAY_S  #: bought so long before its start
AFTER_S = 20 * DAY_S  #: lived on at most so long after the window's end
STUCK_S = 2 * DAY_S  #: past the window and without a gang for so long: a market that is tight stays it
PEOPLE = ("ann", "ben")  #: who sign in a rehearsal


class Asked(NamedTuple):
    """What is rehearsed. `tight`: hours since the window's start from which nothing more is to be had."""

    start: float
    days: float
    seed: int = 7
    tight_from_h: float | None = None
    failures_per_node_day: float | None = None  #: None: the plan's
    speed: float | None = None  #: None: drawn from the plan's belief


@dataclass
class Rehearsal:
    """A run as it was lived."""

    state: State
    book: RunBook
    bill: Bill
    now: float
    sounded: list[tuple[float, Sound]] = field(default_factory=list)
    sends: dict[str, int] = field(default_factory=dict)  #: requests that arrived at the cloud, by action


class VaultShelf:
    """A vault, as a controller reads it."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def newest(self, read: Callable[[int], None] | None = None) -> Kept:
        """The newest that verifies."""
        return self._vault.newest()


def rehearse(
    run: Run,
    asked: Asked,
    make_book: Callable[[ChosenClock], RunBook],
    vault: Vault,
    told: Callable[[float], None],
) -> Rehearsal:
    """Buy the window and live it to the run's end. `told`: called with the part of the time that is over."""
    clock = ChosenClock(asked.start - BEFORE_S)
    world = World(behaviour(run, asked), clock)
    with Server(world) as server:
        settings = AwsSettings(
            region="us-east-1",
            image="ami-1",
            instance_type=TYPE,
            subnets={ZONE: f"subnet-{ZONE}"},
            endpoint=server.url,
            credentials=("rehearsal", "rehearsal"),
            gpus_per_node={TYPE: run.plan.gpus_per_node},
        )
        stage = Stage(run, asked, clock, world, Aws(settings, clock), make_book(clock), vault)
        stage.buy()
        stage.live(told)
        state = stage.controller.state
        return Rehearsal(state, stage.book, world.bill(), clock.now(), stage.sounded, dict(world.sends))


def behaviour(run: Run, asked: Asked) -> Behaviour:
    """A cloud that sells this window, at the plan's prices; its failures are the trainer's."""
    day = run.plan.prices.day("reserved", run.nodes) or 0.0
    hour = Decimal(str(round(day / 24 / run.nodes, 4)))
    end = asked.start + asked.days * DAY_S
    fee = Decimal(str(round(day * asked.days, 2)))
    regimes: tuple[Regime, ...] = ()
    if asked.tight_from_h is not None:
        regimes = (Regime(asked.start + asked.tight_from_h * HOUR_S, "tight"),)
    kind = Kind(
        run.plan.gpus_per_node, hour, hour, Decimal(str(round(run.on_demand_node_hour or float(hour), 4)))
    )
    return Behaviour(
        zones=(Zone(ZONE, regimes=regimes, success=0.95, block_nodes=max(64, 2 * run.nodes)),),
        kinds={TYPE: kind},
        listings=(Listing(ZONE, asked.start, end, run.nodes, fee, TYPE),),
        seed=asked.seed,
        quota=max(64, run.nodes),
    )


class Stage:
    """Everything on it, and time."""

    def __init__(
        self,
        run: Run,
        asked: Asked,
        clock: ChosenClock,
        world: World,
        provider: Aws,
        book: RunBook,
        *vaults: Vault,
    ) -> None:
        (vault,) = vaults
        self.run, self.asked, self.clock, self.world, self.book = run, asked, clock, world, book
        self.provider = provider
        self.sounded: list[tuple[float, Sound]] = []
        hook = Hook(run.hook, clock.now)
        self.trainer = DrawnTrainer(
            hook,
            vault,
            draws_of(run, asked),
            run.tokens,
            run.nodes * run.plan.gpus_per_node,
            now=clock.now,
            fail_node=world.fail_instance,
        )
        budget = run.file.approval.budget or Decimal(10**12)
        self.rules = Rules(b"of a rehearsal", run.file.approval.above, budget)
        extender = Extender(
            book, provider, self.rules, clock, nodes=run.nodes, budget=budget, person=PEOPLE[0]
        )
        parts = Parts(
            book=book,
            provider=provider,
            shelf=VaultShelf(vault),
            trainer=self.trainer,
            hook=hook,
            sound=lambda sound: self.sounded.append((clock.now(), sound)),
            gate=self._gate,
            extend=extender,
        )
        self.controller = Controller(run, parts, clock, "rehearsal")
        self.controller.adopt()

    def buy(self) -> None:
        """The window, signed by two people."""
        plan = Plan(self.run.file.run, self._offer(), self.rules.budget or Decimal(0), self.run.nodes)
        which = sign(
            self.book, plan, PEOPLE[0], self.rules, self.clock.now(), self.provider.against(plan.offer)
        )
        approve(self.book, which, PEOPLE[1], self.rules, self.clock.now())
        buy(self.book, self.provider, which, self.rules, self.clock)

    def _offer(self) -> Offer:
        sold = self.provider.capability.durations.in_days()  # it may be asked for lengths of its lattice only
        hours = round(24 * min(sold, key=lambda one: abs(one - self.asked.days)))
        ask = Ask(TYPE, self.run.nodes, hours, self.asked.start - 1, None, ZONE)
        found = [one for one in self.provider.offers(ask) if one.start == self.asked.start]
        return min(found, key=lambda one: abs(one.length_s - self.asked.days * DAY_S))

    def live(self, told: Callable[[float], None]) -> None:
        """From event to event, the controller whenever it asks to be."""
        wake, began = self.clock.now(), self.clock.now()
        last = self.asked.start + self.asked.days * DAY_S + AFTER_S
        while not self.controller.finished and self.clock.now() < last and not self._stuck():
            due = self.world.next_change()
            coming = min(wake, self.trainer.next_event(), NEVER if due is None else due)
            self.clock.set(max(self.clock.now() + 0.001, coming))
            now = self.clock.now()
            self.trainer.advance(now)
            self._take_down()
            over = self.trainer.process is None and self.controller.state.live is not None
            if now >= wake or over:
                self._sign_extensions()
                wake = max(self.controller.step(), now + 1.0)
                told((now - began) / (last - AFTER_S - began))

    def _stuck(self) -> bool:
        """Whether nothing more will come: the window is over, and no attempt has been under way for long."""
        attempts = self.controller.state.attempts
        over = self.asked.start + self.asked.days * DAY_S
        since = max(over, (attempts[-1].ended or self.clock.now()) if attempts else over)
        return self.asked.tight_from_h is not None and self.clock.now() - since > STUCK_S

    def _take_down(self) -> None:
        """Nodes that are going take the trainer with them."""
        process = self.trainer.process
        if process is not None:
            up = {instance.id for instance in self.world.alive()}
            self.trainer.nodes_gone([node for node in process.nodes if node not in up])

    def _sign_extensions(self) -> None:
        """The second person says yes to what the controller found worth it."""
        for event in self.book.events("purchase_planned"):
            approve(self.book, event.body["plan"], PEOPLE[1], self.rules, self.clock.now())

    def _gate(self, nodes: Sequence[Node], windows: Sequence[Window]) -> Gated:
        return Gated(True, f"all-reduce over {len(nodes)} nodes, drawn: none is slow")


def draws_of(run: Run, asked: Asked) -> Draws:
    """Chances as the plan believes them; the speed drawn once from its belief."""
    import numpy as np

    from tenure.planner.of_file import final_save_s, run_of

    model, _ = run_of(run.plan)
    speed = asked.speed
    if speed is None:
        speed = float(model.speed.draw(np.random.default_rng([asked.seed, 3]), 1)[0])
    recovery = run.plan.recovery
    assert recovery is not None
    every = recovery.checkpoint_every or 2 * HOUR_S
    fixed = (recovery.hours_lost or 0.0) * HOUR_S
    restart = recovery.restart if recovery.checkpoint_every else max(300.0, fixed - every / 2)
    save = final_save_s(run.plan) or recovery.stall or every * (run.plan.overhead or 0.01)
    rate = asked.failures_per_node_day
    return Draws(
        asked.seed,
        speed,
        daily_sd=model.speed.sd / 5 if run.file.daily_sd is None else run.file.daily_sd,
        failures_per_node_day=model.rate.per_node_day if rate is None else rate,
        save_s=save,
        save_every_s=every,
        restart_s=restart,
    )
