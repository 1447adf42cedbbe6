"""Who looks into the hook folder, and writes there, without ever holding up a step? A thread of its own.

A network file system that hangs hangs this thread, and nothing else: the trainer asks only what was heard
last. Everything that is wrong is kept as one line a cause, logged once when it begins and once when it ends.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tenure.trainer import words
from tenure.trainer.folder import FULL, Folder
from tenure.trainer.steady_clock import SteadyClock
from tenure.trainer.wishes import Heard, wrong_request

log = logging.getLogger("tenure.trainer")


class Times(NamedTuple):
    """How often, and how long before it is said aloud. Seconds."""

    look_s: float = 1.0
    beat_s: float = 10.0
    log_s: float = 60.0
    honour_s: float = 120.0  #: a request that no poll has taken up by then is told as unsafe
    silent_s: float = 60.0  #: a hook folder that has not answered for so long is told of
    still_s: float = 30.0  #: a rank that has not got on for so long says where it is
    last_s: float = 5.0  #: how long the last heartbeat may take at the end


USUAL = Times()


class Watcher:
    """Looks and beats, in a thread or, for tests, when told."""

    def __init__(
        self, path: Path | None, rank: int, clock: SteadyClock, times: Times, env: Mapping[str, str]
    ) -> None:
        self.folder = None if path is None else Folder(path, rank)
        self.clock, self.times = clock, times
        self.heard = Heard(window=_window_of(env))
        self.troubles: dict[str, str] = {}
        self.looked = clock.ticks()
        self.body: Callable[[], dict[str, Any]] = dict
        self.check: Callable[[], None] = lambda: None
        self._asked, self._notice = env.get(words.ASKED), env.get(words.NOTICE)
        self._beaten = self._logged = -float("inf")
        self._last_state: tuple[Any, ...] = ()
        self._wake, self._end = threading.Event(), False
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._logs_each = True

    # --- the thread ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Look by itself from now on; waits a moment for the first look."""
        first = threading.Event()

        def run() -> None:
            while True:
                last = self._end  # read before: what was set during a turn deserves one more
                self.turn()
                first.set()
                if last:
                    return
                self._wake.wait(self.times.look_s)
                self._wake.clear()

        self._thread = threading.Thread(target=run, name="tenure-hook", daemon=True)
        self._thread.start()
        first.wait(self.times.last_s)

    @property
    def own_thread(self) -> bool:
        """Whether a thread looks (in this process, not in one that was forked from it)."""
        return self._thread is not None and self._thread.is_alive()

    def hurry(self) -> None:
        """Write a heartbeat soon."""
        self._beaten = -float("inf")
        self._wake.set()

    def stop(self) -> None:
        """Write the last heartbeat, as far as the folder takes it, and end."""
        self._end = True
        self.hurry()
        if self._thread is None:
            self.turn()
        else:
            self._thread.join(self.times.last_s)

    def turn(self) -> None:
        """Look once, and beat where it is due."""
        with self._lock:
            try:
                self._look()
                self.check()
                self._beat()
            except Exception as problem:  # a fault of ours must not end a training
                self.trouble(
                    "hook", f"the hook itself failed ({problem!r}): training goes on by what it knew"
                )

    def silent_s(self) -> float:
        """Seconds since the folder was last looked into."""
        return self.clock.ticks() - self.looked

    def trouble(self, cause: str, text: str) -> None:
        """Something is wrong, or (`text` empty) no longer."""
        known = self.troubles.get(cause, "")
        if text and not known:
            log.warning("%s", text)
        elif known and not text:
            log.warning("over: %s", known)
        if text:
            self.troubles[cause] = text
        else:
            self.troubles.pop(cause, None)

    # --- looking ------------------------------------------------------------------------------------

    def _look(self) -> None:
        request, window = self.heard.request, self.heard.window
        if self.folder is not None:
            try:
                request = self.folder.read(words.REQUEST_FILE)
                window = self.folder.read(words.WINDOW_FILE) or window
                self.trouble("reading", "")
            except OSError as refused:
                why = refused.strerror or type(refused).__name__
                held = "the deadlines known before hold" if window else "no deadline is known"
                self.trouble("reading", f"the hook folder cannot be read ({why}): training goes on, {held}")
        for told in (request, window):
            written = None if told is None else told.get("written_at")
            if isinstance(written, (int, float)) and not isinstance(written, bool):
                self.clock.heard(float(written))
        self.trouble("request", wrong_request(request))
        self.trouble("clock", self.clock.says())
        launcher = self.heard.launcher or (self._asked is not None and os.path.exists(self._asked))
        before, notice, ticks = self.heard, _notice(self._notice), self.clock.ticks()
        same = (before.request or {}).get("id") == (request or {}).get("id")
        self.heard = before._replace(
            request=request,
            window=window,
            launcher=launcher,
            notice=notice,
            request_at=before.request_at if same else ticks,
            notice_at=before.notice_at if before.notice == notice else ticks,
        )
        self.looked = ticks

    # --- beating ------------------------------------------------------------------------------------

    def _beat(self) -> None:
        if self.folder is None:
            return
        ticks, body = self.clock.ticks(), self.body()
        state = tuple(body.get(key) for key in ("state", "committed_step", "answered", "unsafe", "where"))
        if state == self._last_state and ticks - self._beaten < self.times.beat_s:
            return
        body |= {"alive_at": round(self.clock.now(), 3), "trouble": "; ".join(self.troubles.values())}
        try:
            self.folder.write_beat(body)
            changed = state != self._last_state
            if changed or (self._logs_each and ticks - self._logged >= self.times.log_s):
                self.folder.append_beat(body)
                self._logged = ticks
            self.trouble("writing", "")
        except OSError as refused:
            why = refused.strerror or type(refused).__name__
            what = "full" if refused.errno in FULL else "not to be written to"
            self.trouble("writing", f"the hook folder is {what} ({why}): training goes on, unseen")
        self._beaten, self._last_state = ticks, state


def _notice(path: str | None) -> float | None:
    """From when on the job may be interrupted, where its engine has said so."""
    if path is None:
        return None
    try:
        return float(Path(path).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _window_of(env: Mapping[str, str]) -> dict[str, Any] | None:
    """The end that Slurm itself names, until a controller says more."""
    try:
        return {"ends_at": float(env["SLURM_JOB_END_TIME"])}
    except (KeyError, ValueError):
        return None
