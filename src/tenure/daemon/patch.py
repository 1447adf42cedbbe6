"""What one turn changed, as plain data; a state with a patch applied is the state after that turn.

A patch is JSON. It speaks in names of columns, so a newer release that keeps one more still reads it, and
whatever a release decides, an old turn's patch gives what was decided then.
"""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from tenure.core.board import LOG, STAY
from tenure.core.columns import JOB
from tenure.core.rebuild import RECORDED
from tenure.core.tables import Table, empty
from tenure.core.words import NEVER_S, NONE, Phase
from tenure.daemon.book import MARK, Book, NodeWord, Place
from tenure.daemon.state import (
    ASKED,
    KEPT,
    PAST,
    Columns,
    State,
    card_of,
    kept_in,
    plain_card,
    promises_on,
    state_of,
)

VERSION = 1
FRESH = empty(1, STAY, node=NONE, taker=NONE, plan=NONE, patient_s=NEVER_S)[0]

Patch = dict[str, Any]


def patch_of(before: Book, after: Book) -> Patch:
    """What has changed from one book to its copy after a turn. Rows of jobs are the same in both."""
    n, old, new = before.n_jobs, before.board, after.board
    patch: Patch = {
        "t": after.t,
        "turn": after.turn,
        "next_id": after.next_id,
        "n_marks": after.n_marks,
        "cards": [plain_card(card) for card in after.cards[n:]],
        "changed_cards": [
            [row, plain_card(after.cards[row])]
            for row in range(n)
            if after.cards[row] is not before.cards[row]
        ],
        "asked": {name: after.core.jobs[name][n : after.n_jobs].tolist() for name in ASKED},
        "stays": _columns(old.stays, new.stays, RECORDED, after.n_jobs),
        "marks": _columns(before.marks, after.marks, MARK.names or (), after.n_jobs),
        "kept": _columns(old.standings, new.standings, kept_in(after), len(new.standings)),
        "rates": _new_rates(before, after),
    }
    if not len(patch["cards"]):
        del patch["asked"]
    for name, was, now in (
        ("places", before.places, after.places),
        ("claims", before.claims, after.claims),
    ):
        patch[name] = _mapping(was, now)
    for name, column in (("node_states", "state"), ("closed_s", "closed_s")):
        changed = np.flatnonzero(old.posts[column] != new.posts[column])
        patch[name] = [changed.tolist(), new.posts[column][changed].tolist()]
    patch = {key: value for key, value in patch.items() if value not in ([], {}, [[], []])}
    lists: list[tuple[str, Any, Any]] = [
        ("promises", promises_on(old), promises_on(new)),
        ("calls", before.calls, after.calls),
        ("words", before.words, after.words),
        ("enrolled", before.enrolled, after.enrolled),
    ]
    for name, one, other in lists:  # one that has become empty is told too
        if one != other:
            patch[name] = sorted(other.items()) if isinstance(other, dict) else other
    if new.counts["more"][0]:
        patch["more"] = True
    if (old.shares != new.shares).any():
        patch["shares"] = new.shares.tolist()
    return patch


def _columns(old: Table, new: Table, names: tuple[str, ...], n: int) -> dict[str, list[Any]]:
    """By column: which of `n` rows differ, and what they hold now. Those beyond `old` were fresh."""
    found: dict[str, list[Any]] = {}
    if len(old) < n:
        fresh = empty(n - len(old), old.dtype)
        if old.dtype == FRESH.dtype:
            fresh[:] = FRESH
        old = np.concatenate([old, fresh])
    for name in names:
        one, other = old[name][:n], new[name][:n]
        rows = np.flatnonzero(one != other)
        if len(rows):
            found[name] = [rows.tolist(), other[rows].tolist()]
    return found


def _new_rates(before: Book, after: Book) -> list[Any]:
    log = after.board.log
    first, last = int(before.board.counts["log_head"][0]), int(after.board.counts["log_head"][0])
    return [list(row) for row in log[np.arange(first, last) % len(log)].tolist()]


def _mapping(was: Mapping[int, Place], now: Mapping[int, Place]) -> dict[str, Any]:
    """Rows that left, and those that came, in order: a mapping keeps the order in which rows came."""
    gone = [row for row, place in was.items() if now.get(row) != place]
    came = [[row, place] for row, place in now.items() if was.get(row) != place]
    return {key: value for key, value in (("gone", gone), ("came", came)) if value}


