"""What outlives every window? A store of checkpoints that is only ever added to by whole, verified ones."""

from __future__ import annotations

from tenure.checkpoints.retention import Keep
from tenure.checkpoints.store import Store
from tenure.checkpoints.words import (
    AlreadyCommitted,
    Checkpoint,
    ClockOff,
    Fenced,
    File,
    Incomplete,
    Manifest,
    NothingUsable,
    StoreError,
    StoreFull,
    StoreUnavailable,
)

__all__ = [
    "AlreadyCommitted",
    "Checkpoint",
    "ClockOff",
    "Fenced",
    "File",
    "Incomplete",
    "Keep",
    "Manifest",
    "NothingUsable",
    "Store",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
]
