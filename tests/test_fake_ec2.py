"""The cloud of rehearsals: its answers are those of botocore's own model, its rules those of the record."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import boto3
import botocore.exceptions
import botocore.session
import pytest
from botocore.config import Config
from botocore.validate import ParamValidator

from buying_world import KIND, NOW
from tenure.engines.clock import ChosenClock
from tenure.providers.fake_ec2 import Behaviour, Direct, Faults, Listing, Regime, Server, World, Zone
from tenure.providers.fake_ec2.actions import ACTIONS, call
from tenure.providers.fake_ec2.wire import answer, parse

MODEL = botocore.session.get_session().get_service_model("ec2")
SEVEN = [
    "DescribeCapacityBlockOfferings",
    "PurchaseCapacityBlock",
    "DescribeCapacityBlocks",
    "DescribeCapacityBlockStatus",
    "DescribeCapacityBlockExtensionOfferings",
    "PurchaseCapacityBlockExtension",
    "DescribeCapacityBlockExtensionHistory",
]
CLOSED = (botocore.exceptions.ConnectionClosedError, botocore.exceptions.HTTPClientError)


def day(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


def world_of(**behaviour: Any) -> World:
    return World(Behaviour(**behaviour), ChosenClock(NOW))


def move(world: World, seconds: float) -> None:
    clock: Any = world.clock
    clock.wait(seconds)


def client_of(server: Server, **config: Any) -> Any:
    told = {"retries": {"total_max_attempts": 1}, "read_timeout": 0.3, **config}
    return boto3.client(
        "ec2",
        "us-east-1",
        endpoint_url=server.url,
        aws_access_key_id="a",
        aws_secret_access_key="b",
        config=Config(**told),
    )


@pytest.fixture
def cloud() -> Iterator[tuple[World, Any]]:
    world = world_of()
    with Server(world, hang_s=0.6) as server:
        client = client_of(server)
        yield world, client
        client.close()


def offering(client: Any, nodes: int = 4, hours: int = 48) -> dict[str, Any]:
    told = client.describe_capacity_block_offerings(
        InstanceType=KIND, InstanceCount=nodes, CapacityDurationHours=hours
    )
    found: dict[str, Any] = told["CapacityBlockOfferings"][0]
    return found


def active_block(world: World, client: Any, nodes: int = 4) -> dict[str, Any]:
    offer = offering(client, nodes)
    bought = client.purchase_capacity_block(
        CapacityBlockOfferingId=offer["CapacityBlockOfferingId"], InstancePlatform="Linux/UNIX"
    )
    clock: Any = world.clock
    clock.set(max(offer["StartDate"].timestamp(), world.clock.now() + 100.0))
    reservation: dict[str, Any] = bought["CapacityReservation"]
    return reservation


def into(reservation: dict[str, Any], count: int, **more: Any) -> dict[str, Any]:
    target = {"CapacityReservationId": reservation["CapacityReservationId"]}
    zone = reservation["AvailabilityZone"]
    return {
        "ImageId": "ami-1",
        "InstanceType": KIND,
        "MinCount": count,
        "MaxCount": count,
        "SubnetId": f"subnet-{zone}",
        "InstanceMarketOptions": {"MarketType": "capacity-block"},
        "CapacityReservationSpecification": {"CapacityReservationTarget": target},
        **more,
    }


def code_of(caught: Any) -> str:
    return str(caught.value.response["Error"]["Code"])


def everything(world: World) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """(asked, answered) of every action, in a history where each has something to say."""
    client = Direct(world)
    said: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}

    def ask(action: str, **asked: Any) -> dict[str, Any]:
        said[action] = (asked, call(world, action, asked))
        return said[action][1]

    ask(
        "DescribeCapacityBlockOfferings",
        InstanceType=KIND,
        InstanceCount=4,
        CapacityDurationHours=48,
        StartDateRange=day(NOW),
        EndDateRange=day(NOW + 30 * 86400),
    )
    offer = offering(client)["CapacityBlockOfferingId"]
    tags = [{"ResourceType": "capacity-block", "Tags": [{"Key": "a", "Value": "<b> & c"}]}]
    bought = ask(
        "PurchaseCapacityBlock",
        CapacityBlockOfferingId=offer,
        InstancePlatform="Linux/UNIX",
        TagSpecifications=tags,
    )
    move(world, 3600.0)
    reservation = bought["CapacityReservation"]["CapacityReservationId"]
    ask("DescribeCapacityBlocks")
    ask("DescribeCapacityBlockStatus")
    ask("DescribeCapacityReservations", CapacityReservationIds=[reservation])
    more = ask(
        "DescribeCapacityBlockExtensionOfferings",
        CapacityReservationId=reservation,
        CapacityBlockExtensionDurationHours=24,
    )["CapacityBlockExtensionOfferings"][0]
    ask(
        "PurchaseCapacityBlockExtension",
        CapacityReservationId=reservation,
        CapacityBlockExtensionOfferingId=more["CapacityBlockExtensionOfferingId"],
    )
    ask("DescribeCapacityBlockExtensionHistory", CapacityReservationIds=[reservation])
    run = into(bought["CapacityReservation"], 2, ClientToken="t")
    made = ask("RunInstances", **run)["Instances"]
    ask("DescribeInstances", Filters=[{"Name": "client-token", "Values": ["t"]}])
    ids = [one["InstanceId"] for one in made]
    move(world, 300.0)
    ask("DescribeInstanceStatus", InstanceIds=ids)
    ask("CreateTags", Resources=ids, Tags=[{"Key": "k", "Value": "v"}])
    ask("DescribeTags", Filters=[{"Name": "key", "Values": ["k"]}])
    ask("TerminateInstances", InstanceIds=ids)
    ask("DescribeSubnets", SubnetIds=["subnet-us-east-1a"])
    ask("DescribeInstanceTypes", InstanceTypes=[KIND])
    ask("DescribeImages", ImageIds=["ami-1"])
    return said


def test_all_seven_operations_on_capacity_blocks_are_there() -> None:
    assert set(SEVEN) <= set(ACTIONS)
    assert set(ACTIONS) <= set(MODEL.operation_names)


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_what_is_answered_has_members_and_types_of_botocores_own_model(action: str) -> None:
    asked, answered = everything(world_of())[action]
    operation = MODEL.operation_model(action)
    assert not ParamValidator().validate(asked, operation.input_shape).has_errors()
    if operation.output_shape is None:
        assert answered == {}
        return
    report = ParamValidator().validate(answered, operation.output_shape)
    assert not report.has_errors(), report.generate_report()
    unknown = [name for name in answered if name not in operation.output_shape.members]
    assert not unknown, f"not in the model: {unknown}"
    assert any(answered.values()), "nothing was answered"


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_what_is_answered_comes_back_from_the_wire_as_it_was(action: str) -> None:
    """Written as XML here, read by botocore's own parser, and the form the other way."""
    from botocore.parsers import create_parser
    from botocore.serialize import create_serializer

    asked, answered = everything(world_of())[action]
    operation = MODEL.operation_model(action)
    form = create_serializer("ec2").serialize_to_request(asked, operation)["body"]
    from urllib.parse import urlencode

    body = form if isinstance(form, str) else urlencode(form)
    name, back = parse(body)
    assert name == action
    assert back == asked
    if operation.output_shape is None:
        return
    told = {"status_code": 200, "headers": {}, "body": answer(action, answered)}
    parsed = create_parser("ec2").parse(told, operation.output_shape)
    parsed.pop("ResponseMetadata")
    assert parsed == answered


