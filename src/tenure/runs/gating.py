"""Is this gang fit to train? Its nodes' tools and an all-reduce, just before an attempt; slow nodes named.

Asked as the run's file says under `preflight`. In the command, `{node}` is a node's address (it then runs
for each) and `{nodes}` those of all that are measured, joined by commas: a gang that is too slow is measured
again by halves, until the slow nodes are known. Only what fails stops a gang; what is unknown is told.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tenure.providers.protocol import Node, Window
from tenure.runs.parts import Gated
from tenure.runs.preflight import FAIL, Outcome
from tenure.runs.preflight_commands import all_reduce, health
from tenure.runs.preflight_gang import slow_nodes
from tenure.settings.run_file import Run

Gate = Callable[[Sequence[Node], Sequence[Window]], Gated]


class OutOfTime(Exception):
    """The gate's time is over: what is known by then must do."""


class Clockwork:
    """So much time for all of it: who waits at a gate holds a lease."""

    def __init__(self, bound_s: float) -> None:
        self._until = time.monotonic() + bound_s

    def left_s(self) -> float:
        """Seconds, at least one. OutOfTime."""
        left = self._until - time.monotonic()
        if left < 1.0:
            raise OutOfTime
        return left


def gate_of(run: Run, bound_s: float | None = None) -> Gate | None:
    """The gate of a run's file; None where it names neither tools nor an all-reduce.

    `bound_s`: for all of it, the search for slow nodes included; default: `preflight.bound`.
    """
    told = run.file.preflight
    if told.health is None and told.all_reduce is None:
        return None

    def ask(nodes: Sequence[Node], windows: Sequence[Window]) -> Gated:
        by_address = {node.address or node.id: node.id for node in nodes}
        addresses = list(by_address)
        said, time_left = [], Clockwork(told.bound if bound_s is None else bound_s)
        for look in (_healthy, _fast):
            try:
                outcome, bad = look(run, addresses, time_left)
            except OutOfTime:
                said.append("no time was left for the rest")
                break
            if outcome is None:
                continue
            if outcome.state == FAIL:
                return Gated(False, outcome.text, tuple(by_address[one] for one in bad if one in by_address))
            said.append(outcome.text)
        return Gated(True, "; ".join(said))

    return ask


def _healthy(
    run: Run, addresses: Sequence[str], time_left: Clockwork
) -> tuple[Outcome | None, Sequence[str]]:
    told = run.file.preflight
    if told.health is None:
        return None, ()
    outcome = health(
        {"smi": told.health.smi, "nvlink": told.health.nvlink, "dcgm": told.health.dcgm},
        addresses,
        gpus=run.plan.gpus_per_node,
        links=told.health.links,
        bound_s=time_left.left_s(),
        folder=run.folder,
    )
    return outcome, outcome.numbers["bad_nodes"]


def _fast(run: Run, addresses: Sequence[str], time_left: Clockwork) -> tuple[Outcome | None, Sequence[str]]:
    told = run.file.preflight.all_reduce
    if told is None:
        return None, ()
    command, whole = told.command or [], told.ranks

    def measured(some: Sequence[str]) -> Outcome:
        ranks = None if whole is None else whole * len(some) // len(addresses)
        words = [
            word.replace("{nodes}", ",".join(some)).replace("{ranks}", str(ranks or len(some)))
            for word in command
        ]
        return all_reduce(
            words or None,
            None if told.output is None else _fresh(run.folder / told.output),
            expected=told.expected,
            share=told.share,
            ranks=ranks,
            bound_s=time_left.left_s(),
            folder=run.folder,
        )

    outcome = measured(addresses)
    halves = any("{nodes}" in word for word in command)
    if outcome.state != FAIL or told.expected is None or not halves:
        return outcome, ()

    def speed(some: Sequence[str]) -> float | None:
        found = measured(some).numbers.get("bus_gb_s")
        return None if found is None else float(found)

    try:
        slow = slow_nodes(addresses, speed, told.share * told.expected)
    except OutOfTime:
        return outcome._replace(text=f"{outcome.text}; which node is slow was not found in time"), ()
    named = f"; slow: {', '.join(slow)}" if slow else "; no node by itself is slow: it is the network"
    return outcome._replace(text=outcome.text + named), slow


def _fresh(output: Path) -> Path:
    """Without what an earlier measurement left: it would be read in place of one that failed."""
    output.unlink(missing_ok=True)
    return output
