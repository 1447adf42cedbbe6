"""Stacked bars, a row an account, a part a cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tenure.report.colours import CAUSE_COLOURS
from tenure.report.frames import number

MOST_ROWS = 30


@dataclass(frozen=True)
class Part:
    width: float  #: percent of the longest row
    colour: str
    about: str


@dataclass(frozen=True)
class BarRow:
    who: str
    parts: list[Part]
    total: str


@dataclass(frozen=True)
class Key:
    name: str
    colour: str


@dataclass(frozen=True)
class Bars:
    alt: str
    rows: list[BarRow]
    key: list[Key]


def stacked(values: Mapping[str, Mapping[str, float]], alt: str) -> Bars | None:
    """`values`: who -> cause -> GPU-hours. Longest rows first, largest causes first. None of nothing."""
    sums = {who: sum(parts.values()) for who, parts in values.items()}
    longest = sorted((who for who in sums if sums[who] > 0), key=lambda who: -sums[who])[:MOST_ROWS]
    if not longest:
        return None
    of_cause: dict[str, float] = {}
    for parts in values.values():
        for cause, value in parts.items():
            of_cause[cause] = of_cause.get(cause, 0.0) + value
    causes = [cause for cause in sorted(of_cause, key=lambda c: -of_cause[c]) if of_cause[cause] > 0]
    colour = {cause: CAUSE_COLOURS[i % len(CAUSE_COLOURS)] for i, cause in enumerate(causes)}
    most = sums[longest[0]]
    rows = [
        BarRow(
            who or "(whole tree)",
            [
                Part(100 * values[who][c] / most, colour[c], f"{c}: {number(values[who][c])} GPU-h")
                for c in causes
                if values[who].get(c, 0) > 0
            ],
            f"{number(sums[who])} GPU-h",
        )
        for who in longest
    ]
    return Bars(alt, rows, [Key(f"{c}, {number(of_cause[c])} GPU-h", colour[c]) for c in causes])
