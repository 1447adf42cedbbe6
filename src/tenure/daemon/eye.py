"""What does the engine show, is it newer than what it showed before, and since when is it silent?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenure.daemon.view import EngineState
from tenure.engines.clock import Clock
from tenure.engines.protocol import Engine, EngineUnavailable, Seen

STALE_S = 1.0  #: an answer that says the same instant so much later is an old one
STALE_AT_MOST = 3  #: times an old answer is passed over; then it is the clock that jumped


class Eye:
    """Looks at one engine."""

    def __init__(self, engine: Engine, clock: Clock, log: Any) -> None:
        self.state = EngineState(engine.name, engine.keeps_queue)
        self.asked_at = 0.0  #: our clock at the newest answer
        self.errors = 0
        self._engine, self._clock, self._log = engine, clock, log
        self._stale = 0

    def see(self) -> Seen | None:
        """What the engine shows; None where it is silent, or shows what was before what it showed already."""
        try:
            seen = self._engine.see()
        except EngineUnavailable as error:
            self.silent(str(error))
            return None
        now, newest = self._clock.now(), self.state.seen_at
        old = newest is not None and (
            seen.at < newest or (seen.at == newest and now - self.asked_at >= STALE_S)
        )
        if old and self._stale < STALE_AT_MOST:
            self._stale += 1
            return None
        self._stale = 0
        self.asked_at = now
        if self.state.silent_since is not None:
            self._log.info("engine_answers")
        self.state = self.state._replace(seen_at=seen.at, silent_since=None, error="")
        return seen

    def silent(self, why: str) -> None:
        """It did not answer."""
        self.errors += 1
        if self.state.silent_since is None:
            why = why or "no answer"
            self._log.warning("engine_silent", why=why)
            self.state = self.state._replace(silent_since=self._clock.now(), error=why)

    def silent_s(self) -> float | None:
        """For how long it has been silent; None where it answers."""
        since = self.state.silent_since
        return None if since is None else max(0.0, self._clock.now() - since)

    def remark(self, remarks: Sequence[str]) -> None:
        """What is odd about what it shows, each told once."""
        for text in remarks:
            if text not in self.state.remarks:
                self._log.warning("remark", text=text)
        self.state = self.state._replace(remarks=tuple(remarks))


__all__ = ["Eye"]
