"""The board of an instant, built from what was recorded: what a scheduler that starts anew begins with.

A simulation keeps its board up to date; this makes the same board in one go, by sums and sorts over the
record instead of by following events. Decisions made on either are the same, bit for bit (a test); with a
half-life (S5) the decayed sums agree to rounding.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tenure.core.board import (
    BUDGETED,
    KINDS,
    LANES,
    LOG,
    PLAIN,
    PLANS,
    POOL,
    PROMISED,
    QUICK,
    UNBUDGETED,
    Board,
    Lab,
    as_kernels_want,
    new_board,
)
from tenure.core.columns import UGPU
from tenure.core.decide import open_entry
from tenure.core.places import LAX, RIPE, WAYS, WORD
from tenure.core.policy import Policy
from tenure.core.tables import F8, I8, Table, table_type
from tenure.core.usage import LN2
from tenure.core.waiting import STOPS_A_ROUND
from tenure.core.words import NEVER_S, NONE, NodeState, Phase

RUNNING, STOPPING, CLAIMING = int(Phase.RUNNING), int(Phase.STOPPING), int(Phase.CLAIMING)
WAITING, UP, DRAINING = int(Phase.WAITING), int(NodeState.UP), int(NodeState.DRAINING)

HOLDING = table_type(job=I8, node=I8, gpus=I8)  #: GPUs of one node that a job holds, or that are kept for it
PROMISE = table_type(
    at_s=I8, target=F8, job=I8, rule=I8, row=I8
)  #: an open plan; `row`: its row on the board
RATE = LOG  #: a change of what is charged, due and entitled to

#: What a stay records; its other columns follow from these, the lab and the policy.
RECORDED = (
    "submit_s", "started_s", "protected_until_s", "stop_s", "since_s", "patient_s", "rest_until_s", "cluster",
    "attempt", "preempted", "taker", "rule", "phase", "cause", "noticed", "evicted", "at_head", "saved",
    "timed_out",
)  # fmt: skip


class Record(NamedTuple):
    """What was recorded up to an instant. Rows are those of the lab."""

    stays: Table  #: STAY, a row a job; the columns of RECORDED are read
    held: Table  #: HOLDING of running and stopping attempts, in order of their starts
    claimed: Table  #: HOLDING of claiming jobs, oldest claim first
    promises: Table  #: PROMISE
    promised: Table  #: HOLDING of promises, in the order of their nodes
    node_states: NDArray[np.int64]  #: words.NodeState by node
    shares: NDArray[np.int64]  #: (clusters, accounts), millionths of the parent's, as they are now
    rates: Table  #: RATE, in time order, from the beginning of the record
    closed_s: NDArray[np.int64] | None = (
        None  #: by node: from when on it is to close; NEVER_S = not; None: no node is
    )


def rebuild(lab: Lab, policy: Policy, record: Record, now_s: int) -> Board:
    """The board of the policy `budget` after all that is recorded, as of `now_s`. `lab` is not written to."""
    board = new_board(lab, record.shares, log_rows=2 * len(record.rates) + 1)
    open_entry(as_kernels_want(lab), as_kernels_want(board), policy, 0)  # scales and pool
    _set_stays(lab, board, policy, record)
    _set_posts(lab, board, record)
    _set_chains(board, record)
    _set_plans(lab, board, record)
    _set_rooms(lab, board)
    _set_lists(lab, board)
    soften(lab, board, now_s)
    _set_rates(board, policy, record.rates, now_s)
    _set_standings(lab, board)
    _set_purses(lab, board)
    _set_scenes(lab, board)
    return board


def _set_stays(lab: Lab, board: Board, policy: Policy, record: Record) -> None:
    stays, jobs = board.stays, lab.jobs
    for name in RECORDED:
        stays[name] = record.stays[name]
    short = (jobs["min_runtime_s"] > 0) & (jobs["min_runtime_s"] <= policy.quick_runtime_s)
    stays["quick"] = short & (jobs["gpus"] <= policy.quick_gpus) & (stays["phase"] != Phase.ABSENT)
    for holdings in (record.held, record.claimed):
        firsts = holdings[np.unique(holdings["job"], return_index=True)[1]]
        stays["node"][firsts["job"]] = firsts["node"]
        stays["n_nodes"] += np.bincount(holdings["job"], minlength=len(stays))


def soften(lab: Lab, board: Board, now_s: int) -> None:
    """Say of each running attempt whether it is past its protection, and of each node how many GPUs are."""
    stays, posts = board.stays, board.posts
    past = ~stays["budgeted"] | (stays["protected_until_s"] <= now_s)
    stays["soft"] = (stays["phase"] == RUNNING) & past
    posts["soft"] = posts["lax"] = posts["ripe"] = 0
    for node in np.flatnonzero(posts["n_jobs"]).tolist():
        on_it = board.on_node[node, : posts["n_jobs"][node]]
        on_it = on_it[stays["soft"][on_it]]
        whole = lab.nodes["gpus"][node]
        gpus = np.where(stays["n_nodes"][on_it] == 1, stays["gpus"][on_it], whole)
        posts["soft"][node], posts["lax"][node] = gpus.sum(), gpus[~stays["budgeted"][on_it]].sum()
    _chain_soft(lab, board)
    _set_clears(lab, board)


def _chain_soft(lab: Lab, board: Board) -> None:
    """Each owner's attempts that may be weighed as victims; what it can spare the next turn finds out."""
    stays, rows = board.stays, board.standings
    rows["first_soft"], rows["gives"] = NONE, 0
    board.scenes["stirred"] = True
    for job in np.flatnonzero(stays["soft"] & stays["budgeted"]).tolist():
        row = int(stays["cluster"][job]) * len(lab.accounts) + int(stays["account"][job])
        after = int(rows["first_soft"][row])
        stays["next_soft"][job], stays["prev_soft"][job] = after, NONE
        if after != NONE:
            stays["prev_soft"][after] = job
        rows["first_soft"][row] = job


