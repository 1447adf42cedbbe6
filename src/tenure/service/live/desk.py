"""What every question to the running scheduler needs: the newest view, the record, a way to ask for acts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NoReturn

from tenure.core.tell_one import Called
from tenure.core.words import NEVER_S
from tenure.daemon.run import Daemon
from tenure.daemon.view import View
from tenure.engines.protocol import Engine
from tenure.ledger.ledger import Ledger
from tenure.ledger.records import Asked, JobRow, KeyReused
from tenure.service.live.errors import NotKnown, NotNow, NotReady, Wrong
from tenure.service.live.following import Following
from tenure.service.live.foresight import Foresight
from tenure.service.live.people import Who
from tenure.settings.errors import BadInput
from tenure.settings.lab import Lab
from tenure.settings.lab_tables import Holder

ANSWERED_WITHIN_S = 20.0
MOST_ELEMENTS = 20_000
LONGEST_REASON = 500  #: characters of what a person gives as a reason


@dataclass
class Desk:
    """One running scheduler, as the doors see it. Safe to use from many threads."""

    lab: Lab  #: as written, without own leaves
    ledger: Ledger
    daemon: Daemon
    engine: Engine
    now: Callable[[], float] = time.time
    shadow: bool = False
    data: Path | None = None  #: the folder of the server
    foresight: Foresight = field(default_factory=Foresight)
    ready: bool = True  #: False while what questions need is being compiled

    @cached_property
    def following(self) -> Following:
        """What another server records."""
        return Following(self.lab, self.ledger, self.engine)

    @cached_property
    def holder(self) -> Holder:
        """What the lab's clusters could hold."""
        return Holder(self.lab)

    def view(self) -> View:
        """The newest view; where another server leads, what it has recorded. Raises NotReady."""
        health = self.daemon.health()
        view = self.following.view() if health.state == "standby" else self.daemon.view()
        if view is None:
            raise NotReady(f"the scheduler is not ready yet: {health.sentence}")
        return view

    def job(self, name: str) -> JobRow:
        """The job of that id. Raises NotKnown."""
        row = self.ledger.job(name) if 0 < len(name) <= 200 else None
        if row is None:
            raise NotKnown(f"there is no job {name[:60]!r}")
        return row

    def elements(self, name: str) -> list[JobRow]:
        """The jobs of the array of that id; none where it is no array's."""
        return self.ledger.jobs(array=name, limit=MOST_ELEMENTS) if 0 < len(name) <= 200 else []

    def obey(
        self, who: Who, verb: str, subject: str, body: Mapping[str, Any], *, key: str = ""
    ) -> Mapping[str, Any]:
        """Write the command down, wake the scheduler and wait for its answer.

        Raises BadInput, NotKnown or NotNow where it is refused, NotReady where no answer comes in time: it is
        written down all the same, and obeyed as soon as somebody leads.
        """
        asked = Asked(who.user, verb, subject, body, self.now(), key)
        try:
            (number,) = self.ledger.ask([asked])
        except KeyReused as problem:
            raise NotNow(f"Idempotency-Key: {problem}") from None
        self.daemon.wake()
        answer = self.ledger.wait_answer(number, ANSWERED_WITHIN_S)
        if answer is None:
            raise NotReady(
                f"written down as command {number} and not obeyed yet: {self.daemon.health().sentence}"
            )
        if not answer.ok:
            _refuse(answer.body, verb)
        return answer.body

    # --- instants --------------------------------------------------------------------------------------

    def date(self, t: int | None, start: float | None = None) -> str | None:
        """A second of the record as a date, ISO 8601 in UTC; None for none."""
        if t is None or t >= NEVER_S:
            return None
        return iso((self.start if start is None else start) + t)

    @cached_property
    def start(self) -> float:
        """Epoch second of t = 0. Raises NotReady while the record has none."""
        identity = self.ledger.identity()
        if identity is None:
            raise NotReady("the record has not begun yet")
        return identity.start

    def t(self) -> int:
        """Now, in seconds since the start."""
        return max(0, int(self.now() - self.start))


@lru_cache(maxsize=4096)
def iso(epoch: float) -> str:
    """An instant to the second, ISO 8601 in UTC."""
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def called(view: View) -> Called:
    """What the rows of a view are called."""
    accounts = view.lab.accounts
    paths = [one.path if one.own_leaf_of is None else accounts[one.own_leaf_of].path for one in accounts]
    return Called(view.lab.clusters, [node.name for node in view.lab.nodes], paths, view.ids)


def reason_text(said: Any) -> str:
    """What a person gives as a reason, on one line. Raises BadInput."""
    if said is None:
        return ""
    if not isinstance(said, str) or len(said) > LONGEST_REASON or "\0" in said:
        raise BadInput("reason", "", "something else", f"words, at most {LONGEST_REASON} characters")
    return " ".join(said.split())


def _refuse(body: Mapping[str, Any], verb: str) -> NoReturn:
    sentence = str(body.get("error", f"{verb} was refused"))
    status = body.get("status", 422)
    if status == 404:
        raise NotKnown(sentence)
    if status == 409:
        raise NotNow(sentence)
    raise Wrong(sentence)
