"""One line of text for each event, made by hand: a million a few seconds apart from none.

A line maker takes (n, who, row): the line's number, the text of its job and account, and the event's
columns as a tuple in the order of EVENT.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

import numpy as np

from tenure.core.words import NEVER_S, NONE, Cause, End, Happened, Kind, NodeState, Reason, Rule
from tenure.story.columns import Story

CHUNK = 1 << 16
PPM = 1_000_000
LOW_HALF = (1 << 32) - 1

Row = tuple[Any, ...]
Maker = Callable[[int, str, Row], str]


def told(member: Any) -> str:
    """A word of the core as the file spells it; the word for nothing is null."""
    return "null" if member.name == "NONE" else f'"{member.name.lower()}"'


CAUSES = {member.value: told(member) for member in Cause}
ENDS = {member.value: told(member) for member in End}
REASONS = {member.value: told(member) for member in Reason}
RULES = {member.value: told(member) for member in Rule}
STATES = {member.value: told(member) for member in NodeState}
KINDS = {member.value: told(member) for member in Kind}


def instant(t: int) -> str:
    return "null" if t >= NEVER_S else str(t)


class LineMaker:
    """Makes the lines of one story.

    Columns of a row: 0 t, 1 x, 2 y, 3 nodes_at, 4 job, 5 attempt, 6 by, 7 n_nodes, 8 event, 9 code, 10 rule.
    """

    def __init__(self, story: Story) -> None:
        self.story = story
        self.account_text = [quoted(story.account_path(row)) for row in range(len(story.accounts))]
        self.cluster_text = [quoted(name) for name in story.clusters]
        self.node_text = [quoted(node.name) for node in story.nodes]
        self.everywhere = (1 << len(story.clusters)) - 1
        self.asked = story.jobs[["gpus", "min_runtime_s", "resumable", "kind", "clusters"]]
        self.placed_node = story.placements["node"]
        self.placed_gpus = story.placements["gpus"]
        self.makers: dict[int, Maker] = {
            Happened.SUBMITTED: self.submitted,
            Happened.PLANNED: self.planned,
            Happened.STARTED: self.started,
            Happened.NOTICE: self.notice,
            Happened.STOPPING: self.stopping,
            Happened.STOPPED: self.stopped,
            Happened.REQUEUED: self.requeued,
            Happened.CANCELLED: self.noted("cancelled"),
            Happened.HELD: self.noted("held"),
            Happened.RELEASED: self.noted("released"),
            Happened.WAITING: self.waiting,
            Happened.NODE: self.node,
            Happened.SHARE: self.share,
            Happened.UNPLANNED: self.bare("unplanned"),
            Happened.CLAIMED: self.claimed,
            Happened.UNCLAIMED: self.bare("unclaimed"),
            Happened.FIRST_AT_HEAD: self.bare("first_at_head"),
            Happened.UTILISATION: self.utilisation,
        }

    def lines(self) -> Iterator[str]:
        """Every line after `began`, each with its newline."""
        story, makers = self.story, self.makers
        text, ids = self.account_text, story.job_ids
        n = 1
        for at in range(0, len(story.events), CHUNK):
            events = story.events[at : at + CHUNK]
            jobs = events["job"]
            accounts = story.jobs["account"][jobs].tolist() if len(story.jobs) else [0] * len(events)
            if isinstance(ids, np.ndarray):
                names = ids[jobs].tolist() if len(ids) else [""] * len(events)
            else:
                names = [ids[job] if job >= 0 else "" for job in jobs.tolist()]
            for row, name, account in zip(events.tolist(), names, accounts, strict=True):
                if row[8] == Happened.BEGAN:
                    continue
                n += 1
                yield makers[row[8]](n, f'"job":{quoted(str(name))},"account":{text[account]}', row)

    # --- one maker an event -------------------------------------------------------------------------
    def submitted(self, n: int, who: str, row: Row) -> str:
        gpus, min_runtime_s, resumable, kind, clusters = self.asked[row[4]].item()
        only = ""
        if clusters and clusters != self.everywhere:
            may = ",".join(name for c, name in enumerate(self.cluster_text) if clusters >> c & 1)
            only = f',"clusters":[{may}]'
        return (
            f'{{"event":"submitted","t":{row[0]},"n":{n},{who},"gpus":{gpus},'
            f'"min_runtime_s":{min_runtime_s},"resumable":{"true" if resumable else "false"},'
            f'"kind":{KINDS[kind]}{only}}}\n'
        )

    def planned(self, n: int, who: str, row: Row) -> str:
        return f'{{"event":"planned","t":{row[0]},"n":{n},{who},"at_s":{row[1]}}}\n'

    def placed(self, row: Row) -> str:
        if row[7] == 1:
            at = row[3]
            return f"{self.node_text[self.placed_node[at]]}:{self.placed_gpus[at]}"
        rows = slice(row[3], row[3] + row[7])
        text = self.node_text
        pairs = zip(self.placed_node[rows].tolist(), self.placed_gpus[rows].tolist(), strict=True)
        return ",".join(f"{text[node]}:{gpus}" for node, gpus in pairs)

    def started(self, n: int, who: str, row: Row) -> str:
        return (
            f'{{"event":"started","t":{row[0]},"n":{n},{who},"attempt":{row[5]},'
            f'"cluster":{self.cluster_text[row[9]]},"nodes":{{{self.placed(row)}}},'
            f'"protected_until_s":{instant(row[1])},"reason":{RULES[row[10]]}}}\n'
        )

    def notice(self, n: int, who: str, row: Row) -> str:
        return (
            f'{{"event":"notice","t":{row[0]},"n":{n},{who},"attempt":{row[5]},'
            f'"interruptible_at_s":{instant(row[1])},"by":{self.taker(row)}}}\n'
        )

    def taker(self, row: Row) -> str:
        """The job for which it happens, or the person who did it."""
        if row[6] != NONE:
            return quoted(str(self.story.job_ids[row[6]]))
        if row[8] == Happened.STOPPING and row[7]:
            return json.dumps(self.story.notes[row[3]].get("by"))
        return "null"

    def stopping(self, n: int, who: str, row: Row) -> str:
        more = ""
        if row[7]:  # a person's stop carries the reason given
            note = {k: v for k, v in self.story.notes[row[3]].items() if k != "by"}
            more = "".join(f",{quoted(key)}:{json.dumps(value)}" for key, value in note.items())
        return (
            f'{{"event":"stopping","t":{row[0]},"n":{n},{who},"attempt":{row[5]},"cause":{CAUSES[row[9]]},'
            f'"by":{self.taker(row)},"rule":{RULES[row[10]]},"mine":{(row[2] >> 32) / PPM},'
            f'"theirs":{(row[2] & LOW_HALF) / PPM},"grace_until_s":{instant(row[1])}{more}}}\n'
        )

    def stopped(self, n: int, who: str, row: Row) -> str:
        return (
            f'{{"event":"stopped","t":{row[0]},"n":{n},{who},"attempt":{row[5]},"end":{ENDS[row[9]]},'
            f'"held_gpu_s":{row[1]},"lost_gpu_s":{row[2]}}}\n'
        )

    def requeued(self, n: int, who: str, row: Row) -> str:
        return f'{{"event":"requeued","t":{row[0]},"n":{n},{who},"attempt":{row[5]}}}\n'

    def waiting(self, n: int, who: str, row: Row) -> str:
        return (
            f'{{"event":"waiting","t":{row[0]},"n":{n},{who},"reason":{REASONS[row[10]]},'
            f'"need":{row[1]},"have":{row[2]}}}\n'
        )

    def claimed(self, n: int, who: str, row: Row) -> str:
        return (
            f'{{"event":"claimed","t":{row[0]},"n":{n},{who},"gpus":{row[1]},'
            f'"nodes":{{{self.placed(row)}}}}}\n'
        )

    def utilisation(self, n: int, who: str, row: Row) -> str:
        return (
            f'{{"event":"utilisation","t":{row[0]},"n":{n},{who},"attempt":{row[5]},'
            f'"utilisation":{row[1] / PPM}}}\n'
        )

    def note_of(self, row: Row, *keys: str) -> str:
        """`keys` always, whatever else the note says after them."""
        notes = self.story.notes
        note = dict.fromkeys(keys) | (notes[row[2]] if 0 <= row[2] < len(notes) else {})
        return ",".join(f"{quoted(key)}:{json.dumps(value)}" for key, value in note.items())

    def noted(self, event: str) -> Maker:
        def line(n: int, who: str, row: Row) -> str:
            return f'{{"event":"{event}","t":{row[0]},"n":{n},{who},{self.note_of(row, "by", "reason")}}}\n'

        return line

    def bare(self, event: str) -> Maker:
        def line(n: int, who: str, row: Row) -> str:
            return f'{{"event":"{event}","t":{row[0]},"n":{n},{who}}}\n'

        return line

    def node(self, n: int, who: str, row: Row) -> str:
        closes = f'"closed_from_s":{instant(row[1])},' if row[1] else ""
        return (
            f'{{"event":"node","t":{row[0]},"n":{n},"node":{self.node_text[row[6]]},'
            f'"state":{STATES[row[9]]},{closes}{self.note_of(row, "reason")}}}\n'
        )

    def share(self, n: int, who: str, row: Row) -> str:
        fields = self.note_of(row, "account", "old", "new", "by", "reason")
        return f'{{"event":"share","t":{row[0]},"n":{n},{fields}}}\n'
