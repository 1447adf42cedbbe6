"""A run inside a lab that Tenure schedules: the ends of its protections are its windows.

The trainer is a job of the lab (`launch: {engine: lab}`), which brings nodes with it. So there is one window:
it is always there, and while the run's job is on its nodes it ends with the job's protection. That end is
soft: past it the job goes on until somebody is owed its nodes, and is queued again by the lab. Nodes are
places of the gang, not machines: the lab chooses those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from tenure.providers.assigned import Kept
from tenure.providers.own_windows import NO_MONEY, NOTHING, OwnWindows
from tenure.providers.protocol import ACTIVE, Ask, Clock, Health, Node, NotSent, Offer, Refused, Window
from tenure.settings.run_file import LAB_WINDOW

WINDOW = PLACE = LAB_WINDOW
NOT_SOLD = "a lab sells no windows: submit, and be protected by its contract"


class Protections(OwnWindows):
    """The lab's one window for a run. `job`: the run's name, which its jobs bear."""

    next_is = "the next start of the job has a protection of its own"

    def __init__(
        self, client: Any, job: str, nodes: int, gpus_per_node: int, state: Path, clock: Clock
    ) -> None:
        self._client, self._job, self._clock, self._gpus = client, job, clock, gpus_per_node
        self._names = tuple(f"{job}-{place + 1}" for place in range(nodes))
        self._kept = Kept(state)

    def offers(self, ask: Ask) -> Sequence[Offer]:
        """None: a lab lends by its contract, it does not sell."""
        return []

    def offer_again(self, offer: Offer) -> Offer | None:
        """None."""
        return None

    def against(self, offer: Offer) -> Sequence[str]:
        """Nothing is offered."""
        return [NOT_SOLD]

    def buy(self, offer: Offer, intent: str) -> Window:
        """Never."""
        raise Refused("not-sold", NOT_SOLD)

    def windows(
        self, ids: Sequence[str] | None = None, tag: tuple[str, str] | None = None
    ) -> Sequence[Window]:
        """The one, from the job's start to the end of its protection; of no length while none runs."""
        if (ids is not None and WINDOW not in ids) or tag is not None:
            return []
        start = end = 0.0
        said = "no job runs"
        for row in self._running():
            began, until = datetime.fromisoformat(row.since).timestamp(), row.protected_until
            until = began if until is None else datetime.fromisoformat(until).timestamp()
            if began >= start:  # of two, the newer
                start, end, said = began, until, "protected" if until > began else "not protected"
        return [
            Window(
                id=WINDOW,
                reservations=(WINDOW,),
                state=ACTIVE,
                zone=PLACE,
                start=start,
                end=end,
                nodes=len(self._names),
                fee=NOTHING,
                currency=NO_MONEY,
                tags={},
                gpus_per_node=self._gpus,
                said=said,
                soft=True,
            )
        ]

    def _running(self) -> Iterator[Any]:
        """Rows of the run's jobs that run."""
        from tenure.client.errors import ClientError

        try:
            yield from (row for row in self._client.every_row(state="running") if self._is_ours(row.name))
        except ClientError as silent:
            raise NotSent(str(silent)) from silent

    def _is_ours(self, name: str) -> bool:
        """`run-3`: the run's third attempt."""
        run, dash, attempt = name.rpartition("-")
        return run == self._job and dash == "-" and attempt.isdigit()

    def launch(
        self, token: str, count: int, at_least: int, window: Window | None, tags: Mapping[str, str]
    ) -> Sequence[Node]:
        """Places of the gang; the lab brings the machines when the job starts."""
        if window is None:
            raise Refused("no-on-demand", "a lab has nothing on demand")
        note = {"window": WINDOW, "zone": PLACE, "at": self._clock.now(), "tags": dict(tags)}
        names = set(self._kept.assign(token, self._names, at_least, count, note))
        return [node for node in self._kept.nodes(machines=False) if node.id in names]

    def nodes(self, tag: tuple[str, str]) -> Sequence[Node]:
        """Places taken with the tag."""
        return [node for node in self._kept.nodes(machines=False) if node.tags.get(tag[0]) == tag[1]]

    def terminate(self, ids: Sequence[str]) -> None:
        """They are free for the next attempt; the job itself is ended by whoever started it."""
        self._kept.let_go(ids)

    def health(self, window: Window) -> Health:
        """All places; the lab keeps broken nodes away itself."""
        used = self._kept.read()["nodes"]
        return Health(WINDOW, "unknown", len(self._names), len(self._names) - len(used), 0)