def apply(state: State, patch: Patch) -> None:
    """Make of the state before a turn the state after it. A patch of a dropping turn only drops."""
    if "opened" in patch:
        raise ValueError("a turn that opens a record is a keyframe, and no patch to an earlier state")
    if "dropped" in patch:
        _drop(state, patch)
        return
    state.t, state.turn = patch["t"], patch["turn"]
    state.next_id, state.n_marks = patch["next_id"], patch["n_marks"]
    state.more = patch.get("more", False)
    _add_rows(state, patch)
    for row, card in patch.get("changed_cards", ()):
        state.cards[row] = card_of(card)
    for name, columns in (("stays", state.stays), ("marks", state.marks), ("kept", state.kept)):
        for column, (rows, values) in patch.get(name, {}).items():
            if column in columns:
                columns[column][rows] = values
    for name, mapping in (("places", state.places), ("claims", state.claims)):
        change = patch.get(name, {})
        for row in change.get("gone", ()):
            del mapping[row]
        for row, place in change.get("came", ()):
            mapping[row] = _place(place)
    for name in ("node_states", "closed_s"):
        rows, values = patch.get(name, ([], []))
        getattr(state, name)[rows] = values
    if "shares" in patch:
        state.shares = np.array(patch["shares"], np.int64)
    if "promises" in patch:
        state.promises = [(*one[:5], tuple(one[5])) for one in patch["promises"]]  # type: ignore[misc]
    if "calls" in patch:
        state.calls = [(t, row) for t, row in patch["calls"]]
    if "words" in patch:
        state.words = {row: NodeWord(*word) for row, word in patch["words"]}
    if "enrolled" in patch:
        state.enrolled = dict(patch["enrolled"])
    if "rates" in patch:
        more = np.array([tuple(row) for row in patch["rates"]], LOG)
        state.rates = np.concatenate([state.rates, more])


def _place(plain: Any) -> Place:
    return tuple((int(node), int(gpus)) for node, gpus in plain)


def _add_rows(state: State, patch: Patch) -> None:
    new = [card_of(card) for card in patch.get("cards", ())]
    if not new:
        return
    state.cards += new
    asked = patch["asked"]
    for name in ASKED:
        more = np.array(asked.get(name, [0] * len(new))).astype(JOB[name])
        state.asked[name] = np.concatenate([state.asked[name], more])
    for columns, fresh in ((state.stays, FRESH), (state.marks, empty(1, MARK)[0])):
        for name, column in columns.items():
            columns[name] = np.concatenate([column, np.full(len(new), fresh[name], column.dtype)])


def dropping(book: Book) -> Patch:
    """The patch of a turn that does nothing but leave ended jobs behind."""
    return {"t": book.t, "turn": book.turn + 1, "dropped": ended_rows(book).tolist()}


def ended_rows(book: Book) -> Any:
    """Jobs that have ended."""
    return np.flatnonzero(book.board.stays["phase"][: book.n_jobs] == Phase.ENDED)


def _drop(state: State, patch: Patch) -> None:
    state.turn = patch["turn"]
    keep = np.ones(len(state.cards), bool)
    keep[patch["dropped"]] = False
    new_row = np.cumsum(keep) - 1
    kept = np.flatnonzero(keep).tolist()
    state.cards = [state.cards[row] for row in kept]
    for columns in (state.asked, state.stays, state.marks):
        for name, column in columns.items():
            columns[name] = column[keep]
    taker = state.stays["taker"]
    there = taker != NONE
    taker[there] = np.where(keep[taker[there]], new_row[taker[there]], NONE)
    state.places = {int(new_row[row]): place for row, place in state.places.items()}
    state.claims = {int(new_row[row]): place for row, place in state.claims.items()}
    state.calls = [(t, int(new_row[row])) for t, row in state.calls if keep[row]]
    state.promises = [(*one[:3], int(new_row[one[3]]), *one[4:]) for one in state.promises]  # type: ignore[misc]


# --- a whole state as bytes ---------------------------------------------------------------------------

TABLES = ("asked", "stays", "marks", "kept", "past")


def keyframe(book: Book) -> bytes:
    """A whole state: arrays by column, the rest as JSON, packed."""
    return keyframe_of(state_of(book))


