"""What does a process call itself where it holds a lease? By a name that no other process anywhere has.

Machine and number are not enough: containers may share a host name, and in each of them the first process is
number 1. A random part, kept as long as the process lives, tells them apart; the rest is for people, and for
finding out whether a process of this very machine is gone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import socket
from pathlib import Path

PROC = Path("/proc")
NOWHERE = "0"  #: where a process's place cannot be told

_random: dict[int, str] = {}  #: by process, so that one that was forked has its own


def own_name() -> str:
    """host-place-process-random; `place` tells this boot of this machine and this container."""
    process = os.getpid()
    if process not in _random:
        _random.clear()
        _random[process] = secrets.token_hex(4)
    return f"{socket.gethostname()}-{_place()}-{process}-{_random[process]}"


def is_gone(name: str) -> bool:
    """Whether it was a process right here that is no more. False for all that cannot be seen from here."""
    before, _, _ = name.rpartition("-")
    machine, _, process = before.rpartition("-")
    here = _place() != NOWHERE and machine == f"{socket.gethostname()}-{_place()}"
    return here and process.isdigit() and not (PROC / process).exists()


def _place() -> str:
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii")
        seen = os.readlink(PROC / "self/ns/pid")  # process numbers are told apart by these two
    except OSError:
        return NOWHERE
    return hashlib.sha256(f"{boot}{seen}".encode()).hexdigest()[:8]


def name_in(folder: Path) -> str:
    """
    host:folder:random, the same as long as the folder is there: who comes back leads again at once.

    For a folder that is locked by whoever uses it. Containers may share host name, path and record. Where
    nothing can be written, the name lasts as long as its process.
    """
    path = folder / "holder.id"
    try:
        kept = path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        kept = ""  # or cut off by a crash just as it was made: nobody has led by it
    if not kept:
        kept = secrets.token_hex(4)
        with contextlib.suppress(OSError):
            path.write_text(f"{kept}\n", encoding="ascii")
    return f"{socket.gethostname()}:{folder.resolve()}:{kept}"
