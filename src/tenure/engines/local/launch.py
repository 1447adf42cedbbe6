"""Can this be run here, as whom, and with what in its environment? Or why not, in one sentence."""

from __future__ import annotations

import json
import os
import pwd
import resource
import secrets
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tenure.engines.protocol import OrderRefused, Start

MOST_WORD_BYTES = 131_071  #: the kernel's bound on one argument or variable (MAX_ARG_STRLEN)
SPARE_BYTES = 65_536  #: left for the program's own path and the kernel's tables
OWN_KEYS = (
    "PATH",
    "LANG",
    "LC_ALL",
    "TZ",
    "LD_LIBRARY_PATH",
    "CUDA_HOME",
)  #: of the daemon's, the job gets these
NEVER_PASSED = frozenset(("TENURE_TOKEN",))
PLAIN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NAME_BYTES = 200


class Person(NamedTuple):
    """As whom a job runs. `uid` None: as the daemon itself."""

    name: str
    uid: int | None
    gid: int
    groups: Sequence[int]
    home: str
    shell: str


def person_of(user: str, how: str) -> Person:
    """Whom to run it as. `how`: `daemon` (all as the daemon), `switch` (as the user where root may and the
    user exists, else as the daemon) or `require` (never as anybody else).
    """
    try:
        known = pwd.getpwnam(user) if user and "\0" not in user else None
    except (KeyError, UnicodeError):
        known = None
    if how != "daemon" and known is not None and os.geteuid() == 0:
        groups = os.getgrouplist(known.pw_name, known.pw_gid)
        return Person(known.pw_name, known.pw_uid, known.pw_gid, groups, known.pw_dir, known.pw_shell)
    if how == "require" and (known is None or known.pw_uid != os.geteuid()):
        raise OrderRefused(
            f"this machine knows no user {user!r}, and jobs run as the user who submitted them"
        )
    try:
        own = pwd.getpwuid(os.geteuid())
    except KeyError:
        return Person(str(os.geteuid()), None, os.getegid(), (), "/", "/bin/sh")
    return Person(own.pw_name, None, own.pw_gid, (), own.pw_dir, own.pw_shell)


def folder_name(job: str, attempt: int) -> str:
    """A name for a folder, one for each attempt, that a person still recognizes."""
    safe = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else f"%{ord(c):x}%" for c in job)
    if not safe or len(safe) > NAME_BYTES:
        raise OrderRefused(f"a job's id has 1 to {NAME_BYTES} bytes, this one has {len(safe)}")
    return f"{safe}.{attempt}"


def command_of(start: Start) -> list[str]:
    """What is executed: the words as they are, or, where it is one string, a shell that reads it."""
    words = list(start.command)
    if not words or not all(isinstance(word, str) for word in words):
        raise OrderRefused("there is no command to run")
    if len(words) == 1:
        shell = "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"
        return [shell, "-c", words[0]]
    if not words[0]:
        raise OrderRefused("the first word of the command is empty")
    return words


def env_of(start: Start, person: Person, folder: Path, slots: Sequence[int]) -> dict[str, str]:
    """What the job finds in its environment. Nothing of the daemon's but a few plain settings.

    Whoever starts it may know better where its gang is (a run's controller does): then `TENURE_NODES` is
    theirs.
    """
    env = {key: os.environ[key] for key in OWN_KEYS if key in os.environ}
    env.setdefault("PATH", PLAIN_PATH)
    env |= {"HOME": person.home, "USER": person.name, "LOGNAME": person.name, "SHELL": person.shell}
    env["TENURE_NODES"] = json.dumps(dict(start.nodes))
    env |= {key: value for key, value in start.env.items() if key not in NEVER_PASSED}
    return env | {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # as NVML counts
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, slots)),
        "TENURE_JOB": start.job,
        "TENURE_NAME": start.name,
        "TENURE_ATTEMPT": str(start.attempt),
        "TENURE_ACCOUNT": start.account,
        "TENURE_DONE": str(folder / "signs" / "done"),
        "TENURE_SAVED": str(folder / "signs" / "saved"),
        "TENURE_NOTICE": str(folder / "notice"),
        "TENURE_MARK": secrets.token_hex(8),  # by which its processes are known
    }


def check_words(command: Sequence[str], env: Mapping[str, str]) -> None:
    """Refuse what the kernel would: NUL, too long a word, too much in all."""
    stack = resource.getrlimit(resource.RLIMIT_STACK)[0]
    most = (8 << 20 if stack == resource.RLIM_INFINITY else min(stack, 24 << 20)) // 4 - SPARE_BYTES
    total = 0
    named = [(f"argument {i}", word) for i, word in enumerate(command)]
    for key, value in env.items():
        if not key or "=" in key:
            raise OrderRefused(f"a variable cannot be called {key[:40]!r}")
        named.append((f"variable {key[:40]!r}", f"{key}={value}"))
    for what, word in named:
        try:
            data = os.fsencode(word)
        except UnicodeEncodeError:
            raise OrderRefused(f"{what} holds what is no text (a lone surrogate)") from None
        if b"\0" in data:
            raise OrderRefused(f"{what} holds a NUL byte, which no program can be given")
        if len(data) > MOST_WORD_BYTES:
            raise OrderRefused(
                f"{what} is {len(data)} bytes long, the kernel takes {MOST_WORD_BYTES}: put it into a file"
            )
        total += len(data) + 9  # its end, and a pointer to it
    if total > most:
        raise OrderRefused(
            f"command and environment are {total} bytes, the kernel takes {most}: put them into a file"
        )


def signal_of(env: Mapping[str, str]) -> int:
    """The signal that a job wants at a notice (TENURE_NOTICE_SIGNAL: `USR1`, `SIGUSR1`, `10`); 0 = none."""
    word = env.get("TENURE_NOTICE_SIGNAL", "").upper().removeprefix("SIG")
    if not word:
        return 0
    found = int(word) if word.isdigit() else getattr(signal.Signals, f"SIG{word}", 0)
    if found not in set(signal.Signals):
        raise OrderRefused(f"TENURE_NOTICE_SIGNAL: there is no signal {word[:20]!r}")
    return int(found)


def instructions(start: Start, folder: Path, slots: Sequence[int], users: str) -> dict[str, Any]:
    """Everything a shepherd must know. OrderRefused where it can never run."""
    person = person_of(start.user, users)
    command = command_of(start)
    env = env_of(start, person, folder, slots)
    check_words(command, env)
    workdir = start.workdir or person.home
    check_words([workdir], {})
    return {
        "id": start.id,
        "job": start.job,
        "attempt": start.attempt,
        "nodes": dict(start.nodes),
        "slots": list(slots),
        "command": command,
        "env": env,
        "workdir": workdir,
        "uid": person.uid,
        "gid": person.gid,
        "groups": list(person.groups),
        "max_runtime_s": start.max_runtime_s,
        "notice_signal": signal_of(start.env),
    }