def keyframe_of(state: State) -> bytes:
    """See `keyframe`."""
    arrays = {f"{table}.{name}": column for table in TABLES for name, column in getattr(state, table).items()}
    arrays |= {f"rates.{name}": state.rates[name] for name in LOG.names or ()}
    arrays |= {name: getattr(state, name) for name in ("node_states", "closed_s", "shares")}
    rest = {
        "version": VERSION,
        **{name: getattr(state, name) for name in ("t", "turn", "next_id", "n_marks", "nodes", "accounts")},
        "more": state.more,
        "clusters": state.clusters,
        "gpu_types": state.gpu_types,
        "cards": [plain_card(card) for card in state.cards],
        "places": list(state.places.items()),
        "claims": list(state.claims.items()),
        "promises": state.promises,
        "calls": state.calls,
        "words": list(state.words.items()),
        "enrolled": state.enrolled,
    }
    arrays["rest"] = np.frombuffer(json.dumps(rest, separators=(",", ":")).encode(), np.uint8)
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return zlib.compress(file.getvalue(), 1)


def state_from(packed: bytes) -> State:
    """The state of a keyframe. Columns it lacks are as in a new row; those nobody knows are left out."""
    arrays = np.load(io.BytesIO(zlib.decompress(packed)), allow_pickle=False)
    rest = json.loads(arrays["rest"].tobytes())
    if rest["version"] > VERSION:
        raise ValueError(f"a keyframe of version {rest['version']}, written by a newer release")
    cards = [card_of(card) for card in rest["cards"]]
    n_standings = len(rest["clusters"]) * len(rest["accounts"])
    n_rates = len(arrays["rates.t"])
    rates = empty(n_rates, LOG)
    for name in LOG.names or ():
        rates[name] = arrays[f"rates.{name}"]

    def table(of: str, names: tuple[str, ...], rows: int, fresh: Any) -> Columns:
        return {
            name: arrays[f"{of}.{name}"].copy()
            if f"{of}.{name}" in arrays
            else np.full(rows, 0 if fresh is None else fresh[name])
            for name in names
        }

    marks = empty(1, MARK)[0]
    return State(
        **{name: rest[name] for name in ("t", "turn", "next_id", "n_marks", "nodes", "accounts", "clusters")},
        more=rest.get("more", False),
        gpu_types=rest.get("gpu_types", []),
        cards=cards,
        asked=table("asked", ASKED, len(cards), empty(1, JOB, max_runtime_s=NEVER_S, gpu_type=NONE)[0]),
        stays=table("stays", RECORDED, len(cards), FRESH),
        marks=table("marks", MARK.names or (), len(cards), marks),
        places={row: _place(place) for row, place in rest["places"]},
        claims={row: _place(place) for row, place in rest["claims"]},
        promises=[(*one[:5], tuple(one[5])) for one in rest["promises"]],
        calls=[(t, row) for t, row in rest["calls"]],
        node_states=arrays["node_states"].copy(),
        closed_s=arrays["closed_s"].copy(),
        words={row: NodeWord(*word) for row, word in rest["words"]},
        enrolled=rest["enrolled"],
        shares=arrays["shares"].copy(),
        kept=table("kept", tuple(name for name in KEPT if f"kept.{name}" in arrays), n_standings, None),
        past=table("past", PAST, n_standings, None),
        rates=rates,
    )


def digest_of(book: Book) -> str:
    """A digest of the record of a book: what a turn decides on."""
    board, n = book.board, book.n_jobs
    digest = hashlib.blake2b(digest_size=12)
    digest.update(f"{book.t} {book.turn} {n}".encode())
    for name in RECORDED:
        digest.update(board.stays[name][:n].tobytes())
    for column in (
        board.posts["state"],
        board.posts["closed_s"],
        board.shares,
        board.standings["charged"],
        board.posts["free"],
    ):
        digest.update(column.tobytes())
    return digest.hexdigest()


def same(one: State, other: State) -> list[str]:
    """Names of what differs between two states; rates aside, which may be kept from another instant on."""
    differ = []
    for name in State.__dataclass_fields__:
        if name in ("rates", "past"):
            continue
        mine, theirs = getattr(one, name), getattr(other, name)
        if isinstance(mine, np.ndarray):
            if not np.array_equal(mine, theirs):
                differ.append(name)
        elif name in TABLES:
            differ += [f"{name}.{key}" for key in mine if not np.array_equal(mine[key], theirs[key])]
        elif name in ("places", "claims"):
            if list(mine.items()) != list(theirs.items()):
                differ.append(name)
        elif mine != theirs:
            differ.append(name)
    return differ


__all__ = [
    "Patch",
    "apply",
    "digest_of",
    "dropping",
    "keyframe",
    "keyframe_of",
    "patch_of",
    "same",
    "state_from",
]
