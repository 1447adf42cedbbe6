"""A window on one's own cluster: nodes reserved for a run, by Slurm or by a Tenure server.

Nothing is paid, so the fee is 0; the nodes are ours from the reservation's start to its end, and a launch
assigns them by name. A reservation carries its intent as its name, so making it twice makes one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path

from tenure.providers.assigned import Kept
from tenure.providers.own_reserving import Held, Reserving
from tenure.providers.own_windows import NAME, NO_MONEY, NOTHING, OwnWindows
from tenure.providers.protocol import (
    ACTIVE,
    EXPIRED,
    INTENT_TAG,
    SCHEDULED,
    Ask,
    Clock,
    Expired,
    Health,
    Node,
    Offer,
    Refused,
    Unclear,
    Window,
)

PLACE = "own"
LEAD_S, QUARTER_S = 60.0, 900.0


class Own(OwnWindows):
    """Windows that are reserved."""

    next_is = "reserve another beside it"

    def __init__(
        self, reserving: Reserving, nodes: Sequence[str], gpus_per_node: int, state: Path, clock: Clock
    ) -> None:
        self._by, self._names, self._gpus, self._clock = reserving, tuple(nodes), gpus_per_node, clock
        self._kept = Kept(state)

    # --- windows ---------------------------------------------------------------------------------------

    def offers(self, ask: Ask) -> Sequence[Offer]:
        """
        The soonest stretch in which so many of the nodes are in nobody's reservation.

        From `ask.earliest` on, or the next quarter of an hour: the same offer however often it is asked.
        """
        now = self._clock.now()
        start = ceil((now + LEAD_S) / QUARTER_S) * QUARTER_S
        if ask.earliest is not None and ask.earliest > now:
            start = ask.earliest
        held = self._by.held()
        for begins in sorted({start, *(one.end for one in held if one.end > start)}):
            end = begins + ask.hours * 3600
            if len(self._free(held, begins, end)) >= ask.nodes:
                if ask.latest is not None and end > ask.latest:
                    return []
                return [self._offer(ask.nodes, ask.instance_type, begins, end)]
        return []

    def _offer(self, nodes: int, kind: str, start: float, end: float, extends: str = "") -> Offer:
        return Offer(
            id=f"own-{nodes}-{start:.0f}-{end:.0f}",
            provider=NAME,
            instance_type=kind,
            nodes=nodes,
            gpus_per_node=self._gpus,
            zone=PLACE,
            start=start,
            end=end,
            fee=NOTHING,
            currency=NO_MONEY,
            platform="Linux/UNIX",
            extends=extends,
        )

    def _free(self, held: Sequence[Held], start: float, end: float) -> list[str]:
        taken = {name for one in held if one.start < end and start < one.end for name in one.nodes}
        up = set(self._by.usable())
        return [name for name in self._names if name in up and name not in taken]

    def offer_again(self, offer: Offer) -> Offer | None:
        """Whether it is still free and to come."""
        if self._clock.now() >= offer.start:
            return None
        free = self._free(self._by.held(), offer.start, offer.end)
        return offer if len(free) >= offer.nodes else None

    def against(self, offer: Offer) -> Sequence[str]:
        """Nothing: the nodes are one's own."""
        return []

    def buy(self, offer: Offer, intent: str) -> Window:
        """Reserve it under the intent's name; of that name there is one."""
        mine = [window for window in self.windows() if window.tags[INTENT_TAG] == intent]
        if not mine:
            names = self._free(self._by.held(), offer.start, offer.end)[: offer.nodes]
            if len(names) < offer.nodes:
                raise Expired("taken", f"{len(names)} of {offer.nodes} nodes are free")
            self._by.reserve(intent, names, offer.start, offer.end)
            mine = [window for window in self.windows() if window.tags[INTENT_TAG] == intent]
        if not mine:
            raise Unclear(f"{intent} was reserved and is not to be seen")
        return mine[0]

    def windows(
        self, ids: Sequence[str] | None = None, tag: tuple[str, str] | None = None
    ) -> Sequence[Window]:
        """Reservations of these nodes; one that is over is kept as long as its nodes are assigned."""
        found = [self._window(one) for one in self._by.held() if set(one.nodes) & set(self._names)]
        return [
            window
            for window in found
            if (ids is None or window.id in ids) and (tag is None or window.tags.get(tag[0]) == tag[1])
        ]

    def _window(self, one: Held) -> Window:
        now = self._clock.now()
        state = SCHEDULED if now < one.start else ACTIVE if now < one.end else EXPIRED
        return Window(
            id=one.id,
            reservations=(one.id,),
            state=state,
            zone=PLACE,
            start=one.start,
            end=one.end,
            nodes=len(one.nodes),
            fee=NOTHING,
            currency=NO_MONEY,
            tags={INTENT_TAG: one.name},
            gpus_per_node=self._gpus,
            said=state,
        )

    # --- nodes -----------------------------------------------------------------------------------------

    def launch(
        self, token: str, count: int, at_least: int, window: Window | None, tags: Mapping[str, str]
    ) -> Sequence[Node]:
        """Assign nodes of the reservation by name."""
        if window is None:
            raise Refused("no-on-demand", "one's own cluster has nothing on demand")
        held = next((one for one in self._by.held() if one.id == window.id), None)
        if held is None or not held.start <= self._clock.now() < held.end:
            raise Expired("not-active", f"the reservation {window.id} is not active")
        up = set(self._by.usable())
        note = {"window": window.id, "zone": PLACE, "at": self._clock.now(), "tags": dict(tags)}
        works = [name for name in held.nodes if name in up]
        names = set(self._kept.assign(token, works, at_least, count, note))
        return [node for node in self._nodes() if node.id in names]

    def _nodes(self) -> list[Node]:
        now, up = self._clock.now(), set(self._by.usable())
        active = {one.id for one in self._by.held() if one.start <= now < one.end}
        return self._kept.nodes(active=active.__contains__, down=lambda name: name not in up)

    def nodes(self, tag: tuple[str, str]) -> Sequence[Node]:
        """Those assigned with the tag."""
        return [node for node in self._nodes() if node.tags.get(tag[0]) == tag[1]]

    def terminate(self, ids: Sequence[str]) -> None:
        """They are free for others; the reservation stays."""
        self._kept.let_go(ids)

    def health(self, window: Window) -> Health:
        """Up and down, as the cluster has it."""
        held = next((one for one in self._by.held() if one.id == window.id), None)
        if held is None:
            raise Expired("gone", f"no reservation {window.id}")
        up, used = set(self._by.usable()), self._kept.read()["nodes"]
        active = held.start <= self._clock.now() < held.end
        free = [name for name in held.nodes if name in up and name not in used]
        down = [name for name in held.nodes if name not in up]
        return Health(window.id, "unknown", len(held.nodes), len(free) if active else 0, len(down))
