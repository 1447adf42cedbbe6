"""What people write for durations, shares, counts and names, as whole numbers and clean text.

Every function takes what a file or a flag holds (text or number) and gives the value, or raises a
ValueError whose message says what is allowed. Numbers written as text are read exactly, never by way of
a float: `1.1h` is 3960 seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

from pydantic import BeforeValidator

from tenure.core.columns import WHOLE

UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
LONGEST_S = 10**12  #: no duration is longer: some thirty thousand years
DURATION = "a duration such as 90s, 15m, 8h or 7d (or plain seconds), not negative"
SHARE = "a part such as 35% or 0.35, from 0% to 100%"
LONGEST_NAME = 200

_NUMBER = re.compile(r"[+-]?(\d[\d_]*\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_PART = re.compile(r"(?P<number>[^a-zA-Z\s]+(?:[eE][+-]?\d{1,3})?)\s*(?P<unit>[a-zA-Z]+)\s*")


def number(value: Any, allowed: str = "a number") -> Decimal:
    """A finite number, exact: 3, 0.5, '1.2e12'. Booleans are not numbers."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        raise ValueError(allowed)
    text = value.strip() if isinstance(value, str) else repr(value) if isinstance(value, float) else value
    if isinstance(text, str) and (len(text) > 60 or not text.isascii() or not _NUMBER.fullmatch(text)):
        raise ValueError(allowed)
    if isinstance(text, int) and abs(text) > 10**30:
        raise ValueError(allowed)
    try:
        exact = Decimal(text.replace("_", "") if isinstance(text, str) else text)
    except InvalidOperation:
        raise ValueError(allowed) from None
    if not exact.is_finite():
        raise ValueError(allowed)
    return exact


def duration_s(value: Any) -> int:
    """Whole seconds. Fractions are rounded to the nearest second; what is above 0 stays above 0."""
    if isinstance(value, str) and not value.strip()[-1:].isdigit():
        seconds = sum_of_units(value.strip())
    else:
        seconds = number(value, DURATION)
    if seconds < 0:
        raise ValueError(DURATION)
    if seconds > LONGEST_S:
        raise ValueError(f"{DURATION}, and at most {LONGEST_S} s")
    return max(int(seconds.to_integral_value()), 1 if seconds > 0 else 0)


def sum_of_units(text: str) -> Decimal:
    """`90s`, `1.5h`, `2h30m`: each unit once, the larger first."""
    total, smallest = Decimal(0), "w"
    parts = list(_PART.finditer(text)) if len(text) <= 60 else []
    if not parts or "".join(part[0] for part in parts) != text:
        raise ValueError(DURATION)
    for place, part in enumerate(parts):
        unit = part["unit"]
        if unit not in UNIT_S or (place and UNIT_S[unit] >= UNIT_S[smallest]):
            raise ValueError(DURATION)
        smallest = unit
        exact = number(part["number"], DURATION)
        total += min(exact, Decimal(2 * LONGEST_S)) * UNIT_S[unit]
        if len(parts) > 1 and exact < 0:
            raise ValueError(DURATION)
    return total


def duration_text(seconds: int) -> str:
    """`5400` as `90m`: the largest unit that keeps it whole."""
    for unit in ("d", "h", "m"):
        if seconds and seconds % UNIT_S[unit] == 0:
            return f"{seconds // UNIT_S[unit]}{unit}"
    return f"{seconds}s"


def share(value: Any) -> int:
    """Millionths of the whole, rounded down, so that parts of a whole never sum to more than it."""
    divisor = 1
    if isinstance(value, str) and value.rstrip().endswith("%"):
        value, divisor = value.rstrip()[:-1].rstrip(), 100
    exact = number(value, SHARE)
    if not 0 <= exact <= divisor:
        hint = f" (write {exact:f}%)" if divisor == 1 and 1 < exact <= 100 else ""
        raise ValueError(SHARE + hint)
    return int(exact * WHOLE / divisor)


def share_text(millionths: int) -> str:
    """`350000` as `35%`."""
    return f"{Decimal(millionths * 100) / WHOLE:f}%"


