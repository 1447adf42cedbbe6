"""What may be said about a job, live or simulated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator

from tenure.core.words import Kind
from tenure.settings.errors import Checked, checked
from tenure.settings.units import (
    AccountPath,
    Duration,
    Flag,
    Name,
    Text,
    duration_text,
    one_of,
    whole,
    within,
)

KINDS = {"batch": Kind.BATCH, "debug": Kind.DEBUG, "session": Kind.SESSION}
DEBUG_GPUS = 8
DEBUG_RUNTIME_S = 900
RESTART_S = 60
SAVE_EVERY_S = 1800
LONGEST_PERIOD_S = 10_000 * 86400  #: these columns are 32 bits wide

Gpus = Annotated[int, BeforeValidator(whole(1, 1_000_000, "a whole number of GPUs"))]
Priority = Annotated[int, BeforeValidator(whole(-(10**9), 10**9))]
Limit = Annotated[int, BeforeValidator(within(1, 10**12))]
Period = Annotated[int, BeforeValidator(within(0, LONGEST_PERIOD_S))]
KindWord = Annotated[str, BeforeValidator(one_of(*KINDS))]


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class JobFile(Checked):
    """The keys of a job that say what it asks for."""

    account: AccountPath
    gpus: Gpus
    min_runtime: Duration = 0
    resumable: Flag = True
    max_runtime: Limit | None = None
    priority: Priority = 0
    kind: KindWord = "batch"
    clusters: Annotated[list[Name], BeforeValidator(_listed)] | None = None
    gpu: Name | None = None
    same_rack: Flag = False


class HiddenJobFile(JobFile):
    """… and those that say what will happen to it, which no scheduler sees (scenarios only)."""

    runtime: Limit
    checkpoint_every: Period = SAVE_EVERY_S
    saves_when_asked: Flag | None = None
    restart: Period = RESTART_S
    fails: Flag = False

    @property
    def saves(self) -> bool:
        """Saves within its grace when told to stop: budgeted work does, and what never saves by itself."""
        if self.saves_when_asked is None:
            return self.min_runtime > 0 or self.checkpoint_every == 0
        return self.saves_when_asked


class LiveJobFile(JobFile):
    """… or those that say what runs (live only)."""

    command: list[str] | str | None = None
    env: dict[Name, Text] = {}
    workdir: Text | None = None


def job_of(raw: Mapping[str, Any], *, file: str = "--job") -> JobFile:
    """A job asked about. BadInput where a key is unknown or a value is wrong."""
    return checked(JobFile, raw, file=file)


def advice(job: JobFile, name: str) -> str | None:
    """A warning about a job that is legal and surely not meant, naming the better value."""
    if job.max_runtime is not None and job.min_runtime > job.max_runtime:
        longest = duration_text(job.max_runtime)
        return (
            f"{name}: min_runtime {duration_text(job.min_runtime)} is more than max_runtime {longest}, at"
            f" which the job is stopped; min_runtime: {longest} asks for the same and is easier to place"
        )
    return None


__all__ = [
    "DEBUG_GPUS",
    "DEBUG_RUNTIME_S",
    "KINDS",
    "HiddenJobFile",
    "JobFile",
    "LiveJobFile",
    "advice",
    "job_of",
]
