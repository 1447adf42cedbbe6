"""What can a person ask of a run's checkpoints? What there is, whether it is sound, a copy, and room."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from tenure.checkpoints import Checkpoint, Keep, NothingUsable, Store, StoreError
from tenure.checkpoints.findings import Found
from tenure.checkpoints.layout import SAVE
from tenure.settings.errors import BadInput, nearest
from tenure.settings.units import duration_s

__all__ = ["StoreError", "adopted", "copied", "listed", "open_store", "pick", "pruned", "rule", "verified"]

Progress = Callable[[float, str], None]


def open_store(url: str, run: str, options: Sequence[str] = ()) -> Store:
    """
    The store of a run. `options`: KEY=VALUE, given to fsspec's file system (endpoint_url=…, key=…, secret=…).

    BadInput for names and URLs that cannot be.
    """
    told: dict[str, Any] = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals or not key:
            raise BadInput("--option", "", f"'{option}'", "KEY=VALUE, such as endpoint_url=https://…")
        told[key] = {"true": True, "false": False}.get(value.lower(), value)
    try:
        return Store(url, run, told)
    except ValueError as wrong:
        raise BadInput("RUN", "", f"'{run}'", str(wrong).split(": ", 1)[-1]) from None
    except (StoreError, TypeError) as wrong:
        raise BadInput("STORE", "", f"'{url}'", f"a folder or a URL that fsspec knows ({wrong})") from None


def listed(store: Store) -> dict[str, Any]:
    """Everything that lies in the store."""
    everything = store.found()
    if not everything:
        return {"store": store.url, "run": store.run, "checkpoints": [], "newest": None, "bytes": 0}
    newest = _newest(store)
    return {
        "store": store.url,
        "run": store.run,
        "newest": None if newest is None else newest.name,
        "bytes": sum(one.bytes for one in everything),
        "checkpoints": [_row(one) for one in everything],
    }


def _newest(store: Store) -> Checkpoint | None:
    try:
        return store.newest_verified()
    except NothingUsable:
        return None


def _row(one: Found) -> dict[str, Any]:
    made = one.committed
    return {
        "name": one.name,
        "step": one.step,
        "attempt": one.attempt,
        "state": one.state,
        "bytes": one.bytes,
        "files": len(one.paths),
        "tokens": None if made is None else made.tokens,
        "at": None if made is None else _utc(made.at),
        "final": made is not None and made.final,
    }


def verified(
    store: Store,
    name: str | None = None,
    *,
    deep: bool = False,
    due: str | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """
    Each checkpoint (or one) with what is wrong with it; `sound` is whether all are.

    `due`: a length such as 7d: in full, and only those that were not found sound in full for so long.
    """
    if due is not None and name is not None:
        raise BadInput("--due", "", f"'{due}' and {name}", "either those that are due, or one by its name")
    deep = deep or due is not None
    if due is not None:
        chosen = store.due(_seconds("--due", due))
    elif name is not None:
        chosen = [pick(store, name)]
    else:
        chosen = store.checkpoints()
    total, done, before = sum(one.bytes for one in chosen) or 1, 0, 0
    rows = []
    for one in chosen:

        def moved(more: int, text: str = one.name) -> None:
            nonlocal done
            done += more
            if progress is not None:
                progress(done / total, f"reading {text}")

        wrong = store.verify(one, deep=deep, progress=moved)
        if deep:
            (store.note_unsound if wrong else store.note_sound)(one)
        before += one.bytes
        done = before  # where sizes are compared, or a file is missing, nothing is read
        moved(0)
        rows.append(
            {"name": one.name, "step": one.step, "bytes": one.bytes, "sound": not wrong, "wrong": wrong}
        )
    return {
        "store": store.url,
        "run": store.run,
        "deep": deep,
        "due": due,
        "sound": (bool(rows) or due is not None) and all(row["sound"] for row in rows),
        "checkpoints": rows,
    }


def pick(store: Store, name: str | None) -> Checkpoint:
    """A checkpoint by its name (step or step-attempt), or the newest that verifies. BadInput."""
    if name is None:
        newest = store.newest_verified()
        if newest is None:
            raise BadInput(
                "STORE", "", f"no checkpoint of '{store.run}' in {store.url}", "a run that was saved"
            )
        return newest
    if not (name.isdigit() or SAVE.fullmatch(name)):
        raise BadInput("CHECKPOINT", "", f"'{name}'", "a step, or step-attempt, as `checkpoint list` shows")
    known = {one.name: one for one in store.checkpoints()} | {
        str(one.step): one for one in store.checkpoints()
    }
    if name not in known:
        raise BadInput(
            "CHECKPOINT", "", f"no committed '{name}'", nearest(name, sorted(known)) or "one of the list"
        )
    return known[name]


def copied(
    store: Store,
    other: Store,
    name: str | None = None,
    *,
    bytes_per_s: float | None = None,
    dry: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """A copy, committed at the other store; `dry` says only how far it is."""
    one = pick(store, name)
    way = store.way(one, other, bytes_per_s)
    answer = {
        "name": one.name,
        "from": store.url,
        "to": other.url,
        "bytes": way.of_bytes,
        "bytes_to_go": way.bytes,
        "expected_s": way.seconds,
        "copied": False,
    }
    if dry:
        return answer
    total, done = max(1, 2 * way.of_bytes), 0  # each byte is brought, and read back there

    def moved(more: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            doing = "copying" if 2 * done <= total else "verifying"
            progress(min(1.0, done / total), f"{doing} {one.name}")

    store.copy(one, other, progress=moved)
    return answer | {"copied": True}


def pruned(
    store: Store, keep: Keep, *, dry: bool = False, deep: bool = False, progress: Progress | None = None
) -> dict[str, Any]:
    """What goes and what stays, each with its reason."""
    told = store.prune(keep, dry=dry, deep=deep, progress=progress)
    return {
        "store": store.url,
        "run": store.run,
        "dry_run": dry,
        "bytes": told.bytes,
        "deleted": told.deleted,
        "cut_off": told.cut_off,
        "checkpoints": [
            {"name": one.checkpoint.name, "kept": one.kept, "why": one.why} for one in told.verdicts
        ],
    }


def adopted(store: Store, name: str) -> dict[str, Any]:
    """Commit a save that is whole and never was committed."""
    named = SAVE.fullmatch(name)
    if named is None:
        raise BadInput("CHECKPOINT", "", f"'{name}'", "step-attempt, as `checkpoint list` shows")
    made = store.adopt(int(named[1]), int(named[2]), int(named[3] or 0))
    return {"name": made.name, "step": made.step, "tokens": made.tokens, "bytes": made.bytes}


def _utc(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rule(last: int, every: str | None, grace: str) -> Keep:
    """What is kept, from what was written. BadInput."""
    every_s = None if every is None else _seconds("--every", every)
    if every_s == 0:
        raise BadInput("--every", "", f"'{every}'", "a stretch longer than nothing")
    return Keep(last=last, every_s=every_s, grace_s=_seconds("--grace", grace))


def _seconds(flag: str, text: str) -> float:
    try:
        return float(duration_s(text))
    except ValueError as wrong:
        raise BadInput(flag, "", f"'{text}'", str(wrong)) from None
