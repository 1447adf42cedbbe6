"""What does a site say about its Slurm? Which partition is Tenure's, and what its words mean here."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator

from tenure.settings.errors import Checked
from tenure.settings.units import AccountPath, Duration, Flag, Name, Text, number, one_of


def _seconds(low: float, high: float) -> BeforeValidator:
    def read(value: Any) -> float:
        seconds = float(number(value, f"seconds from {low:g} to {high:g}"))
        if not low <= seconds <= high:
            raise ValueError(f"seconds from {low:g} to {high:g}")
        return seconds

    return BeforeValidator(read)


class SlurmSettings(Checked):
    """Keys of `live: {engine: {slurm: …}}`. All have defaults."""

    partition: Name = "tenure"
    conf: Text | None = None  #: SLURM_CONF, where it is not the machine's own
    folder: Text | None = (
        None  #: on a file system that nodes and server share: jobs say there that they are done
    )
    accounts: dict[Name, AccountPath] = {}  #: Slurm's account → ours
    users: dict[Name, AccountPath] = {}  #: user → account, where neither comment nor account says it
    qos: dict[
        Name, dict[str, Any]
    ] = {}  #: Slurm's QOS → keys of a job, such as {kind: debug, min_runtime: 15m}
    gpu_types: dict[Name, Name] = {}  #: Slurm's GRES type → the lab's name of that GPU
    min_runtime: Duration = 0  #: of a job that names none
    notice_signal: Annotated[str, BeforeValidator(one_of("", "USR1", "USR2", "HUP", "CONT"))] = ""
    submit_as: Annotated[str, BeforeValidator(one_of("caller", "server"))] = "caller"
    killwait_s: Annotated[float | None, _seconds(0, 3600)] = None  #: Slurm's KillWait; None = ask it
    timeout_s: Annotated[float, _seconds(0.1, 60)] = 5.0  #: of one call of a Slurm program
    watch_s: Annotated[float, _seconds(0, 600)] = (
        1.0  #: how often to look whether anything changed; 0 = never
    )
    watched: list[Name] | None = None  #: partitions that shadow mode reads; [] = all, None = `partition`
    keep_foreign_out: Flag = True  #: hold what came to our partition unheld, and is not ours to have started
