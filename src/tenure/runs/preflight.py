"""Is everything ready before a window begins? Checks, each with an answer, a cost, a deadline, a bound.

A check answers pass, fail or unknown, never nothing: one that raises, hangs or was told too little is
unknown. Its deadline is the latest instant at which what it finds can still be mended. Checks know nothing of
each other; whoever has one of their own puts it into the list.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tenure.providers.protocol import Clock

PASS, FAIL, UNKNOWN = "pass", "fail", "unknown"
STATES = (PASS, FAIL, UNKNOWN)


class Outcome(NamedTuple):
    """What a check found. `numbers`: as JSON holds them."""

    state: str
    text: str
    numbers: dict[str, Any] = {}


class Check(NamedTuple):
    """One question. `look` may raise and may hang: both are unknown."""

    name: str
    asks: str
    look: Callable[[], Outcome]
    bound_s: float = 60.0  #: so long it may take
    lead_s: float = 3600.0  #: what mending takes: its deadline is so long before the start
    cost: str = "nothing"  #: of asking, for people
    cost_node_s: float = 0.0  #: node-seconds that are paid for asking


class Result(NamedTuple):
    """A check, answered."""

    check: Check
    state: str
    text: str
    took_s: float
    deadline: float | None  #: epoch seconds; None where no start is known
    late: bool  #: its deadline has passed: what is wrong can hardly be mended
    numbers: dict[str, Any]


def told_too_little(key: str) -> Outcome:
    """Unknown, since the file does not say."""
    return Outcome(UNKNOWN, f"not asked: the file has no {key}")


def run_checks(
    checks: Sequence[Check],
    clock: Clock,
    start: float | None,
    tell: Callable[[int, str], None] = lambda done, name: None,
) -> list[Result]:
    """Ask all, one after the other (some hold nodes). `start`: of the window, epoch seconds.

    `tell(done, name)`: before each. A check that hangs is left behind in its thread; the next one is asked.
    """
    results = []
    for done, check in enumerate(checks):
        tell(done, check.name)
        began = clock.now()
        outcome = bounded(check)
        now = clock.now()
        deadline = None if start is None else start - check.lead_s
        late = deadline is not None and now > deadline and outcome.state != PASS
        results.append(
            Result(check, outcome.state, outcome.text, now - began, deadline, late, outcome.numbers)
        )
    return results


def bounded(check: Check) -> Outcome:
    """The answer of a check, or unknown after its time."""
    found: list[Outcome] = []

    def look() -> None:
        try:
            outcome = check.look()
            if outcome.state not in STATES:
                outcome = Outcome(UNKNOWN, f"it answered {outcome.state!r}")
        except Exception as problem:  # a check's own fault is no answer about what it asked
            said = (str(problem).strip().splitlines() or [""])[0][:200]
            outcome = Outcome(UNKNOWN, f"it could not be asked: {type(problem).__name__}: {said}")
        found.append(outcome)

    thread = threading.Thread(target=look, name=f"preflight-{check.name}", daemon=True)
    thread.start()
    thread.join(check.bound_s)
    return found[0] if found else Outcome(UNKNOWN, f"no answer within {check.bound_s:g} s")


def verdict(results: Sequence[Result], accepted: Sequence[str] = ()) -> str:
    """Of all: fail where one fails, unknown where one is unknown that nobody accepted, else pass."""
    if any(result.state == FAIL for result in results):
        return FAIL
    if any(result.state == UNKNOWN and result.check.name not in accepted for result in results):
        return UNKNOWN
    return PASS
