"""What is to be done about what is seen? A pure function of the run, its state, and one look at the world.

Nothing is concluded from silence: where a provider or a store does not answer, nothing is launched, started
or let go; only deadlines, which hang from what is known already, are kept.
"""

from __future__ import annotations

from tenure.runs import assembling, training, watching
from tenure.runs.deciding import Deciding
from tenure.runs.look import Look, Turn
from tenure.runs.state import ASSEMBLING, DRAINING, PAUSED, RUNNING, STALLED, WAITING, State
from tenure.settings.run_file import Run


def decide(run: Run, terminates_s: float, state: State, look: Look) -> Turn:
    """Events to write, then acts to do, and when to look again."""
    d = Deciding(run, terminates_s, state, look)
    watching.note_windows(d)
    watching.note_nodes(d)
    if state.phase in (WAITING, STALLED):
        assembling.wait(d)
    elif state.phase == ASSEMBLING:
        assembling.assemble(d)
    elif state.phase in (RUNNING, DRAINING):
        training.train(d)
    elif state.phase == PAUSED and not state.drain_asked:
        d.enter(WAITING, "a person asked it to go on")
    watching.release_unwanted(d)
    watching.watch(d)
    d.sound_alarms()
    return Turn(d.events, d.acts, d.wake)
