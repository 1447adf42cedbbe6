"""Where the server is, and with which token: as told, by the environment, or by a server's file here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

URL = "http://127.0.0.1:8400"
TOKEN_FILE = Path(".tenure") / "admin.token"


class Place(NamedTuple):
    """A server, and who asks. `token`: "" where none was found."""

    url: str
    token: str


def place_of(url: str | None = None, token: str | None = None) -> Place:
    """`url`, else TENURE_URL, else loopback; `token`, else TENURE_TOKEN, else `.tenure/admin.token`."""
    found = url or os.environ.get("TENURE_URL") or URL
    if "://" not in found:
        found = f"http://{found}"
    return Place(found.rstrip("/"), token or os.environ.get("TENURE_TOKEN") or _of_file(TOKEN_FILE))


def _of_file(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
