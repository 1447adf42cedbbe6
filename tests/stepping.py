"""A scenario played turn by turn, with the record that a ledger would keep of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tenure.core.board import LOG, PLANS, Board, as_kernels_want
from tenure.core.rebuild import HOLDING, PROMISE, Record
from tenure.core.tables import columns, empty
from tenure.core.words import NEVER_S, Happened
from tenure.simulator import simulate
from tenure.simulator.clockwork import DONE, MAKE_ROOM, run_entry
from tenure.simulator.scenario import build_world, load_scenario

#: Columns of a stay that follow from the rest: a record does not hold them.
DERIVED = ("account", "gpus", "node", "n_nodes", "plan", "budgeted", "quick", "soft")


@dataclass
class Ledger:
    """What a play has said so far, as rows."""

    node_states: dict[int, int] = field(default_factory=dict)
    closings: dict[int, int] = field(default_factory=dict)  #: node: from when on it is to close
    held: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  #: job: its nodes and GPUs there
    claimed: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    rates: list[tuple[int, int, int, int, int]] = field(default_factory=list)  #: as LOG
    log_read: int = 0  #: rows of the board's `log` and `out` that are noted already
    out_read: int = 0

    def note(self, stage: simulate.Stage) -> None:
        """What was said and changed since the last time."""
        board = stage.board
        for row in range(self.out_read, int(board.counts["n_out"][0])):
            out = board.out[row]
            event, job = Happened(int(out["event"])), int(out["job"])
            at = slice(int(out["nodes_at"]), int(out["nodes_at"]) + int(out["n_nodes"]))
            if event in (Happened.STARTED, Happened.CLAIMED):
                nodes = [(int(p["node"]), int(p["gpus"])) for p in board.placed[at]]
                self.claimed.pop(job, None)
                (self.held if event == Happened.STARTED else self.claimed)[job] = nodes
            elif event == Happened.UNCLAIMED:
                del self.claimed[job]
            elif event == Happened.STOPPED:
                del self.held[job]
            elif event == Happened.NODE:
                self.node_states[int(out["by"])] = int(out["code"])
                if out["x"]:
                    self.closings[int(out["by"])] = int(out["x"])
        now_s = int(stage.playing.clock["now_s"][0])
        self.closings = {node: from_s for node, from_s in self.closings.items() if from_s > now_s}
        self.out_read = int(board.counts["n_out"][0])
        while self.log_read < int(board.counts["log_head"][0]):
            row = board.log[self.log_read % len(board.log)]
            self.rates.append(tuple(row.tolist()))
            self.log_read += 1


def record_of(stage: simulate.Stage, ledger: Ledger) -> Record:
    """What was recorded. Of stays everything that only they tell; what follows from the rest is spoilt."""
    board = stage.board
    stays = board.stays.copy()
    for name in DERIVED:
        stays[name] = -7 if stays.dtype[name].kind == "i" else True
    states = np.zeros(len(board.posts), np.int64)
    for node, state in ledger.node_states.items():
        states[node] = state
    closed_s = np.full(len(board.posts), NEVER_S, np.int64)
    for node, from_s in ledger.closings.items():
        closed_s[node] = from_s
    open_plans = np.flatnonzero(board.plans["open"])
    promises = empty(len(open_plans), PROMISE)
    promised = []
    for k, row in enumerate(open_plans.tolist()):
        plan = board.plans[row]
        promises[k] = (plan["at_s"], plan["target"], plan["job"], plan["rule"], row)
        node = int(plan["first_node"])
        for _ in range(int(plan["n_nodes"])):
            promised.append((int(plan["job"]), node, 0))
            node = int(board.posts["next_of_plan"][node])
    assert (board.plans["cluster"][open_plans] == open_plans // PLANS).all()
    return Record(
        stays=stays,
        held=holdings(ledger.held),
        claimed=holdings(ledger.claimed),
        promises=promises,
        promised=np.array(promised, HOLDING),
        node_states=states,
        shares=board.shares.copy(),
        rates=np.array(ledger.rates, LOG),
        closed_s=closed_s,
    )


def holdings(of: Mapping[int, list[tuple[int, int]]]) -> Any:
    return np.array([(job, node, gpus) for job, nodes in of.items() for node, gpus in nodes], HOLDING)


def staged(
    source: Mapping[str, Any] | Path | str, *, until_s: int | None = None, seed: int | None = None
) -> simulate.Stage:
    """A scenario at second 0, under the policy `budget` of its lab."""
    scenario = load_scenario(source)
    world, _ = build_world(scenario, seed=seed)
    rule, knobs = scenario.policy("budget")
    return simulate.set_stage(world, knobs, rule, scenario.until_s if until_s is None else until_s)


def turns(stage: simulate.Stage, ledger: Ledger | None = None) -> Iterator[int]:
    """Plays a turn and gives its instant, again and again. In between the board may be `change`d."""
    ledger = Ledger() if ledger is None else ledger
    ledger.note(stage)
    while True:
        board: Board = as_kernels_want(stage.board)
        playing = simulate.Playing(*[columns(table) for table in stage.playing])
        why = run_entry(as_kernels_want(stage.lab), board, stage.policy, playing, stage.rule, 1)
        ledger.note(stage)
        if why == DONE:
            return
        if why == MAKE_ROOM:
            simulate._fetch(stage)
            simulate._grow(stage)
            ledger.out_read = 0
            continue
        yield int(stage.playing.clock["now_s"][0])


def change(stage: simulate.Stage, ledger: Ledger, board: Board) -> None:
    """Play on with another board."""
    simulate._fetch(stage)
    stage.board = board
    ledger.out_read, ledger.log_read = 0, int(board.counts["log_head"][0])


def said(stage: simulate.Stage) -> list[Any]:
    """All events so far, with the nodes they name."""
    simulate._fetch(stage)
    told = []
    placed = np.concatenate(stage.placements).tolist()
    for event in np.concatenate(stage.chunks):
        at, n = int(event["nodes_at"]), int(event["n_nodes"])
        told.append(
            (
                *event[["t", "x", "y", "job", "attempt", "by", "event", "code", "rule"]].tolist(),
                placed[at : at + n],
            )
        )
    return told
