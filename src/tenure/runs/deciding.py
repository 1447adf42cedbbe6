"""What do all decisions about a run share? Its places, their deadlines, its nodes, and what is to be written.

A `Deciding` lives for one look: rules add events (written first) and acts (done after), alarms that hold now,
and instants at which to look again.
"""

from __future__ import annotations

from math import inf
from typing import Any

from tenure.providers.protocol import (
    ACTIVE,
    EXPIRED,
    FAILED,
    PAYMENT_PENDING,
    RESERVED,
    RUNNING,
    SCHEDULED,
    STARTING,
    STOPPING,
    UNKNOWN,
    Node,
    Window,
)
from tenure.runs.deadlines import Ladder, ladder_of, save_of
from tenure.runs.gang import ALIVE
from tenure.runs.look import NOTHING_KEPT, Act, Kept, Look, Sound
from tenure.runs.state import Attempt, State
from tenure.settings.run_file import Run

#: Alarms that stay until a person has seen them; the others end with what caused them.
STICKY = ("lost final checkpoint", "pilot that lied", "median trap")
UNSEEN_S = 300.0  #: a node that was launched and is not listed is believed in for so long
DONE_PART = 1 - 1e-9  #: of the tokens


class Deciding:
    """One look being decided on. `terminates_s`: before a window's end the provider takes nodes down."""

    def __init__(self, run: Run, terminates_s: float, state: State, look: Look) -> None:
        self.run, self.terminates_s, self.state, self.look = run, terminates_s, state, look
        self.now = look.at
        self.events: list[tuple[str, dict[str, Any], str]] = []
        self.acts: list[Act] = []
        self.alarms: dict[str, tuple[str, float | None]] = {}  #: mode → text, until when it helps
        self.wake = look.at + run.file.poll
        self.save_s = save_of(run, state)

    # --- writing ---------------------------------------------------------------------------------------
    def event(self, kind: str, body: dict[str, Any], key: str = "") -> None:
        """Write this before anything is done."""
        self.events.append((kind, body, key))

    def enter(self, phase: str, why: str, **more: Any) -> None:
        """Go on in another phase."""
        self.event("phase_entered", {"phase": phase, "why": why, **more})

    def alarm(self, mode: str, text: str, until: float | None = None) -> None:
        """This holds now. `until`: after it, nothing can be done about it any more."""
        known = None if until is None or until == inf else until
        self.alarms.setdefault(mode, (text, known))

    def wake_at(self, instant: float) -> None:
        """Look again then, if not before."""
        if instant > self.now:
            self.wake = min(self.wake, instant)

    # --- windows ---------------------------------------------------------------------------------------
    def windows(self) -> list[Window]:
        """As seen now, or as they were last seen.

        One that is listed no more has its end nevertheless: Slurm forgets a reservation that is over, and an
        attempt in it may still have to be judged. Before its end nobody knows what became of it.
        """
        known = self.state.windows.values()
        if self.look.windows is None:
            return list(known)
        listed = {window.id for window in self.look.windows}
        return [*self.look.windows, *(self._unlisted(window) for window in known if window.id not in listed)]

    def _unlisted(self, window: Window) -> Window:
        if window.state == FAILED:
            return window
        over = window.state == EXPIRED or self.now >= window.end
        return window._replace(state=EXPIRED if over else UNKNOWN, said="listed no more")

    def window(self, which: str) -> Window | None:
        """A window by its id."""
        return next((window for window in self.windows() if window.id == which), None)

    def ladder(self, window: Window) -> Ladder:
        """Its deadlines, from the saves and steps measured so far."""
        return ladder_of(window, self.terminates_s, self.run, self.state)

    def worth(self, window: Window) -> bool:
        """Whether enough of it is left to begin in, and it was not left for good."""
        if self.state.spent.get(window.id, float("-inf")) >= window.end:
            return False
        return self.now + self.run.file.deadlines.least <= self.ladder(window).drain

    def places(self) -> list[Window]:
        """Windows that take nodes now, the one that lasts longest first."""
        if self.look.windows is None:
            return []
        usable = [window for window in self.look.windows if window.state == ACTIVE and self.worth(window)]
        return sorted(usable, key=lambda window: (-window.end, window.id))

    def coming(self) -> list[Window]:
        """Windows that are bought and have not started, the soonest first."""
        states = (SCHEDULED, PAYMENT_PENDING)
        found = [window for window in self.windows() if window.state in states and self.worth(window)]
        return sorted(found, key=lambda window: window.start)

    def pending_extension(self) -> bool:
        """Whether more of a window was bought and is not yet paid."""
        return any(extension.state == PAYMENT_PENDING for extension in self.look.extensions)

    # --- nodes -----------------------------------------------------------------------------------------
    def alive(self) -> list[Node]:
        """Ours that cost or hold a place; those that stop still do."""
        return [node for node in self.look.nodes or () if node.state in ALIVE]

    def of_gang(self) -> list[Node]:
        """The same, for what the gang can be made of: what is to be let go is going, whatever its state."""
        letting_go = self.state.releasing
        return [node._replace(state=STOPPING) if node.id in letting_go else node for node in self.alive()]

    def up(self) -> list[Node]:
        """Ours that work or will."""
        return [node for node in self.look.nodes or () if node.state in (STARTING, RUNNING)]

    def unseen(self) -> int:
        """Nodes a launch gave that nobody shows yet: providers list a node some time after its launch."""
        shown = {node.id for node in self.look.nodes or ()} | self.state.gone
        shown.update(*(attempt.nodes for attempt in self.state.attempts))  # seen, and gone since
        here = {"", *(place.id for place in self.places())}
        young = [
            one
            for one in self.state.launches.values()
            if self.now - one.answered < UNSEEN_S and one.window in here
        ]
        return sum(node not in shown for one in young for node in one.made)

    def of_market(self, nodes: list[Node], *, reserved: bool) -> list[Node]:
        return [node for node in nodes if (node.market == RESERVED) == reserved]

    # --- the run ---------------------------------------------------------------------------------------
    @property
    def live(self) -> Attempt | None:
        """The attempt under way."""
        return self.state.live

    @property
    def kept(self) -> Kept:
        """The newest verified checkpoint; where the store is silent, nothing."""
        return self.look.kept or NOTHING_KEPT

    @property
    def complete(self) -> bool:
        """Whether all tokens are in a verified checkpoint."""
        return self.kept.tokens >= self.run.tokens * DONE_PART

    def reached(self) -> float:
        """Tokens the attempt under way has trained on, saved or not; of the slowest rank."""
        told = [beat.tokens for beat in self.look.beats.values()]
        before = self.live.from_tokens if self.live is not None else 0.0
        return max(before, min(told)) if told else before

    def term(self) -> Ladder | None:
        """The earliest deadlines of the windows the attempt runs in; None on demand."""
        live = self.live
        found = [self.window(which) for which in (live.windows if live is not None else ())]
        ladders = [self.ladder(window) for window in found if window is not None]
        return min(ladders, key=lambda one: (one.drain, one.checkpoint)) if ladders else None

    def sound_alarms(self) -> None:
        """Raise what is new, clear what is over."""
        raised = self.state.alarms
        for mode, (text, until) in self.alarms.items():
            if mode not in raised:
                left = None if until is None else until - self.now
                self.event("alarm_raised", {"mode": mode, "text": text, "until": until})
                self.acts.append(Sound(mode, text, left))
        for mode in raised:
            if mode not in self.alarms and mode not in STICKY:
                self.event("alarm_cleared", {"mode": mode})