def whole(low: int, high: int, noun: str = "a whole number") -> Callable[[Any], int]:
    """A reader of whole numbers from `low` to `high`."""
    allowed = f"{noun} from {low} to {high}"

    def read(value: Any) -> int:
        exact = number(value, allowed)
        if not low <= exact <= high or exact != exact.to_integral_value():
            raise ValueError(allowed)
        return int(exact)

    return read


def within(low_s: int, high_s: int) -> Callable[[Any], int]:
    """A reader of durations from `low_s` to `high_s`."""
    allowed = f"a duration from {duration_text(low_s)} to {duration_text(high_s)}, such as 90s, 15m, 8h or 7d"

    def read(value: Any) -> int:
        try:
            seconds = duration_s(value)
        except ValueError:
            raise ValueError(allowed) from None
        if not low_s <= seconds <= high_s:
            raise ValueError(allowed)
        return seconds

    return read


def money(value: Any) -> float:
    """A price: a number, not negative."""
    allowed = "a price from 0 to 1e9"
    exact = number(value, allowed)
    if not 0 <= exact <= 10**9:
        raise ValueError(allowed)
    return float(exact)


def flag(value: Any) -> bool:
    """true or false; yes, no, on and off mean the same."""
    word = value.strip().lower() if isinstance(value, str) else value
    if isinstance(word, bool):
        return word
    if isinstance(word, str) and word in ("true", "yes", "on"):
        return True
    if isinstance(word, str) and word in ("false", "no", "off"):
        return False
    raise ValueError("true or false")


def text(value: Any) -> str:
    """Words on one line. Numbers are taken as they are written."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)) or not str(value).strip():
        raise ValueError("words")
    words = str(value).strip()
    if len(words) > 10 * LONGEST_NAME or not words.isprintable():
        raise ValueError(f"words on one line, at most {10 * LONGEST_NAME} characters")
    return words


def name(value: Any) -> str:
    """A name: no slash, no space at its ends, at most 200 printable characters."""
    allowed = f"a name without a slash, at most {LONGEST_NAME} printable characters"
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError(allowed)
    word = str(value)
    if not 0 < len(word) <= LONGEST_NAME or word != word.strip() or not word.isprintable() or "/" in word:
        raise ValueError(allowed)
    return word


def account_path(value: Any) -> str:
    """Names joined by slashes, such as language/olmo/ann."""
    allowed = "the path of an account, such as language/olmo/ann"
    if isinstance(value, bool) or not isinstance(value, (str, int)) or len(str(value)) > 20 * LONGEST_NAME:
        raise ValueError(allowed)
    try:
        return "/".join(name(part) for part in str(value).split("/"))
    except ValueError:
        raise ValueError(allowed) from None


def instant(value: Any) -> datetime:
    """A date and time in UTC; one without a zone is taken as UTC. `2026-01-05T00:00:00Z`."""
    allowed = "a date and time such as 2026-01-05T00:00:00Z"
    try:
        if isinstance(value, date) and not isinstance(value, datetime):
            value = value.isoformat()
        seen = value if isinstance(value, datetime) else datetime.fromisoformat(value.strip())
        seen = seen.replace(tzinfo=UTC) if seen.tzinfo is None else seen.astimezone(UTC)
    except (ValueError, AttributeError, OverflowError, TypeError):
        raise ValueError(allowed) from None
    if not 1970 <= seen.year <= 2200:
        raise ValueError(f"{allowed}, from 1970 to 2200")
    return seen.replace(microsecond=0)


def instant_text(when: datetime) -> str:
    """ISO 8601 in UTC, to the second."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def one_of(*words: str) -> Callable[[Any], str]:
    """A reader of one word of a fixed list."""

    def read(value: Any) -> str:
        if value not in words:
            raise ValueError(" | ".join(words))
        return str(value)

    return read


Duration = Annotated[int, BeforeValidator(duration_s)]
Share = Annotated[int, BeforeValidator(share)]
Money = Annotated[float, BeforeValidator(money)]
Flag = Annotated[bool, BeforeValidator(flag)]
Text = Annotated[str, BeforeValidator(text)]
Name = Annotated[str, BeforeValidator(name)]
AccountPath = Annotated[str, BeforeValidator(account_path)]
Instant = Annotated[datetime, BeforeValidator(instant)]
