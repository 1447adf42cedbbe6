"""What do jobs say of themselves? They touch files in a folder that nodes and server share, if there is one.

`$TENURE_DONE` = FOLDER/JOBID.RESTARTS.done, `$TENURE_SAVED` = FOLDER/JOBID.RESTARTS.saved, with Slurm's own
SLURM_JOB_ID and SLURM_RESTART_COUNT.
"""

from __future__ import annotations

import os
import pwd
import re
from pathlib import Path

from tenure.engines.slurm.sight import Said

_FILE = re.compile(r"(\d+)\.(\d+)\.(done|saved)")


class SharedFolder:
    """The folder, or none."""

    def __init__(self, path: str | None) -> None:
        self.path = None if path is None else Path(path)

    def made(self) -> Path | None:
        """The folder, made so that every user may write there and touch only what is theirs."""
        if self.path is None:
            return None
        if not self.path.is_dir():
            self.path.mkdir(parents=True, exist_ok=True)
            self.path.chmod(0o1777)
        return self.path

    def said(self) -> Said:
        """What is there now; nothing where there is no folder, or it cannot be read."""
        done: dict[tuple[str, int, str], float] = {}
        saved: dict[tuple[str, int, str], float] = {}
        try:
            entries = list(os.scandir(self.path)) if self.path is not None else []
        except OSError:
            return Said()
        for entry in entries:
            matched = _FILE.fullmatch(entry.name)
            if matched is None:
                continue
            try:
                about = entry.stat(follow_symlinks=False)
                owner = pwd.getpwuid(about.st_uid).pw_name
            except (OSError, KeyError):
                continue
            (done if matched[3] == "done" else saved)[matched[1], int(matched[2]), owner] = about.st_mtime
        return Said(done, saved)