def test_a_window_goes_from_payment_through_its_start_to_its_end(cloud: tuple[World, Any]) -> None:
    world, client = cloud
    clock: Any = world.clock
    offer = offering(client)
    client.purchase_capacity_block(
        CapacityBlockOfferingId=offer["CapacityBlockOfferingId"], InstancePlatform="Linux/UNIX"
    )

    def state() -> tuple[str, int, int]:
        (block,) = client.describe_capacity_blocks()["CapacityBlocks"]
        (held,) = client.describe_capacity_reservations()["CapacityReservations"]
        assert block["State"] == held["State"]
        return block["State"], held["TotalInstanceCount"], held["AvailableInstanceCount"]

    start, end = offer["StartDate"].timestamp(), offer["EndDate"].timestamp()
    assert state() == ("payment-pending", 0, 0)
    clock.set(NOW + 60.0)
    assert state() == ("scheduled", 0, 0)
    clock.set(start)
    assert state() == ("active", 4, 4)
    clock.set(end - 1)
    assert state()[0] == "active"
    clock.set(end)
    assert state()[0] == "expired"
    assert world.bill().blocks == Decimal(offer["UpfrontFee"])


def test_a_payment_that_fails_costs_nothing_and_gives_its_nodes_back() -> None:
    world = world_of(payment_fails=True)
    client = Direct(world)
    active_block(world, client, 64)
    (block,) = client.describe_capacity_blocks()["CapacityBlocks"]
    assert block["State"] == "payment-failed"
    assert world.bill().total == 0
    assert offering(client, 64)["InstanceCount"] == 64


