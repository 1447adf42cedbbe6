"""Events from the lines of a story's file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tenure.core.board import EVENT, PLACEMENT
from tenure.core.tables import Table
from tenure.core.words import NEVER_S, NONE, Cause, End, Happened, Kind, NodeState, Reason, Rule
from tenure.story.columns import STORY_JOB, Story
from tenure.story.errors import StoryError

PPM = 1_000_000
Line = dict[str, Any]
Row = tuple[Any, ...]

CAUSES: dict[Any, int] = {member.name.lower(): member.value for member in Cause} | {None: 0}
ENDS: dict[Any, int] = {member.name.lower(): member.value for member in End}
REASONS: dict[Any, int] = {member.name.lower(): member.value for member in Reason} | {None: 0}
RULES: dict[Any, int] = {member.name.lower(): member.value for member in Rule} | {None: 0}
STATES: dict[Any, int] = {member.name.lower(): member.value for member in NodeState}
KINDS: dict[Any, int] = {member.name.lower(): member.value for member in Kind}

WHO = ("event", "t", "n", "job", "account")


def word(words: dict[Any, int], line: Line, key: str) -> int:
    """The number of a word of the core.

    Raises StoryError with the words allowed.
    """
    try:
        return words[line[key]]
    except KeyError:
        if key not in line:
            raise
        allowed = ", ".join(str(name) for name in words if name is not None)
        raise StoryError(f"`{key}` is {line[key]!r}; allowed: {allowed}") from None


def instant(value: int | None) -> int:
    return NEVER_S if value is None else value


class LineReader:
    """Collects the rows of one story: `take` each line, `pack` now and then, `story_read` at the end."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.job_row: dict[str, int] = {}
        self.jobs: list[Row] = []  #: of the lines since the last `pack`
        self.placements: list[tuple[int, int]] = []
        self.n_placed = 0
        self.packed: dict[str, list[Table]] = {"events": [], "jobs": [], "placements": []}
        self.notes: list[dict[str, Any]] = []
        self.cluster_row = {name: row for row, name in enumerate(story.clusters)}
        self.node_row = {node.name: row for row, node in enumerate(story.nodes)}
        self.paths = {account.path for account in story.accounts}
        own = {a.own_leaf_of: row for row, a in enumerate(story.accounts) if a.own_leaf_of is not None}
        self.account_row = {
            a.path: own.get(row, row) for row, a in enumerate(story.accounts) if a.own_leaf_of is None
        }
        self.takers: dict[str, Callable[[Line, int], Row]] = {
            "submitted": self.submitted,
            "planned": self.planned,
            "started": self.started,
            "notice": self.notice,
            "stopping": self.stopping,
            "stopped": self.stopped,
            "requeued": self.requeued,
            "cancelled": self.noted(Happened.CANCELLED),
            "held": self.noted(Happened.HELD),
            "released": self.noted(Happened.RELEASED),
            "waiting": self.waiting,
            "node": self.node,
            "share": self.share,
            "unplanned": self.bare(Happened.UNPLANNED),
            "claimed": self.claimed,
            "unclaimed": self.bare(Happened.UNCLAIMED),
            "first_at_head": self.bare(Happened.FIRST_AT_HEAD),
            "utilisation": self.utilisation,
        }

    def take(self, line: Line) -> Row | None:
        """The event of a line as (t, x, y, nodes_at, job, attempt, by, n_nodes, event, code, rule).

        None for an event of another's making, which is allowed. Raises KeyError with the key that is
        missing, StoryError where something unknown is named.
        """
        taker = self.takers.get(line["event"])
        if taker is None:
            return None
        return taker(line, line["t"])

    def job(self, line: Line) -> int:
        try:
            return self.job_row[line["job"]]
        except KeyError:
            if "job" not in line:
                raise
            raise StoryError(f"job {line['job']!r} is {line['event']} before it was submitted") from None

    def submitted(self, line: Line, t: int) -> Row:
        account = self.account_row.get(line["account"], NONE)
        if account == NONE:
            raise StoryError(f"account {line['account']!r} is not among those of `began`")
        clusters = 0
        for name in line.get("clusters") or ():
            clusters |= 1 << self.cluster_row[name]
        kind = word(KINDS, line, "kind") if "kind" in line else int(Kind.BATCH)
        job = self.job_row.get(line["job"], NONE)
        if job == NONE:
            job = self.job_row[line["job"]] = len(self.job_row)
            self.jobs.append(
                (t, line["min_runtime_s"], clusters, account, line["gpus"], kind, bool(line["resumable"]))
            )
        return (t, 0, 0, 0, job, 0, NONE, 0, Happened.SUBMITTED, 0, 0)

    def planned(self, line: Line, t: int) -> Row:
        return (t, line["at_s"], 0, 0, self.job(line), 0, NONE, 0, Happened.PLANNED, 0, 0)

    def placed(self, line: Line) -> tuple[int, int]:
        """First row and number of the line's placements."""
        at, nodes, row = self.n_placed + len(self.placements), line["nodes"], self.node_row
        try:
            self.placements.extend([(row[name], gpus) for name, gpus in nodes.items()])
        except KeyError as error:
            raise StoryError(f"node {error.args[0]!r} is not among those of `began`") from None
        return at, len(nodes)

    def started(self, line: Line, t: int) -> Row:
        at, n_nodes = self.placed(line)
        if line["cluster"] not in self.cluster_row:
            raise StoryError(f"cluster {line['cluster']!r} is not among those of `began`")
        return (
            t,
            instant(line["protected_until_s"]),
            0,
            at,
            self.job(line),
            line["attempt"],
            NONE,
            n_nodes,
            Happened.STARTED,
            self.cluster_row[line["cluster"]],
            word(RULES, line, "reason"),
        )

    def notice(self, line: Line, t: int) -> Row:
        by = self.job_row.get(line.get("by"), NONE)  # type: ignore[arg-type]
        until_s = instant(line["interruptible_at_s"])
        return (t, until_s, 0, 0, self.job(line), line["attempt"], by, 0, Happened.NOTICE, 0, 0)

    def stopping(self, line: Line, t: int) -> Row:
        by, note_at, noted = self.job_row.get(line["by"], NONE), 0, 0
        if by == NONE and line["by"] is not None:
            note_at, noted = self.note(line, "attempt", "cause", "rule", "mine", "theirs", "grace_until_s"), 1
        ratios = round((line["mine"] or 0) * PPM) << 32 | round((line["theirs"] or 0) * PPM)
        return (
            t,
            instant(line["grace_until_s"]),
            ratios,
            note_at,
            self.job(line),
            line["attempt"],
            by,
            noted,
            Happened.STOPPING,
            word(CAUSES, line, "cause"),
            word(RULES, line, "rule"),
        )

    def stopped(self, line: Line, t: int) -> Row:
        return (
            t,
            line["held_gpu_s"],
            line["lost_gpu_s"],
            0,
            self.job(line),
            line["attempt"],
            NONE,
            0,
            Happened.STOPPED,
            word(ENDS, line, "end"),
            0,
        )

    def requeued(self, line: Line, t: int) -> Row:
        return (t, 0, 0, 0, self.job(line), line["attempt"], NONE, 0, Happened.REQUEUED, 0, 0)

    def waiting(self, line: Line, t: int) -> Row:
        reason = word(REASONS, line, "reason")
        return (t, line["need"], line["have"], 0, self.job(line), 0, NONE, 0, Happened.WAITING, 0, reason)

    def claimed(self, line: Line, t: int) -> Row:
        at, n_nodes = self.placed(line)
        return (t, line["gpus"], 0, at, self.job(line), 0, NONE, n_nodes, Happened.CLAIMED, 0, 0)

    def utilisation(self, line: Line, t: int) -> Row:
        busy = round(line["utilisation"] * PPM)
        return (t, busy, 0, 0, self.job(line), line["attempt"], NONE, 0, Happened.UTILISATION, 0, 0)

    def note(self, line: Line, *taken: str) -> int:
        """Row of a new note with what the line says besides the keys taken; NONE where that is nothing."""
        note = {k: v for k, v in line.items() if k not in WHO and k not in taken and v is not None}
        if not note:
            return NONE
        self.notes.append(note)
        return len(self.notes) - 1

    def noted(self, event: Happened) -> Callable[[Line, int], Row]:
        def take(line: Line, t: int) -> Row:
            return (t, 0, self.note(line), 0, self.job(line), 0, NONE, 0, event, 0, 0)

        return take

    def bare(self, event: Happened) -> Callable[[Line, int], Row]:
        def take(line: Line, t: int) -> Row:
            return (t, 0, 0, 0, self.job(line), 0, NONE, 0, event, 0, 0)

        return take

    def node(self, line: Line, t: int) -> Row:
        if line["node"] not in self.node_row:
            raise StoryError(f"node {line['node']!r} is not among those of `began`")
        state, note = word(STATES, line, "state"), self.note(line, "node", "state", "closed_from_s")
        closes_s = instant(line["closed_from_s"]) if "closed_from_s" in line else 0
        return (t, closes_s, note, 0, NONE, 0, self.node_row[line["node"]], 0, Happened.NODE, state, 0)

    def share(self, line: Line, t: int) -> Row:
        if line["account"] not in self.paths:
            raise StoryError(f"account {line['account']!r} is not among those of `began`")
        note = {k: v for k, v in line.items() if k not in ("event", "t", "n") and v is not None}
        self.notes.append(note | {"new": float(line["new"])})
        return (t, 0, len(self.notes) - 1, 0, NONE, 0, NONE, 0, Happened.SHARE, 0, 0)

    def pack(self, rows: list[Row]) -> Table:
        """Turn the rows since the last time into columns: they take a tenth of the memory so.

        Raises TypeError, ValueError or OverflowError where a value is no whole number.
        """
        events = np.array(rows, EVENT)
        self.packed["events"].append(events)
        self.packed["jobs"].append(np.array(self.jobs, STORY_JOB))
        self.packed["placements"].append(np.array(self.placements, PLACEMENT))
        self.n_placed += len(self.placements)
        self.jobs, self.placements = [], []
        return events

    def story_read(self) -> Story:
        """The story with all that was packed."""
        story = self.story
        began = np.array([(0, 0, 0, 0, NONE, 0, NONE, 0, Happened.BEGAN, 0, 0)], EVENT)
        story.events = np.concatenate([began, *self.packed["events"]])
        story.jobs = np.concatenate([story.jobs, *self.packed["jobs"]])
        story.placements = np.concatenate([story.placements, *self.packed["placements"]])
        story.job_ids = list(self.job_row)
        story.notes = self.notes
        return story
