"""Which format a file is likely to be, by its first lines. A person's word (--format) goes before it."""

from __future__ import annotations

from pathlib import Path

from tenure.simulator.traces.instants import is_number
from tenure.simulator.traces.source import open_text

PARQUET = b"PAR1"


def detect_format(file: Path) -> str:
    """One of FORMATS; `csv` where nothing else fits. Raises BadInput where the file cannot be read."""
    if file.is_dir() or file.name.startswith("pai_"):
        return "pai"
    if file.is_file():
        with open(file, "rb") as plain:
            if plain.read(4) == PARQUET:
                return "tenure"
    with open_text(file) as text:
        first = ""
        while not first:
            line = text.readline(1 << 16)
            if not line:
                return "csv"
            first = line.strip()
    return _by_line(first)


def _by_line(first: str) -> str:
    if first.startswith(";") or (len(first.split()) == 18 and all(map(is_number, first.split()))):
        return "swf"
    if first.startswith("{") and '"event"' in first:
        return "tenure"
    if first[0] in "[{":
        return "philly"
    bars = {name.strip().lower() for name in first.split("|")}
    if bars & {"jobid", "jobidraw"} and "|" in first:
        return "sacct"
    cells = {name.strip().lower() for name in first.split(",")}
    if {"gpu_num", "submit_time", "start_time", "vc"} <= cells:
        return "helios"
    if {"gpu_num", "submit_time", "start_time", "user", "type"} <= cells:
        return "acme"
    return "csv"
