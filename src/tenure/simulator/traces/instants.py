"""Texts to seconds: instants with or without a zone, durations as Slurm writes them, plain numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from tenure.settings.errors import BadInput

NAN = math.nan
F8s = NDArray[np.float64]
LARGEST = 1e15
LATEST_S = 7_258_118_400  #: the year 2200; what is later, or before 1970, is a slip
CLOCK_CHANGE = "a local time that came twice or never, read by the offset before the change"


class Clock:
    """Reads instants as Unix seconds; those that name no zone of their own are local to `zone`.

    A local time that came twice or never (the hours of a clock change) is read by the offset before the
    change; `unsure_hours` then holds that hour, so that a reader can count what it guessed.
    """

    def __init__(self, zone: str = "UTC") -> None:
        try:
            self.zone = ZoneInfo(zone)
        except (KeyError, ValueError, OSError) as problem:
            raise BadInput("timezone", "", repr(zone), "a name like Europe/Paris or UTC") from problem
        self.unsure_hours: set[str] = set()
        self._hours: dict[str, float] = {}

    def epoch(self, text: str) -> float:
        """Unix seconds of a text like 2020-06-09 18:41:01 (or with T, Z, +08:00, fractions); NaN if none."""
        if len(text) >= 19 and text[13] == ":" and text[16] == ":":
            tail = text[19:]
            hour = text[:13] + tail
            base = self._hours.get(hour)
            if base is None:
                base = self._learn(hour, tail)
            if base == base:  # not NaN
                try:
                    minute, second = int(text[14:16]), int(text[17:19])
                except ValueError:
                    return NAN
                if 0 <= minute < 60 and 0 <= second <= 60:
                    return base + 60 * minute + second
                return NAN
        return self._slowly(text)

    def column(self, texts: Sequence[str]) -> F8s:
        """`epoch` of each text."""
        epoch = self.epoch
        return np.fromiter((epoch(text) for text in texts), np.float64, len(texts))

    def guesses(self, texts: Sequence[str]) -> dict[str, NDArray[np.bool_]]:
        """For a block's `guesses`: which of the texts lie in an hour that came twice or never."""
        if not self.unsure_hours:
            return {}
        hours = self.unsure_hours
        return {CLOCK_CHANGE: np.array([t[:13].replace("T", " ") in hours for t in texts], np.bool_)}

    def _learn(self, hour: str, tail: str) -> float:
        """Seconds of the full hour where all its minutes lie one after the other, else NaN; remembered."""
        base = NAN
        if "." not in tail:  # fractions would make each text an hour of its own
            base = self._slowly(f"{hour[:13]}:00:00{tail}")
            last = self._slowly(f"{hour[:13]}:59:59{tail}")
            if last - base != 3599 or hour[:13].replace("T", " ") in self.unsure_hours:
                base = NAN
            self._hours[hour] = base
        return base

    def _slowly(self, text: str) -> float:
        text = text.strip().replace("/", "-")
        if text.endswith((" UTC", " GMT")):
            text = text[:-4] + "+00:00"
        if len(text) < 10 or not text[:1].isdigit():
            return NAN
        try:
            when = datetime.fromisoformat(text)
            if when.tzinfo is None:
                when = when.replace(tzinfo=self.zone)
                if when.utcoffset() != when.replace(fold=1).utcoffset():
                    self.unsure_hours.add(f"{when:%Y-%m-%d %H}")
            instant = when.timestamp()
            return instant if 0 <= instant < LATEST_S else NAN
        except (ValueError, OverflowError):
            return NAN


def iso(epoch_s: float) -> str:
    """ISO 8601 UTC of Unix seconds, to the second."""
    when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=int(epoch_s))
    return when.replace(tzinfo=None).isoformat() + "Z"


def numbers(texts: Sequence[str]) -> F8s:
    """Each text as a number; NaN where it is none, or one too large to be an amount of anything."""
    try:
        told = np.array(texts, np.float64)
    except (ValueError, OverflowError):
        told = np.fromiter((number(text) for text in texts), np.float64, len(texts))
    return bounded(told)


def bounded(told: F8s) -> F8s:
    """The same array, NaN where it held infinity or what sums and differences could make one of."""
    told[~(np.abs(told) <= LARGEST)] = np.nan
    return told


def number(text: str) -> float:
    """The number a text says; NaN if none."""
    try:
        return float(text)
    except ValueError:
        return NAN


def is_number(text: str) -> bool:
    """Whether the text says a finite number."""
    return math.isfinite(number(text))


def durations(texts: Sequence[str]) -> F8s:
    """Each text as seconds: a number, or days and hours as Slurm writes them; NaN where it is neither."""
    try:
        told = np.array(texts, np.float64)
    except (ValueError, OverflowError):
        told = np.fromiter((duration(text) for text in texts), np.float64, len(texts))
    return bounded(told)


def duration(text: str) -> float:
    """Seconds of `90`, `MM:SS`, `HH:MM:SS`, `D-HH:MM:SS`, `D-HH:MM` or `D-HH`; NaN where it is none."""
    if len(text) == 8 and text[2] == ":" == text[5]:  # by far the most
        hours, minutes, seconds = text[:2], text[3:5], text[6:]
        if hours.isdecimal() and minutes.isdecimal() and seconds.isdecimal():
            return int(hours) * 3600.0 + int(minutes) * 60 + int(seconds)
    plain = number(text)
    if plain == plain or (":" not in text and "-" not in text):
        return plain
    days, dash, rest = text.strip().rpartition("-")
    parts = rest.split(":")
    if not all(part[:1].isdigit() for part in parts) or len(parts) > 3 or (dash and not days.isdigit()):
        return NAN
    told = [number(part) for part in parts]
    if dash:
        told += [0.0] * (3 - len(told))  # after days come hours
    else:
        told = [0.0] * (3 - len(told)) + told
    return number(days or "0") * 86400 + told[0] * 3600 + told[1] * 60 + told[2]
