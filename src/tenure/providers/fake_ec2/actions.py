"""What can this cloud be asked? Every call: counted, perhaps spoiled, done, and shown as the model has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tenure.providers.fake_ec2 import blocks, machines
from tenure.providers.fake_ec2.faults import AFTER, BEFORE, Ec2Error, raise_for
from tenure.providers.fake_ec2.world import Params, World

ACTIONS: dict[str, Callable[[World, Params, float], dict[str, Any]]] = {
    "DescribeCapacityBlockOfferings": blocks.describe_offerings,
    "PurchaseCapacityBlock": blocks.purchase,
    "DescribeCapacityBlocks": blocks.describe_blocks,
    "DescribeCapacityBlockStatus": blocks.describe_status,
    "DescribeCapacityBlockExtensionOfferings": blocks.describe_extension_offerings,
    "PurchaseCapacityBlockExtension": blocks.purchase_extension,
    "DescribeCapacityBlockExtensionHistory": blocks.describe_extension_history,
    "DescribeCapacityReservations": blocks.describe_reservations,
    "RunInstances": machines.run_instances,
    "DescribeInstances": machines.describe_instances,
    "DescribeInstanceStatus": machines.describe_instance_status,
    "TerminateInstances": machines.terminate_instances,
    "CreateTags": machines.create_tags,
    "DescribeTags": machines.describe_tags,
    "DescribeSubnets": machines.describe_subnets,
    "DescribeInstanceTypes": machines.describe_types,
    "DescribeImages": machines.describe_images,
}


def call(world: World, action: str, asked: Params) -> dict[str, Any]:
    """The answer of one call that arrived. Raises Ec2Error, or NoAnswer where nothing comes back."""
    with world.at_once() as now:
        world.sends[action] += 1
        number = world.sends[action]
        if action not in ACTIONS:
            raise Ec2Error("InvalidAction", f"The action {action} is not valid for this web service")
        fault = world.faults.of(action, number)
        if fault in BEFORE:
            raise_for(fault)
        refusal = world.faults.refusal(action, number)
        if refusal is not None:
            raise Ec2Error(*refusal)
        if asked.get("DryRun"):
            raise Ec2Error("DryRunOperation", "Request would have succeeded, but DryRun flag is set", 412)
        answer = ACTIONS[action](world, asked, now)
        if fault in AFTER:
            raise_for(fault)
        return answer
