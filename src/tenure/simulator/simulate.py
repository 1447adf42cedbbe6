"""Play a world under a policy: the board kept up to date, the clockwork run, the story collected.

`play` takes no chance: the same world and policy give the same story, bit for bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tenure.core.board import EVENT, PLACEMENT, Board, Lab, as_kernels_want, new_board
from tenure.core.decide import open_entry
from tenure.core.kernel import bundle
from tenure.core.policy import Policy
from tenure.core.tables import columns, empty
from tenure.core.tell_waits import tell_entry
from tenure.core.words import NEVER_S, NONE
from tenure.simulator.clockwork import (
    ALARM,
    CLOCK,
    DONE,
    LOOP,
    MAKE_ROOM,
    PAUSE,
    RULES,
    WORK,
    rows_needed,
    run_entry,
)
from tenure.simulator.world import Names, World
from tenure.story.columns import STORY_JOB, Story, StoryNode

TURNS_A_CALL = 20_000  #: turns between two looks at the progress bar


@bundle
class Playing(NamedTuple):
    """What the clockwork knows besides lab and board: the hidden side of the world, and the clock."""

    hidden: Any
    streams: Any
    happenings: Any
    arrivals: NDArray[np.int64]
    loops: Any
    work: Any
    alarms: Any
    clock: Any


@dataclass
class Played:
    story: Story
    turns: int
    wall_s: float  #: seconds the clockwork took, compiling not counted
    jobs_seen: int  #: jobs that ended
    looked: int  #: waiting jobs looked at, a measure of work
    searched: int  #: attempts weighed as victims


@dataclass
class Stage:
    """A play under way: arrays, not views."""

    lab: Lab
    board: Board
    playing: Playing
    policy: Policy
    rule: int
    chunks: list[NDArray[Any]] = field(default_factory=list)
    placements: list[NDArray[Any]] = field(default_factory=list)
    n_placed: int = 0


def lab_of(world: World) -> Lab:
    """The read-only side of a world, as the core wants it."""
    most = int(world.nodes["gpus"].max(initial=1))
    sizes = np.zeros((len(world.clusters), most + 1), np.int64)
    np.add.at(sizes, (world.nodes["cluster"], world.nodes["gpus"]), 1)
    tables: list[Any] = [world.jobs, world.accounts, world.nodes, world.clusters, sizes]
    for number, table in enumerate(tables):
        tables[number] = table = table.view()
        table.flags.writeable = False
    return Lab(*tables)


def set_stage(world: World, policy: Policy, rule: str, until_s: int) -> Stage:
    """Everything at second 0, nothing submitted yet."""
    lab = lab_of(world)
    board = new_board(lab, world.shares)
    board.counts["by_arrival"] = rule in ("fifo", "fifo-backfill")
    board.counts["one_list"] = rule != "budget"
    if rule != "budget":
        policy = policy._replace(pool_nodes=0, lengthen_weight=0, back_off_s=0)
    open_arrivals = np.flatnonzero(world.hidden["stream"] == NONE).astype(np.int64)
    order = np.argsort(world.hidden["arrive_s"][open_arrivals], kind="stable")
    loops = empty(len(world.streams), LOOP, dirty=True)
    loops["target"] = world.streams["target"]
    clock = empty(1, CLOCK, until_s=until_s, dirty_loops=len(loops), pending=len(loops) > 0)
    playing = Playing(
        hidden=world.hidden,
        streams=world.streams,
        happenings=world.happenings,
        arrivals=open_arrivals[order],
        loops=loops,
        work=empty(len(world.jobs), WORK),
        alarms=empty(1 << 14, ALARM),
        clock=clock,
    )
    stage = Stage(lab, board, playing, policy, RULES[rule])
    open_entry(as_kernels_want(lab), as_kernels_want(board), policy, 0)
    return stage


def play(
    world: World,
    names: Names,
    policy: Policy,
    *,
    rule: str = "budget",
    seed: int = 0,
    warmup_s: int = 0,
    until_s: int = NEVER_S,
    log_waits: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Played:
    """Play the world to `until_s`, or until nothing is left to happen.

    `rule`: budget, fifo, fifo-backfill or priority. `seed` is only noted in the story. `progress` is called
    now and then with the second reached.
    """
    stage = set_stage(world, policy, rule, until_s)
    make_ready(stage)
    began = time.perf_counter()
    advance(stage, progress, log_waits=log_waits)
    wall_s = time.perf_counter() - began
    _fetch(stage)
    counts, clock = stage.board.counts[0], stage.playing.clock[0]
    story = _story(stage, world, names, seed=seed, warmup_s=warmup_s, until_s=until_s)
    return Played(
        story=story,
        turns=int(counts["turns"]),
        wall_s=wall_s,
        jobs_seen=int(clock["n_ended"]),
        looked=int(counts["looked"]),
        searched=int(counts["searched"]),
    )


def make_ready(stage: Stage) -> None:
    """Have the clockwork compiled or read from its cache, without playing anything."""
    clock = stage.playing.clock
    kept = clock.copy()
    clock["pending"], clock["until_s"] = False, -1
    advance(stage)
    clock[:] = kept


def advance(
    stage: Stage,
    progress: Callable[[int], None] | None = None,
    *,
    turns: int | None = None,
    log_waits: bool = False,
) -> int:
    """Run the clockwork to its `until_s`, making room and fetching what was said whenever it asks.

    `turns`: stop after so many. `log_waits`: after every turn, every change of the reason a job waits for is
    said too (S21). Gives DONE or, where `turns` were played, PAUSE.
    """
    lab = as_kernels_want(stage.lab)
    waits = Waits(np.zeros(len(stage.lab.jobs), np.int64)) if log_waits else None
    a_call = turns or (TURNS_A_CALL if waits is None else 1)
    while True:
        board, playing = as_kernels_want(stage.board), _as_kernels_want(stage.playing)
        why = int(run_entry(lab, board, stage.policy, playing, stage.rule, a_call))
        if waits is not None:
            _tell(stage, waits, why == PAUSE)
        if progress is not None:
            progress(int(stage.playing.clock["now_s"][0]))
        if why == DONE or (why == PAUSE and turns is not None):
            return why
        if why == MAKE_ROOM:
            _fetch(stage)
            _grow(stage)


@dataclass
class Waits:
    """What was told of waiting jobs so far."""

    told: NDArray[np.int64]  #: the reason last told of each job
    chunks: int = 0  #: fetched when it was told last
    seen: int = 0  #: rows on the board then


def _tell(stage: Stage, waits: Waits, turned: bool) -> None:
    """Say which reasons have changed. Only a turn (`turned`) changes those of jobs that wait in lists."""
    lab, now_s = as_kernels_want(stage.lab), int(stage.playing.clock["now_s"][0])
    while True:
        board = as_kernels_want(stage.board)
        seen = waits.seen if waits.chunks == len(stage.chunks) else 0
        done = tell_entry(lab, board, stage.policy, seen, turned, now_s, waits.told)
        if not done:
            _fetch(stage)
        waits.chunks, waits.seen = len(stage.chunks), int(stage.board.counts["n_out"][0])
        if done:
            return


def _as_kernels_want(playing: Playing) -> Playing:
    return Playing(*[columns(table) for table in playing])


def _fetch(stage: Stage) -> None:
    """Take what was said off the board."""
    counts = stage.board.counts
    n_out, n_placed = int(counts["n_out"][0]), int(counts["n_placed"][0])
    chunk = stage.board.out[:n_out].copy()
    placed = np.isin(chunk["n_nodes"], 0, invert=True)
    chunk["nodes_at"][placed] += stage.n_placed
    stage.chunks.append(chunk)
    stage.placements.append(stage.board.placed[:n_placed].copy())
    stage.n_placed += n_placed
    counts["n_out"] = counts["n_placed"] = 0
    stage.playing.clock["n_seen"] = 0


def _grow(stage: Stage) -> None:
    """Make every table that a turn writes to long enough for the next, once what was said is fetched."""
    board, playing = stage.board, stage.playing
    needed = rows_needed(board)
    used = int(board.counts["log_head"][0] - board.counts["log_tail"][0])
    if len(board.log) - used < 2 * needed:
        tail = int(board.counts["log_tail"][0])
        rows = np.arange(tail, tail + used)
        log = empty(2 * max(len(board.log), needed), board.log.dtype)
        log[rows % len(log)] = board.log[rows % len(board.log)]
        board = board._replace(log=log)
    if min(len(board.out), len(board.placed)) < 2 * needed:
        board = board._replace(out=empty(2 * needed, EVENT), placed=empty(2 * needed, PLACEMENT))
    stage.board = board
    n_alarms = int(playing.clock["n_alarms"][0])
    if len(playing.alarms) - n_alarms < 2 * needed:
        alarms = empty(2 * max(len(playing.alarms), needed), ALARM)
        alarms[:n_alarms] = playing.alarms[:n_alarms]
        stage.playing = playing._replace(alarms=alarms)


def _gathered(stage: Stage) -> tuple[NDArray[Any], NDArray[Any]]:
    """All that was said as one table, and its placements as another; the stage keeps nothing of it.

    Filled from the end, each piece let go as soon as it is copied: so nothing is held twice, and what was
    allocated last is free first, which is what an allocator can give back.
    """
    pieces = list(zip(stage.chunks, stage.placements, strict=True))
    stage.chunks.clear()
    stage.placements.clear()
    n_events, n_placed = sum(len(piece[0]) for piece in pieces), sum(len(piece[1]) for piece in pieces)
    events, placements = empty(n_events, EVENT), empty(n_placed, PLACEMENT)
    while pieces:
        chunk, placed = pieces.pop()
        n_events, n_placed = n_events - len(chunk), n_placed - len(placed)
        events[n_events : n_events + len(chunk)] = chunk
        placements[n_placed : n_placed + len(placed)] = placed
        del chunk, placed
    return events, placements


def _story(stage: Stage, world: World, names: Names, *, seed: int, warmup_s: int, until_s: int) -> Story:
    """The columns of what happened. Jobs that never came are left out of nothing: their submit_s says so."""
    stays = stage.board.stays
    jobs = empty(len(world.jobs), STORY_JOB)
    for name in ("min_runtime_s", "clusters", "account", "gpus", "kind", "resumable"):
        jobs[name] = world.jobs[name]
    submitted = stays["phase"] != 0
    jobs["submit_s"] = np.where(submitted, stays["submit_s"], NEVER_S)
    del stays, submitted
    stage.board = stage.board._replace(stays=None, log=None)  # the play is over, and they are large
    events, placements = _gathered(stage)
    gpu_types = names.gpu_types
    nodes = [
        StoryNode(
            name=names.nodes[row],
            cluster=int(world.nodes["cluster"][row]),
            gpus=int(world.nodes["gpus"][row]),
            rack=int(world.nodes["rack"][row]),
            gpu=gpu_types[kind] if (kind := int(world.nodes["gpu_type"][row])) != NONE else None,
        )
        for row in range(len(world.nodes))
    ]
    return Story(
        lab=names.lab,
        policy=dict(stage.policy._asdict()),
        seed=seed,
        warmup_s=warmup_s,
        until_s=until_s,
        clusters=list(names.clusters),
        nodes=nodes,
        accounts=list(names.accounts),
        job_ids=names.jobs,
        jobs=jobs,
        events=events,
        placements=placements,
        notes=list(names.notes),
        start=names.start,
        prices=names.prices,
    )
