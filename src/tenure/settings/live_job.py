"""A submission: the keys of a job, and what only a running scheduler is told: what runs, and after what."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator

from tenure.settings.errors import checked
from tenure.settings.job import RESTART_S, SAVE_EVERY_S, LiveJobFile, Period
from tenure.settings.units import LONGEST_NAME, Flag

MOST_WORDS = 10_000
LARGEST_COMMAND = 128 * 1024  #: bytes; a kernel takes no longer argument list from anybody
MOST_VARIABLES = 1_000
LARGEST_ENVIRONMENT = 256 * 1024  #: bytes
MOST_ELEMENTS = 10_000
MOST_AFTER = 100
_ARRAY = re.compile(r"(?P<first>\d{1,6})(?:-(?P<last>\d{1,6}))?(?:%(?P<at_once>\d{1,6}))?")
_AFTER = re.compile(r"(?P<job>[^\s:,]{1,200})(?::(?P<end>ok|any))?")


class Elements(NamedTuple):
    """An array: its elements are numbered from `first` to `last`, `at_once` of them run at most."""

    first: int
    last: int
    at_once: int | None

    @property
    def how_many(self) -> int:
        """How many there are."""
        return self.last - self.first + 1


def elements(value: Any) -> Elements:
    """`10`, `"0-9"` or `"0-9%2"`. Raises ValueError saying what is allowed."""
    allowed = f"elements such as 0-9 or 0-9%2 (two at once), at most {MOST_ELEMENTS:,}"
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(allowed)
    parts = _ARRAY.fullmatch(f"0-{value - 1}" if isinstance(value, int) else value.strip())
    if parts is None or (isinstance(value, int) and value < 1):
        raise ValueError(allowed)
    only = parts["last"] is None  # "10" alone: so many of them
    first = 0 if only else int(parts["first"])
    last = int(parts["first"]) - 1 if only else int(parts["last"])
    at_once = None if parts["at_once"] is None else int(parts["at_once"])
    if last < first or last - first >= MOST_ELEMENTS or at_once == 0:
        raise ValueError(allowed)
    return Elements(first, last, at_once)


def _array(value: Any) -> str:
    found = elements(value)
    return f"{found.first}-{found.last}" + ("" if found.at_once is None else f"%{found.at_once}")


def _after(value: Any) -> list[str]:
    """Jobs that must have ended before, each with how: `12:ok`, `13:any`; `12` alone is `12:ok`."""
    allowed = f"at most {MOST_AFTER} jobs such as 12, 12:ok or 12:any"
    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, list) or len(listed) > MOST_AFTER:
        raise ValueError(allowed)
    found = [_AFTER.fullmatch(str(one).strip()) if isinstance(one, (str, int)) else None for one in listed]
    if not all(found):
        raise ValueError(allowed)
    return list(dict.fromkeys(f"{one['job']}:{one['end'] or 'ok'}" for one in found if one is not None))


def _command(value: Any) -> list[str]:
    """Words, or one line that a shell reads."""
    allowed = "a command as a list of words, or one line for a shell; no NUL in it"
    words = ["/bin/sh", "-c", value] if isinstance(value, str) else value
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise ValueError(allowed)
    if not words[0].strip() or any("\0" in word or not _is_text(word) for word in words):
        raise ValueError(allowed)
    size = sum(len(word.encode()) + 1 for word in words)
    if len(words) > MOST_WORDS or size > LARGEST_COMMAND:
        raise ValueError(f"a command of at most {MOST_WORDS:,} words and {LARGEST_COMMAND // 1024} kB")
    return words


def _environment(value: Any) -> dict[str, str]:
    allowed = "a mapping of names (no = in them) to text; no NUL in either"
    if not isinstance(value, Mapping):
        raise ValueError(allowed)
    size = 0
    found: dict[str, str] = {}
    for name, text in value.items():
        if isinstance(text, bool) or not isinstance(text, (str, int, float)) or not isinstance(name, str):
            raise ValueError(allowed)
        said = str(text)
        if not name or "=" in name or "\0" in name + said or not _is_text(name + said):
            raise ValueError(allowed)
        found[name] = said
        size += len(name.encode()) + len(said.encode()) + 2
    if len(found) > MOST_VARIABLES or size > LARGEST_ENVIRONMENT:
        raise ValueError(
            f"at most {MOST_VARIABLES:,} variables and {LARGEST_ENVIRONMENT // 1024} kB of them"
            f" (this is {size / 1024:,.0f} kB): put what is large into a file that the job reads"
        )
    return found


def _workdir(value: Any) -> str:
    allowed = "an absolute path of at most 4096 bytes, without NUL"
    if not isinstance(value, str) or not value.startswith("/") or "\0" in value or not _is_text(value):
        raise ValueError(allowed)
    if len(value.encode()) > 4096:
        raise ValueError(allowed)
    return value


def _is_text(word: str) -> bool:
    """Whether it can be written as UTF-8: no half of a pair."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _label(value: Any) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_NAME or not value.isprintable():
        raise ValueError(f"at most {LONGEST_NAME} printable characters")
    return value.strip()


class Submission(LiveJobFile):
    """Everything that may be said of a job when it is submitted."""

    command: Annotated[list[str], BeforeValidator(_command)]
    env: Annotated[dict[str, str], BeforeValidator(_environment)] = {}
    workdir: Annotated[str, BeforeValidator(_workdir)] | None = None
    name: Annotated[str, BeforeValidator(_label)] = ""
    array: Annotated[str, BeforeValidator(_array)] | None = None
    after: Annotated[list[str], BeforeValidator(_after)] = []
    hold: Flag = False
    checkpoint_every: Period = SAVE_EVERY_S
    saves_when_asked: Flag | None = None
    restart: Period = RESTART_S

    @property
    def saves(self) -> bool:
        """As in a scenario: budgeted work saves when asked to, and so does what never saves by itself."""
        if self.saves_when_asked is None:
            return self.min_runtime > 0 or self.checkpoint_every == 0
        return self.saves_when_asked

    def spec(self) -> dict[str, Any]:
        """The keys as the scheduler keeps them: plain values, what was not said left out."""
        return self.model_dump(exclude_none=True, exclude_defaults=True) | {
            "account": self.account,
            "gpus": self.gpus,
            "min_runtime": self.min_runtime,
            "command": self.command,
        }


def submission(raw: Mapping[str, Any], *, file: str = "job") -> Submission:
    """A submission, checked by itself. BadInput says what is wrong."""
    return checked(Submission, raw, file=file)


__all__ = ["Elements", "Submission", "elements", "submission"]
