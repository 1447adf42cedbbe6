"""Which nodes does `n[001-003,7],gpu-a` name? Slurm's short form of lists of nodes, read and written.

Read strictly: what is not such a list is a ValueError, never half a list.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MOST_NODES = 100_000  #: a list that names more is a mistake

_PLAIN = re.compile(r"[A-Za-z0-9._-]+")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def expanded(text: str) -> list[str]:
    """The names in their order. Empty text names no node."""
    names: list[str] = []
    for part in _parts(text):
        names += _names(part, text)
        if len(names) > MOST_NODES:
            raise ValueError(f"a list of nodes of at most {MOST_NODES} names")
    return names


def _parts(text: str) -> list[str]:
    """Cut at commas outside brackets."""
    parts, depth, begin = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if depth not in (0, 1):
            raise ValueError(f"not a list of nodes: {text!r}")
        if letter == "," and depth == 0:
            parts.append(text[begin:place])
            begin = place + 1
    if depth:
        raise ValueError(f"not a list of nodes: {text!r}")
    return [*parts, text[begin:]] if text else []


def _names(part: str, text: str) -> list[str]:
    """`rack[1-2]n[01-03]` as names: brackets multiply."""
    names = [""]
    for piece in re.split(r"(\[[^\]]*\])", part):
        if piece.startswith("["):
            names = [name + number for name in names for number in _numbers(piece[1:-1], text)]
        elif piece:
            if not _PLAIN.fullmatch(piece):
                raise ValueError(f"not a list of nodes: {text!r}")
            names = [name + piece for name in names]
    if names == [""]:
        raise ValueError(f"not a list of nodes: {text!r}")
    return names


def _numbers(inside: str, text: str) -> list[str]:
    numbers: list[str] = []
    for one in inside.split(","):
        matched = _RANGE.fullmatch(one)
        if matched is None:
            raise ValueError(f"not a list of nodes: {text!r}")
        low, high = matched[1], matched[2] or matched[1]
        if not 0 <= int(high) - int(low) < MOST_NODES:
            raise ValueError(f"not a list of nodes: {text!r}")
        numbers += [str(number).zfill(len(low)) for number in range(int(low), int(high) + 1)]
    return numbers


def compressed(names: Sequence[str]) -> str:
    """The short form: runs of numbers of one width after one stem share brackets; the order may change."""
    stems: dict[tuple[str, int], list[int]] = {}
    plain = []
    for name in sorted(set(names)):
        matched = re.fullmatch(r"(.*?)(\d+)", name)
        if matched is None:
            plain.append(name)
        else:
            stems.setdefault((matched[1], len(matched[2])), []).append(int(matched[2]))
    return ",".join([*plain, *(_bracketed(stem, width, found) for (stem, width), found in stems.items())])


def _bracketed(stem: str, width: int, numbers: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = [f"{a:0{width}d}" if a == b else f"{a:0{width}d}-{b:0{width}d}" for a, b in runs]
    return f"{stem}{texts[0]}" if len(numbers) == 1 else f"{stem}[{','.join(texts)}]"
