"""How do people hear that something is wrong with a run? By a webhook, at once, with the time that is left.

A webhook that does not answer holds nothing up: the alarm is in the book either way; `run status` shows it.
"""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime

from tenure.runs.look import Sound

ANSWER_S = 10.0


class Webhook:
    """Posts `{"run", "mode", "text", "left_s", "at"}` to an address, from a thread of its own."""

    def __init__(self, run: str, url: str | None, now: Callable[[], float]) -> None:
        self._run, self._url, self._now = run, url, now
        self._under_way: list[threading.Thread] = []
        self.failed = 0

    def __call__(self, sound: Sound) -> None:
        """Send it; never waits, never raises."""
        if self._url is None:
            return
        at = datetime.fromtimestamp(self._now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        left = None if sound.left_s is None else round(sound.left_s)
        told = {"run": self._run, "mode": sound.mode, "text": sound.text, "left_s": left, "at": at}
        thread = threading.Thread(target=self._post, args=(json.dumps(told).encode(),), daemon=True)
        self._under_way = [one for one in self._under_way if one.is_alive()] + [thread]
        thread.start()

    def close(self) -> None:
        """Wait for what is under way, as long as a server may take."""
        for thread in self._under_way:
            thread.join(timeout=2 * ANSWER_S)

    def _post(self, body: bytes) -> None:
        assert self._url is not None
        request = urllib.request.Request(self._url, body, {"Content-Type": "application/json"}, method="POST")
        for _ in range(3):
            try:
                with urllib.request.urlopen(request, timeout=ANSWER_S):
                    return
            except (urllib.error.URLError, OSError, ValueError):
                continue
        self.failed += 1
