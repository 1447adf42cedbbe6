"""The file form of a story: one JSON object a line, in time order; `.gz` and `.zst` by suffix.

`n` counts lines from 1; extra keys and extra events are allowed and skipped. Lines are written one after
the other, so a run that is killed leaves whole lines and at most one cut one.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import zstandard

from tenure.core.tables import Table
from tenure.story.columns import Story
from tenure.story.errors import StoryError
from tenure.story.head import head_of, story_of_head
from tenure.story.opening import open_to_read, open_to_write
from tenure.story.read_lines import LineReader
from tenure.story.write_lines import LineMaker

CHUNK = 1 << 15
COUNTED = (
    "t", "gpus", "min_runtime_s", "at_s", "attempt", "held_gpu_s", "lost_gpu_s", "need", "have",
)  # fmt: skip


def write_story(story: Story, file: str | Path | IO[str]) -> None:
    """Write a story to a path or to an open text stream."""
    if not isinstance(file, str | Path):
        _write(story, file)
        return
    with open_to_write(Path(file)) as stream:
        _write(story, stream)


def _write(story: Story, stream: IO[str]) -> None:
    stream.write(json.dumps(head_of(story), separators=(",", ":")) + "\n")
    stream.writelines(LineMaker(story).lines())


def read_story(file: str | Path | IO[str]) -> Story:
    """Read a story from a path or an open text stream.

    Jobs, placements and notes are numbered in the order in which the lines speak of them.
    Raises StoryError, naming file and line, where the file is not a whole story.
    """
    if not isinstance(file, str | Path):
        return _read(file, str(getattr(file, "name", "the story")))
    path = Path(file)
    try:
        with open_to_read(path) as stream:
            return _read(stream, str(path))
    except OSError as error:
        if isinstance(error, gzip.BadGzipFile):
            raise StoryError(f"{path}: not a gzip file, though its name ends in .gz") from error
        raise StoryError(f"{path}: {error.strerror or error}") from error
    except (EOFError, zlib.error, zstandard.ZstdError) as error:
        raise StoryError(f"{path}: the packed file is cut or damaged ({error})") from error
    except UnicodeDecodeError as error:
        raise StoryError(f"{path}: not a text file in UTF-8 ({error.reason})") from error


def _read(stream: IO[str], name: str) -> Story:
    first = stream.readline()
    if not first:
        raise StoryError(f"{name}: empty; the first line of a story is `began`")
    head = _object(first, name, 1)
    if head.get("event") != "began":
        raise StoryError(f"{name}, line 1: the first line of a story is `began`, not {head.get('event')!r}")
    try:
        reader = LineReader(story_of_head(head))
    except StoryError as error:
        raise StoryError(f"{name}, line 1: {error}") from error
    n, last_s = 1, 0
    for lines in iter(lambda: list(islice(stream, CHUNK)), []):
        table = _rows(reader, lines, name, n)
        if len(table):
            _check_order(table, last_s, name)
            last_s = int(table["t"][-1])
        n += len(lines)
    return reader.story_read()


def _rows(reader: LineReader, lines: list[str], name: str, before: int) -> Table:
    """Events of some lines; `before` lines precede them."""
    rows, n = [], before
    try:
        for line in _objects(lines, name, before):
            n += 1
            if line.get("n", n) != n:
                raise StoryError(f"`n` is {line['n']}: lines are missing or out of place")
            row = reader.take(line)
            if row is not None:
                rows.append(row)
        return reader.pack(rows)
    except KeyError as error:
        raise StoryError(f"{name}, line {n}: {error.args[0]!r} is missing or not known") from error
    except StoryError as error:
        raise error if str(error).startswith(name) else StoryError(f"{name}, line {n}: {error}") from error
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        found = _first_without_whole_numbers(lines)
        where = n if found is None else before + 1 + found
        raise StoryError(f"{name}, line {where}: a value is of the wrong kind ({error})") from error


def _first_without_whole_numbers(lines: list[str]) -> int | None:
    """Position of the first line in which something that is counted is not a whole number."""
    for at, text in enumerate(lines):
        line = json.loads(text)
        if any(key in line and not isinstance(line[key], int) for key in COUNTED):
            return at
    return None


def _objects(lines: list[str], name: str, before: int) -> Iterator[dict[str, Any]]:
    try:  # one call for many lines is a third faster than one for each
        found = json.loads(f"[{','.join(lines)}]")
    except ValueError:
        found = []
    if len(found) == len(lines) and all(type(line) is dict for line in found):
        return iter(found)
    return (_object(line, name, n) for n, line in enumerate(lines, start=before + 1))


def _object(line: str, name: str, n: int) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        if line.endswith("\n"):
            raise StoryError(f"{name}, line {n}: not a JSON object: {line[:60].strip()!r}") from None
        raise StoryError(
            f"{name}, line {n}: cut in the middle; the record was broken off there. "
            f"The {n - 1} lines before it are whole: without this line they can be read"
        ) from None
    if not isinstance(found, dict):
        raise StoryError(f"{name}, line {n}: not a JSON object: {line[:60].strip()!r}")
    return found


def _check_order(table: Table, last_s: int, name: str) -> None:
    times = np.concatenate([[last_s], table["t"]])
    back = np.flatnonzero(times[1:] < times[:-1])
    if len(back):
        at = int(back[0])
        raise StoryError(f"{name}: time runs backwards, from {times[at]} s to {times[at + 1]} s")


__all__ = ["StoryError", "read_story", "write_story"]
