"""What time is it, where the machine's clock may jump? The latest of all that is known: never too late.

A deadline is an instant of the controller's clock. Three readings are kept: the machine's clock, the instant
at which this process began plus what its steady clock (which a reset does not move) has counted since, and
the newest instant that the controller wrote. A deadline is over when it is over by any of them. A clock that
was wrong may so make a trainer leave too early; it never makes it stay too long.
"""

from __future__ import annotations

import time
from collections.abc import Callable

JUMP_S = 2.0  #: a difference that is no mere rounding or slewing


def since_boot() -> float:
    """Seconds since boot, sleep included; not moved by setting the clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class SteadyClock:
    """Tells the time, and whether the machine's clock was set."""

    def __init__(
        self, wall: Callable[[], float] = time.time, ticks: Callable[[], float] = since_boot
    ) -> None:
        self._wall, self._ticks = wall, ticks
        self._began, self._began_ticks = wall(), ticks()
        self._told, self._told_ticks = self._began, self._began_ticks

    def heard(self, instant: float) -> None:
        """The controller's clock showed this instant, now or some time ago."""
        ticks = self._ticks()
        if instant > self._told + (ticks - self._told_ticks):
            self._told, self._told_ticks = instant, ticks

    def ticks(self) -> float:
        """Seconds of the steady clock: for lengths."""
        return self._ticks()

    def now(self) -> float:
        """Epoch seconds: the latest reading."""
        ticks = self._ticks()
        steady = self._began + (ticks - self._began_ticks)
        return max(self._wall(), steady, self._told + (ticks - self._told_ticks))

    def jumped_s(self) -> float:
        """By how much the machine's clock was set since this process began; 0 for less than 2 s."""
        moved = self._wall() - self._began - (self._ticks() - self._began_ticks)
        return moved if abs(moved) > JUMP_S else 0.0

    def says(self) -> str:
        """One line where the clocks differ, else ""."""
        jumped = self.jumped_s()
        if jumped:
            way = "forward" if jumped > 0 else "back"
            return f"the clock was set {way} by {abs(jumped):.0f} s: deadlines are held by the latest reading"
        behind = self._told + (self._ticks() - self._told_ticks) - self._wall()
        if behind > JUMP_S:
            return f"this clock is {behind:.0f} s behind the controller's: deadlines are held by the latter"
        return ""
