"""When something is, as people say it: seconds of the record as instants of the calendar."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from tenure.daemon.view import View


def moment(epoch: float) -> str:
    """An instant as sentences have it: `14:20 UTC on 5 January`."""
    when = datetime.fromtimestamp(epoch, UTC)
    return f"{when:%H:%M} UTC on {when.day} {when:%B}"


def moments_of(view: View) -> Callable[[int], str]:
    """The words for a second of this view's record."""

    def when(t: int) -> str:
        return moment(view.start + t)

    return when
