"""Records in files, and processes that are surely the ones meant. Standard library only: shepherds use it."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

TICK_S = 0.05  #: by so much the times of files may lag behind the clock
NO_PROCESS = (ProcessLookupError, FileNotFoundError)


def read_record(path: str) -> dict[str, Any] | None:
    """A record, or None where there is none (yet)."""
    try:
        with open(path, "rb") as file:
            found: dict[str, Any] = json.loads(file.read())
    except FileNotFoundError:
        return None
    except ValueError:  # torn by a power cut: as if it had not been written
        return None
    return found


def write_record(path: str, record: dict[str, Any], *, sync: str = "") -> None:
    """All of it or nothing. `sync`: `file`, its content survives a power cut; `all`, its name does too."""
    beside = f"{path}.{os.getpid()}"
    file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(file, json.dumps(record).encode())
        if sync:
            os.fsync(file)
    finally:
        os.close(file)
    os.replace(beside, path)
    if sync == "all":
        sync_folder(os.path.dirname(path) or ".")


def sync_folder(folder: str) -> None:
    """What was renamed into it stays there through a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def stat_of(pid: int) -> tuple[str, int, int, int] | None:
    """(state, parent, session, start in ticks after boot) of a process; None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b") ")[2].split()
    except OSError:
        return None
    return fields[0].decode(), int(fields[1]), int(fields[3]), int(fields[19])


def is_there(pid: int, ticks: int) -> bool:
    """Whether the process that began then still lives: a number may have been given to another since."""
    found = stat_of(pid)
    return found is not None and found[3] == ticks and found[0] not in "ZX"


def send(pid: int, ticks: int, signum: int) -> bool:
    """Signal exactly this process, never one that has its number now. False if it is gone."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not is_there(pid, ticks):
            return False
        signal.pidfd_send_signal(handle, signum)
        return True
    except NO_PROCESS:
        return False
    finally:
        os.close(handle)


def boot_mark() -> str:
    """Names this run of the machine (or container): processes of another run are gone."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    first = stat_of(1)
    return f"{boot} {first[3] if first else 0}"


def boot_s() -> float:
    """Seconds since boot, which no setting of the clock moves."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def modified(path: str) -> float | None:
    """When a file was last touched."""
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return None


def touched_between(path: str, since: float | None, until: float) -> float | None:
    """When a job last touched a file of its own; it may claim no instant outside its own time."""
    at = modified(path)
    return None if at is None or since is None or at < since - TICK_S else max(since, min(at, until))


def ran_out_of_memory(folders: list[str]) -> bool:
    """Whether the kernel killed something in these cgroups for its memory."""
    for path in [
        f"{folder}/{name}" for folder in folders for name in ("memory.events", "memory.oom_control")
    ]:
        try:
            with open(path, encoding="ascii") as file:
                if any(line.startswith("oom_kill ") and line.split()[1] != "0" for line in file):
                    return True
        except OSError:
            continue
    return False


def procs_of(folder: str) -> list[int]:
    """Processes in a cgroup and all below it."""
    found: list[int] = []
    for where, _, _ in os.walk(folder):
        try:
            with open(f"{where}/cgroup.procs", encoding="ascii") as file:
                found += [int(line) for line in file]
        except OSError:
            continue
    return found


def has_mark(pid: int, mark: bytes) -> bool:
    """Whether a process was started with this in its environment."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return mark in file.read().split(b"\0")
    except OSError:
        return False


def put(path: str, text: str) -> bool:
    """Write into a control file; False where it is not there or not ours to write."""
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
    except OSError:
        return False
    return True


def remove_cgroups(folders: list[str]) -> None:
    """Take away what is empty now."""
    for folder in folders:
        for where, _, _ in os.walk(folder, topdown=False):
            try:
                os.rmdir(where)
            except OSError:
                continue
