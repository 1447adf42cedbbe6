"""Scenarios are played once for all tests that ask about them; databases are started once a worker."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from databases import (
    database_url,
    lease,
    ledger,
    postgresql,
    postgresql_record_url,
    postgresql_url,
    record_url,
    sqlite_record_url,
    sqlite_url,
)
from longest import LONGEST
from played import SCENARIOS, Played, play
from slurm_site import slurm

__all__ = [  # fixtures live where a conftest names them
    "database_url",
    "ledger",
    "lease",
    "postgresql",
    "postgresql_record_url",
    "postgresql_url",
    "record_url",
    "slurm",
    "sqlite_record_url",
    "sqlite_url",
    "told",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, the others as they were."""
    place = {name: at for at, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(place)))


_failed_at_first: list[pytest.TestReport] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A test that is tried again (`--reruns`) has failed: kept, so that it is told even if it passes now."""
    if report.outcome == "rerun":  # type: ignore[comparison-overlap]
        _failed_at_first.append(report)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Each first failure in full, then a line for each: a second try hides nothing."""
    if not _failed_at_first:
        return
    terminalreporter.section("failed at first, tried again: a fault of the test or of what it tests")
    for report in _failed_at_first:
        terminalreporter.section(report.nodeid, sep="-")
        terminalreporter.line(report.longreprtext)
    for report in _failed_at_first:
        terminalreporter.line(f"SECOND TRY {report.nodeid}")


# The same examples at each run, so that a change is refused for what it did; a larger search looks elsewhere.
settings.register_profile("same", derandomize="TENURE_EXAMPLES" not in os.environ, deadline=None)
settings.load_profile("same")


@pytest.fixture(scope="session")
def told() -> Callable[..., Played]:
    """`told("case_01")`: the scenario whose file begins so, played; keywords as for `play`."""
    kept: dict[tuple[str, str], Played] = {}

    def tell(name: str, **options: object) -> Played:
        (path,) = SCENARIOS.glob(f"{name}*.yaml")
        key = (path.name, repr(sorted(options.items())))
        if key not in kept:
            kept[key] = play(Path(path), **options)  # type: ignore[arg-type]
        return kept[key]

    return tell