def test_machines_of_a_window_are_taken_down_half_an_hour_before_its_end(cloud: tuple[World, Any]) -> None:
    world, client = cloud
    reservation = active_block(world, client)
    clock: Any = world.clock
    client.run_instances(**into(reservation, 4))
    clock.set(reservation["EndDate"].timestamp() - 1801)
    assert len(world.alive()) == 4
    clock.set(reservation["EndDate"].timestamp() - 1800)
    assert world.alive() == []


def test_an_offer_ends_at_half_past_eleven_and_is_as_long_as_its_dates_say(cloud: tuple[World, Any]) -> None:
    _, client = cloud
    offer = offering(client, hours=48)
    assert (offer["EndDate"].hour, offer["EndDate"].minute) == (11, 30)
    minutes = offer["CapacityBlockDurationHours"] * 60 + offer["CapacityBlockDurationMinutes"]
    assert (offer["EndDate"] - offer["StartDate"]).total_seconds() == minutes * 60
    assert minutes != 48 * 60


@pytest.mark.parametrize("hours", [6, 12, 25, 15 * 24, 20 * 24])
def test_lengths_that_are_not_sold_are_refused(hours: int, cloud: tuple[World, Any]) -> None:
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        offering(cloud[1], hours=hours)
    assert code_of(caught) == "InvalidParameterValue"


def test_a_quota_of_nothing_refuses_to_describe() -> None:
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        offering(Direct(world_of(quota=0)))
    assert code_of(caught) == "CapacityBlockDescribeLimitExceeded"


def test_a_launch_needs_market_type_and_reservation(cloud: tuple[World, Any]) -> None:
    world, client = cloud
    reservation = active_block(world, client)
    whole = into(reservation, 1)
    (made,) = client.run_instances(**whole)["Instances"]
    assert made["InstanceLifecycle"] == "capacity-block"
    assert made["CapacityReservationId"] == reservation["CapacityReservationId"]
    without_market = {key: value for key, value in whole.items() if key != "InstanceMarketOptions"}
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        client.run_instances(**without_market)
    assert code_of(caught) == "InsufficientInstanceCapacity"
    without_target = {key: value for key, value in whole.items() if key != "CapacityReservationSpecification"}
    (missed,) = client.run_instances(**without_target)["Instances"]
    assert "InstanceLifecycle" not in missed
    move(world, 3600.0)
    assert world.bill().on_demand == Decimal("100.00")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"Placement": {"GroupName": "g"}}, "InvalidParameterCombination"),
        ({"SubnetId": "subnet-us-east-1b"}, "InvalidParameterValue"),
        ({"SubnetId": "subnet-nowhere"}, "InvalidSubnetID.NotFound"),
        ({"MinCount": 5, "MaxCount": 5}, "ReservationCapacityExceeded"),
        ({"InstanceType": "t3.nano"}, "InvalidParameterValue"),
    ],
)
def test_a_launch_that_does_not_fit_the_window_launches_nothing(
    change: dict[str, Any], code: str, cloud: tuple[World, Any]
) -> None:
    world, client = cloud
    reservation = active_block(world, client)
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        client.run_instances(**{**into(reservation, 4), **change})
    assert code_of(caught) == code
    assert world.alive() == []


def test_a_token_launches_once_and_with_one_meaning(cloud: tuple[World, Any]) -> None:
    world, client = cloud
    reservation = active_block(world, client)
    first = client.run_instances(**into(reservation, 2, ClientToken="t"))["Instances"]
    again = client.run_instances(**into(reservation, 2, ClientToken="t"))["Instances"]
    assert [one["InstanceId"] for one in again] == [one["InstanceId"] for one in first]
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        client.run_instances(**into(reservation, 1, ClientToken="t"))
    assert code_of(caught) == "IdempotentParameterMismatch"
    assert len(world.alive()) == 2


