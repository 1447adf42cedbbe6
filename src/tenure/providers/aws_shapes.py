"""How AWS says it, in the words of `protocol`: offerings, blocks, extensions, instances. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from tenure.providers.protocol import (
    ACTIVE,
    EXPIRED,
    FAILED,
    GONE,
    ON_DEMAND,
    PAID,
    PAYMENT_PENDING,
    RESERVED,
    RUNNING,
    SCHEDULED,
    STARTING,
    STOPPING,
    UNKNOWN,
    Extension,
    Node,
    Offer,
    Refused,
    Segment,
    Window,
)

NAME = "aws"
BLOCK = "capacity-block"  #: market type, lifecycle and reservation type
SIZE_TAG = (
    "aws:ec2capacityreservation:incrementalRequestedQuantity"  #: bought; the total is 0 before the start
)
TOKEN_TAG = "tenure:token"  #: a launch's own token: the client's may be no longer than 64 letters
FEE_TAG, CURRENCY_TAG = "tenure:fee", "tenure:currency"  #: blocks do not tell their fee afterwards

WINDOW_STATE = {
    "payment-pending": PAYMENT_PENDING,
    "scheduled": SCHEDULED,
    "active": ACTIVE,
    "expired": EXPIRED,
    "payment-failed": FAILED,
    "failed": FAILED,
    "cancelled": FAILED,
}
EXTENSION_STATE = {"payment-pending": PAYMENT_PENDING, "payment-succeeded": PAID, "payment-failed": FAILED}
NODE_STATE = {
    "pending": STARTING,
    "running": RUNNING,
    "shutting-down": STOPPING,
    "stopping": STOPPING,
    "stopped": GONE,
    "terminated": GONE,
}


def money(text: Any) -> Decimal:
    """A fee, exactly as told. Refused where it is no number (a fee is text, never a float)."""
    try:
        amount = Decimal(str(text))
    except InvalidOperation:
        raise Refused("UpfrontFee", f"the fee '{text}' is not a number") from None
    if not amount.is_finite() or amount < 0:
        raise Refused("UpfrontFee", f"the fee '{text}' is not an amount")
    return amount


def tags_of(shape: Mapping[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag.get("Value", "") for tag in shape.get("Tags") or ()}


def offer(shape: Mapping[str, Any], gpus: int, platform: str, expires: float | None) -> Offer:
    """A CapacityBlockOffering. Its length is what its dates say, whatever hours were asked for."""
    parts = tuple(
        Segment(
            part.get("AvailabilityZone", ""),
            part["StartDate"].timestamp(),
            part["EndDate"].timestamp(),
            int(part.get("InstanceCount", 0)),
        )
        for part in shape.get("CapacityBlockOfferingSegments") or ()
    )
    return Offer(
        id=shape["CapacityBlockOfferingId"],
        provider=NAME,
        instance_type=shape.get("InstanceType", ""),
        nodes=int(shape.get("InstanceCount", 0)),
        gpus_per_node=gpus,
        zone=shape.get("AvailabilityZone", ""),
        start=shape["StartDate"].timestamp(),
        end=shape["EndDate"].timestamp(),
        fee=money(shape["UpfrontFee"]),
        currency=shape.get("CurrencyCode", ""),
        platform=platform,
        segments=parts if len(parts) > 1 else (),
        expires=expires,
    )


def extension_offer(shape: Mapping[str, Any], window: Window, expires: float | None) -> Offer:
    """A CapacityBlockExtensionOffering."""
    return Offer(
        id=shape["CapacityBlockExtensionOfferingId"],
        provider=NAME,
        instance_type=shape.get("InstanceType", window.instance_type),
        nodes=int(shape.get("InstanceCount", window.nodes)),
        gpus_per_node=window.gpus_per_node,
        zone=shape.get("AvailabilityZone", window.zone),
        start=shape["CapacityBlockExtensionStartDate"].timestamp(),
        end=shape["CapacityBlockExtensionEndDate"].timestamp(),
        fee=money(shape["UpfrontFee"]),
        currency=shape.get("CurrencyCode", window.currency),
        platform=window.platform,
        expires=expires,
        extends=window.id,
    )


def window(
    block: Mapping[str, Any], reservations: Sequence[Mapping[str, Any]], gpus_of: Mapping[str, int]
) -> Window:
    """A CapacityBlock with the reservations that belong to it."""
    tags = tags_of(block)
    for one in reservations:
        tags = {**tags_of(one), **tags}
    kind = next((one["InstanceType"] for one in reservations if one.get("InstanceType")), "")
    said = str(block.get("State", ""))
    fee = tags.get(FEE_TAG)
    return Window(
        id=block["CapacityBlockId"],
        reservations=tuple(
            block.get("CapacityReservationIds") or (one["CapacityReservationId"] for one in reservations)
        ),
        state=WINDOW_STATE.get(said, UNKNOWN),
        zone=block.get("AvailabilityZone") or next((one["AvailabilityZone"] for one in reservations), ""),
        start=block["StartDate"].timestamp(),
        end=block["EndDate"].timestamp(),
        nodes=sum(_size(one) for one in reservations),
        fee=None if fee is None else money(fee),
        currency=tags.get(CURRENCY_TAG, ""),
        tags=tags,
        instance_type=kind,
        platform=next((one.get("InstancePlatform", "") for one in reservations), ""),
        gpus_per_node=gpus_of.get(kind, 0),
        created=block["CreateDate"].timestamp() if block.get("CreateDate") else None,
        said=said,
    )


def _size(reservation: Mapping[str, Any]) -> int:
    bought = tags_of(reservation).get(SIZE_TAG, "")
    if bought.isdigit():
        return int(bought)
    return int(reservation.get("TotalInstanceCount") or 0)


def extension(shape: Mapping[str, Any], window: Window) -> Extension:
    """A CapacityBlockExtension."""
    said = str(shape.get("CapacityBlockExtensionStatus", ""))
    bought = shape.get("CapacityBlockExtensionPurchaseDate")
    return Extension(
        offer=shape.get("CapacityBlockExtensionOfferingId", ""),
        window=window.id,
        state=EXTENSION_STATE.get(said, UNKNOWN),
        start=shape["CapacityBlockExtensionStartDate"].timestamp(),
        end=shape["CapacityBlockExtensionEndDate"].timestamp(),
        fee=money(shape["UpfrontFee"]),
        currency=shape.get("CurrencyCode", ""),
        bought=bought.timestamp() if bought else None,
        said=said,
    )


def node(shape: Mapping[str, Any]) -> Node:
    """An Instance. It is reserved only where it says so itself: what was asked for proves nothing."""
    tags = tags_of(shape)
    reserved = shape.get("InstanceLifecycle") == BLOCK and bool(shape.get("CapacityReservationId"))
    said = str((shape.get("State") or {}).get("Name", ""))
    return Node(
        id=shape["InstanceId"],
        state=NODE_STATE.get(said, STOPPING),
        zone=(shape.get("Placement") or {}).get("AvailabilityZone", ""),
        window=shape.get("CapacityBlockId", "") if reserved else "",
        market=RESERVED if reserved else ON_DEMAND,
        token=tags.get(TOKEN_TAG) or shape.get("ClientToken", ""),
        launched=shape["LaunchTime"].timestamp(),
        tags=tags,
        reservation=shape.get("CapacityReservationId", ""),
        address=shape.get("PrivateIpAddress", ""),
    )
