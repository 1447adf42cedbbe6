"""How are Slurm's own programs asked? Each call is bounded in time, and answers or says why not.

While slurmctld is down its clients hang: silence is EngineUnavailable, never an answer.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

from tenure.engines.protocol import EngineError, EngineUnavailable

#: What Slurm's clients say when nobody is there to answer. Anything else on stderr is an answer.
SILENT = (
    "unable to contact slurm controller",
    "socket timed out",
    "connection refused",
    "connection timed out",
    "unable to establish",
    "zero bytes were transmitted",
    "communication connection failure",
    "slurm backup controller in standby",
    "unexpected message received",
    "munge",
    "protocol authentication error",
    "resource temporarily unavailable",
    "failed to fetch config",
    "could not establish a configuration source",
)


class Failed(EngineError):
    """Slurm answered, and refused: its own words."""


class Programs:
    """Slurm's clients. `env`: added to ours, such as SLURM_CONF."""

    def __init__(self, *, timeout_s: float = 5.0, env: Mapping[str, str] | None = None) -> None:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("SQUEUE_", "SINFO_"))}
        self._env = {
            **kept,
            "LC_ALL": "C.UTF-8",
            **(env or {}),
            "SLURM_TIME_FORMAT": "%s",
            "SLURM_BITSTR_LEN": "0",
        }
        self._timeout_s = timeout_s

    def ask(self, *argv: str, text: str | None = None, timeout_s: float | None = None) -> str:
        """
        What the program writes. `text` is its input.

        Raises EngineUnavailable when it cannot be run, does not end in time or finds nobody; Failed with
        Slurm's words when it is refused.
        """
        try:
            done = subprocess.run(
                argv,
                env=self._env,
                input="" if text is None else text,
                capture_output=True,
                timeout=timeout_s or self._timeout_s,
                encoding="utf-8",
                errors="replace",
            )
        except subprocess.TimeoutExpired:
            raise EngineUnavailable(
                f"{argv[0]} did not answer within {timeout_s or self._timeout_s:g} s"
            ) from None
        except OSError as error:
            raise EngineUnavailable(f"{argv[0]} cannot be run: {error.strerror}") from None
        if done.returncode == 0:
            return done.stdout
        words = _said(done.stderr, done.stdout) or f"{argv[0]} ended with {done.returncode}"
        if any(silence in words.lower() for silence in SILENT):
            raise EngineUnavailable(f"{argv[0]}: {words}")
        raise Failed(f"{argv[0]}: {words}")

    def told(self, *argv: str) -> str:
        """As `ask`, for questions that cannot be wrong: a refusal too is no answer now."""
        try:
            return self.ask(*argv)
        except Failed as error:
            raise EngineUnavailable(str(error)) from None


def _said(*texts: str) -> str:
    lines = [line.strip() for text in texts for line in text.splitlines() if line.strip()]
    return "; ".join(lines)[:500]


def batches(ids: Sequence[str], size: int = 100) -> list[str]:
    """Ids joined by commas, `size` a call: a call of 100 costs little more than a call of one."""
    return [",".join(ids[begin : begin + size]) for begin in range(0, len(ids), size)]
