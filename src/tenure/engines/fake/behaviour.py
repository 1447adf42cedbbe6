"""What would this job do? For a cluster that runs nothing and must still end every job in some way.

A scenario's keys say it exactly (`Behaviour`); where nobody says it, the command does: `sleep 60`, `true`,
`exit 3` mean what they mean, anything else runs for a time drawn from the job's id.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tenure.engines.protocol import Start

UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
SHORTEST_S, LONGEST_S = 30, 300  #: of a command of which nothing is known


class Behaviour(NamedTuple):
    """What will happen to a job if it is left alone: the keys of a scenario's job, in seconds."""

    runtime_s: float  #: useful work, over all its attempts
    checkpoint_every_s: float = 1800  #: useful work between saves, which cost nothing; 0 = none by itself
    saves_when_asked: bool = True  #: saves within its grace when it is told to stop
    restart_s: float = 60  #: each attempt after the first spends so long before work
    fails: bool = False  #: it ends in failure
    exit_code: int | None = None  #: of its own end; by default 1 where it fails, else 0
    resumable: bool = True  #: a later attempt goes on where the last one saved
    starts_after_s: float = 0  #: from the order to its first process
    leaves_after_s: float | None = (
        None  #: told to stop, it is gone after so long (at most the grace, which is the default)
    )


Behave = Callable[[str, int, Start], Behaviour]


def by_command(job: str, attempt: int, start: Start) -> Behaviour:
    """What the command says: `sleep`, `true`, `false`, `exit`, alone or in a shell's string."""
    command = list(start.command)
    if len(command) >= 3 and command[0].rsplit("/", 1)[-1] in ("sh", "bash") and command[1] in ("-c", "-lc"):
        command = [command[2]]
    if len(command) == 1:
        command = _words(command[0])
    runtime_s, exit_code = 0.0, 0
    step: list[str] = []
    for word in [*command, ";"]:
        if word not in (";", "&&"):
            step.append(word)
            continue
        if step:
            took_s, exit_code = _step(job, step)
            runtime_s += took_s
            if step[0] == "exit" or (exit_code and word == "&&"):
                break
        step = []
    return Behaviour(runtime_s, 0, True, 0, exit_code != 0, exit_code)


def _words(text: str) -> list[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&")
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError:  # an open quote: nothing is known of it
        return text.split()


def _step(job: str, words: Sequence[str]) -> tuple[float, int]:
    """(seconds, exit code) of one command."""
    name = words[0].rsplit("/", 1)[-1]
    if name == "sleep":
        try:
            return sum(_seconds(word) for word in words[1:]), 0
        except ValueError:
            return 0.0, 1
    if name in ("true", ":", "echo"):
        return 0.0, 0
    if name == "false":
        return 0.0, 1
    if name == "exit":
        return 0.0, int(words[1]) & 255 if len(words) > 1 and words[1].isdigit() else 0
    digest = hashlib.sha256(f"{job}\0{' '.join(words)}".encode("utf-8", "replace")).digest()
    return SHORTEST_S + int.from_bytes(digest[:4], "big") % (LONGEST_S - SHORTEST_S + 1), 0


def _seconds(word: str) -> float:
    unit = UNIT_S.get(word[-1:])
    value = float(word[:-1] if unit else word) * (unit or 1)
    if not 0 <= value < 1e10:
        raise ValueError(word)
    return value
