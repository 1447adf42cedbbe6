"""How long a repair waits for its part: some on site, each one used ordered anew.

Failures come by chance at a rate λ and each takes one part; an order is there after `turnaround`. What is on
order is Poisson of mean λ · turnaround whatever the turnaround's distribution (Palm 1938), so a failure waits
E[(on order - on site)+] / λ on average (Sherbrooke 1968).
"""

from __future__ import annotations

import numpy as np
from scipy import special


def mean_wait(rate: float, on_site: int, turnaround: float) -> float:
    """Mean wait of a failure for its part; `rate` and `turnaround` in one unit of time."""
    load = rate * turnaround
    if load == 0.0:
        return 0.0
    # E[(X - k)+] = load - E[min(X, k)], and E[min(X, k)] = sum over j < k of P(X > j)
    if on_site == 0:
        return turnaround
    more = special.gammainc(np.arange(1, on_site + 1), load)  # P(X > j) for j of 0 … k - 1
    return max(0.0, load - float(more.sum())) / rate


def at_once(rate: float, on_site: int, turnaround: float) -> float:
    """The part of failures whose part is there: P(fewer on order than there are)."""
    return float(special.gammaincc(on_site, rate * turnaround)) if on_site else 0.0
