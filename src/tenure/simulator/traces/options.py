"""What a person may say about a trace besides its file and format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Options:
    """`columns`: of a csv; `timezone`: of times that name none; `start`: second 0; `tenant`: which field
    of the format names the tenant (each reader says which it knows)."""

    columns: Mapping[str, str] | None = None
    timezone: str = "UTC"
    start: datetime | None = None
    tenant: str | None = None
