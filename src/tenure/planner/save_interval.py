"""How often a run should save: Young's, Daly's and the exact interval, all as useful work between two saves.

All arguments of one function share one unit of time. `mtbf` is uptime between failures that stop the whole
job; `blocking` is what one save keeps the job from working. A save that blocks nothing wants to be made all
the time: its interval is 0. None of them depends on how long recovery takes.

Sources: Young (1974); Daly (2006), equations 20 and 37; the exact optimum is the maximum of Daly's full
model, M (1 + W(-e^(-1 - d/M))), here solved without Lambert's function.
"""

from __future__ import annotations

import math

SMALL = 1e-3  #: below it w - (1 - e^-w) is summed as a series: the difference would lose its digits
STEPS = 100


def young(mtbf: float, blocking: float) -> float:
    """sqrt(2dM)."""
    return math.sqrt(2.0 * blocking * mtbf)


def daly(mtbf: float, blocking: float) -> float:
    """Young's period less the save itself; 0 where a save takes longer than twice the mtbf."""
    return max(0.0, young(mtbf, blocking) - blocking)


def daly_high(mtbf: float, blocking: float) -> float:
    """Daly's higher order; M itself where a save takes twice that or more."""
    if blocking >= 2.0 * mtbf:
        return mtbf
    part = blocking / (2.0 * mtbf)
    return young(mtbf, blocking) * (1.0 + math.sqrt(part) / 3.0 + part / 9.0) - blocking


def exact(mtbf: float, blocking: float) -> float:
    """The interval of the most productive time in the exact and in the renewal model.

    With w = -log(1 - t/M) the optimum is where w - (1 - e^-w) = d/M; Newton's steps come from above.
    """
    save = blocking / mtbf
    if save == 0.0:
        return 0.0
    w = save + math.sqrt(2.0 * save)
    for _ in range(STEPS):
        step = (_excess(w) - save) / -math.expm1(-w)
        w -= step
        if abs(step) <= 1e-15 * w:
            break
    return mtbf * -math.expm1(-w)


def _excess(w: float) -> float:
    if w < SMALL:
        return w * w / 2.0 * (1.0 - w / 3.0 * (1.0 - w / 4.0 * (1.0 - w / 5.0)))
    return w + math.expm1(-w)


def available(blocking: float, fail_to_detect: float, restart: float) -> float:
    """NVIDIA's availability-optimal period (Saxena et al., 2024), the save in it: another question.

    It counts the whole period, save included, and the mean time between failures enters as `fail_to_detect`.
    """
    return blocking + math.sqrt(2.0 * (fail_to_detect + restart) * blocking + blocking * blocking)
