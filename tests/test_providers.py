"""Providers by their protocol: AWS against botocore's Stubber and real errors, and any by the run's file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import boto3
import botocore.exceptions as failed
import pytest
from botocore.stub import Stubber

from buying_world import KIND, NOW, Town
from tenure.engines.clock import ChosenClock
from tenure.providers.aws import Aws, AwsSettings
from tenure.providers.aws_errors import as_provider_errors
from tenure.providers.aws_shapes import EXTENSION_STATE, WINDOW_STATE, money, offer, window
from tenure.providers.capability import providers as recorded
from tenure.providers.fake_ec2 import Behaviour, Faults, Server
from tenure.providers.opening import provider_of
from tenure.providers.protocol import (
    FAILED,
    UNKNOWN,
    Ask,
    Expired,
    NoCapacity,
    NotSent,
    Offer,
    ProviderError,
    Refused,
    Unclear,
    Window,
)
from tenure.settings.errors import BadInput

TAG = ("tenure:run", "run-1")
TAGS = dict([TAG])
WHEN = datetime(2026, 12, 1, 4, 55, tzinfo=UTC)
END = datetime(2026, 12, 1, 11, 30, tzinfo=UTC)


# --- AWS, by Stubber: requests and answers are checked against the model ----------------------------


@pytest.fixture
def stubbed() -> Iterator[tuple[Aws, Stubber]]:
    client = boto3.client("ec2", "us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
    settings = AwsSettings(
        "us-east-1", "ami-1", KIND, {"us-east-1a": "subnet-1"}, gpus_per_node={KIND: 8, "p5en.48xlarge": 8}
    )
    with Stubber(client) as stub:
        yield Aws(settings, ChosenClock(NOW), client), stub
    stub.assert_no_pending_responses()
    client.close()


def an_offering(**change: Any) -> dict[str, Any]:
    return {
        "CapacityBlockOfferingId": "cb-0123",
        "InstanceType": KIND,
        "AvailabilityZone": "us-east-1a",
        "InstanceCount": 16,
        "StartDate": WHEN,
        "EndDate": END,
        "CapacityBlockDurationHours": 6,
        "CapacityBlockDurationMinutes": 35,
        "UpfrontFee": "5000.10",
        "CurrencyCode": "USD",
        **change,
    }


def test_an_offer_is_as_long_as_its_dates_and_costs_exactly_what_the_text_says(
    stubbed: tuple[Aws, Stubber],
) -> None:
    aws, stub = stubbed
    stub.add_response(
        "describe_capacity_block_offerings",
        {"CapacityBlockOfferings": [an_offering()], "NextToken": "more"},
        {"CapacityDurationHours": 24, "InstanceType": KIND, "InstanceCount": 16, "MaxResults": 200},
    )
    stub.add_response(
        "describe_capacity_block_offerings",
        {"CapacityBlockOfferings": [an_offering(CapacityBlockOfferingId="cb-0124")]},
        {
            "CapacityDurationHours": 24,
            "InstanceType": KIND,
            "InstanceCount": 16,
            "MaxResults": 200,
            "NextToken": "more",
        },
    )
    first, second = aws.offers(Ask(KIND, 16, 24))
    assert first.fee == Decimal("5000.10")
    assert first.length_s == 6 * 3600 + 35 * 60
    assert first.gpu_hours == pytest.approx(16 * 8 * (6 + 35 / 60))
    assert second.id == "cb-0124"


def test_a_purchase_carries_its_intent_on_block_and_reservation(stubbed: tuple[Aws, Stubber]) -> None:
    aws, stub = stubbed
    one = offer(an_offering(), 8, "Linux/UNIX", None)
    tags = [
        {"Key": "tenure:intent", "Value": "intent-1"},
        {"Key": "tenure:fee", "Value": "5000.10"},
        {"Key": "tenure:currency", "Value": "USD"},
    ]
    reservation = {
        "CapacityReservationId": "cr-1",
        "CapacityBlockId": "cb-9",
        "InstanceType": KIND,
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": "us-east-1a",
        "StartDate": WHEN,
        "EndDate": END,
        "State": "payment-pending",
        "TotalInstanceCount": 0,
    }
    stub.add_response(
        "purchase_capacity_block",
        {"CapacityReservation": reservation},
        {
            "CapacityBlockOfferingId": "cb-0123",
            "InstancePlatform": "Linux/UNIX",
            "TagSpecifications": [
                {"ResourceType": kind, "Tags": tags} for kind in ("capacity-block", "capacity-reservation")
            ],
        },
    )
    bought = aws.buy(one, "intent-1")
    assert (bought.id, bought.reservations, bought.state) == ("cb-9", ("cr-1",), "payment-pending")
    assert (bought.fee, bought.nodes) == (Decimal("5000.10"), 16)


def test_a_launch_names_market_and_reservation_and_never_a_placement_group(
    stubbed: tuple[Aws, Stubber],
) -> None:
    aws, stub = stubbed
    held = Window("cb-9", ("cr-1",), "active", "us-east-1a", 0.0, 9e9, 2, None, "USD", {}, KIND)
    made = {
        "InstanceId": "i-1",
        "State": {"Code": 0, "Name": "pending"},
        "LaunchTime": WHEN,
        "InstanceLifecycle": "capacity-block",
        "CapacityReservationId": "cr-1",
        "CapacityBlockId": "cb-9",
    }
    stub.add_response(
        "run_instances",
        {"Instances": [made, {**made, "InstanceId": "i-2"}]},
        {
            "MinCount": 2,
            "MaxCount": 2,
            "ClientToken": "t",
            "InstanceType": KIND,
            "ImageId": "ami-1",
            "SubnetId": "subnet-1",
            "TagSpecifications": [
                {
                    "ResourceType": "instance",
                    "Tags": [
                        {"Key": "tenure:run", "Value": "run-1"},
                        {"Key": "tenure:token", "Value": "t"},
                    ],
                }
            ],
            "InstanceMarketOptions": {"MarketType": "capacity-block"},
            "CapacityReservationSpecification": {
                "CapacityReservationTarget": {"CapacityReservationId": "cr-1"}
            },
        },
    )
    assert [node.window for node in aws.launch("t", 2, 2, held, TAGS)] == ["cb-9", "cb-9"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"InstanceLifecycle": "spot"},
        {"CapacityReservationId": "cr-other"},
        {"CapacityBlockId": "cb-other"},
    ],
)
def test_what_comes_up_anywhere_else_is_ended(wrong: dict[str, str], stubbed: tuple[Aws, Stubber]) -> None:
    aws, stub = stubbed
    held = Window("cb-9", ("cr-1",), "active", "us-east-1a", 0.0, 9e9, 1, None, "USD", {}, KIND)
    made = {
        "InstanceId": "i-1",
        "State": {"Code": 0, "Name": "pending"},
        "LaunchTime": WHEN,
        "InstanceLifecycle": "capacity-block",
        "CapacityReservationId": "cr-1",
        "CapacityBlockId": "cb-9",
        **wrong,
    }
    stub.add_response("run_instances", {"Instances": [made]})
    stub.add_response("terminate_instances", {"TerminatingInstances": []}, {"InstanceIds": ["i-1"]})
    with pytest.raises(Refused, match="missed-reservation"):
        aws.launch("t", 1, 1, held, TAGS)


def test_every_state_of_the_model_has_a_word_and_any_other_is_unknown() -> None:
    model = boto3.client("ec2", "us-east-1", aws_access_key_id="a", aws_secret_access_key="b").meta
    states = model.service_model.shape_for("CapacityBlockResourceState").enum
    assert set(states) - set(WINDOW_STATE) == {"unavailable"}
    bought = model.service_model.shape_for("CapacityBlockExtensionStatus").enum
    assert set(bought) == set(EXTENSION_STATE)
    block = {"CapacityBlockId": "cb-9", "StartDate": WHEN, "EndDate": END, "State": "something new"}
    assert window(block, [], {}).state == UNKNOWN


def test_a_fee_is_text_read_exactly() -> None:
    assert money("1021440.10") == Decimal("1021440.10")
    for wrong in ("", "nan", "-1", "1,000", "inf"):
        with pytest.raises(Refused):
            money(wrong)


def test_parts_in_several_zones_are_told_apart() -> None:
    part = {"AvailabilityZone": "b", "StartDate": WHEN, "EndDate": END, "InstanceCount": 8}
    one = an_offering(CapacityBlockOfferingSegments=[{**part, "AvailabilityZone": "a"}, part])
    assert [part.zone for part in offer(one, 8, "Linux/UNIX", None).segments] == ["a", "b"]


# --- what an error means ----------------------------------------------------------------------------


def answered(code: str, status: int) -> failed.ClientError:
    told = {"Error": {"Code": code, "Message": "m"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return failed.ClientError(told, "PurchaseCapacityBlock")


@pytest.mark.parametrize(
    ("error", "spent", "read"),
    [
        (answered("Unavailable", 503), Unclear, NotSent),
        (answered("InternalError", 500), Unclear, NotSent),
        (answered("RequestLimitExceeded", 503), Unclear, NotSent),
        (answered("RequestLimitExceeded", 400), NotSent, NotSent),
        (answered("", 200), Unclear, NotSent),
        (answered("InsufficientInstanceCapacity", 500), NoCapacity, NoCapacity),
        (answered("ReservationCapacityExceeded", 400), NoCapacity, NoCapacity),
        (answered("InvalidCapacityReservationId.NotFound", 400), Expired, Expired),
        (answered("UnauthorizedOperation", 403), Refused, Refused),
        (answered("DryRunOperation", 412), Refused, Refused),
        (failed.EndpointConnectionError(endpoint_url="u"), NotSent, NotSent),
        (failed.ConnectTimeoutError(endpoint_url="u"), NotSent, NotSent),
        (failed.NoCredentialsError(), NotSent, NotSent),
        (failed.ReadTimeoutError(endpoint_url="u"), Unclear, NotSent),
        (failed.ConnectionClosedError(endpoint_url="u"), Unclear, NotSent),
        (failed.SSLError(endpoint_url="u", error="e"), Unclear, NotSent),
        (ConnectionResetError(104, "reset"), Unclear, NotSent),
        (failed.ParamValidationError(report="r"), Refused, Refused),
    ],
    ids=lambda one: one.__name__ if isinstance(one, type) else "",
)
def test_only_what_surely_never_left_or_was_answered_is_safe(error: Exception, spent: Any, read: Any) -> None:
    for spends, wanted in ((True, spent), (False, read)):
        with pytest.raises(ProviderError) as caught, as_provider_errors(spends=spends):
            raise error
        assert type(caught.value) is wanted


def test_a_port_where_nobody_listens_is_a_purchase_that_was_never_sent() -> None:
    town = Town()
    one = town.offer()
    with Server(town.world) as server:
        gone = server.url
    aws = town.aws(gone)
    with pytest.raises(NotSent):
        aws.buy(one, "intent")
    aws.close()


def test_reads_are_asked_again_by_the_client_and_purchases_are_not() -> None:
    town = Town(faults=Faults({("DescribeCapacityBlocks", 1): "503", ("PurchaseCapacityBlock", 1): "503"}))
    one = town.offer()
    with Server(town.world) as server:
        settings = town.settings(server.url, read_attempts=3, read_timeout_s=5.0)
        aws = Aws(settings, town.clock)
        assert aws.windows() == []
        assert town.world.sends["DescribeCapacityBlocks"] == 2
        with pytest.raises(Unclear):
            aws.buy(one, "intent")
        assert town.world.sends["PurchaseCapacityBlock"] == 1
        aws.close()


@pytest.mark.slow
def test_no_setting_of_the_machine_makes_the_client_send_a_purchase_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "9")
    monkeypatch.setenv("AWS_RETRY_MODE", "legacy")
    for kind in ("503", "drop", "hang"):
        town = Town(faults=Faults({("PurchaseCapacityBlock", 0): kind, ("RunInstances", 0): kind}))
        one = town.offer()
        with Server(town.world, hang_s=0.5) as server:
            aws = town.aws(server.url)
            with pytest.raises(Unclear):
                aws.buy(one, "intent")
            with pytest.raises(Unclear):
                aws.launch("t", 1, 1, None, TAGS)
            aws.close()
        assert (town.world.sends["PurchaseCapacityBlock"], town.world.sends["RunInstances"]) == (1, 1)


@pytest.mark.slow
def test_many_nodes_come_in_pages_and_all_are_ended() -> None:
    town = Town(Behaviour(quota=64))
    with Server(town.world) as server:
        aws = town.aws(server.url)
        for place in range(205):
            aws.launch(f"t{place}", 1, 1, None, TAGS)
        nodes = aws.nodes(TAG)
        assert len({node.id for node in nodes}) == 205
        aws.terminate([node.id for node in nodes] + ["i-0000000000000dead"])
        aws.close()
    assert town.world.alive() == []


@pytest.mark.slow
def test_a_token_of_any_length_launches_once_and_is_told_back() -> None:
    town = Town()
    token = "a-run-with-a-very-long-name" * 5 + "-1"
    with Server(town.world) as server:
        aws = town.aws(server.url)
        first, again = (aws.launch(token, 1, 1, None, TAGS) for _ in range(2))
        assert [node.id for node in first] == [node.id for node in again]
        assert {node.token for node in aws.nodes(TAG)} == {token}
        aws.close()
    assert len(town.world.alive()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["503", "drop", "503_after", "drop_after"])
def test_a_launch_whose_answer_was_lost_is_repeated_and_launches_once(kind: str) -> None:
    town = Town(faults=Faults({("RunInstances", 1): kind, ("RunInstances", 2): kind}))
    with Server(town.world) as server:
        aws = town.aws(server.url)
        for _ in range(2):
            with pytest.raises(Unclear):
                aws.launch("t", 4, 4, None, TAGS)
        made = aws.launch("t", 4, 4, None, TAGS)
        assert {node.id for node in aws.nodes(TAG)} == {node.id for node in made}
        aws.close()
    assert len(town.world.alive()) == 4


def test_a_machine_that_fails_the_clouds_own_checks_is_told_within_minutes() -> None:
    town = Town()
    with Server(town.world) as server:
        aws = town.aws(server.url)
        first, second = aws.launch("t", 2, 2, None, TAGS)
        town.clock.wait(130.0)
        assert {node.healthy for node in aws.nodes(TAG)} == {None}
        town.world.impair(first.id)
        town.clock.wait(300.0)
        assert {node.id: node.healthy for node in aws.nodes(TAG)} == {first.id: False, second.id: None}
        aws.nodes(TAG)
        assert town.world.sends["DescribeInstanceStatus"] == 4, "twice two questions"
        aws.close()


# --- by the run's file ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"name": "gcp"}, "plans only"),
        ({"name": "azure"}, "plans only"),
        ({"name": "awss"}, "did you mean aws"),
        ({"name": "aws", "region": "us-east-1"}, "instance_type"),
        ({"name": "aws", "region": "us-east-1", "instance_type": KIND, "regio": 1}, "regio"),
        ({"name": "own", "by": "slurm", "nodes": "n[1-"}, "names of nodes"),
        ({"name": "own", "by": "pbs", "nodes": "n1"}, "slurm"),
        ({"name": "own", "by": "lab", "nodes": "n1"}, "chooses them itself"),
    ],
)
def test_a_provider_that_cannot_be_is_one_sentence(told: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        provider_of(told, tmp_path, ChosenClock(NOW))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_provider_that_is_asked_publishes_a_record() -> None:
    assert {"aws", "azure", "gcp", "manual", "own", "sfcompute"} <= set(recorded())


def test_offers_survive_their_way_through_json() -> None:
    from tenure.runs.signing import offer_dict, offer_of

    town = Town()
    one = town.offer()
    assert offer_of(json.loads(json.dumps(offer_dict(one)))) == one
    parts = offer(
        an_offering(
            CapacityBlockOfferingSegments=[
                {"AvailabilityZone": name, "StartDate": WHEN, "EndDate": END, "InstanceCount": 8}
                for name in "ab"
            ]
        ),
        8,
        "Linux/UNIX",
        None,
    )
    back: Offer = offer_of(json.loads(json.dumps(offer_dict(parts))))
    assert back == parts
    assert FAILED == "failed"
