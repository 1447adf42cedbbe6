"""Arguments and options that several commands share, and how their texts are read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

POLICIES = "budget, window, fifo, fifo-backfill or priority"

Scenario = Annotated[
    Path,
    typer.Argument(metavar="SCENARIO", help="A scenario's file, or one built in: ai2, sat95, sat, small."),
]
PolicyName = Annotated[
    str | None, typer.Option("--policy", metavar="NAME", help=f"{POLICIES}; default: budget.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="policy.KEY=V", help="Change one key: policy.lookback=3d. Repeatable."),
]
Seed = Annotated[
    int | None, typer.Option(metavar="N", min=0, help="Seed of all that is drawn; default: the scenario's.")
]
Json = Annotated[
    str | None,
    typer.Option("--json", metavar="FILE", help="Write the numbers as JSON; - for stdout, alone there."),
]
Report = Annotated[
    Path | None, typer.Option("--report", metavar="FILE.html", help="Write a page with tables and pictures.")
]
Workers = Annotated[
    int | None, typer.Option("--workers", metavar="N", min=1, help="Plays at once; default: one a core.")
]


def assignments(texts: Iterable[str] | None) -> dict[str, str]:
    """`["policy.lookback=3d"]` → `{"policy.lookback": "3d"}`."""
    found: dict[str, str] = {}
    for text in texts or ():
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key or not value:
            raise typer.BadParameter(f"{text!r} is not KEY=VALUE: policy.lookback=3d", param_hint="--set")
        if key in found:
            raise typer.BadParameter(f"{key} is given twice", param_hint="--set")
        found[key] = value
    return found


def value_lists(texts: Iterable[str] | None) -> dict[str, list[str]]:
    """`["policy.lookback=1d,3d"]` → `{"policy.lookback": ["1d", "3d"]}`; a key twice adds its values."""
    found: dict[str, list[str]] = {}
    for text in texts or ():
        ((key, values),) = assignments([text]).items()
        listed = found.setdefault(key, [])
        listed += [v for v in dict.fromkeys(_outside_brackets(values)) if v and v not in listed]
        if not listed:
            raise typer.BadParameter(f"{text!r} names no value", param_hint="--set")
    return found


def _outside_brackets(text: str) -> list[str]:
    """Split at commas, save those inside {} or []: a value may be a mapping."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "{[") - (letter in "}]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def names(text: str) -> list[str]:
    """`"budget, fifo"` → `["budget", "fifo"]`, each once."""
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def seed_list(text: str) -> list[int]:
    """`"1-3,9"` → `[1, 2, 3, 9]`."""
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            low = int(first)
            high = int(last) if dash else low
        except ValueError:
            low, high = 0, -1
        if high < low:
            raise typer.BadParameter(f"{text!r} is no list of seeds: 1-5 or 1,2,7", param_hint="--seeds")
        seeds += [s for s in range(low, high + 1) if s not in seeds]
    return seeds


def column_map(text: str | None) -> dict[str, str] | None:
    """`"job=job_id,gpus=n"` → `{"job": "job_id", "gpus": "n"}`."""
    if text is None:
        return None
    pairs = [tuple(side.strip() for side in part.partition("=")) for part in text.split(",") if part.strip()]
    if not all(all(pair) for pair in pairs):
        raise typer.BadParameter(f"{text!r} is not KEY=NAME,KEY=NAME…", param_hint="--columns")
    return {key: name for key, _, name in pairs}
