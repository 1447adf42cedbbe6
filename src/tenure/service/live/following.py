"""A server that stands by answers too: what the leader has recorded, a moment later."""

from __future__ import annotations

import threading
import time

from tenure.core.words import NEVER_S
from tenure.daemon.recover import recover
from tenure.daemon.view import EngineState, View, view_of
from tenure.engines.protocol import Engine
from tenure.ledger.ledger import Ledger
from tenure.settings.lab import Lab

LOOK_EVERY_S = 1.0


class Following:
    """Reads the record anew when the leader has gone on. Safe to use from many threads."""

    def __init__(self, lab: Lab, ledger: Ledger, engine: Engine) -> None:
        self._lab, self._ledger, self._engine = lab, ledger, engine
        self._lock = threading.Lock()
        self._view: View | None = None
        self._looked = -LOOK_EVERY_S

    def view(self) -> View | None:
        """The newest recorded turn, at most `LOOK_EVERY_S` old; None where none is recorded."""
        with self._lock:
            if time.monotonic() - self._looked >= LOOK_EVERY_S:
                self._read()
                self._looked = time.monotonic()
            return self._view

    def _read(self) -> None:
        turn, identity = self._ledger.last_turn(), self._ledger.identity()
        if identity is None or turn == 0 or (self._view is not None and self._view.turn == turn):
            return
        book = recover(self._ledger, self._lab, self._lab.knobs(), identity.start)
        if book is None:
            return
        engine = EngineState(self._engine.name, self._engine.keeps_queue)
        self._view = view_of(book, identity.start + book.t, engine, (), NEVER_S)
