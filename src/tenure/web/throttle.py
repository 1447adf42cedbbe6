"""May this address try another token? After too many that open nothing it must wait; known tokens go on.

A token of 32 random bytes is not guessed; what is spared is the record, which would be asked about each.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

MOST_FAILURES = 30  #: of one address within a stretch
STRETCH_S = 60.0
MOST_ADDRESSES = 10_000  #: kept in mind; the oldest are forgotten first
MOST_TOKENS = 10_000


class Throttle:
    """Counts tokens that opened nothing, by address. Safe to use from many threads."""

    def __init__(self, most: int = MOST_FAILURES, now: Callable[[], float] = time.monotonic) -> None:
        self._most, self._now = most, now
        self._lock = threading.Lock()
        self._failures: OrderedDict[str, tuple[float, int]] = OrderedDict()  #: since when, how many
        self._good: OrderedDict[bytes, None] = OrderedDict()  #: digests of tokens that opened something

    def wait_s(self, address: str, token: str) -> float:
        """Seconds until this address may try this token; 0: now."""
        with self._lock:
            since_s, count = self._failures.get(address, (0.0, 0))
            left_s = since_s + STRETCH_S - self._now()
            if count < self._most or left_s <= 0 or _digest(token) in self._good:
                return 0.0
            return left_s

    def failed(self, address: str) -> None:
        """A token from there opened nothing."""
        with self._lock:
            since_s, count = self._failures.get(address, (self._now(), 0))
            if self._now() >= since_s + STRETCH_S:
                since_s, count = self._now(), 0
            self._failures[address] = since_s, count + 1
            if len(self._failures) > MOST_ADDRESSES:
                self._failures.popitem(last=False)

    def passed(self, token: str) -> None:
        """This token is somebody's."""
        digest = _digest(token)
        with self._lock:
            self._good[digest] = None
            self._good.move_to_end(digest)
            if len(self._good) > MOST_TOKENS:
                self._good.popitem(last=False)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
