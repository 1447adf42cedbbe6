"""Windows that were agreed with somebody who has no interface: an operator types start, end, fee and nodes.

Nothing is sent anywhere: buying notes, in a file, that the agreement is taken up. The agreed file is read at
every call, so that an operator may add an extension or name a node that is down while a run goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tenure.providers.assigned import Kept
from tenure.providers.capability import Capability, capability
from tenure.providers.protocol import (
    ACTIVE,
    EXPIRED,
    INTENT_TAG,
    PAID,
    SCHEDULED,
    Ask,
    Clock,
    Expired,
    Extension,
    Health,
    Node,
    NotSent,
    Offer,
    Refused,
    Window,
)
from tenure.settings.errors import BadInput
from tenure.settings.provider_access import AgreedFile, AgreedWindows, read_agreed_windows

NAME = "manual"


class Manual:
    """The windows of a file. What is noted about them lies beside it (`FILE.state.json`)."""

    name = NAME

    def __init__(self, path: Path, clock: Clock) -> None:
        self.capability: Capability = capability(NAME)
        self._path, self._clock = path, clock
        self._kept = Kept(path.with_name(f"{path.name}.state.json"))
        read_agreed_windows(
            path
        )  # BadInput: at the beginning it is a mistake; later somebody is just writing

    def _file(self) -> AgreedWindows:
        try:
            return read_agreed_windows(self._path)
        except BadInput as wrong:
            raise NotSent(str(wrong)) from wrong

    def _agreed(self) -> dict[str, AgreedFile]:
        return {one.id: one for one in self._file().windows}

    # --- what was agreed -------------------------------------------------------------------------------

    def offers(self, ask: Ask) -> Sequence[Offer]:
        """Agreed and not taken up yet; of at least the nodes asked for, within the dates."""
        bought = self._kept.read()["bought"]
        found = [
            _offer(one)
            for one in self._file().windows
            if one.id not in bought
            and not one.extends
            and len(one.nodes) >= ask.nodes
            and (ask.earliest is None or one.start.timestamp() >= ask.earliest)
            and (ask.latest is None or one.end.timestamp() <= ask.latest)
            and ask.zone in ("", one.zone)
            and ask.instance_type in ("", one.instance_type)
        ]
        return sorted(found, key=lambda one: (one.start, one.id))

    def offer_again(self, offer: Offer) -> Offer | None:
        """As the file has it now; None where it was taken up or taken out."""
        agreed = self._agreed().get(offer.id)
        if agreed is None or offer.id in self._kept.read()["bought"]:
            return None
        return _offer(agreed)

    def against(self, offer: Offer) -> Sequence[str]:
        """Nodes that are down."""
        agreed = self._agreed().get(offer.id)
        down = [name for name in agreed.nodes if name in self._file().down] if agreed else []
        return [f"{len(down)} of its nodes are down: {', '.join(down[:5])}"] if down else []

    def buy(self, offer: Offer, intent: str) -> Window:
        """Take it up. By its intent it is taken up once."""
        self._take_up(offer, intent)
        return self.windows([offer.id])[0]

    def _take_up(self, offer: Offer, intent: str) -> None:
        agreed = self._agreed().get(offer.id)
        if agreed is None:
            raise Expired("gone", f"no agreement {offer.id} in {self._path.name}")
        with self._kept.changing() as told:
            before = told["bought"].get(offer.id)
            if before is not None and before["intent"] != intent:
                raise Refused("taken", f"{offer.id} was taken up by {before['intent']}")
            told["bought"].setdefault(offer.id, {"intent": intent, "at": self._clock.now()})

    def windows(
        self, ids: Sequence[str] | None = None, tag: tuple[str, str] | None = None
    ) -> Sequence[Window]:
        """Those taken up, with what extends them."""
        agreed, bought = self._agreed(), self._kept.read()["bought"]
        found = []
        for name, told in bought.items():
            one = agreed.get(name)
            if one is None or one.extends or (ids is not None and name not in ids):
                continue
            window = self._window(one, told, agreed, bought)
            if tag is None or window.tags.get(tag[0]) == tag[1]:
                found.append(window)
        return found

    def _window(
        self, one: AgreedFile, told: Mapping[str, Any], agreed: Mapping[str, AgreedFile], bought: Any
    ) -> Window:
        ends = [agreed[name].end for name in bought if name in agreed and agreed[name].extends == one.id]
        end = max([one.end, *ends]).timestamp()
        now = self._clock.now()
        state = SCHEDULED if now < one.start.timestamp() else ACTIVE if now < end else EXPIRED
        return Window(
            id=one.id,
            reservations=(one.id,),
            state=state,
            zone=one.zone,
            start=one.start.timestamp(),
            end=end,
            nodes=len(one.nodes),
            fee=one.fee,
            currency=one.currency,
            tags={INTENT_TAG: told["intent"]},
            instance_type=one.instance_type,
            platform=one.platform,
            gpus_per_node=one.gpus_per_node,
            created=told["at"],
            said=state,
        )

    def extension_offers(self, window: Window, hours: int) -> Sequence[Offer]:
        """What the file has of it beyond its end, whatever hours are asked for."""
        bought = self._kept.read()["bought"]
        return [
            _offer(one)
            for one in self._file().windows
            if one.extends == window.id and one.id not in bought and one.start.timestamp() == window.end
        ]

    def extend(self, window: Window, offer: Offer, intent: str) -> Extension:
        """Take it up."""
        self._take_up(offer, intent)
        return next(one for one in self.extensions(window) if one.offer == offer.id)

    def extensions(self, window: Window) -> Sequence[Extension]:
        """Those taken up."""
        agreed, bought = self._agreed(), self._kept.read()["bought"]
        found = [
            Extension(
                name,
                window.id,
                PAID,
                agreed[name].start.timestamp(),
                agreed[name].end.timestamp(),
                agreed[name].fee,
                agreed[name].currency,
                told["at"],
                "agreed",
            )
            for name, told in bought.items()
            if name in agreed and agreed[name].extends == window.id
        ]
        return sorted(found, key=lambda one: one.bought or 0.0)

    # --- nodes -----------------------------------------------------------------------------------------

    def launch(
        self, token: str, count: int, at_least: int, window: Window | None, tags: Mapping[str, str]
    ) -> Sequence[Node]:
        """Assign nodes of the window by name; nothing is to be had on demand."""
        if window is None:
            raise Refused("no-on-demand", "agreed windows have nothing on demand")
        now = self._clock.now()
        current = next(iter(self.windows([window.id])), None)
        if current is None or current.state != ACTIVE:
            state = current.state if current else "gone"
            raise Expired("not-active", f"the window {window.id} is {state}")
        file = self._file()
        agreed = next(one for one in file.windows if one.id == window.id)
        works = [name for name in agreed.nodes if name not in file.down]
        note = {"window": window.id, "at": now, "tags": dict(tags), "zone": agreed.zone}
        names = set(self._kept.assign(token, works, at_least, count, note))
        return [node for node in self._nodes() if node.id in names]

    def _nodes(self) -> list[Node]:
        down = self._file().down
        active = {window.id for window in self.windows() if window.state == ACTIVE}
        return self._kept.nodes(active=active.__contains__, down=down.__contains__)

    def nodes(self, tag: tuple[str, str]) -> Sequence[Node]:
        """Those assigned with the tag."""
        return [node for node in self._nodes() if node.tags.get(tag[0]) == tag[1]]

    def terminate(self, ids: Sequence[str]) -> None:
        """They are free for others."""
        self._kept.let_go(ids)

    def health(self, window: Window) -> Health:
        """As the operator's file has it."""
        file, held = self._file(), self._kept.read()["nodes"]
        agreed = next((one for one in file.windows if one.id == window.id), None)
        if agreed is None:
            raise Expired("gone", f"no agreement {window.id}")
        down = [name for name in agreed.nodes if name in file.down]
        active = any(one.state == ACTIVE for one in self.windows([window.id]))
        free = [name for name in agreed.nodes if name not in held and name not in down]
        return Health(window.id, "unknown", len(agreed.nodes), len(free) if active else 0, len(down))


def _offer(one: AgreedFile) -> Offer:
    return Offer(
        id=one.id,
        provider=NAME,
        instance_type=one.instance_type,
        nodes=len(one.nodes),
        gpus_per_node=one.gpus_per_node,
        zone=one.zone,
        start=one.start.timestamp(),
        end=one.end.timestamp(),
        fee=one.fee,
        currency=one.currency,
        platform=one.platform,
        expires=None if one.good_until is None else one.good_until.timestamp(),
        extends=one.extends,
    )
