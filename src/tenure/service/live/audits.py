"""Owed and delivered, of the server's own record: the same measures as of any story's file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tenure.service import audits
from tenure.service.live.desk import Desk
from tenure.service.live.people import Who
from tenure.service.live.record import story_lines


def measured(desk: Desk, who: Who, since: str | None) -> dict[str, Any]:
    """The measures of the record, the last `since` of it; `heading` and `shares` beside them.

    Raises BadInput, NotReady.
    """
    first, lines = story_lines(desk, who, since)
    with tempfile.TemporaryDirectory(prefix="tenure-") as folder:
        path = Path(folder) / "story.jsonl"
        with path.open("w", encoding="utf-8") as out:
            out.write(first)
            out.writelines(lines)
        told = audits.audit(path)
    return {**told.measures, "heading": told.heading, "shares": told.shares}
