"""What is for sale, and what was bought: the operations on capacity blocks and their reservations."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from tenure.providers.capability import capability
from tenure.providers.fake_ec2.behaviour import OPEN
from tenure.providers.fake_ec2.faults import Ec2Error
from tenure.providers.fake_ec2.pages import filtered, page
from tenure.providers.fake_ec2.things import Block, Offering
from tenure.providers.fake_ec2.world import CENT, DAY_S, Params, World

SOONEST_S, FURTHEST_S = 30 * 60.0, 56 * DAY_S
ENDS_AT_S = 11.5 * 3600  #: blocks end at 11:30 UTC
STEP_S = 600.0  #: starts fall on these
SHOWN = 10  #: offerings of the lattice in one answer


def describe_offerings(world: World, asked: Params, now: float) -> dict[str, Any]:
    """DescribeCapacityBlockOfferings."""
    if world.behaviour.quota == 0:
        raise Ec2Error("CapacityBlockDescribeLimitExceeded", "Your quota for capacity blocks is 0")
    kind, count = asked.get("InstanceType", ""), int(asked.get("InstanceCount", 1))
    hours = int(asked["CapacityDurationHours"])
    _known_kind(world, kind)
    _check_hours(hours, "CapacityDurationHours")
    earliest = max(_instant(asked.get("StartDateRange"), now), now + SOONEST_S)
    earliest = -(-earliest // STEP_S) * STEP_S
    latest = _instant(asked.get("EndDateRange"), now + FURTHEST_S + hours * 3600)
    found = [*_listed(world, kind, count, earliest, latest)]
    if world.behaviour.lattice and count <= world.behaviour.quota:
        found += _of_lattice(world, (kind, count, hours), earliest, latest)
    found.sort(key=lambda one: (one.start, one.zone, one.id))
    for one in found:
        one.told = now
        world.offerings[one.id] = one
    shapes = [one.shape(world.behaviour.currency) for one in found]
    return page(asked, "CapacityBlockOfferings", shapes)


def _known_kind(world: World, kind: str) -> None:
    if kind not in world.behaviour.kinds:
        raise Ec2Error("InvalidParameterValue", f"Instance type '{kind}' is not supported")


def _check_hours(hours: int, key: str) -> None:
    days = capability("aws").durations.in_days()
    if hours / 24 not in days:
        raise Ec2Error("InvalidParameterValue", f"The value ({hours}) for {key} is not valid")


def _instant(value: datetime | None, default: float) -> float:
    return default if value is None else value.timestamp()


def _listed(world: World, kind: str, count: int, earliest: float, latest: float) -> list[Offering]:
    found = []
    for place, told in enumerate(world.behaviour.listings, start=1):
        fits = told.nodes == count and told.instance_type == kind
        free = world.stock(told.zone, kind, told.start, told.end) >= told.nodes
        if fits and free and told.start >= earliest and told.end <= latest:
            name = f"cbo-listed{place:011d}"
            found.append(
                Offering(name, kind, told.zone, told.nodes, told.start, told.end, told.fee, 0.0, True)
            )
    return found


def _of_lattice(world: World, what: tuple[str, int, int], earliest: float, latest: float) -> list[Offering]:
    """Whole days to 11:30 UTC: the first begins as soon as asked for and is longer or shorter than asked."""
    kind, count, hours = what
    found: list[Offering] = []
    day_start = (earliest // DAY_S) * DAY_S + ENDS_AT_S
    starts = [earliest] + [day_start + day * DAY_S for day in range(int(FURTHEST_S // DAY_S))]
    for start in starts:
        if start < earliest or len(found) >= SHOWN:
            continue
        end = round((start + hours * 3600 - ENDS_AT_S) / DAY_S) * DAY_S + ENDS_AT_S
        for zone in world.zones:
            if end > latest or world.stock(zone, kind, start, end) < count:
                continue
            fee = _fee(world.behaviour.kinds[kind].block, count, end - start)
            known = _same(world, kind, zone, count, start, end)
            name = known or world.new_id("cbo")
            found.append(Offering(name, kind, zone, count, start, end, fee, 0.0))
    return found


def _same(world: World, kind: str, zone: str, count: int, start: float, end: float) -> str:
    wanted = (kind, zone, count, start, end)
    for one in world.offerings.values():
        if not one.block and (one.instance_type, one.zone, one.nodes, one.start, one.end) == wanted:
            return one.id
    return ""


def _fee(price: Decimal, count: int, length_s: float) -> Decimal:
    return (price * count * Decimal(repr(length_s)) / 3600).quantize(CENT)


def purchase(world: World, asked: Params, now: float) -> dict[str, Any]:
    """PurchaseCapacityBlock: no key makes two of them one."""
    offering = world.offerings.get(asked["CapacityBlockOfferingId"])
    if offering is None or offering.block or now > offering.told + world.behaviour.offer_lives_s:
        raise Ec2Error("InvalidCapacityBlockOfferingId.NotFound", "The capacity block offering is not found")
    if now > offering.end or world.stock(
        offering.zone, offering.instance_type, offering.start, offering.end
    ) < offering.nodes:  # fmt: skip
        raise Ec2Error("InsufficientCapacity", "The capacity block offering is no longer available")
    sold = any(block.offering.id == offering.id for block in world.blocks.values())
    if sold and not world.behaviour.sells_again:
        raise Ec2Error("InvalidCapacityBlockOfferingId.NotFound", "The capacity block offering was sold")
    tags = tags_for(asked, "capacity-block", "capacity-reservation")
    kept = tags if world.behaviour.keeps_tags else {}
    block = world.add_block(offering, asked["InstancePlatform"], kept, now)
    return {
        "CapacityReservation": block.reservation_shape(0),
        "CapacityBlocks": [block.shape()],
    }


def tags_for(asked: Params, *kinds: str) -> dict[str, str]:
    """Tags given for one of the kinds of resource."""
    return {
        tag["Key"]: tag.get("Value", "")
        for told in asked.get("TagSpecifications", ())
        if told.get("ResourceType") in kinds
        for tag in told.get("Tags", ())
    }


def _shown(world: World, now: float) -> list[Block]:
    return [block for block in world.blocks.values() if not world.hidden(block.created, block, now)]


def _named(blocks: list[Block], wanted: list[str] | None, field: str, code: str) -> list[Block]:
    """Those whose `field` was asked for by name, all where nothing was; EC2 refuses a name that it lacks."""
    if wanted is None:
        return blocks
    found = {getattr(block, field): block for block in blocks}
    missing = [one for one in wanted if one not in found]
    if missing:
        raise Ec2Error(f"{code}.NotFound", f"The ID {missing[0]} is not found")
    return [block for block in blocks if getattr(block, field) in wanted]


def describe_blocks(world: World, asked: Params, now: float) -> dict[str, Any]:
    """DescribeCapacityBlocks."""
    blocks = _named(_shown(world, now), asked.get("CapacityBlockIds"), "id", "InvalidCapacityBlockId")
    shapes = [block.shape() for block in blocks]
    names = {
        "capacity-block-id": "CapacityBlockId",
        "availability-zone": "AvailabilityZone",
        "state": "State",
    }
    return page(asked, "CapacityBlocks", filtered(asked, shapes, names))


def describe_status(world: World, asked: Params, now: float) -> dict[str, Any]:
    """DescribeCapacityBlockStatus."""
    wanted = asked.get("CapacityBlockIds")
    shapes = []
    for block in world.blocks.values():
        if wanted is not None and block.id not in wanted:
            continue
        told = {
            "TotalCapacity": block.nodes,
            "TotalAvailableCapacity": world.free_places(block),
            "TotalUnavailableCapacity": block.broken,
        }
        by_reservation = [{"CapacityReservationId": block.reservation, **told}]
        shapes.append(
            {
                "CapacityBlockId": block.id,
                "InterconnectStatus": block.interconnect,
                **told,
                "CapacityReservationStatuses": by_reservation,
            }
        )
    return page(asked, "CapacityBlockStatuses", shapes)


def describe_reservations(world: World, asked: Params, now: float) -> dict[str, Any]:
    """DescribeCapacityReservations."""
    asked_for = asked.get("CapacityReservationIds")
    blocks = _named(_shown(world, now), asked_for, "reservation", "InvalidCapacityReservationId")
    shapes = [block.reservation_shape(world.free_places(block)) for block in blocks]
    names = {
        "instance-type": "InstanceType",
        "availability-zone": "AvailabilityZone",
        "state": "State",
    }
    return page(asked, "CapacityReservations", filtered(asked, shapes, names))


def _reserved(world: World, asked: Params) -> Block:
    block = world.block_of(asked["CapacityReservationId"])
    if block is None:
        raise Ec2Error("InvalidCapacityReservationId.NotFound", "The capacity reservation is not found")
    return block


def describe_extension_offerings(world: World, asked: Params, now: float) -> dict[str, Any]:
    """DescribeCapacityBlockExtensionOfferings: none while the zone is tight or too late."""
    block, hours = _reserved(world, asked), int(asked["CapacityBlockExtensionDurationHours"])
    _check_hours(hours, "CapacityBlockExtensionDurationHours")
    if _extendable(world, block, now) is not None:
        return page(asked, "CapacityBlockExtensionOfferings", [])
    zone, end = block.offering.zone, block.end + hours * 3600
    most_s = (capability("aws").extend.most_days or 182) * DAY_S
    offered = world.zones[zone].extensions and world.regime(zone, now) == OPEN
    if not offered or end - block.start > most_s + DAY_S:
        return page(asked, "CapacityBlockExtensionOfferings", [])
    kind = block.offering.instance_type
    if world.stock(zone, kind, block.end, end) < block.nodes:
        return page(asked, "CapacityBlockExtensionOfferings", [])
    fee = _fee(world.behaviour.kinds[kind].extension, block.nodes, end - block.end)
    name = world.new_id("cbeo")
    offering = Offering(name, kind, zone, block.nodes, block.end, end, fee, now, False, block.id)
    world.offerings[name] = offering
    shape = offering.extension_shape(world.behaviour.currency, block)
    return page(asked, "CapacityBlockExtensionOfferings", [shape])


def _extendable(world: World, block: Block, now: float) -> str | None:
    """Why a block cannot be extended now; None where it can."""
    if block.state not in ("active", "scheduled"):
        return f"The capacity block is {block.state}"
    if any(one.state == "payment-pending" for one in block.extensions):
        return "The capacity block has an extension whose payment is pending"
    if now > block.end - 3600:
        return "The capacity block ends in less than an hour"
    return None


def purchase_extension(world: World, asked: Params, now: float) -> dict[str, Any]:
    """PurchaseCapacityBlockExtension: no key either."""
    block = _reserved(world, asked)
    offering = world.offerings.get(asked["CapacityBlockExtensionOfferingId"])
    if offering is None or offering.block != block.id:
        raise Ec2Error("InvalidCapacityBlockExtensionOfferingId.NotFound", "The offering is not found")
    if offering.start != block.end or now > offering.told + world.behaviour.offer_lives_s:
        raise Ec2Error("InvalidCapacityBlockExtensionOfferingId.NotFound", "The offering is no longer good")
    wrong = _extendable(world, block, now)
    if wrong is not None and not (world.behaviour.sells_again and "pending" in wrong):
        raise Ec2Error("InvalidCapacityBlockState", wrong)
    if world.stock(offering.zone, offering.instance_type, offering.start, offering.end) < offering.nodes:
        raise Ec2Error("InsufficientCapacity", "The extension is no longer available")
    extension = world.add_extension(block, offering, now)
    return {"CapacityBlockExtensions": [extension.shape(world.behaviour.currency)]}


def describe_extension_history(world: World, asked: Params, now: float) -> dict[str, Any]:
    """DescribeCapacityBlockExtensionHistory."""
    wanted = asked.get("CapacityReservationIds")
    shapes = [
        one.shape(world.behaviour.currency)
        for block in world.blocks.values()
        if wanted is None or block.reservation in wanted
        for one in block.extensions
        if not world.hidden(one.bought, one, now)
    ]
    return page(asked, "CapacityBlockExtensions", shapes)
