"""How a node's health moves it: pure, from what is known of nodes and what checks said of them.

    up ──drain──► draining ──(empty)──► drained ──repair──► repairing ──up──► testing ──(passes)──► up
     ▲                                     │                    ▲               │
     └── down ──(the engine sees it)       └──(by checks)──► testing            └──(fails)──► repairing

A step without a name on its arrow is taken by the program. Checks take a node out after some failures in a
row, by contract (S19: running work leaves when its protection ends), and never more than a part of the fleet.
A node that checks took out is tested once it is empty: passing, it comes back without a person; failing, it
waits in `repairing` for one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

WHOLE = 1_000_000
CHECKS = "health-check"  #: who acts where a check does
PROGRAM = "tenure"  #: who acts where a step follows by itself
ENGINE = "engine"  #: who acts where the engine sees it

#: What a person may ask of a node, from each state; a step that is not here changes nothing or is refused.
ASKED: Mapping[str, Mapping[str, str]] = {
    "up": {"drain": "draining", "down": "down"},
    "draining": {"drain": "draining", "up": "up", "down": "down"},
    "drained": {
        "drain": "drained",
        "repair": "repairing",
        "test": "testing",
        "up": "testing",
        "down": "down",
    },
    "repairing": {"repair": "repairing", "test": "testing", "up": "testing", "down": "down"},
    "testing": {"drain": "drained", "repair": "repairing", "test": "testing", "up": "up", "down": "down"},
    "down": {"repair": "repairing", "test": "testing", "up": "testing", "down": "down"},
}
WORDS = ("drain", "down", "up", "repair", "test")
OUT_OF_SERVICE = ("down", "drained", "repairing", "testing")


class NodeNow(NamedTuple):
    """A node as the last turn left it."""

    name: str
    state: str  #: up, draining, drained, repairing, testing, down
    attempts: int = 0  #: that run on it
    by: str = ""  #: who put it into its state
    reason: str = ""
    since: float = 0.0  #: when it came into its state: the same state again is another spell


class Verdict(NamedTuple):
    """What a check said of a node."""

    node: str
    ok: bool | None  #: None: it said nothing that can be understood
    reason: str
    at: float
    checks: Mapping[str, Any] = {}


class Tally(NamedTuple):
    """Verdicts on one node, in a row."""

    failed: int = 0
    passed: int = 0
    unknown: int = 0
    at: float = 0.0  #: of the newest
    reason: str = ""
    state: str = ""  #: the node's when they were given; "" = none was
    since: float = 0.0  #: … and since when it was in it

    def is_of(self, node: NodeNow) -> bool:
        """Whether they were given of this spell of the node's, and not of an earlier one."""
        return self.state in ("", node.state) and self.since in (0.0, node.since)


class Step(NamedTuple):
    """A change of state that follows from what is known, to be asked for as a person would ask."""

    node: str
    state: str
    by: str
    reason: str
    old: str = ""  #: its state when this was found: it holds for no other


class Findings(NamedTuple):
    """What follows now."""

    steps: Sequence[Step]
    held_back: Sequence[str]  #: nodes whose checks fail and that stay in service: too many are out already


def counted(tally: Tally, verdict: Verdict, node: NodeNow) -> Tally:
    """The tally with one more verdict. An unknown one breaks no row and counts as neither."""
    if not tally.is_of(node):
        tally = Tally()
    failed, passed, unknown = tally.failed, tally.passed, 0
    if verdict.ok is None:
        unknown = tally.unknown + 1
    else:
        failed, passed = (0, passed + 1) if verdict.ok else (failed + 1, 0)
    return Tally(failed, passed, unknown, verdict.at, verdict.reason, node.state, node.since)


def asked_state(state: str, verb: str, *, checked: bool) -> str:
    """Where a person's word puts a node. `checked`: the lab has a check, so `up` is tested first.

    ValueError, saying what is possible, where the word means nothing there.
    """
    if verb not in WORDS:
        raise ValueError(f"'{verb}' is none of {', '.join(WORDS)}")
    new = ASKED[state].get(verb)
    if new is None:
        possible = ", ".join(sorted(ASKED[state]))
        raise ValueError(f"a node that is {state} cannot be told '{verb}' (possible: {possible})")
    return "up" if verb == "up" and not checked else new


def needs_person(old: str, new: str, by: str) -> bool:
    """Whether this step is a repair that a person is needed for, counted once each time one is."""
    waits_for_one = new == "repairing" and old != "repairing"
    revived = old == "down" and new in ("up", "testing") and by not in (CHECKS, PROGRAM, ENGINE, "")
    return waits_for_one or revived


def findings(
    nodes: Iterable[NodeNow],
    tallies: Mapping[str, Tally],
    *,
    checked: bool,
    failures: int = 2,
    most_drained: int = 100_000,
) -> Findings:
    """What follows for every node. `most_drained`: millionths of the fleet checks may take out, one at least.

    Which of several failing nodes goes first does not hang on the order given: the longest failing does, then
    the name.
    """
    nodes = list(nodes)
    steps: list[Step] = []
    failing: list[tuple[int, str]] = []
    taken = 0
    for node in nodes:
        tally = tallies.get(node.name, Tally())
        if not tally.is_of(node):
            tally = Tally()
        if node.state != "up" and node.by == CHECKS:
            taken += 1
        if node.state == "up":
            if checked and tally.failed >= failures:
                failing.append((-tally.failed, node.name))
        else:
            steps += [step._replace(old=node.state) for step in _follows(node, tally, checked)]
    most = max(1, len(nodes) * most_drained // WHOLE)
    failing.sort()
    go = failing[: max(0, most - taken)]
    for _, name in go:
        steps.append(Step(name, "draining", CHECKS, _why(tallies[name]), "up"))
    return Findings(steps, [name for _, name in failing[len(go) :]])


def _follows(node: NodeNow, tally: Tally, checked: bool) -> list[Step]:
    by_checks = node.by == CHECKS
    if node.state == "draining" and node.attempts == 0:
        return [Step(node.name, "drained", node.by or PROGRAM, node.reason or "empty")]
    if node.state == "drained" and by_checks and checked:
        return [Step(node.name, "testing", CHECKS, f"tested again: {node.reason}")]
    if node.state == "testing" and not checked and node.by in (CHECKS, PROGRAM):
        return [Step(node.name, "up", PROGRAM, "no health check is set")]
    if node.state == "testing" and tally.failed > 0:
        return [Step(node.name, "repairing", CHECKS, _why(tally))]
    if node.state == "testing" and tally.passed > 0:
        return [Step(node.name, "up", node.by or PROGRAM, "its health check passed")]
    return []


def _why(tally: Tally) -> str:
    times = f" ({tally.failed} in a row)" if tally.failed > 1 else ""
    return f"health check: {tally.reason or 'failed'}{times}"
