"""What a turn has said, as lines of the story and as events by name, for people, databases and engines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tenure.core.board import EVENT, PLACEMENT
from tenure.core.policy import Policy
from tenure.core.tables import empty
from tenure.core.words import NEVER_S, NONE, Happened
from tenure.daemon.book import Book
from tenure.settings.lab import Lab
from tenure.settings.units import instant_text
from tenure.story.columns import STORY_JOB, Story, StoryAccount, StoryNode
from tenure.story.write_lines import LineMaker


class Said(NamedTuple):
    """One event, its rows as numbers of Python."""

    t: int
    x: int
    y: int
    job: int
    attempt: int
    by: int
    event: Happened
    code: int
    rule: int
    nodes: tuple[tuple[int, int], ...]  #: (node row, GPUs)


def said(book: Book) -> Iterator[Said]:
    """What the last turn on this book said, in order."""
    board = book.board
    placed = board.placed
    names = ("t", "x", "y", "job", "attempt", "by", "event", "code", "rule", "nodes_at", "n_nodes")
    for row in board.out[: int(board.counts["n_out"][0])][list(names)].tolist():
        t, x, y, job, attempt, by, word, code, rule, at, n = row
        event = Happened(word)
        nodes: tuple[tuple[int, int], ...] = ()
        if n and event in (Happened.STARTED, Happened.CLAIMED):
            nodes = tuple((node, gpus) for node, gpus in placed[at : at + n].tolist())
        yield Said(t, x, y, job, attempt, by, event, code, rule, nodes)


def empty_story(lab: Lab, policy: Policy, gpu_types: Sequence[str], start: float) -> Story:
    """The story of a lab at its beginning, nothing having happened."""
    from datetime import UTC, datetime

    return Story(
        lab=lab.name,
        policy=dict(policy._asdict()),
        seed=0,
        warmup_s=0,
        until_s=NEVER_S,
        clusters=list(lab.clusters),
        nodes=[StoryNode(node.name, node.cluster, node.gpus, node.rack, node.gpu) for node in lab.nodes],
        accounts=[
            StoryAccount(a.path, a.parent if a.parent >= 0 else NONE, a.shares, a.max_gpus, a.own_leaf_of)
            for a in lab.accounts
        ],
        job_ids=[],
        jobs=empty(0, STORY_JOB),
        events=empty(0, EVENT),
        placements=empty(0, PLACEMENT),
        start=instant_text(datetime.fromtimestamp(start, UTC)),
        prices=lab.prices,
    )


class Teller:
    """Makes the lines of one lab's story, turn by turn."""

    def __init__(self, lab: Lab, policy: Policy, gpu_types: Sequence[str], start: float) -> None:
        self.lab = lab
        self._maker = LineMaker(empty_story(lab, policy, gpu_types, start))

    def lines(self, book: Book, notes: Sequence[Mapping[str, Any]]) -> list[str]:
        """What the last turn on this book said, as lines without their number."""
        board = book.board
        events = board.out[: int(board.counts["n_out"][0])].copy()
        if not len(events):
            return []
        named = events["event"] != Happened.NODE
        spoken = np.unique(np.concatenate([events["job"], events["by"][named]]))
        spoken = spoken[spoken != NONE]
        for column, rows in (("job", np.ones(len(events), bool)), ("by", named)):
            rows = rows & (events[column] != NONE)
            events[column][rows] = np.searchsorted(spoken, events[column][rows])
        story, maker = self._maker.story, self._maker
        story.job_ids = [book.cards[row].job for row in spoken.tolist()] or [""]
        story.jobs = empty(max(1, len(spoken)), STORY_JOB)
        for name in ("min_runtime_s", "clusters", "account", "gpus", "kind", "resumable"):
            story.jobs[name][: len(spoken)] = book.core.jobs[name][spoken]
        story.events, story.notes = events, [dict(note) for note in notes]
        story.placements = board.placed
        maker.asked = story.jobs[["gpus", "min_runtime_s", "resumable", "kind", "clusters"]]
        maker.placed_node, maker.placed_gpus = story.placements["node"], story.placements["gpus"]
        return [_unnumbered(line) for line in maker.lines()]


def _unnumbered(line: str) -> str:
    """The line without `n`, which stands right after `t`."""
    head, _, rest = line.rstrip("\n").partition(',"n":')
    return f"{head},{rest.partition(',')[2]}"


__all__ = ["Said", "Teller", "empty_story", "said"]
