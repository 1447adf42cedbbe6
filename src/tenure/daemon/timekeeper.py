"""Is this machine's clock to be believed? What jumps far ahead is waited out, what is behind is told.

Time in the record never runs backwards. So a clock that jumps a year ahead and is put right again would leave
the record a year ahead: nobody's time would be charged, and no protection would end, for a year. Between two
looks of one process time cannot pass faster than the machine's steady clock says; after a start nothing is
known, and the clock is believed.
"""

from __future__ import annotations

from tenure.engines.clock import Clock
from tenure.settings.units import duration_text

AHEAD_S = 300.0  #: further ahead of the steady clock than this is a jump
BELIEVED_AFTER_S = 600.0  #: a clock that has been set right stays where it is; by then it is believed
BEHIND_S = 5.0  #: as far behind the record as this is worth a word


class Timekeeper:
    """Compares a clock with its own steady one; a clock without one (`steady`) is always believed."""

    def __init__(self, clock: Clock) -> None:
        self._now = clock.now
        self._steady = getattr(clock, "steady", None)
        self._last: tuple[float, float] | None = None  #: (clock, steady) when it was last believed
        self._since: float | None = None  #: steady, since when it is not

    def doubt(self) -> str:
        """Why nothing should be decided by this clock now; "" where nothing speaks against it."""
        if self._steady is None:
            return ""
        now, steady = self._now(), self._steady()
        ahead_s = 0.0 if self._last is None else (now - self._last[0]) - (steady - self._last[1])
        if ahead_s <= AHEAD_S:
            self._last, self._since = (now, steady), None
            return ""
        self._since = steady if self._since is None else self._since
        left_s = BELIEVED_AFTER_S - (steady - self._since)
        if left_s <= 0:
            self._last, self._since = (now, steady), None
            return ""
        return (
            f"this machine's clock jumped ahead by {_length(ahead_s)}, so nothing is decided: put it right;"
            f" if it is right now, it is believed in {_length(left_s)}, or when the server is started anew"
        )

    def behind(self, record_at: float) -> str:
        """Why no time passes in a record whose newest instant is this; "" where it does."""
        behind_s = record_at - self._now()
        if behind_s < BEHIND_S:
            return ""
        return (
            f"this machine's clock is {_length(behind_s)} behind the record, in which no time passes"
            " until then: what runs is charged and protected as of that instant"
        )


def _length(seconds: float) -> str:
    """Rounded, as people write it: `3d`, `5h`, `12m`, `40s`."""
    for least, unit_s in ((2 * 86400, 86400), (2 * 3600, 3600), (120, 60)):
        if seconds >= least:
            return duration_text(round(seconds / unit_s) * unit_s)
    return duration_text(max(1, round(seconds)))


__all__ = ["Timekeeper"]
