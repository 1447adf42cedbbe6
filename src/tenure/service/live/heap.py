"""How a server with many threads keeps its memory small: one heap for all, large arrays given back at once.

The C library gives each of many threads a heap of its own, where what is free stays; a server that answers in
threads and copies its board each turn would hold twice what it uses. Other C libraries are left as they are.
"""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of <malloc.h>
HEAPS = 2
LARGE = 1 << 20  #: bytes from which a piece of memory is the kernel's own again once it is free


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


__all__ = ["give_back", "keep_small"]
