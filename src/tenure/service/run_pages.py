"""The one page of a run, under way or rehearsed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tenure.report.run_page import write_run_page
from tenure.service.outputs import placed


def write_run(told: Mapping[str, Any], file: Path) -> None:
    """`told`: as `runs.status` and `runs.rehearsed` give it."""
    with placed(file) as draft:
        write_run_page(told, draft)
