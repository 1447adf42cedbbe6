"""What does a controller see at one instant? Everything as it *is*; None where nobody answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tenure.providers.protocol import Extension, Node, Window
from tenure.runs.heartbeats import RankBeat
from tenure.trainer.words import TRAIN

ABSENT, QUEUED, UNDER_WAY, ENDED = "absent", "queued", "running", "ended"


def computing_s(beats: Mapping[int, RankBeat], since: float = float("-inf")) -> float:
    """
    Seconds spent in training steps, of the rank that has spent most. `since`: by processes that wrote since.

    Processes that are started anew count from 0.
    """
    told = (beat.spent_s.get(TRAIN, 0.0) for beat in beats.values() if beat.alive_at >= since)
    return max(told, default=0.0)


class TrainerSeen(NamedTuple):
    """The newest attempt's processes."""

    state: str  #: ABSENT, QUEUED (a scheduler has it, and it runs nowhere now), UNDER_WAY or ENDED
    exit_code: int | None = None
    done: bool = False  #: it says itself that all its work is done
    detail: str = ""
    placed: float | None = None  #: since when it runs where it runs now, by a scheduler that may move it


class Kept(NamedTuple):
    """The newest verified checkpoint."""

    step: int
    tokens: float
    attempt: int = 0


NOTHING_KEPT = Kept(-1, 0.0)


class Look(NamedTuple):
    """One look at the world."""

    at: float
    windows: Sequence[Window] | None
    nodes: Sequence[Node] | None
    extensions: Sequence[Extension]  #: of the windows the run is in
    free: Mapping[str, int]  #: by window: nodes a launch would get; absent where not asked
    trainer: TrainerSeen | None
    beats: Mapping[int, RankBeat]  #: of the newest attempt, by rank
    kept: Kept | None  #: None: the store does not answer, or holds nothing that verifies where it should
    request_told: Mapping[str, Any] | None  #: what lies in the hook folder
    window_told: Mapping[str, Any] | None
    hook_says: str = ""  #: why nothing could be put there the last time; "": it could
    since: float = 0.0  #: when this controller began to look, or could read heartbeats again
    shelf_says: str = ""  #: why nothing in the store can be used, where it answers; "": it is not so


class Launch(NamedTuple):
    """Ask for nodes; the same token launches once."""

    token: str
    nodes: int
    at_least: int
    window: str  #: id; "" = on demand


class Release(NamedTuple):
    """Let nodes go. May be repeated."""

    nodes: tuple[str, ...]


class StartTrainer(NamedTuple):
    """Start an attempt on these nodes. May be repeated."""

    attempt: int
    nodes: tuple[str, ...]


class StopTrainer(NamedTuple):
    """End an attempt's processes. May be repeated."""

    attempt: int


class AskTrainer(NamedTuple):
    """Put a request into the hook folder."""

    body: Mapping[str, Any]


class TellWindow(NamedTuple):
    """Put the window and its deadlines into the hook folder."""

    body: Mapping[str, Any]


class Gate(NamedTuple):
    """Test the gang before it trains."""

    nodes: tuple[str, ...]
    windows: tuple[str, ...]


class Forecast(NamedTuple):
    """Forecast again; `due` names why."""

    due: str
    window: str


class Extend(NamedTuple):
    """Buy what was found worth it, once whoever must has said yes."""

    offer: str


class Sound(NamedTuple):
    """Tell people of an alarm."""

    mode: str
    text: str
    left_s: float | None


Act = (
    Launch | Release | StartTrainer | StopTrainer | AskTrainer | TellWindow | Gate | Forecast | Extend | Sound
)


class Turn(NamedTuple):
    """What a look leads to: written first, then done."""

    events: list[tuple[str, dict[str, Any], str]]  #: kind, body, key
    acts: list[Act]
    wake: float  #: look again then, at the latest
