"""Mean waits of Venus, known by programs written apart, and start times of a second way for any work."""

from __future__ import annotations

import csv
import gzip
import json
import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from naive_queues import FOREVER, Ask, easy, first_come
from played import command

ROOT = Path(__file__).resolve().parent.parent
TRACES = Path(os.environ.get("TENURE_TRACES", ROOT.parent / "shared" / "data" / "traces"))
VENUS = TRACES / "helios-venus-2020" / "venus.csv.gz"
DAY = 86400
needs_traces = pytest.mark.skipif(not VENUS.is_file(), reason="the public traces are not here")

NODES, POOL = (72, 8), (1, 576)
#: (jobs, shape) -> (mean wait, makespan) of strict first come, first served; None: not published
KNOWN: dict[tuple[int, tuple[int, int]], tuple[float, int | None]] = {
    (10_000, POOL): (898.01, None),
    (10_000, NODES): (2164.15, 1_483_235),
    (30_000, POOL): (11_056.87, None),
    (30_000, NODES): (23_434.82, 3_880_927),
}


def venus(count: int) -> list[Ask]:
    """The first jobs after day 15: seconds rounded, sizes 1, 2, 4, 8 or whole nodes of 8."""
    with gzip.open(VENUS, "rt") as file:
        rows = [r for r in csv.DictReader(file) if float(r["arrival_s"]) >= 15 * DAY]
    rows.sort(key=lambda row: float(row["arrival_s"]))
    return [
        Ask(
            round(float(row["arrival_s"])),
            rounded_up(int(row["gpu_count"])),
            max(1, round(float(row["service_sec"]))),
        )
        for row in rows[:count]
    ]


def rounded_up(gpus: int) -> int:
    return next((size for size in (1, 2, 4, 8) if size >= gpus), -(-gpus // 8) * 8)


def through_tenure(
    asks: Sequence[Ask], shape: tuple[int, int], policy: str, folder: Path
) -> tuple[list[int], dict[str, Any]]:
    """Start of each job and the measures, of a csv and a scenario played by `tenure simulate`."""
    with (folder / "jobs.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "arrival", "seconds", "size", "limit"])
        for row, ask in enumerate(asks):
            limit = "" if ask.limit_s == FOREVER else ask.limit_s
            writer.writerow([f"j{row}", ask.submit_s, ask.runtime_s, ask.gpus, limit])
    columns = {"job": "id", "submit": "arrival", "runtime": "seconds", "gpus": "size", "max_runtime": "limit"}
    nodes, gpus = shape
    scenario = {
        "lab": {
            "clusters": {"one": {"nodes": nodes, "gpus_per_node": gpus}},
            "accounts": {"all": {"share": "100%"}},
        },
        "trace": {"file": "jobs.csv", "format": "csv", "columns": columns, "accounts": "all"},
    }
    (folder / "scenario.yaml").write_text(yaml.safe_dump(scenario), encoding="utf-8")
    words = ["simulate", str(folder / "scenario.yaml"), "--policy", policy, "--set", "policy.depth=100000"]
    words += ["--json", str(folder / "measures.json"), "--log", str(folder / "story.jsonl")]
    status, out, err = command(*words)
    assert status == 0, f"exit {status}\n{out}\n{err}"
    starts = [FOREVER] * len(asks)
    with (folder / "story.jsonl").open(encoding="utf-8") as file:
        for line in file:
            if '"started"' in line:
                told = json.loads(line)
                assert told["attempt"] == 1
                starts[int(told["job"][1:])] = told["t"]
    return starts, json.loads((folder / "measures.json").read_text(encoding="utf-8"))


@pytest.mark.slow
@needs_traces
@pytest.mark.parametrize(("count", "shape"), KNOWN, ids=lambda value: str(value).replace(" ", ""))
def test_venus_first_come_first_served(count: int, shape: tuple[int, int], tmp_path: Path) -> None:
    asks = venus(count)
    starts, measures = through_tenure(asks, shape, "fifo", tmp_path)
    mean_s, makespan_s = KNOWN[count, shape]
    waits = [start - ask.submit_s for start, ask in zip(starts, asks)]
    assert round(sum(waits) / count, 2) == mean_s
    assert round(measures["first_wait_s"]["all"]["mean"], 2) == mean_s
    if makespan_s is not None:
        ended = max(start + ask.held_s for start, ask in zip(starts, asks))
        assert ended - asks[0].submit_s == makespan_s
    assert starts == first_come(asks, *shape)


SHAPES = ((1, 5), (1, 64), (2, 3), (4, 8), (7, 2))


@st.composite
def small_logs(draw: st.DrawFn) -> tuple[tuple[int, int], list[Ask]]:
    """Work of a few instants and lengths, so that ends, arrivals and reservations often coincide."""
    nodes, size = draw(st.sampled_from(SHAPES))
    sizes = [*range(1, size + 1), *(size * n for n in range(2, nodes + 1))]
    asks = []
    for _ in range(draw(st.integers(1, 30))):
        runtime_s = draw(st.sampled_from((1, 5, 10, 10, 20, 37)))
        limit_s = draw(st.sampled_from((runtime_s, runtime_s, 2 * runtime_s, 40, 10)))
        asks.append(Ask(draw(st.integers(0, 60)), draw(st.sampled_from(sizes)), runtime_s, limit_s))
    return (nodes, size), sorted(asks, key=lambda ask: ask.submit_s)


tried = settings(
    max_examples=int(os.environ.get("TENURE_EXAMPLES", "25")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.mark.slow
@pytest.mark.core
@tried
@given(small_logs())
def test_first_come_first_served_as_the_second_way(log: tuple[tuple[int, int], list[Ask]]) -> None:
    shape, asks = log
    with TemporaryDirectory() as folder:
        starts, _ = through_tenure(asks, shape, "fifo", Path(folder))
    assert starts == first_come(asks, *shape)


@pytest.mark.slow
@pytest.mark.core
@tried
@given(small_logs())
def test_easy_backfill_as_the_second_way(log: tuple[tuple[int, int], list[Ask]]) -> None:
    shape, asks = log
    with TemporaryDirectory() as folder:
        starts, _ = through_tenure(asks, shape, "fifo-backfill", Path(folder))
    assert starts == easy(asks, *shape)
