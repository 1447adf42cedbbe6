"""A scenario's events as happenings: nodes that fail, shares that change, jobs that people stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tenure.core.columns import WHOLE
from tenure.core.tables import Table, empty
from tenure.core.words import NONE, NodeState
from tenure.settings.errors import BadInput, dotted, nearest
from tenure.settings.lab import Account, Lab
from tenure.settings.scenario_file import NODE_STATES, EventFile
from tenure.settings.units import share_text
from tenure.simulator.world import HAPPENING, What

DOING = {"cancel": What.CANCEL, "hold": What.HOLD, "release": What.RELEASE}


class _One(NamedTuple):
    """A happening before it is a row."""

    t: int
    what: int
    row: int
    value: int = 0
    cluster: int = NONE
    note: Mapping[str, Any] | None = None


def happenings(
    events: Sequence[EventFile], lab: Lab, job_rows: Mapping[str, int], file: str
) -> tuple[Table, list[dict[str, Any]]]:
    """
    Rows of HAPPENING in order of time, and the notes they point at.

    `lab` with its own leaves; `job_rows`: row of each job an event may name. Events of one instant are
    checked together: raises BadInput where their outcome gives siblings more than all of their parent's.
    """
    nodes = {node.name: row for row, node in enumerate(lab.nodes)}
    found: list[_One] = []
    changes: list[tuple[int, EventFile]] = []
    for place, event in enumerate(events):
        where = dotted(["events", place])
        if event.node is not None:
            found += _of_node(event, _row(nodes, event.node, "node", file, where))
        elif event.job is not None:
            row = _row(job_rows, event.job, "job", file, where)
            found.append(_One(event.at, DOING[event.do or "cancel"], row, note=_who(event)))
        else:
            changes.append((place, event))
    found = _last_word(found) + _shares(changes, lab, file)
    found.sort(key=lambda one: one.t)
    notes: list[dict[str, Any]] = []
    table = empty(len(found), HAPPENING, note=NONE)
    for row, one in enumerate(found):
        note = NONE
        if one.note is not None:
            note = len(notes)
            notes.append(dict(one.note))
        table[row] = (one.t, one.value, one.row, one.cluster, note, one.what)
    return table, notes


def _row(rows: Mapping[str, int], name: str, noun: str, file: str, where: str) -> int:
    if name not in rows:
        raise BadInput(file, f"{where}.{noun}", f"the unknown {noun} '{name}'", nearest(name, rows))
    return rows[name]


def _who(event: EventFile) -> dict[str, Any] | None:
    told = {key: value for key, value in (("by", event.by), ("reason", event.reason)) if value is not None}
    return told or None


def _of_node(event: EventFile, row: int) -> list[_One]:
    """A word on its state; or that it is going to close, and what is said then."""
    at, note = event.at, _who(event)
    state, told = NODE_STATES[event.state or "up"], []
    if event.closed_from is not None:
        told.append(_One(at, What.CLOSE, row, event.closed_from, note=note))
        at, state = event.closed_from, NodeState.DRAINING
    told.append(_One(at, What.NODE, row, state, note=note))
    if event.lasts is not None:
        told.append(_One(at + event.lasts, What.NODE, row, NodeState.UP, note=note))
    return told


def _last_word(found: Sequence[_One]) -> list[_One]:
    """Of several words on one node at one instant only the last holds."""
    last = {(one.t, one.row): place for place, one in enumerate(found) if one.what == What.NODE}
    return [one for place, one in enumerate(found) if one.what != What.NODE or last[one.t, one.row] == place]


def _shares(changes: Sequence[tuple[int, EventFile]], lab: Lab, file: str) -> list[_One]:
    """Changes of share, instant by instant, and of the own leaves whose part is what siblings leave."""
    rows = lab.rows()
    now = np.array([account.shares for account in lab.accounts], np.int64)
    told: list[_One] = []
    for at in sorted({event.at for _, event in changes}):
        touched: dict[int, int] = {}
        for place, event in changes:
            if event.at != at:
                continue
            where = dotted(["events", place])
            row = _row(rows, event.account or "", "account", file, where)
            if row == 0:
                raise BadInput(file, f"{where}.account", "''", nearest("", list(rows)[1:]))
            for one in _one_share(event, row, lab, now, f"{where}.cluster", file):
                told.append(one)
                columns = slice(None) if one.cluster == NONE else one.cluster
                now[row, columns] = one.value
            touched.setdefault(lab.accounts[row].parent, place)
        for parent, place in touched.items():
            told += _left_over(parent, at, lab, now, file, dotted(["events", place, "share"]))
    return told


def _one_share(event: EventFile, row: int, lab: Lab, now: Any, where: str, file: str) -> list[_One]:
    """On one cluster where it is named; else wherever the account's share is not the cluster's own."""
    clusters = range(len(lab.clusters))
    new = event.share or 0
    if event.cluster is not None:
        if event.cluster not in lab.clusters:
            raise BadInput(
                file, where, f"the unknown cluster '{event.cluster}'", nearest(event.cluster, lab.clusters)
            )
        chosen = [lab.clusters.index(event.cluster)]
    else:
        path = lab.accounts[row].path
        chosen = [c for c in clusters if path not in lab.own_shares[c]] or list(clusters)
    everywhere = len(chosen) == len(clusters) and len(set(now[row].tolist())) == 1
    rows = [NONE] if everywhere else chosen
    return [
        _One(
            event.at, What.SHARE, row, new, c, _share_note(lab, row, int(now[row, max(c, 0)]), new, event, c)
        )
        for c in rows
    ]


def _share_note(
    lab: Lab, row: int, old: int, new: int, event: EventFile | None, cluster: int
) -> dict[str, Any]:
    """What the story tells of a change; shares as fractions."""
    note: dict[str, Any] = {"account": lab.accounts[row].path, "old": old / WHOLE, "new": new / WHOLE}
    if cluster != NONE:
        note["cluster"] = lab.clusters[cluster]
    if event is not None:
        note |= _who(event) or {}
    return note


def _left_over(parent: int, at: int, lab: Lab, now: Any, file: str, where: str) -> list[_One]:
    """After all changes of an instant: the sum below `parent` fits, and its own leaf has the rest."""
    below = [row for row, account in enumerate(lab.accounts) if account.parent == parent]
    own = [row for row in below if lab.accounts[row].own_leaf_of is not None]
    others = [row for row in below if row not in own]
    sums = now[others].sum(axis=0)
    if sums.max() > WHOLE:
        path = lab.accounts[parent].path
        found = f"shares{' below ' + path if path else ''} that then sum to {share_text(int(sums.max()))}"
        raise BadInput(file, where, found, "shares of siblings that sum to at most 100%")
    told = []
    for row in own:
        new = WHOLE - sums
        changed = [c for c in range(len(new)) if new[c] != now[row, c]]
        alike = len(changed) == len(new) and len(set(new.tolist())) == len(set(now[row].tolist())) == 1
        for c in [NONE] if alike else changed:
            value = int(new[max(c, 0)])
            note = _share_note(lab, row, int(now[row, max(c, 0)]), value, None, c)
            note["reason"] = "what is left beside the other accounts there"
            told.append(_One(at, What.SHARE, row, value, c, note))
        now[row] = new
    return told


def named_jobs(events: Sequence[EventFile]) -> set[str]:
    """Ids of the jobs that events speak of."""
    return {event.job for event in events if event.job is not None}


def rows_of(ids: Sequence[str], wanted: set[str]) -> dict[str, int]:
    """Row of each wanted id; some other ids too, so that a near one can be offered."""
    rows = {one: row for row, one in enumerate(ids[:1000])}
    if wanted:
        rows |= {one: row for row, one in enumerate(ids) if one in wanted}
    return rows


__all__ = ["Account", "happenings", "named_jobs", "rows_of"]
