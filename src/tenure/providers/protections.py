"""A run inside a lab that Tenure schedules: the ends of its protections are its windows.

The trainer is a job of the lab (`launch: {engine: lab}`), which brings nodes with it. So there is one window:
it is always there, its end is the end of the running job's protection, and while no job runs it is as long as
a new one would be protected. Nodes are places of the gang, not machines: the lab chooses those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from tenure.providers.assigned import Kept
from tenure.providers.capability import Capability, capability
from tenure.providers.protocol import (
    ACTIVE,
    RESERVED,
    RUNNING,
    Ask,
    Clock,
    Extension,
    Health,
    Node,
    NotSent,
    Offer,
    Refused,
    Window,
)

NAME, WINDOW, PLACE, NO_MONEY = "own", "lab", "lab", "none"


class Protections:
    """The lab's one window for a run.

    `job`: the run's name, which its jobs bear; `protect_s`: min_runtime of a new one.
    """

    name = NAME

    def __init__(
        self, client: Any, job: str, nodes: int, protect_s: float, state: Path, clock: Clock
    ) -> None:
        self.capability: Capability = capability(NAME)
        self._client, self._job, self._clock = client, job, clock
        self._names = tuple(f"{job}-{place + 1}" for place in range(nodes))
        self._protect_s = protect_s
        self._kept = Kept(state)

    def offers(self, ask: Ask) -> Sequence[Offer]:
        """None: a lab lends by its contract, it does not sell."""
        return []

    def offer_again(self, offer: Offer) -> Offer | None:
        """None."""
        return None

    def against(self, offer: Offer) -> Sequence[str]:
        """Nothing is offered."""
        return ["a lab sells no windows: submit, and be protected by its contract"]

    def buy(self, offer: Offer, intent: str) -> Window:
        """Never."""
        raise Refused("not-sold", "a lab sells no windows: submit, and be protected by its contract")

    def windows(
        self, ids: Sequence[str] | None = None, tag: tuple[str, str] | None = None
    ) -> Sequence[Window]:
        """The one, to the end of the protection."""
        if (ids is not None and WINDOW not in ids) or tag is not None:
            return []
        now = self._clock.now()
        until = self._protected_until()
        end = now + self._protect_s if until is None else until
        said = "no job runs" if until is None else "protected"
        nodes = len(self._names)
        return [
            Window(WINDOW, (WINDOW,), ACTIVE, PLACE, 0.0, end, nodes, Decimal(0), NO_MONEY, {}, said=said)
        ]

    def _protected_until(self) -> float | None:
        """Of the run's job that runs; None while none does."""
        from tenure.client.errors import ClientError

        try:
            rows = self._client.queue(state="running").jobs
        except ClientError as silent:
            raise NotSent(str(silent)) from silent
        ends = [
            datetime.fromisoformat(row.protected_until.replace("Z", "+00:00")).timestamp()
            for row in rows
            if self._is_ours(row.name) and row.protected_until is not None
        ]
        return max(ends, default=None)

    def _is_ours(self, name: str) -> bool:
        """`run-3`: the run's third attempt."""
        run, dash, attempt = name.rpartition("-")
        return name == self._job or (run == self._job and dash == "-" and attempt.isdigit())

    def extension_offers(self, window: Window, hours: int) -> Sequence[Offer]:
        """None."""
        return []

    def extend(self, window: Window, offer: Offer, intent: str) -> Extension:
        """Never."""
        raise Refused("not-sold", "a protection is not extended: the next attempt has its own")

    def extensions(self, window: Window) -> Sequence[Extension]:
        """None."""
        return []

    def launch(
        self, token: str, count: int, at_least: int, window: Window | None, tags: Mapping[str, str]
    ) -> Sequence[Node]:
        """Places of the gang; the lab brings the machines when the job starts."""
        if window is None:
            raise Refused("no-on-demand", "a lab has nothing on demand")
        note = {"at": self._clock.now(), "tags": dict(tags)}
        names = set(self._kept.assign(token, self._names, at_least, count, note))
        return [node for node in self._nodes() if node.id in names]

    def _nodes(self) -> list[Node]:
        return [
            Node(
                id=name,
                state=RUNNING,
                zone=PLACE,
                window=WINDOW,
                market=RESERVED,
                token=held["token"],
                launched=held["at"],
                tags=held["tags"],
                reservation=WINDOW,
            )
            for name, held in self._kept.read()["nodes"].items()
        ]

    def nodes(self, tag: tuple[str, str]) -> Sequence[Node]:
        """Places taken with the tag."""
        return [node for node in self._nodes() if node.tags.get(tag[0]) == tag[1]]

    def terminate(self, ids: Sequence[str]) -> None:
        """They are free for the next attempt; the job itself is ended by whoever started it."""
        self._kept.let_go(ids)

    def health(self, window: Window) -> Health:
        """All places; the lab keeps broken nodes away itself."""
        used = self._kept.read()["nodes"]
        return Health(WINDOW, "unknown", len(self._names), len(self._names) - len(used), 0)
