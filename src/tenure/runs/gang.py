"""How does a gang come together without billing for days, and without a node too many? A pure rule.

All at once first; where that is refused, what comes is kept and the rest asked for again. Nodes of a reserved
window are paid whatever they do, so waiting there costs time alone. On demand every held node is billed:
waiting ends at a cap of node-hours, after so many rounds, or sooner where a further round is expected to cost
more than holding saves. A node that is stopping holds its place until it is gone: it is not replaced before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tenure.planner.gang import rounds_keep
from tenure.providers.protocol import RUNNING, STARTING, STOPPING, Node, Window

ALIVE = (STARTING, RUNNING, STOPPING)


class Ask(NamedTuple):
    """Nodes to ask for. `window`: "" = on demand."""

    nodes: int
    at_least: int
    window: str


class Held(NamedTuple):
    """Nodes of one place, sorted by what can be done with them."""

    ready: tuple[Node, ...]
    coming: tuple[Node, ...]
    stopping: tuple[Node, ...]
    broken: tuple[Node, ...]  #: up, and their provider says they do not work

    @property
    def taken(self) -> int:
        """Places taken, those of stopping nodes too: none of them is replaced before it is gone."""
        return len(self.ready) + len(self.coming) + len(self.stopping) + len(self.broken)


def held(nodes: Sequence[Node]) -> Held:
    """Sort them."""
    broken = tuple(node for node in nodes if node.state == RUNNING and node.healthy is False)
    return Held(
        tuple(node for node in nodes if node.state == RUNNING and node.healthy is not False),
        tuple(node for node in nodes if node.state == STARTING),
        tuple(node for node in nodes if node.state == STOPPING),
        broken,
    )


def room_in(window: Window, nodes: Sequence[Node], free: Mapping[str, int]) -> int:
    """Nodes that may be asked of a window now."""
    taken = sum(node.window == window.id and node.state in ALIVE for node in nodes)
    return max(0, min(window.nodes - taken, free.get(window.id, window.nodes)))


def asks_of_windows(
    missing: int,
    windows: Sequence[Window],
    nodes: Sequence[Node],
    free: Mapping[str, int],
    *,
    rounds: int,
) -> tuple[list[Ask], int]:
    """What to ask of the windows, and how many nodes none of them has room for.

    All windows are filled, as several may be needed for one gang. Atomic in the first round.
    """
    asked = []
    for window in windows:
        count = min(missing, room_in(window, nodes, free))
        if count > 0:
            asked.append(Ask(count, count if rounds == 0 else 1, window.id))
            missing -= count
    return asked, missing


class Patience(NamedTuple):
    """How long to hold nodes on demand. Prices of a node-hour and of an hour without the gang."""

    retry_s: float
    rounds: int
    hold_cap: float  #: node-hours
    node_hour: float
    stalled_hour: float
    success: float


def hold_ends(
    held_hours: float, holding: int, missing: int, rounds: int, poll_s: float, patience: Patience
) -> str:
    """Why the nodes held must be let go; "" while they may be kept."""
    if not holding:
        return ""
    if held_hours + holding * 2 * poll_s / 3600 >= patience.hold_cap:
        return f"{held_hours:.1f} node-hours were billed while waiting (cap {patience.hold_cap:g})"
    if rounds >= patience.rounds:
        return f"{rounds} rounds in a row brought nothing"
    if rounds >= 2 and not worth_holding(holding, missing, rounds, patience):
        return f"holding {holding} nodes costs more than it saves after {rounds} rounds without any"
    return ""


def worth_holding(holding: int, missing: int, rounds: int, patience: Patience) -> bool:
    """Whether keeping what is there is worth its bill until the zone opens again.

    Rounds that brought nothing say that the zone is tight, and it will stay so about as long again (one of
    unknown length has lasted, on average, half its time). What holding saves is the rounds that asking for
    the whole gang, not only for what is missing, takes once it opens.
    """
    further_h = rounds * patience.retry_s / 3600
    bill = holding * patience.node_hour * further_h
    more_rounds = rounds_keep(holding + missing, patience.success) - rounds_keep(missing, patience.success)
    return more_rounds * patience.retry_s / 3600 * patience.stalled_hour >= bill
