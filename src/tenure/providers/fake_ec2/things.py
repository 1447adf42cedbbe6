"""What is there in this cloud: offerings, blocks with their extensions, instances. State and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

TERMINATES_S = 1800.0  #: before a block's end its instances are taken down
PENDING, RUNNING, SHUTTING_DOWN, TERMINATED = "pending", "running", "shutting-down", "terminated"
STATE_CODES = {PENDING: 0, RUNNING: 16, SHUTTING_DOWN: 32, TERMINATED: 48}
DEAD_BLOCKS = ("payment-failed", "cancelled", "failed")


def day(at: float) -> datetime:
    """The instant as the wire has it."""
    return datetime.fromtimestamp(at, UTC)


def tag_list(tags: dict[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


@dataclass
class Offering:
    id: str
    instance_type: str
    zone: str
    nodes: int
    start: float
    end: float
    fee: Decimal
    told: float  #: when it was last shown
    listed: bool = False
    block: str = ""  #: an extension's

    def shape(self, currency: str) -> dict[str, Any]:
        """A CapacityBlockOffering."""
        minutes = round((self.end - self.start) / 60)
        return {
            "CapacityBlockOfferingId": self.id,
            "InstanceType": self.instance_type,
            "AvailabilityZone": self.zone,
            "InstanceCount": self.nodes,
            "StartDate": day(self.start),
            "EndDate": day(self.end),
            "CapacityBlockDurationHours": minutes // 60,
            "CapacityBlockDurationMinutes": minutes % 60,
            "UpfrontFee": str(self.fee),
            "CurrencyCode": currency,
            "Tenancy": "default",
        }

    def extension_shape(self, currency: str, block: Block) -> dict[str, Any]:
        """A CapacityBlockExtensionOffering."""
        return {
            "CapacityBlockExtensionOfferingId": self.id,
            "InstanceType": self.instance_type,
            "InstanceCount": self.nodes,
            "AvailabilityZone": self.zone,
            "StartDate": day(block.start),
            "CapacityBlockExtensionStartDate": day(self.start),
            "CapacityBlockExtensionEndDate": day(self.end),
            "CapacityBlockExtensionDurationHours": round((self.end - self.start) / 3600),
            "UpfrontFee": str(self.fee),
            "CurrencyCode": currency,
            "Tenancy": "default",
        }


@dataclass
class Extension:
    offering: Offering
    reservation: str
    bought: float
    state: str = "payment-pending"
    hidden_reads: int = 0

    def shape(self, currency: str) -> dict[str, Any]:
        """A CapacityBlockExtension."""
        told = self.offering
        return {
            "CapacityReservationId": self.reservation,
            "InstanceType": told.instance_type,
            "InstanceCount": told.nodes,
            "AvailabilityZone": told.zone,
            "CapacityBlockExtensionOfferingId": told.id,
            "CapacityBlockExtensionDurationHours": round((told.end - told.start) / 3600),
            "CapacityBlockExtensionStatus": self.state,
            "CapacityBlockExtensionPurchaseDate": day(self.bought),
            "CapacityBlockExtensionStartDate": day(told.start),
            "CapacityBlockExtensionEndDate": day(told.end),
            "UpfrontFee": str(told.fee),
            "CurrencyCode": currency,
        }


@dataclass
class Block:
    """A block and its one reservation."""

    id: str
    reservation: str
    offering: Offering
    platform: str
    created: float
    end: float  #: with what extended it
    tags: dict[str, str]
    state: str = "payment-pending"
    paid: bool = False
    extensions: list[Extension] = field(default_factory=list)
    broken: int = 0  #: places that take no instance
    interconnect: str = "ok"
    hidden_reads: int = 0

    @property
    def start(self) -> float:
        return self.offering.start

    @property
    def nodes(self) -> int:
        return self.offering.nodes

    def shape(self) -> dict[str, Any]:
        """A CapacityBlock."""
        return {
            "CapacityBlockId": self.id,
            "AvailabilityZone": self.offering.zone,
            "CapacityReservationIds": [self.reservation],
            "StartDate": day(self.start),
            "EndDate": day(self.end),
            "CreateDate": day(self.created),
            "State": self.state,
            "Tags": tag_list(self.tags),
        }

    def reservation_shape(self, free: int) -> dict[str, Any]:
        """Its CapacityReservation."""
        size = "aws:ec2capacityreservation:incrementalRequestedQuantity"
        return {
            "CapacityReservationId": self.reservation,
            "OwnerId": "000000000000",
            "InstanceType": self.offering.instance_type,
            "InstancePlatform": self.platform,
            "AvailabilityZone": self.offering.zone,
            "Tenancy": "default",
            "TotalInstanceCount": self.nodes if self.state == "active" else 0,
            "AvailableInstanceCount": free,
            "EbsOptimized": False,
            "EphemeralStorage": False,
            "State": self.state,
            "StartDate": day(self.start),
            "EndDate": day(self.end),
            "EndDateType": "limited",
            "InstanceMatchCriteria": "targeted",
            "CreateDate": day(self.created),
            "Tags": tag_list({**self.tags, size: str(self.nodes)}),
            "ReservationType": "capacity-block",
            "CapacityBlockId": self.id,
        }


@dataclass
class Instance:
    id: str
    number: int
    kind: str
    zone: str
    subnet: str
    image: str
    launched: float
    token: str
    tags: dict[str, str]
    reservation_id: str  #: of the launch, in the sense of DescribeInstances
    block: str = ""  #: whose place it fills
    state: str = PENDING
    stopped: float | None = None  #: it costs nothing from then on
    gone: float | None = None
    reason: str = ""
    impaired: bool = False
    hidden_reads: int = 0

    def shape(self, reservation: str) -> dict[str, Any]:
        """An Instance."""
        told: dict[str, Any] = {
            "InstanceId": self.id,
            "ImageId": self.image,
            "InstanceType": self.kind,
            "State": {"Code": STATE_CODES[self.state], "Name": self.state},
            "LaunchTime": day(self.launched),
            "Placement": {"AvailabilityZone": self.zone, "Tenancy": "default"},
            "SubnetId": self.subnet,
            "ClientToken": self.token,
            "PrivateIpAddress": f"10.0.{self.number // 250 % 250}.{self.number % 250 + 1}",
            "Tags": tag_list(self.tags),
        }
        if self.reason:
            told["StateReason"] = {"Code": self.reason, "Message": self.reason}
        if self.block:
            told["CapacityReservationId"] = reservation
            told["CapacityBlockId"] = self.block
            told["InstanceLifecycle"] = "capacity-block"
        return told