def test_the_place_of_a_terminated_machine_is_free_minutes_later(cloud: tuple[World, Any]) -> None:
    world, client = cloud
    reservation = active_block(world, client)
    made = client.run_instances(**into(reservation, 4))["Instances"]
    client.terminate_instances(InstanceIds=[made[0]["InstanceId"]])
    with pytest.raises(botocore.exceptions.ClientError):
        client.run_instances(**into(reservation, 1))
    move(world, 60.0 + 299.0)
    with pytest.raises(botocore.exceptions.ClientError):
        client.run_instances(**into(reservation, 1))
    move(world, 1.0)
    assert len(client.run_instances(**into(reservation, 1))["Instances"]) == 1


def test_a_tight_zone_has_nothing_on_demand_and_no_extension() -> None:
    tight_from = NOW + 7200.0
    world = world_of(zones=(Zone("a", regimes=(Regime(tight_from, "tight"),)),))
    client = Direct(world)
    reservation = active_block(world, client)
    asked = {"ImageId": "ami-1", "InstanceType": KIND, "MinCount": 1, "MaxCount": 1}
    more = {
        "CapacityReservationId": reservation["CapacityReservationId"],
        "CapacityBlockExtensionDurationHours": 24,
    }
    key = "CapacityBlockExtensionOfferings"
    assert client.run_instances(**asked)["Instances"]
    assert client.describe_capacity_block_extension_offerings(**more)[key]
    clock: Any = world.clock
    clock.set(tight_from)
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        client.run_instances(**asked)
    assert code_of(caught) == "InsufficientInstanceCapacity"
    assert client.describe_capacity_block_extension_offerings(**more)[key] == []


def test_an_extension_is_had_until_an_hour_before_the_end_and_counts_once_it_is_paid() -> None:
    world = world_of(extension_payment_s=600.0)
    client = Direct(world)
    reservation = active_block(world, client)
    clock: Any = world.clock
    end = reservation["EndDate"].timestamp()
    more = {
        "CapacityReservationId": reservation["CapacityReservationId"],
        "CapacityBlockExtensionDurationHours": 24,
    }
    key = "CapacityBlockExtensionOfferings"
    clock.set(end - 3599)
    assert client.describe_capacity_block_extension_offerings(**more)[key] == []
    clock.set(end - 3601)
    (offer,) = client.describe_capacity_block_extension_offerings(**more)[key]
    client.purchase_capacity_block_extension(
        CapacityReservationId=reservation["CapacityReservationId"],
        CapacityBlockExtensionOfferingId=offer["CapacityBlockExtensionOfferingId"],
    )

    def block_end() -> float:
        return float(client.describe_capacity_blocks()["CapacityBlocks"][0]["EndDate"].timestamp())

    assert block_end() == end
    move(world, 600.0)
    assert block_end() == end + 86400
    clock.set(end)
    assert client.describe_capacity_blocks()["CapacityBlocks"][0]["State"] == "active"
    assert world.bill().extensions == Decimal(offer["UpfrontFee"])


def test_an_extension_whose_payment_comes_too_late_fails_and_the_end_stays() -> None:
    world = world_of(extension_payment_s=7200.0)
    client = Direct(world)
    reservation = active_block(world, client)
    clock: Any = world.clock
    end = reservation["EndDate"].timestamp()
    clock.set(end - 4000)
    name = reservation["CapacityReservationId"]
    (offer,) = client.describe_capacity_block_extension_offerings(
        CapacityReservationId=name, CapacityBlockExtensionDurationHours=24
    )["CapacityBlockExtensionOfferings"]
    client.purchase_capacity_block_extension(
        CapacityReservationId=name,
        CapacityBlockExtensionOfferingId=offer["CapacityBlockExtensionOfferingId"],
    )
    clock.set(end - 35 * 60)
    (history,) = client.describe_capacity_block_extension_history()["CapacityBlockExtensions"]
    assert history["CapacityBlockExtensionStatus"] == "payment-failed"
    clock.set(end)
    assert client.describe_capacity_blocks()["CapacityBlocks"][0]["State"] == "expired"
    assert world.bill().extensions == 0