def _set_clears(lab: Lab, board: Board) -> None:
    posts = board.posts
    coming = np.maximum(0, posts["free"] + posts["freeing"] - posts["pledged"])
    posts["lax_room"] = posts["ripe_room"] = np.minimum(lab.nodes["gpus"], coming + posts["lax"])
    board.clears[:] = 0
    counted = posts[posts["counted"]]
    rows = (lab.nodes["cluster"][posts["counted"]] * KINDS + counted["kind"]) * WAYS
    np.add.at(board.clears, (rows + LAX, counted["lax_room"]), 1)
    np.add.at(board.clears, (rows + RIPE, counted["ripe_room"]), 1)
    board.clearable[:] = 0
    width = board.rooms.shape[1]
    for node in np.flatnonzero(posts["counted"]).tolist():
        for way, room in ((LAX, posts["lax_room"][node]), (RIPE, posts["ripe_room"][node])):
            board.clearable[node // WORD, way * width + room] |= 1 << (node % WORD)


def _set_posts(lab: Lab, board: Board, record: Record) -> None:
    posts, held = board.posts, record.held
    posts["state"] = record.node_states
    if record.closed_s is not None:
        posts["closed_s"] = record.closed_s
    stopping = board.stays["phase"][held["job"]] == STOPPING
    np.subtract.at(posts["free"], held["node"], held["gpus"])
    np.add.at(posts["freeing"], held["node"][stopping], held["gpus"][stopping])
    np.add.at(posts["pledged"], record.claimed["node"], record.claimed["gpus"])
    for job, node in zip(held["job"].tolist(), held["node"].tolist()):
        board.on_node[node, posts["n_jobs"][node]] = job
        posts["n_jobs"][node] += 1
    claims = list(dict.fromkeys(record.claimed["job"].tolist()))
    board.claims[: len(claims)] = claims
    board.counts["n_claims"] = len(claims)
    posts["avail"] = np.maximum(0, posts["free"] - _kept_for_claims(board, record))


def _kept_for_claims(board: Board, record: Record) -> NDArray[np.int64]:
    """S14, by node: what each claim needs beyond what its own stops will free; of a gang's, what any will."""
    stays, held, kept = board.stays, record.held, np.zeros(len(board.posts), np.int64)
    stopping = held[stays["phase"][held["job"]] == STOPPING]
    for claim in record.claimed:
        here = stopping[stopping["node"] == claim["node"]]
        if stays["n_nodes"][claim["job"]] == 1:
            here = here[stays["taker"][here["job"]] == claim["job"]]
        kept[claim["node"]] += max(0, int(claim["gpus"]) - int(here["gpus"].sum()))
    return kept


def _set_chains(board: Board, record: Record) -> None:
    """The nodes of a gang, of a claim and of a promise, each leading to the next."""
    for name, holdings in (
        ("next_of_gang", record.held),
        ("next_of_claim", record.claimed),
        ("next_of_plan", record.promised),
    ):
        last: dict[int, int] = {}
        for job, node in zip(holdings["job"].tolist(), holdings["node"].tolist()):
            if job in last:
                board.posts[name][last[job]] = node
            last[job] = node


def _set_plans(lab: Lab, board: Board, record: Record) -> None:
    plans, posts = board.plans, board.posts
    for promise in record.promises:
        row, job = int(promise["row"]), int(promise["job"])
        nodes = record.promised["node"][record.promised["job"] == job]
        cluster = row // PLANS
        plans["job"][row], plans["at_s"][row], plans["target"][row] = job, promise["at_s"], promise["target"]
        plans["rule"][row], plans["cluster"][row], plans["open"][row] = promise["rule"], cluster, True
        plans["first_node"][row], plans["n_nodes"][row] = nodes[0], len(nodes)
        posts["plan"][nodes], posts["plan_s"][nodes] = row, promise["at_s"]
        board.stays["plan"][job] = row
        board.standings["plan"][cluster * len(lab.accounts) + board.stays["account"][job]] = row
        board.scenes["n_plans"][cluster] += 1
        board.scenes["plan_rows"][cluster] = max(board.scenes["plan_rows"][cluster], row % PLANS + 1)


def _set_rooms(lab: Lab, board: Board) -> None:
    posts = board.posts
    ordinary = np.where(posts["pool"], POOL, PLAIN)
    posts["kind"] = np.where(posts["plan"] != NONE, PROMISED + posts["plan"] % PLANS, ordinary)
    posts["counted"] = posts["state"] == UP
    counted = posts[posts["counted"]]
    board.rooms[:] = 0
    rows = lab.nodes["cluster"][posts["counted"]] * KINDS + counted["kind"]
    np.add.at(board.rooms, (rows, counted["avail"]), 1)
    board.levels[:] = 0
    for node in np.flatnonzero(posts["counted"]).tolist():
        board.levels[posts["avail"][node], node // WORD] |= 1 << (node % WORD)


def _set_lists(lab: Lab, board: Board) -> None:
    """S7: every waiting job in the list of each cluster it may run on, in order (`waiting.earlier`)."""
    stays, entries, queues = board.stays, board.entries, board.queues
    waiting = np.flatnonzero(stays["phase"] == WAITING)
    asked = stays[waiting]
    stops = np.where(asked["budgeted"], 0, asked["preempted"] // STOPS_A_ROUND)
    order = waiting[np.lexsort((waiting, asked["submit_s"], stops, -lab.jobs["priority"][waiting]))]
    for job in order.tolist():
        lane = (QUICK if stays["quick"][job] else BUDGETED) if stays["budgeted"][job] else UNBUDGETED
        entry, allowed = int(lab.jobs["first_entry"][job]), int(lab.jobs["clusters"][job])
        for cluster in range(len(lab.clusters)):
            if allowed >> cluster & 1:
                queue = (cluster * len(lab.accounts) + int(stays["account"][job])) * LANES + lane
                last = int(queues["tail"][queue])
                entries["prev"][entry], entries["next"][entry], entries["queue"][entry] = last, NONE, queue
                entries["gpus"][entry] = stays["gpus"][job]
                entries["min_runtime_s"][entry] = lab.jobs["min_runtime_s"][job]
                entries["typed"][entry] = lab.jobs["gpu_type"][job] != NONE
                if last == NONE:
                    queues["head"][queue] = entry
                else:
                    entries["next"][last] = entry
                queues["tail"][queue] = entry
                queues["n"][queue] += 1
                queues["gpus"][queue] += stays["gpus"][job]
                board.scenes["n_waiting"][cluster] += 1
                entry += 1


def _set_rates(board: Board, policy: Policy, rates: Table, now_s: int) -> None:
    """S2–S5: the sums over the lookback; what happens before it is gone."""
    rows, standing = board.standings, rates["standing"]
    begin_s = max(0, now_s - policy.lookback_s)
    past = rates["t"] <= now_s - policy.lookback_s
    held_s = now_s - np.maximum(rates["t"], begin_s)
    for rate, total in (
        ("charged", "used_gpu_s"),
        ("due_ugpu", "owed_ugpu_s"),
        ("entitled_ugpu", "titled_ugpu_s"),
    ):
        rows[rate], rows[f"past_{rate}"], rows[total], rows[f"past_{total}"] = 0, 0, 0, 0
        np.add.at(rows[rate], standing, rates[rate])
        np.add.at(rows[f"past_{rate}"], standing[past], rates[rate][past])
        np.add.at(rows[total], standing, rates[rate] * held_s)
    rows["since_s"], rows["past_since_s"] = now_s, begin_s
    if policy.half_life_s != NEVER_S:
        grown = 1.0 - 0.5 ** ((now_s - rates["t"]) / policy.half_life_s)
        grown *= policy.half_life_s / LN2
        for rate, unit, total in (
            ("charged", 1, "decayed_used"),
            ("due_ugpu", UGPU, "decayed_owed"),
            ("entitled_ugpu", UGPU, "decayed_titled"),
        ):
            rows[total] = np.bincount(standing, rates[rate] / unit * grown, len(rows))
    young = rates[~past]
    board.log[: len(young)] = young
    board.counts["log_head"], board.counts["log_tail"] = len(young), 0


def _set_standings(lab: Lab, board: Board) -> None:
    """What accounts ask for, run, protect and have in the quick lane."""
    stays, rows = board.stays, board.standings
    row = stays["cluster"] * len(lab.accounts) + stays["account"]
    budgeted, phase = stays["budgeted"], stays["phase"]
    counts = budgeted & ((phase == RUNNING) | (phase == CLAIMING))
    for name, chosen in (
        ("demand", budgeted & np.isin(phase, (WAITING, CLAIMING, RUNNING, STOPPING))),
        ("running", counts),
        ("quick", counts & stays["quick"]),
        ("protected", budgeted & (phase == RUNNING) & ~stays["soft"]),
    ):
        rows[name] = 0
        np.add.at(rows[name], row[chosen], stays["gpus"][chosen])


def _set_purses(lab: Lab, board: Board) -> None:
    """S9: GPUs held or claimed by each account and all below it."""
    stays = board.stays
    holds = np.isin(stays["phase"], (CLAIMING, RUNNING, STOPPING))
    for name, chosen in (("held", holds), ("unbudgeted", holds & ~stays["budgeted"])):
        np.add.at(board.purses[name], stays["account"][chosen], stays["gpus"][chosen])
        for account in range(len(lab.accounts) - 1, 0, -1):
            board.purses[name][lab.accounts["parent"][account]] += board.purses[name][account]


def _set_scenes(lab: Lab, board: Board) -> None:
    scenes, posts = board.scenes, board.posts
    serves = (posts["state"] == UP) | ((posts["state"] == DRAINING) & (posts["n_jobs"] > 0))
    for name, column, chosen in (
        ("free", posts["free"], np.ones(len(posts), bool)),
        ("healthy", lab.nodes["gpus"], serves),
        ("n_sick", (posts["state"] == DRAINING).astype(np.int64), posts["state"] == DRAINING),
        ("n_closing", (posts["closed_s"] < NEVER_S).astype(np.int64), posts["closed_s"] < NEVER_S),
    ):
        scenes[name] = 0
        np.add.at(scenes[name], lab.nodes["cluster"][chosen], column[chosen])
    scenes["dirty"] = True


__all__ = ["HOLDING", "PROMISE", "RATE", "RECORDED", "Record", "rebuild"]
