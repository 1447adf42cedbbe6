"""Who asks, on this machine? Whoever logged in there, as its kernel knows it: a variable is soon changed."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

LOGIN = Path("/proc/self/loginuid")  #: set once by the login, kept across su and sudo
NOBODY = 2**32 - 1  #: not set: a service, a container


def logged_in() -> str:
    """Their name; where the machine has none, their number."""
    try:
        login = int(LOGIN.read_text(encoding="ascii"))
    except (OSError, ValueError):
        login = NOBODY
    number = os.getuid() if login == NOBODY else login
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
