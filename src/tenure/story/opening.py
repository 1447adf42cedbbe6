"""Open a file of text lines, packed or not: `.gz` and `.zst` by suffix."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import IO

import zstandard


def open_to_write(path: Path) -> IO[str]:
    """A text stream whose lines end in a bare newline on every machine."""
    if path.suffix == ".gz":
        # no time in the file's own head: same story, same bytes
        return io.TextIOWrapper(gzip.GzipFile(path, "wb", compresslevel=4, mtime=0), "utf-8", newline="\n")
    if path.suffix == ".zst":
        return io.TextIOWrapper(zstandard.open(path, "wb"), "utf-8", newline="\n")
    return path.open("w", encoding="utf-8", newline="\n")


def open_to_read(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    if path.suffix == ".zst":
        return zstandard.open(path, "rt", encoding="utf-8")
    return path.open("r", encoding="utf-8")
