"""How long is the record kept whole? Once a day what is older than anybody asks for is compacted.

Owed and delivered stay as they were: only what replays a turn, bodies of commands, orders that are done and
reasons for waiting that were superseded go.
"""

from __future__ import annotations

import structlog

from tenure.core.policy import DAY_S
from tenure.ledger.compaction import Compacted
from tenure.ledger.records import LedgerError
from tenure.service.live.desk import Desk

LAST = "compacted_at"  #: key of the record's `meta`: the epoch second of the last time
EVERY_S = float(DAY_S)
AGAIN_S = 600.0  #: after a time that failed
LEAST_KEPT_S = 7 * DAY_S  #: where the lab's file says nothing


def kept_s(desk: Desk) -> int:
    """How much of the record stays whole: never less than the policy looks back."""
    wanted_s = LEAST_KEPT_S if desk.lab.live.keep is None else desk.lab.live.keep
    return max(wanted_s, desk.lab.knobs().lookback_s)


class Compactor:
    """`look` now and then; it works when a day is over, and only where this server leads."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._due_at = 0.0  #: not before the server has looked
        self._log = structlog.get_logger("tenure.compacting")

    def look(self) -> Compacted | None:
        """Compact where it is due; what was done. What goes wrong is logged, and tried again later."""
        desk = self._desk
        now = desk.now()
        if now < self._due_at or not desk.daemon.health().leader:
            return None
        try:
            last_at = desk.ledger.meta(LAST)
            if last_at is not None and now < last_at + EVERY_S:
                self._due_at = last_at + EVERY_S
                return None
            before_t = desk.t() - kept_s(desk)
            done = desk.ledger.compact(before_t) if before_t > 0 else None
            desk.ledger.set_meta(LAST, now)
        except LedgerError as error:
            self._log.warning("not_compacted", why=str(error))
            self._due_at = now + AGAIN_S
            return None
        self._due_at = now + EVERY_S
        if done is not None:
            self._log.info("compacted", before_t=before_t, **done._asdict())
        return done
