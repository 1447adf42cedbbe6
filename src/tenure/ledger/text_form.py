"""How mappings lie in the tables: one line of JSON, packed where it is only read in a recovery."""

from __future__ import annotations

import json
from typing import Any

import zstandard


def told(value: Any) -> str:
    """A value as one line of JSON. Raises ValueError where JSON has no such value."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except TypeError as error:
        raise ValueError(f"not JSON: {error}") from error


def read(text: str) -> Any:
    return json.loads(text)


def packed(value: Any) -> bytes:
    """A value as compressed JSON."""
    return zstandard.compress(told(value).encode("ascii"), 3)


def unpacked(body: bytes) -> Any:
    return json.loads(zstandard.decompress(body))
