"""Launching, showing and ending instances, and the little they need to know of subnets, types and images."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from tenure.providers.fake_ec2.behaviour import OPEN
from tenure.providers.fake_ec2.blocks import tags_for
from tenure.providers.fake_ec2.faults import Ec2Error
from tenure.providers.fake_ec2.pages import filtered, page
from tenure.providers.fake_ec2.things import RUNNING, STATE_CODES, Block, Instance, tag_list
from tenure.providers.fake_ec2.world import Params, World

LINUX = "Linux/UNIX"
SHORT = "We currently do not have sufficient capacity in the Availability Zone you requested"


def run_instances(world: World, asked: Params, now: float) -> dict[str, Any]:
    """RunInstances: all of MinCount or none; a token launches once."""
    token = asked.get("ClientToken", "")
    what = json.dumps({key: asked[key] for key in sorted(asked) if key != "ClientToken"}, default=str)
    if token in world.launches:
        before, ids = world.launches[token]
        if before != what:
            raise Ec2Error("IdempotentParameterMismatch", "The token was used with other parameters")
        return _launched(world, [world.instances[one] for one in ids if one in world.instances])
    kind = asked.get("InstanceType", "")
    if kind not in world.behaviour.kinds:
        raise Ec2Error("InvalidParameterValue", f"Invalid value '{kind}' for InstanceType")
    least, most = int(asked["MinCount"]), int(asked["MaxCount"])
    if not 1 <= least <= most:
        raise Ec2Error("InvalidParameterValue", "MinCount must be from 1 to MaxCount")
    zone = _zone(world, asked)
    target = (asked.get("CapacityReservationSpecification") or {}).get("CapacityReservationTarget") or {}
    reservation = target.get("CapacityReservationId", "")
    is_block = (asked.get("InstanceMarketOptions") or {}).get("MarketType") == "capacity-block"
    if reservation:
        block = _target(world, asked, reservation, zone, is_block)
        number = _from_block(world, block, least, most)
        missed = world.misses > 0
        world.misses -= int(missed)
        made = _make(world, asked, zone, number, "" if missed else block.id, now)
    else:
        made = _make(world, asked, zone, _from_market(world, zone, least, most, now), "", now)
    if token:
        world.launches[token] = (what, [one.id for one in made])
    return _launched(world, made)


def _zone(world: World, asked: Params) -> str:
    subnet = asked.get("SubnetId", "")
    for faces in asked.get("NetworkInterfaces", ()):
        subnet = subnet or faces.get("SubnetId", "")
    if subnet:
        for zone in world.zones.values():
            if zone.subnet_id == subnet:
                return zone.name
        raise Ec2Error("InvalidSubnetID.NotFound", f"The subnet ID '{subnet}' does not exist")
    place = str((asked.get("Placement") or {}).get("AvailabilityZone") or next(iter(world.zones)))
    if place not in world.zones:
        raise Ec2Error("InvalidParameterValue", f"Invalid availability zone: [{place}]")
    return place


def _target(world: World, asked: Params, reservation: str, zone: str, is_block: bool) -> Block:
    block = world.block_of(reservation)
    if block is None:
        raise Ec2Error("InvalidCapacityReservationId.NotFound", f"The ID {reservation} is not found")
    if not is_block:
        raise Ec2Error("InsufficientInstanceCapacity", f"{SHORT}: the market type is missing", 500)
    if (asked.get("Placement") or {}).get("GroupName"):
        raise Ec2Error("InvalidParameterCombination", "A capacity block takes no placement group")
    wrong = {
        "availability zone": (zone, block.offering.zone),
        "instance type": (asked["InstanceType"], block.offering.instance_type),
        "platform": (world.behaviour.images.get(asked.get("ImageId", ""), LINUX), block.platform),
    }
    for what, (mine, theirs) in wrong.items():
        if mine != theirs:
            raise Ec2Error(
                "InvalidParameterValue",
                f"The {what} '{mine}' does not match that of the reservation, '{theirs}'",
            )
    if block.state != "active":
        raise Ec2Error("InvalidCapacityReservationState", f"The capacity reservation is {block.state}")
    return block


def _from_block(world: World, block: Block, least: int, most: int) -> int:
    free = world.free_places(block)
    if free < least:
        raise Ec2Error(
            "ReservationCapacityExceeded",
            f"The reservation {block.reservation} has room for {free} of {least} instances",
        )
    return min(free, most)


def _from_market(world: World, zone: str, least: int, most: int, now: float) -> int:
    number = world.number("launch")
    got = 0
    if world.regime(zone, now) == OPEN:
        drawn = np.random.default_rng([world.behaviour.seed, 13, number])
        got = int(drawn.binomial(most, world.zones[zone].success))
    if got < least:
        raise Ec2Error("InsufficientInstanceCapacity", f"{SHORT} ({zone})", 500)
    return got


def _make(world: World, asked: Params, zone: str, number: int, block: str, now: float) -> list[Instance]:
    made = []
    reservation = world.new_id("r")
    for _ in range(number):
        name = world.new_id("i")
        instance = Instance(
            id=name,
            number=int(name.split("-")[1], 16),
            kind=asked["InstanceType"],
            zone=zone,
            subnet=world.zones[zone].subnet_id,
            image=asked.get("ImageId", ""),
            launched=now,
            token=asked.get("ClientToken", ""),
            tags=tags_for(asked, "instance"),
            reservation_id=reservation,
            block=block,
        )
        world.add_instance(instance)
        made.append(instance)
    return made


def _launched(world: World, made: list[Instance]) -> dict[str, Any]:
    return {
        "ReservationId": made[0].reservation_id if made else "",
        "OwnerId": "000000000000",
        "Instances": [_shape(world, one) for one in made],
    }


def _shape(world: World, instance: Instance) -> dict[str, Any]:
    block = world.blocks.get(instance.block)
    return instance.shape(block.reservation if block else "")


def describe_instances(world: World, asked: Params, now: float) -> dict[str, Any]:
    """DescribeInstances, one launch a reservation."""
    wanted = asked.get("InstanceIds")
    shown = [
        one
        for one in world.instances.values()
        if (wanted is None or one.id in wanted) and not world.hidden(one.launched, one, now)
    ]
    if wanted is not None and len(shown) < len(wanted):
        missing = sorted(set(wanted) - {one.id for one in shown})
        raise Ec2Error("InvalidInstanceID.NotFound", f"The instance IDs '{', '.join(missing)}' do not exist")
    names = {
        "instance-state-name": "State.Name",
        "instance-type": "InstanceType",
        "availability-zone": "Placement.AvailabilityZone",
        "client-token": "ClientToken",
        "capacity-reservation-id": "CapacityReservationId",
    }
    by_launch: dict[str, list[dict[str, Any]]] = {}
    launch_of = {one.id: one.reservation_id for one in shown}
    for shape in filtered(asked, [_shape(world, one) for one in shown], names):
        by_launch.setdefault(launch_of[shape["InstanceId"]], []).append(shape)
    launches = [
        {"ReservationId": name, "OwnerId": "000000000000", "Instances": shapes}
        for name, shapes in by_launch.items()
    ]
    return page(asked, "Reservations", launches)


def terminate_instances(world: World, asked: Params, now: float) -> dict[str, Any]:
    """TerminateInstances; those gone for long are not found, and then none is ended."""
    ids = asked["InstanceIds"]
    missing = [one for one in ids if one not in world.instances]
    if missing:
        raise Ec2Error("InvalidInstanceID.NotFound", f"The instance ID '{missing[0]}' does not exist")
    told = []
    for name in ids:
        instance = world.instances[name]
        before = instance.state
        world.stop(instance, now, "Client.UserInitiatedShutdown")
        told.append(
            {
                "InstanceId": name,
                "PreviousState": {"Code": STATE_CODES[before], "Name": before},
                "CurrentState": {"Code": STATE_CODES[instance.state], "Name": instance.state},
            }
        )
    return {"TerminatingInstances": told}


def create_tags(world: World, asked: Params, now: float) -> dict[str, Any]:
    """CreateTags."""
    for resource in asked["Resources"]:
        world.tags_of(resource).update({tag["Key"]: tag.get("Value", "") for tag in asked["Tags"]})
    return {}


def describe_tags(world: World, asked: Params, now: float) -> dict[str, Any]:
    """DescribeTags."""
    things = [(one.id, "capacity-block", one.tags) for one in world.blocks.values()]
    things += [(one.id, "instance", one.tags) for one in world.instances.values()]
    shapes = [
        {"ResourceId": name, "ResourceType": kind, **tag}
        for name, kind, tags in things
        for tag in tag_list(tags)
    ]
    names = {"resource-id": "ResourceId", "resource-type": "ResourceType", "key": "Key", "value": "Value"}
    return page(asked, "Tags", filtered(asked, shapes, names))


def describe_instance_status(world: World, asked: Params, now: float) -> dict[str, Any]:
    """DescribeInstanceStatus: of running ones."""
    wanted = asked.get("InstanceIds")
    shapes = []
    for one in world.instances.values():
        if one.state == RUNNING and (wanted is None or one.id in wanted):
            word = {"Status": "impaired" if one.impaired else "ok"}
            shapes.append(
                {
                    "InstanceId": one.id,
                    "AvailabilityZone": one.zone,
                    "InstanceState": {"Code": STATE_CODES[one.state], "Name": one.state},
                    "InstanceStatus": word,
                    "SystemStatus": word,
                }
            )
    names = {
        "instance-status.status": "InstanceStatus.Status",
        "system-status.status": "SystemStatus.Status",
    }
    return page(asked, "InstanceStatuses", filtered(asked, shapes, names))


def describe_subnets(world: World, asked: Params, now: float) -> dict[str, Any]:
    """DescribeSubnets."""
    wanted = asked.get("SubnetIds")
    shapes = [
        {"SubnetId": zone.subnet_id, "AvailabilityZone": zone.name, "State": "available"}
        for zone in world.zones.values()
        if wanted is None or zone.subnet_id in wanted
    ]
    if wanted is not None and len(shapes) < len(wanted):
        raise Ec2Error("InvalidSubnetID.NotFound", f"The subnet IDs '{', '.join(wanted)}' do not exist")
    return page(asked, "Subnets", shapes)


def describe_types(world: World, asked: Params, now: float) -> dict[str, Any]:
    """DescribeInstanceTypes."""
    kinds = world.behaviour.kinds
    wanted = asked.get("InstanceTypes") or list(kinds)
    shapes = [
        {"InstanceType": name, "GpuInfo": {"Gpus": [{"Count": kinds[name].gpus}]}}
        for name in wanted
        if name in kinds
    ]
    if len(shapes) < len(wanted):
        raise Ec2Error("InvalidInstanceType", f"The following instance types do not exist: {wanted}")
    return page(asked, "InstanceTypes", shapes)


def describe_images(world: World, asked: Params, now: float) -> dict[str, Any]:
    """DescribeImages: every id is there."""
    wanted = asked.get("ImageIds") or list(world.behaviour.images)
    shapes = [
        {"ImageId": name, "State": "available", "PlatformDetails": world.behaviour.images.get(name, LINUX)}
        for name in wanted
    ]
    return page(asked, "Images", shapes)
