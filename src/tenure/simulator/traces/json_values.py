"""JSON values one after the other, of a file too large to hold: an array's members, or one value a line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from tenure.settings.errors import BadInput

CHUNK = 1 << 20
LONGEST = 1 << 24  #: no job of a trace takes more characters
BETWEEN = re.compile(r"[ \t\r\n,]*")


def json_values(file: Path, text: IO[str]) -> Iterator[tuple[int, Any]]:
    """(line, value) of each member of the array in `text`, or of each value where there is no array.

    Raises BadInput where the text is no JSON, ends within a value, or holds one of absurd length.
    """
    decode = json.JSONDecoder().raw_decode
    buffer, at, line, ended = "", 0, 1, False
    in_array: bool | None = None
    while True:
        after = BETWEEN.match(buffer, at).end()  # type: ignore[union-attr]  # it matches nothing too
        line += buffer.count("\n", at, after)
        at = after
        if in_array is None and at < len(buffer):
            in_array = buffer[at] == "["
            at += in_array
            continue
        if in_array and buffer[at : at + 1] == "]":
            return
        value, end = None, -1
        try:
            value, end = decode(buffer, at)
            unsure = end == len(buffer) and not ended  # a number may go on in the next piece
            problem: Exception | None = None
        except (ValueError, RecursionError) as refusal:
            unsure = not ended and len(buffer) - at < LONGEST and isinstance(refusal, ValueError)
            problem = refusal
        if unsure:
            more = text.read(CHUNK)
            ended = not more
            buffer, at = buffer[at:] + more, 0
            continue
        if problem is not None:
            if at == len(buffer) and not in_array:
                return
            found = "the end of the file within a value" if ended else f"no JSON ({problem})"
            raise BadInput(str(file), f"line {line}", found, "a JSON array of jobs, or one a line") from None
        yield line, value
        line += buffer.count("\n", at, end)
        at = end
        if buffer.startswith("\n{", at):  # the usual case of one value a line
            line += 1
            at += 1
