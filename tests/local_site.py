"""This machine as an engine, fresh for a test, and short words for what its tests ask."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine_sites import LocalSite, begun, ended, start, wait_for
from tenure.engines.local.engine import LocalSettings

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may run jobs as somebody else")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[LocalSite]:
    place = LocalSite(tmp_path)
    yield place
    place.close()


@pytest.fixture(params=[True, False], ids=["cgroups", "none"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalSite]:
    place = LocalSite(tmp_path, LocalSettings(cgroups=request.param))
    if request.param and place.engine.cgroups.kind == "none":
        pytest.skip("no cgroup can be made on this machine")
    yield place
    place.close()


def output(site: LocalSite, job: str = "a") -> str:
    return site.engine.log_of(job, 1, last_bytes=1 << 22).decode()


def run(site: LocalSite, command: list[str], job: str = "a", **more: object) -> str:
    """What a command writes, run to its end."""
    site.engine.carry_out(start(job, command, **more))
    wait_for(site, job, that=ended)
    return output(site, job)


def record(site: LocalSite, name: str, job: str = "a") -> dict[str, Any]:
    read: dict[str, Any] = json.loads((site.folder / "attempts" / f"{job}.1" / f"{name}.json").read_text())
    return read


def run_forever(site: LocalSite) -> int:
    """The shepherd of a job that runs on."""
    site.engine.carry_out(start("z", ["sleep", "60"]))
    wait_for(site, "z", that=begun)
    return int(record(site, "shepherd", "z")["pid"])


def until(that: Any, within_s: float = 180) -> None:
    deadline = time.monotonic() + within_s
    while not that():
        assert time.monotonic() < deadline, "it never came to be so"
        time.sleep(0.01)
