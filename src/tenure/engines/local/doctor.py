"""As whom do jobs run on this machine, and what is odd about it? A finding is (subject, ok, text, remedy)."""

from __future__ import annotations

from collections.abc import Sequence

Finding = tuple[str, bool | None, str, str]

KEY = "live: {engine: {local: {users: …}}}"


def findings(users: str, euid: int, own: str, remarks: Sequence[str]) -> list[Finding]:
    """`users`: the key of the lab's file; `euid`, `own`: the server's user, as a number and by name."""
    return [_who(users, euid, own), *(("machine", None, remark, "") for remark in remarks)]


def _who(users: str, euid: int, own: str) -> Finding:
    if euid != 0 and users == "require":
        text = f"jobs run as {own}, like the server; those of anybody else are refused"
        return ("users", True, text, "")
    if euid != 0:
        text = f"all jobs run as {own}, like the server: one user's job can touch another's files"
        return ("users", None, text, "start the server as root, and jobs run as those who submit them")
    if users == "daemon":
        return ("users", None, "all jobs run as root", f"{KEY} switch or require")
    if users == "switch":
        text = "jobs run as those who submit them; as root where this machine does not know the user"
        return ("users", None, text, f"{KEY} require refuses those jobs")
    return ("users", True, "jobs run as those who submit them, never as anybody else", "")
