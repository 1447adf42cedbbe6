"""Numbers of plan files: each reader says what it allows, and refuses the rest with a ValueError.

A bare number is seconds where a duration is meant; a key that names its unit is a plain number in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BeforeValidator

from tenure.settings.units import LONGEST_S, UNIT_S, number, sum_of_units

MOST_NODES = 100_000
DURATION = "a duration such as 90s, 15m, 8h or 7d (or plain seconds)"
DAY_S = UNIT_S["d"]


def amount(low: float, high: float, noun: str = "a number", *, above: bool = False) -> Callable[[Any], float]:
    """A reader of numbers from `low` (`above`: more than it) to `high`."""
    allowed = f"{noun} above {low:g}, at most {high:g}" if above else f"{noun} from {low:g} to {high:g}"

    def read(value: Any) -> float:
        exact = number(value, allowed)
        if exact > high or exact < low or (above and exact == low):
            raise ValueError(allowed)
        return float(exact)

    return read


def part(value: Any) -> float:
    """`35%` or 0.35 as 0.35."""
    allowed = "a part such as 35% or 0.35, from 0% to 100%"
    divisor = 1
    if isinstance(value, str) and value.rstrip().endswith("%"):
        value, divisor = value.rstrip()[:-1].rstrip(), 100
    exact = number(value, allowed)
    if not 0 <= exact <= divisor:
        raise ValueError(allowed)
    return float(exact / divisor)


def open_part(value: Any) -> float:
    """A part that is neither nothing nor all."""
    found = part(value)
    if not 0 < found < 1:
        raise ValueError("a part above 0% and below 100%, such as 95%")
    return found


def seconds(value: Any) -> float:
    """A duration to fractions of a second, not negative."""
    if isinstance(value, str) and not value.strip()[-1:].isdigit():
        exact = sum_of_units(value.strip())
    else:
        exact = number(value, DURATION)
    if not 0 <= exact <= LONGEST_S:
        raise ValueError(f"{DURATION}, not negative")
    return float(exact)


def some_seconds(value: Any) -> float:
    """A duration above 0."""
    found = seconds(value)
    if found <= 0:
        raise ValueError(f"{DURATION}, above 0")
    return found


Part = Annotated[float, BeforeValidator(part)]
OpenPart = Annotated[float, BeforeValidator(open_part)]
Seconds = Annotated[float, BeforeValidator(seconds)]
SomeSeconds = Annotated[float, BeforeValidator(some_seconds)]
Price = Annotated[float, BeforeValidator(amount(0, 1e12, "a price"))]
SomePrice = Annotated[float, BeforeValidator(amount(0, 1e12, "a price", above=True))]
Positive = Annotated[float, BeforeValidator(amount(0, 1e30, "a number", above=True))]
NotNegative = Annotated[float, BeforeValidator(amount(0, 1e30))]