def test_machines_fail_at_the_rate_that_was_asked_for() -> None:
    world = world_of(failures_per_node_day=0.5)
    client = Direct(world)
    client.run_instances(ImageId="ami-1", InstanceType=KIND, MinCount=1000, MaxCount=1000)
    move(world, 86400.0)
    alive = len(world.alive())
    expected = 1000 * 2.718281828**-0.5
    assert abs(alive - expected) < 4 * (expected * (1 - expected / 1000)) ** 0.5


def test_pages_hold_everything_once(cloud: tuple[World, Any]) -> None:
    world, client = cloud
    for _ in range(3):
        offer = offering(client, 2)
        for _ in range(2):
            client.purchase_capacity_block(
                CapacityBlockOfferingId=offer["CapacityBlockOfferingId"], InstancePlatform="Linux/UNIX"
            )
    pages = list(client.get_paginator("describe_capacity_blocks").paginate(PaginationConfig={"PageSize": 4}))
    assert [len(page["CapacityBlocks"]) for page in pages] == [4, 2]
    ids = {block["CapacityBlockId"] for page in pages for block in page["CapacityBlocks"]}
    assert ids == set(world.blocks)


def test_a_dry_run_does_nothing(cloud: tuple[World, Any]) -> None:
    world, client = cloud
    offer = offering(client)["CapacityBlockOfferingId"]
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        client.purchase_capacity_block(
            CapacityBlockOfferingId=offer, InstancePlatform="Linux/UNIX", DryRun=True
        )
    assert code_of(caught) == "DryRunOperation"
    assert world.purchases() == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "error", "done"),
    [
        ("503", botocore.exceptions.ClientError, 0),
        ("503_after", botocore.exceptions.ClientError, 1),
        ("drop", CLOSED, 0),
        ("drop_after", CLOSED, 1),
        ("hang", botocore.exceptions.ReadTimeoutError, 0),
        ("hang_after", botocore.exceptions.ReadTimeoutError, 1),
    ],
)
def test_each_fault_is_what_a_real_client_sees_and_does_what_it_says(
    kind: str, error: Any, done: int, cloud: tuple[World, Any]
) -> None:
    world, client = cloud
    offer = offering(client)["CapacityBlockOfferingId"]
    world.faults = Faults({("PurchaseCapacityBlock", 1): kind})
    with pytest.raises(error):
        client.purchase_capacity_block(CapacityBlockOfferingId=offer, InstancePlatform="Linux/UNIX")
    assert world.purchases() == done
    direct = Direct(world)
    world.faults = Faults({("PurchaseCapacityBlock", 2): kind})
    with pytest.raises(error):
        direct.purchase_capacity_block(CapacityBlockOfferingId=offer, InstancePlatform="Linux/UNIX")


def test_what_is_listed_is_sold_as_it_stands() -> None:
    listed = Listing("us-east-1a", NOW + 7200, NOW + 7200 + 19 * 86400, 32, Decimal("1021440.00"))
    world = world_of(listings=(listed,), lattice=False)
    offer = offering(Direct(world), 32, 21 * 24)
    assert offer["UpfrontFee"] == "1021440.00"
    assert (offer["EndDate"] - offer["StartDate"]).days == 19


def test_an_unknown_action_and_an_incomplete_request_are_answered_with_words(
    cloud: tuple[World, Any],
) -> None:
    import http.client

    server = cloud[1]._endpoint.host.removeprefix("http://")
    for body, code in (
        ("Action=Nonsense", b"InvalidAction"),
        ("Action=PurchaseCapacityBlock", b"MissingParameter"),
    ):
        asked = http.client.HTTPConnection(server, timeout=60)
        asked.request("POST", "/", body)
        told = asked.getresponse()
        assert (told.status, code in told.read()) == (400, True)
        asked.close()


@pytest.mark.slow
def test_it_serves_by_itself_as_a_program() -> None:
    ran = subprocess.Popen(
        [sys.executable, "-m", "tenure.providers.fake_ec2", "--speed", "1000", "--zones", "a"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert ran.stdout is not None
        url = ran.stdout.readline().split()[1]
        client = boto3.client(
            "ec2", "us-east-1", endpoint_url=url, aws_access_key_id="a", aws_secret_access_key="b"
        )
        assert offering(client)["AvailabilityZone"] == "a"
        client.close()
    finally:
        ran.terminate()
        ran.wait(120)
        assert ran.stdout is not None
        ran.stdout.close()
