"""Capacity blocks of AWS EC2, by boto3: what is for sale, bought once, launched into and read back.

The client for calls that spend makes one attempt; the one for reads may try again. A launch carries both
the market type and the reservation, and what comes up is asked whose it is: a machine outside of its window
is ended at once. Placement groups are never used: blocks refuse them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tenure.providers import aws_shapes as shapes
from tenure.providers.aws_errors import as_provider_errors
from tenure.providers.capability import capability
from tenure.providers.protocol import (
    ACTIVE,
    INTENT_TAG,
    RESERVED,
    Ask,
    Clock,
    Expired,
    Extension,
    Health,
    Node,
    Offer,
    ProviderError,
    Refused,
    Unclear,
    Window,
)

LINUX = "Linux/UNIX"
MISSED = "missed-reservation"
PAGE = 200
MOST_TOKEN = 64  #: letters
MOST_IDS = 200  #: in one call that ends machines


@dataclass(frozen=True)
class AwsSettings:
    """Where, and what is launched there. Credentials are found by boto3 itself unless they are given."""

    region: str
    image: str = ""
    instance_type: str = ""  #: of what is launched on demand
    subnets: Mapping[str, str] = field(default_factory=dict)  #: subnet by zone
    platform: str = LINUX
    launch: Mapping[str, Any] = field(default_factory=dict)  #: more parameters of RunInstances
    profile: str = ""
    endpoint: str = ""
    credentials: tuple[str, str] | None = None
    connect_timeout_s: float = 5.0
    read_timeout_s: float = 60.0
    read_attempts: int = 5
    checks_every_s: float = 300.0  #: AWS's own checks of machines are read so often
    offer_good_s: float = 900.0  #: an offer is believed for so long: AWS names no end of it
    gpus_per_node: Mapping[str, int] = field(default_factory=dict)  #: by type, where it is not to be asked


class Aws:
    """One account in one region. `client`: any that has boto3's methods (tests, rehearsals)."""

    name = shapes.NAME

    def __init__(self, settings: AwsSettings, clock: Clock, client: Any = None) -> None:
        self.settings = settings
        self.capability = capability(shapes.NAME)
        self._clock = clock
        self._once, self._reads = (client, client) if client is not None else _clients(settings)
        self._gpus: dict[str, int] = dict(settings.gpus_per_node)
        self._zones: dict[str, str] = {}
        self._checked: tuple[float, set[str]] | None = None  #: when, and who failed

    def close(self) -> None:
        """Let go of the connections."""
        for client in {id(one): one for one in (self._once, self._reads)}.values():
            client.close()

    # --- what is for sale ------------------------------------------------------------------------------

    def offers(self, ask: Ask) -> Sequence[Offer]:
        """What is for sale, soonest first."""
        asked: dict[str, Any] = {
            "CapacityDurationHours": ask.hours,
            "InstanceType": ask.instance_type,
            "InstanceCount": ask.nodes,
        }
        if ask.earliest is not None:
            asked["StartDateRange"] = _stamp(ask.earliest)
        if ask.latest is not None:
            asked["EndDateRange"] = _stamp(ask.latest)
        found = self._all("describe_capacity_block_offerings", "CapacityBlockOfferings", asked)
        gpus, good = self._gpus_of(ask.instance_type), self._clock.now() + self.settings.offer_good_s
        offers = [shapes.offer(one, gpus, self.settings.platform, good) for one in found]
        wanted = [one for one in offers if not ask.zone or one.zone == ask.zone]
        return sorted(wanted, key=lambda one: (one.start, one.zone, one.id))

    def offer_again(self, offer: Offer) -> Offer | None:
        """The same offer as it stands now."""
        if offer.extends:
            held = self.windows([offer.extends])
            hours = round(offer.length_s / 3600)
            found = self.extension_offers(held[0], hours) if held else []
            return _alike(found, offer)
        for hours in _hours_of(offer, self.capability.durations.in_days()):
            ask = Ask(offer.instance_type, offer.nodes, hours, offer.start, offer.end)
            found = [one for one in self.offers(ask) if one.id == offer.id]
            if found:
                return found[0]
        return None

    def against(self, offer: Offer) -> Sequence[str]:
        """Subnets and platform as they are there now."""
        told = []
        zones = {part.zone for part in offer.segments} or {offer.zone}
        for zone in sorted(zones):
            subnet = self.settings.subnets.get(zone, "")
            if not subnet:
                told.append(f"no subnet is named for the zone {zone}")
            elif (there := self._zone_of(subnet)) != zone:
                told.append(f"the subnet {subnet} lies in {there or 'no zone'}, the offer in {zone}")
        if offer.platform != self.settings.platform:
            told.append(f"the offer is for {offer.platform}, the run for {self.settings.platform}")
        if self.settings.image and (platform := self._platform_of(self.settings.image)) != offer.platform:
            told.append(f"the image {self.settings.image} is {platform}, the offer for {offer.platform}")
        return told

    # --- buying ----------------------------------------------------------------------------------------

    def buy(self, offer: Offer, intent: str) -> Window:
        """Sent once."""
        tags = [
            {"Key": INTENT_TAG, "Value": intent},
            {"Key": shapes.FEE_TAG, "Value": str(offer.fee)},
            {"Key": shapes.CURRENCY_TAG, "Value": offer.currency},
        ]
        with as_provider_errors(spends=True):
            told = self._once.purchase_capacity_block(
                CapacityBlockOfferingId=offer.id,
                InstancePlatform=offer.platform,
                TagSpecifications=[
                    {"ResourceType": kind, "Tags": tags}
                    for kind in ("capacity-block", "capacity-reservation")
                ],
            )
        reservations = told.get("CapacityReservations") or [told["CapacityReservation"]]
        blocks = told.get("CapacityBlocks") or [_block_in(reservations[0])]
        gpus = {offer.instance_type: offer.gpus_per_node}
        bought = shapes.window(blocks[0], reservations, gpus)
        return bought._replace(
            fee=offer.fee,
            currency=offer.currency,
            nodes=bought.nodes or offer.nodes,
            tags={**bought.tags, INTENT_TAG: intent},
        )

    def windows(
        self, ids: Sequence[str] | None = None, tag: tuple[str, str] | None = None
    ) -> Sequence[Window]:
        """All are listed and looked through here: an id that is gone spoils no answer."""
        blocks = self._all("describe_capacity_blocks", "CapacityBlocks", {})
        by_block: dict[str, list[Mapping[str, Any]]] = {}
        for one in self._all("describe_capacity_reservations", "CapacityReservations", {}):
            by_block.setdefault(one.get("CapacityBlockId", ""), []).append(one)
        found = []
        for block in blocks:
            if ids is not None and block["CapacityBlockId"] not in ids:
                continue
            held = by_block.get(block["CapacityBlockId"], [])
            kinds = {one["InstanceType"] for one in held if one.get("InstanceType")}
            window = shapes.window(block, held, {kind: self._gpus_of(kind) for kind in kinds})
            if tag is None or window.tags.get(tag[0]) == tag[1]:
                found.append(window)
        return found

    def extension_offers(self, window: Window, hours: int) -> Sequence[Offer]:
        """What more of it can be had; nothing where it cannot be extended."""
        found: list[Offer] = []
        good = self._clock.now() + self.settings.offer_good_s
        for reservation in window.reservations[:1]:
            asked = {"CapacityReservationId": reservation, "CapacityBlockExtensionDurationHours": hours}
            try:
                told = self._all(
                    "describe_capacity_block_extension_offerings", "CapacityBlockExtensionOfferings", asked
                )
            except Expired:
                return []
            found += [shapes.extension_offer(one, window, good) for one in told]
        return sorted(found, key=lambda one: (one.fee, one.id))

    def extend(self, window: Window, offer: Offer, intent: str) -> Extension:
        """Sent once. It takes no tags: the offering's id is what it is found by."""
        with as_provider_errors(spends=True):
            told = self._once.purchase_capacity_block_extension(
                CapacityBlockExtensionOfferingId=offer.id, CapacityReservationId=window.reservations[0]
            )
        made = [shapes.extension(one, window) for one in told.get("CapacityBlockExtensions") or ()]
        if not made:
            raise Unclear("the purchase of the extension was answered without one")
        return made[0]

    def extensions(self, window: Window) -> Sequence[Extension]:
        """All purchases of more of it, oldest first."""
        asked = {"CapacityReservationIds": list(window.reservations)}
        try:
            told = self._all("describe_capacity_block_extension_history", "CapacityBlockExtensions", asked)
        except Expired:
            return []
        return sorted((shapes.extension(one, window) for one in told), key=lambda one: one.bought or 0.0)

    # --- machines --------------------------------------------------------------------------------------

    def launch(
        self, token: str, count: int, at_least: int, window: Window | None, tags: Mapping[str, str]
    ) -> Sequence[Node]:
        """`at_least` to `count` or none; read back whose they are."""
        asked: dict[str, Any] = {
            **self.settings.launch,
            "MinCount": at_least,
            "MaxCount": count,
            "ClientToken": _short(token),
            "InstanceType": window.instance_type if window else self.settings.instance_type,
            "TagSpecifications": [
                {
                    "ResourceType": "instance",
                    "Tags": [
                        {"Key": key, "Value": value}
                        for key, value in {**tags, shapes.TOKEN_TAG: token}.items()
                    ],
                }
            ],
        }
        if self.settings.image:
            asked["ImageId"] = self.settings.image
        zone = window.zone if window else next(iter(self.settings.subnets), "")
        if zone in self.settings.subnets:
            asked["SubnetId"] = self.settings.subnets[zone]
        if window is not None:
            asked["InstanceMarketOptions"] = {"MarketType": shapes.BLOCK}
            asked["CapacityReservationSpecification"] = {
                "CapacityReservationTarget": {"CapacityReservationId": self._reservation(window)}
            }
        with as_provider_errors(spends=True):
            told = self._once.run_instances(**asked)
        made = [shapes.node(one) for one in told.get("Instances") or ()]
        if window is not None:
            self._check_place(made, window)
        return made

    def _reservation(self, window: Window) -> str:
        """Of a window of several parts, the one with most room now."""
        if len(window.reservations) == 1:
            return window.reservations[0]
        asked = {"CapacityReservationIds": list(window.reservations)}
        told = self._all("describe_capacity_reservations", "CapacityReservations", asked)
        open_now = [one for one in told if one.get("State") == ACTIVE]
        if not open_now:
            raise Expired("InvalidCapacityReservationState", "no part of the window is active")
        best = max(open_now, key=lambda one: int(one.get("AvailableInstanceCount") or 0))
        return str(best["CapacityReservationId"])

    def _check_place(self, made: Sequence[Node], window: Window) -> None:
        missed = [
            node.id
            for node in made
            if node.market != RESERVED
            or node.window != window.id
            or node.reservation not in window.reservations
        ]
        if missed:
            self.terminate([node.id for node in made])
            raise Refused(
                MISSED,
                f"{len(missed)} of {len(made)} machines came up outside {window.id} and bill on demand; "
                f"all of this launch were ended: {', '.join(missed[:5])}",
            )

    def nodes(self, tag: tuple[str, str]) -> Sequence[Node]:
        """All with the tag."""
        asked = {"Filters": [{"Name": f"tag:{tag[0]}", "Values": [tag[1]]}]}
        launches = self._all("describe_instances", "Reservations", asked)
        found = [shapes.node(one) for launch in launches for one in launch.get("Instances") or ()]
        ill = self._impaired()
        return [node._replace(healthy=False) if node.id in ill else node for node in found]

    def _impaired(self) -> set[str]:
        """Machines that fail AWS's own checks; asked now and then, and not at all where nobody answers."""
        now = self._clock.now()
        if self._checked is None or not 0 <= now - self._checked[0] < self.settings.checks_every_s:
            try:
                told = [
                    one["InstanceId"]
                    for kind in ("instance-status", "system-status")
                    for one in self._all(
                        "describe_instance_status",
                        "InstanceStatuses",
                        {"Filters": [{"Name": f"{kind}.status", "Values": ["impaired"]}]},
                    )
                ]
            except ProviderError:  # a hint that is missing
                return self._checked[1] if self._checked else set()
            self._checked = (now, set(told))
        return self._checked[1]

    def terminate(self, ids: Sequence[str]) -> None:
        """Let them go, one by one where one of them is not known any more."""
        for first in range(0, len(ids), MOST_IDS):
            part = list(ids[first : first + MOST_IDS])
            try:
                self._end(part)
            except Expired:
                if len(part) > 1:
                    for one in part:
                        self.terminate([one])

    def _end(self, ids: list[str]) -> None:
        with as_provider_errors(spends=False):
            self._reads.terminate_instances(InstanceIds=ids)

    def health(self, window: Window) -> Health:
        """Its hardware; Expired where the block is gone."""
        asked = {"CapacityBlockIds": [window.id]}
        told = self._all("describe_capacity_block_status", "CapacityBlockStatuses", asked)
        if not told:
            raise Expired("InvalidCapacityBlockId.NotFound", f"nothing is told of {window.id}")
        one = told[0]
        word = one.get("InterconnectStatus", "")
        return Health(
            window=window.id,
            interconnect=word if word in ("ok", "impaired") else "unknown",
            nodes=int(one.get("TotalCapacity") or 0),
            free=int(one.get("TotalAvailableCapacity") or 0),
            broken=int(one.get("TotalUnavailableCapacity") or 0),
        )

    # --- asking ----------------------------------------------------------------------------------------

    def _all(self, operation: str, key: str, asked: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """All pages."""
        with as_provider_errors(spends=False):
            pages = self._reads.get_paginator(operation).paginate(
                **asked, **({} if "CapacityBlockIds" in asked else {"PaginationConfig": {"PageSize": PAGE}})
            )
            return [one for page in pages for one in page.get(key) or ()]

    def _gpus_of(self, kind: str) -> int:
        if kind not in self._gpus:
            with as_provider_errors(spends=False):
                told = self._reads.describe_instance_types(InstanceTypes=[kind])
            gpus = [one.get("GpuInfo", {}).get("Gpus", ()) for one in told.get("InstanceTypes", ())]
            self._gpus[kind] = sum(int(gpu.get("Count", 0)) for some in gpus for gpu in some)
        return self._gpus[kind]

    def _zone_of(self, subnet: str) -> str:
        if subnet not in self._zones:
            try:
                with as_provider_errors(spends=False):
                    told = self._reads.describe_subnets(SubnetIds=[subnet])
            except Expired:
                return ""
            self._zones[subnet] = next((one["AvailabilityZone"] for one in told.get("Subnets", ())), "")
        return self._zones[subnet]

    def _platform_of(self, image: str) -> str:
        with as_provider_errors(spends=False):
            told = self._reads.describe_images(ImageIds=[image])
        return str(next((one.get("PlatformDetails") for one in told.get("Images", ())), "") or LINUX)


def _short(token: str) -> str:
    """The token, or a digest of one that is longer than RunInstances takes."""
    return token if len(token) <= MOST_TOKEN else hashlib.sha256(token.encode()).hexdigest()


def _clients(settings: AwsSettings) -> tuple[Any, Any]:
    """(of calls that spend: one attempt; of reads). One session: EC2's model is large and read once."""
    import boto3
    from botocore.config import Config

    key, secret = settings.credentials or (None, None)
    session = boto3.session.Session(
        profile_name=settings.profile or None, aws_access_key_id=key, aws_secret_access_key=secret
    )

    def client(attempts: int) -> Any:
        config = Config(
            connect_timeout=settings.connect_timeout_s,
            read_timeout=settings.read_timeout_s,
            retries={"total_max_attempts": attempts, "mode": "standard"},
            user_agent_extra="tenure",
        )
        return session.client(
            "ec2", region_name=settings.region, endpoint_url=settings.endpoint or None, config=config
        )

    return client(1), client(settings.read_attempts)


def _stamp(at: float) -> Any:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at, UTC)


def _hours_of(offer: Offer, sold: Sequence[float]) -> list[int]:
    """What may have been asked for to be shown this offer: lengths sold (days), the nearest first."""
    days = offer.length_s / 86400
    return [round(24 * one) for one in sorted(sold, key=lambda one: abs(one - days))[:3]]


def _alike(found: Sequence[Offer], offer: Offer) -> Offer | None:
    """An extension is offered under a new id each time: the one with the same dates and fee."""
    same = [one for one in found if (one.start, one.end, one.fee) == (offer.start, offer.end, offer.fee)]
    for one in same:
        if one.id == offer.id:
            return one
    return same[0] if same else (found[0] if found else None)


def _block_in(reservation: Mapping[str, Any]) -> dict[str, Any]:
    """A CapacityBlock as its reservation tells of it."""
    return {
        "CapacityBlockId": reservation.get("CapacityBlockId", ""),
        "CapacityReservationIds": [reservation["CapacityReservationId"]],
        "AvailabilityZone": reservation.get("AvailabilityZone", ""),
        "StartDate": reservation["StartDate"],
        "EndDate": reservation["EndDate"],
        "CreateDate": reservation.get("CreateDate"),
        "State": reservation.get("State", ""),
    }
