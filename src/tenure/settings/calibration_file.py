"""The file of `plan calibrate`: readings of racks beside the meters above them, as CSV columns."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import BeforeValidator, Field

from tenure.settings.errors import BadInput, Checked, checked, nearest, shown
from tenure.settings.plan_units import OpenPart, Part
from tenure.settings.units import Text, number, whole
from tenure.settings.yaml_file import read_yaml

MOST_SAMPLES = 1_000_000
MOST_COLUMNS = 5000


class MeterFile(Checked):
    """A meter's column, the racks below it, and the known part lost between them."""

    column: Text
    racks: Annotated[list[Text], Field(min_length=1, max_length=MOST_COLUMNS)]
    loss: Part = 0.0


class CalibrationFile(Checked):
    """`fit`: samples, from the first, that factors are found from; the rest is watched for drift."""

    readings: Text
    time: Text = "time"
    meters: Annotated[list[MeterFile], Field(min_length=1, max_length=1000)]
    fit: Annotated[int, BeforeValidator(whole(6, MOST_SAMPLES, "a whole number of samples"))] | None = None
    independent: Part = 0.03
    common: Part = 0.0
    confidence: OpenPart = 0.999


class Readings(NamedTuple):
    """`times`: as written; `columns`: numbers by name, all of one length."""

    times: list[str]
    columns: dict[str, list[float]]


def read_calibration_file(path: Path) -> CalibrationFile:
    """The file, checked; BadInput where it is wrong."""
    plan = checked(CalibrationFile, read_yaml(path), file=str(path))
    for row, meter in enumerate(plan.meters):
        twice = next((name for name in meter.racks if meter.racks.count(name) > 1), None)
        if twice is not None or meter.column in meter.racks:
            found = f"'{twice or meter.column}' twice"
            raise BadInput(str(path), f"meters[{row}].racks", found, "each column once")
    return plan


def read_readings(path: Path, plan: CalibrationFile) -> Readings:
    """The columns that the plan names. BadInput names the line of what is no number."""
    wanted = list(dict.fromkeys(name for meter in plan.meters for name in (meter.column, *meter.racks)))
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as problem:
        raise BadInput(str(path), "", str(problem).split(": ")[0], "a CSV file that can be read") from None
    rows = csv.DictReader(text.splitlines())
    for name in (plan.time, *wanted):
        if name not in (rows.fieldnames or ()):
            raise BadInput(str(path), "line 1", f"no column '{name}'", nearest(name, rows.fieldnames or ()))
    told = Readings([], {name: [] for name in wanted})
    for row in rows:
        if len(told.times) >= MOST_SAMPLES:
            raise BadInput(str(path), f"line {rows.line_num}", "more samples", f"at most {MOST_SAMPLES}")
        told.times.append((row[plan.time] or "").strip())
        for name in wanted:
            told.columns[name].append(_power(row[name], path, f"line {rows.line_num}: {name}"))
    return told


def _power(value: str | None, path: Path, where: str) -> float:
    try:
        found = float(number((value or "").strip()))
    except ValueError:
        raise BadInput(str(path), where, shown(value), "a power, 0 or more, in one unit throughout") from None
    if found < 0 or not math.isfinite(found):
        raise BadInput(str(path), where, shown(value), "a power, 0 or more, in one unit throughout")
    return found
