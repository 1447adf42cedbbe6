"""How a server with many threads keeps its memory small: one heap for all, large arrays given back at once.

Rubbish that refers to itself is looked for among young objects all the time, and among all objects only now
and then: with 14,000 jobs that takes 90 ms, and it struck one turn in twenty.

The C library gives each of many threads a heap of its own, where what is free stays; a server that answers
in threads and copies its board each turn would hold twice what it uses. Other C libraries are left as they
are.
"""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable
from contextlib import suppress

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of <malloc.h>
HEAPS = 2
LARGE = 1 << 20  #: bytes from which a piece of memory is the kernel's own again once it is free


SWEEP_EVERY_S = 600.0
NEVER = 1 << 30  #: rounds among young objects before one among all


def keep_small() -> None:
    """To be called before threads are started."""
    for name, value in ((M_ARENA_MAX, HEAPS), (M_MMAP_THRESHOLD, LARGE), (M_TRIM_THRESHOLD, LARGE)):
        with suppress(AttributeError, OSError):
            ctypes.CDLL(None).mallopt(name, value)


def give_back() -> None:
    """What is free goes back to the kernel: once after the start, which needs much and keeps little."""
    gc.collect()
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


class Sweeper:
    """Looks for rubbish among all objects, every ten minutes; from its first look on nobody else does."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._next: float | None = None

    def look(self) -> None:
        """To be called every second or so."""
        now = self._now()
        if self._next is None:
            gc.set_threshold(*gc.get_threshold()[:2], NEVER)
        elif now < self._next:
            return
        else:
            gc.collect()
        self._next = now + SWEEP_EVERY_S


__all__ = ["Sweeper", "give_back", "keep_small"]
