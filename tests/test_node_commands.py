"""Nodes from a terminal, against a real server: reservations, the flow of repair, and the page of metrics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from live_server import LAB, Served, serving, wait_for

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("nodes")
    check = folder / "check"
    check.write_text("#!/bin/sh\necho '{\"ok\": true}'\n")
    check.chmod(0o755)
    with serving(
        folder, {**LAB, "live": {"health_check": {"command": [str(check)], "every": "1h"}}}
    ) as served:
        yield served


def states(server: Served) -> dict[str, str]:
    with server.client() as lab:
        return {one.node: one.state for one in lab.nodes()}


def test_a_reservation_is_made_listed_and_taken_back(server: Served) -> None:
    made = server.run(
        "node",
        "reserve",
        "jupiter-0001",
        "jupiter-000[23]",
        "--for",
        "4h",
        "--from",
        "8h",
        "--reason",
        "firmware",
    )
    assert made.returncode == 0, made.stderr
    listed = server.run("node", "reservations", "--json", "-")
    (one,) = json.loads(listed.stdout)["reservations"]
    assert one["nodes"] == ["jupiter-0001", "jupiter-0002", "jupiter-0003"]
    assert (one["state"], one["by"], one["reason"]) == ("to come", "admin", "firmware")
    assert "firmware" in server.run("node", "reservations").stdout
    back = server.run("node", "unreserve", one["id"])
    assert (back.returncode, back.stdout) == (
        0,
        f"reservation {one['id']} of jupiter-0001, jupiter-0002, jupiter-0003 is taken back\n",
    )
    wait_for("it is forgotten", lambda: not json.loads(
        server.run("node", "reservations", "--json", "-").stdout)["reservations"])  # fmt: skip
    assert "no node is reserved" in server.run("node", "reservations").stdout


def test_a_wrong_reservation_is_one_sentence_and_status_2(server: Served) -> None:
    wrong = server.run("node", "reserve", "mars-1", "--for", "4h", "--reason", "x")
    assert wrong.returncode == 2
    assert "nodes: found 'mars-1'" in wrong.stderr
    assert len(wrong.stderr.strip().splitlines()) == 1


def test_a_window_that_is_open_takes_its_node_out_and_its_end_brings_it_back(server: Served) -> None:
    made = server.run("node", "reserve", "jupiter-0003", "--for", "3s", "--reason", "a moment")
    assert made.returncode == 0, made.stderr

    def told() -> list[str]:
        with server.client() as lab, lab.story() as path:
            lines = map(json.loads, path.read_text().splitlines())
            return [line["state"] for line in lines if line.get("node") == "jupiter-0003"]

    wait_for("it was out and is back", lambda: "drained" in told() and told()[-1] == "up")
    wait_for("so it is told", lambda: states(server)["jupiter-0003"] == "up")


def test_a_repaired_node_comes_back_by_way_of_its_test(server: Served) -> None:
    refused = server.run("node", "repair", "jupiter-0000", "--reason", "fan")
    assert refused.returncode == 1
    assert "a node that is up cannot be told 'repair'" in refused.stderr
    assert server.run("node", "drain", "jupiter-0000", "--reason", "fan").returncode == 0
    wait_for("it is empty", lambda: states(server)["jupiter-0000"] == "drained")
    assert server.run("node", "repair", "jupiter-0000", "--reason", "ticket 7").returncode == 0
    assert states(server)["jupiter-0000"] == "repairing"
    told = server.run("node", "up", "jupiter-0000", "--reason", "fan changed")
    assert told.returncode == 0, told.stderr
    wait_for("its test passes", lambda: states(server)["jupiter-0000"] == "up")


def test_the_page_of_metrics_needs_no_token_and_says_what_happened(server: Served) -> None:
    def page() -> str:
        return httpx.get(f"{server.url}/metrics", trust_env=False, timeout=60).text

    wait_for("all is idle", lambda: 'tenure_gpus{cluster="jupiter",state="idle"} 32.0' in page())
    wait_for("steps are counted", lambda: 'tenure_node_steps_total{state="repairing"} 1.0' in page())
    wait_for("turns are timed", lambda: "tenure_turn_seconds_count" in page())
    assert "tenure_http_requests_total" in page()
