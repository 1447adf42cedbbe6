"""JSON values one after the other, of a file too large to hold: an array's members, or one value a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from tenure.settings.errors import BadInput

CHUNK = 1 << 20
LONGEST = 1 << 24  #: no job of a trace takes more characters
BETWEEN = " \t\r\n,"


def json_values(file: Path, text: IO[str]) -> Iterator[tuple[int, Any]]:
    """(line, value) of each member of the array in `text`, or of each value where there is no array.

    Raises BadInput where the text is no JSON, ends within a value, or holds one of absurd length.
    """
    decode = json.JSONDecoder().raw_decode
    buffer, line, ended = "", 1, False
    in_array: bool | None = None
    while True:
        rest = buffer.lstrip(BETWEEN)
        line += buffer.count("\n", 0, len(buffer) - len(rest))
        buffer = rest
        if in_array is None and buffer:
            in_array = buffer[0] == "["
            buffer = buffer[1:] if in_array else buffer
            continue
        if in_array and buffer[:1] == "]":
            return
        try:
            value, end = decode(buffer)
        except (ValueError, RecursionError) as problem:
            if not ended and len(buffer) < LONGEST and not isinstance(problem, RecursionError):
                more = text.read(CHUNK)
                ended = not more
                buffer += more
                continue
            if not buffer and not in_array:
                return
            found = "the end of the file within a value" if ended else f"no JSON ({problem})"
            raise BadInput(str(file), f"line {line}", found, "a JSON array of jobs, or one a line") from None
        if end == len(buffer) and not ended:  # a number may go on in the next piece
            more = text.read(CHUNK)
            ended = not more
            if more:
                buffer += more
                continue
        yield line, value
        line += buffer.count("\n", 0, end)
        buffer = buffer[end:]
