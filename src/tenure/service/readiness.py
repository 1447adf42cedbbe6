"""Whether a question can be answered at once, or something has to be made ready first."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

KEPT = 6  #: folders of compiled code that stay, the newest ones
FOLDER = re.compile("[0-9a-f]{16}")


def kernels_ready() -> bool:
    """Whether compiled kernels of these very sources lie ready; if not, the first play compiles them.

    Before it does, compiled code of older sources is cleared away.
    """
    from tenure.core.kernel import cache_root, is_cached

    if is_cached():
        return True
    clear_away(cache_root())
    return False


def clear_away(root: Path, keep: int = KEPT) -> None:
    """Remove all but the newest folders of compiled code, and none that a process is using."""
    try:
        folders = [(one.stat().st_mtime, one) for one in root.iterdir() if FOLDER.fullmatch(one.name)]
    except OSError:
        return
    for _, folder in sorted(folders, reverse=True)[keep:]:
        _remove_unless_in_use(folder)


def _remove_unless_in_use(folder: Path) -> None:
    from tenure.core.kernel import IN_USE

    try:
        import fcntl

        lock = os.open(folder / IN_USE, os.O_RDWR | os.O_CREAT, 0o666)
    except (ImportError, OSError):
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except OSError:  # somebody uses it
        return
    finally:
        os.close(lock)
