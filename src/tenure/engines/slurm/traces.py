"""How did a job end that Slurm no longer speaks of? From its accounting or its list of completed jobs.

slurmctld forgets an ended job after MinJobAge. Who was away for longer asks sacct (slurmdbd), else the file
of `jobcomp/filetxt`. A job that left no trace is reported as ended, with that said.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from tenure.engines.protocol import EngineUnavailable, SeenAttempt
from tenure.engines.slurm.programs import Failed, Programs
from tenure.engines.slurm.sight import UNKNOWN_EXIT

NO_TRACE = "it left Slurm without a trace: nobody looked within MinJobAge, and there is no accounting"
MOST_BYTES = 16 << 20  #: of the end of the file of completed jobs


class Trace(NamedTuple):
    """One end, as accounting has it."""

    state: str
    started: float | None
    ended: float | None
    exit_code: int | None
    signal: int | None
    source: str


class Traces:
    """Both places."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self._config: Mapping[str, str] | None = None

    def end_of(self, last: SeenAttempt, at: float) -> SeenAttempt:
        """The attempt, ended. `at`: when it was missed, taken where nothing better is known."""
        trace = self._from_sacct(last) or self._from_file(last)
        if trace is None:
            return last._replace(ended=at, exit_code=UNKNOWN_EXIT, detail=NO_TRACE)
        exit_code = trace.exit_code
        if trace.state != "COMPLETED" and not exit_code and trace.signal is None:
            exit_code = UNKNOWN_EXIT
        return last._replace(
            started=trace.started if trace.started is not None else last.started,
            ended=trace.ended if trace.ended is not None else at,
            exit_code=exit_code,
            signal=trace.signal,
            node_failed=trace.state in ("NODE_FAIL", "BOOT_FAIL"),
            timed_out=trace.state in ("TIMEOUT", "DEADLINE"),
            cancelled=trace.state == "CANCELLED" and not last.told,
            detail=f"{trace.source} says {trace.state.lower()}",
        )

    def _setting(self, key: str) -> str:
        if self._config is None:
            found = {}
            for line in self._programs.told("scontrol", "show", "config").splitlines():
                name, equals, value = line.partition("=")
                if equals:
                    found[name.strip()] = value.strip()
            self._config = found
        return self._config.get(key, "")

    def _from_sacct(self, last: SeenAttempt) -> Trace | None:
        """The newest end that accounting has of it: each requeue leaves one."""
        try:
            if "slurmdbd" not in self._setting("AccountingStorageType"):
                return None
            said = self._programs.ask(
                "sacct", "-n", "-P", "-X", "-D", "-j", last.job, "-S", "now-30days",
                "-o", "JobID,State,Start,End,ExitCode",
            )  # fmt: skip
        except (Failed, EngineUnavailable):
            return None
        rows = [line.split("|") for line in said.splitlines() if line.count("|") == 4]
        rows = [row for row in rows if row[0] == last.job and _epoch(row[3]) is not None]
        return _of_sacct(rows[-1]) if rows else None

    def _from_file(self, last: SeenAttempt) -> Trace | None:
        try:
            if self._setting("JobCompType") != "jobcomp/filetxt":
                return None
            with Path(self._setting("JobCompLoc")).open("rb") as file:
                file.seek(0, 2)
                file.seek(max(0, file.tell() - MOST_BYTES))
                text = file.read().decode("utf-8", "replace")
        except (EngineUnavailable, OSError):
            return None
        return from_completions(text, last)


def _of_sacct(row: list[str]) -> Trace:
    code, _, signal = row[4].partition(":")
    number = int(signal) if signal.isdigit() and signal != "0" else None
    exit_code = int(code) if code.isdigit() and number is None else None
    return Trace(row[1].split()[0], _epoch(row[2]), _epoch(row[3]), exit_code, number, "sacct")


def _epoch(text: str) -> float | None:
    """Epoch seconds, or the local time that Slurm writes."""
    if text.isdigit():
        return float(text)
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except ValueError:
        return None


def from_completions(text: str, last: SeenAttempt) -> Trace | None:
    """The newest end of the job in what `jobcomp/filetxt` wrote."""
    task = re.fullmatch(r"(\d+)_(\d+)", last.job)
    found = None
    for line in text.splitlines():
        words = dict(word.split("=", 1) for word in line.split() if "=" in word)
        if task is not None:
            if (words.get("ArrayJobId"), words.get("ArrayTaskId")) != (task[1], task[2]):
                continue
        elif words.get("JobId") != last.job:
            continue
        code, _, signal = words.get("ExitCode", "").partition(":")
        number = int(signal) if signal.isdigit() and signal != "0" else None
        found = Trace(
            words.get("JobState", "UNKNOWN"),
            _epoch(words.get("StartTime", "")),
            _epoch(words.get("EndTime", "")),
            int(code) if code.isdigit() and number is None else None,
            number,
            "the list of completed jobs",
        )
    return found
