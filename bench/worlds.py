"""The worlds that are measured: real arrivals, the built-in shapes, and very large clusters."""

from __future__ import annotations

import csv
import gzip
import os
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from tenure.core.words import NEVER_S
from tenure.settings.lab import lab_of
from tenure.settings.lab_tables import lab_tables
from tenure.simulator.scenario import build_world, load_scenario
from tenure.simulator.scenario_work import new_work
from tenure.simulator.world import STREAM, Names, World
from tenure.story.columns import StoryAccount

ROOT = Path(__file__).resolve().parent.parent
TRACES = Path(os.environ.get("TENURE_TRACES", ROOT.parent / "shared" / "data" / "traces"))
VENUS = TRACES / "helios-venus-2020" / "venus.csv.gz"
PHILLY = TRACES / "philly-2017" / "philly.csv.gz"
ACCOUNTS = 15
LARGE_NODES, NODE_GPUS = 2048, 8
PROTECTED_S = 7200


def scenario_of(shape: str, tree: str = "flat", changes: dict[str, str] | None = None) -> Any:
    """A built-in shape over 37 days, the first 7 of them warm-up. `changes`: as `--set` would say them."""
    workload = {"shape": shape, "tree": tree}
    if shape == "philly":
        workload["file"] = str(PHILLY)
    written = {"workload": workload, "until": "37d", "warmup": "7d"}
    return load_scenario(written, set_=changes or {})


def shape_world(shape: str, seed: int) -> tuple[World, Names, int, int]:
    """(world, names, warm-up, end in seconds)."""
    scenario = scenario_of(shape)
    world, names = build_world(scenario, seed=seed)
    return world, names, scenario.warmup_s, scenario.until_s


def venus_world(nodes: int) -> tuple[World, Names, int, int]:
    """All of Helios' Venus on so many nodes of 8; it names no users, so ids are spread over 15 accounts."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "venus.csv"
        with gzip.open(VENUS, "rt", newline="") as read, path.open("w", newline="") as write:
            rows, out = csv.reader(read), csv.writer(write)
            out.writerow([*next(rows), "account"])
            out.writerows([*row, f"a{zlib.crc32(row[0].encode()) % ACCOUNTS:02}"] for row in rows)
        columns = {"job": "job_id", "submit": "arrival_s", "runtime": "service_sec", "gpus": "gpu_count"}
        written = {
            "lab": {"lab": "venus", "clusters": {"main": {"nodes": nodes, "gpus_per_node": NODE_GPUS}}},
            "trace": {
                "file": str(path),
                "columns": {**columns, "account": "account"},
                "shares": "equal",
                "min_runtime": "1h",
            },
        }
        world, names = build_world(load_scenario(written))
    return world, names, 0, NEVER_S


def large_world(jobs: int) -> tuple[World, Names, int, int]:
    """
    So many jobs on 16,384 GPUs, a tenth of them waiting at any time until the lists run out.

    Sizes 1, 1, 2, 4, 8, 8 and, one in a hundred, 64 GPUs; half an hour to two and a half of work,
    up to two of them protected; a fifth is unbudgeted.
    """
    shares = {f"a{row:02}": "6.66%" for row in range(ACCOUNTS)}
    lab = lab_of(
        {
            "lab": "large",
            "clusters": {"main": {"nodes": LARGE_NODES, "gpus_per_node": NODE_GPUS}},
            "accounts": {name: {"share": share} for name, share in shares.items()},
        },
        file="large",
    )
    tables, chance = lab_tables(lab), np.random.default_rng(20_26)
    work = new_work(jobs)
    sizes = np.array([1, 1, 2, 4, 8, 8])[chance.integers(0, 6, jobs)]
    sizes[chance.random(jobs) < 0.01] = 64
    work.jobs["gpus"] = sizes
    work.jobs["clusters"] = 1
    owner = np.sort(chance.integers(0, ACCOUNTS, jobs))
    work.jobs["account"] = owner + 1
    work.jobs["min_runtime_s"] = np.where(chance.random(jobs) < 0.2, 0, PROTECTED_S)
    work.jobs["saves_when_asked"] = work.jobs["min_runtime_s"] > 0
    work.hidden["work_s"] = chance.integers(1800, 9000, jobs)
    work.hidden["stream"] = owner
    counts = np.bincount(owner, minlength=ACCOUNTS)
    waiting_gpus = int(jobs / 10 * sizes.mean())
    streams = np.zeros(ACCOUNTS, STREAM)
    streams["target"] = (LARGE_NODES * NODE_GPUS + waiting_gpus) // ACCOUNTS
    streams["n_jobs"], streams["first_job"] = counts, np.cumsum(counts) - counts
    work.jobs["submit_s"] = NEVER_S
    work.jobs["first_entry"] = np.arange(jobs)
    world = World(
        work.jobs,
        work.hidden,
        streams,
        work.happenings,
        tables.nodes,
        tables.clusters,
        tables.accounts,
        tables.shares,
    )
    accounts = [StoryAccount(a.path, a.parent, a.shares, a.max_gpus, a.own_leaf_of) for a in lab.accounts]
    names = Names(
        lab=lab.name,
        clusters=list(lab.clusters),
        nodes=[node.name for node in lab.nodes],
        accounts=accounts,
        jobs=np.arange(jobs).astype("U7"),
        gpu_types=tables.gpu_types,
        prices=lab.prices,
    )
    return world, names, 0, NEVER_S
