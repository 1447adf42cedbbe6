"""Are data and checkpoints there, whole, and can the next one be written? Asked of the stores themselves."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tenure.checkpoints.outliving import refuse_unless_it_outlives
from tenure.checkpoints.places import open_place
from tenure.checkpoints.store import Store
from tenure.checkpoints.words import StoreError
from tenure.providers.capability import capability
from tenure.providers.opening import is_here
from tenure.runs.preflight import FAIL, PASS, UNKNOWN, Outcome
from tenure.settings.run_file import Run

PROBE_BYTES = 4 << 20


def gone_with_the_window(run: Run, *, in_rehearsal: bool = False) -> str | None:
    """
    Why the run's store would not outlive its window; None where it does, or nobody can tell.

    Only of machines rented from a cloud: `own` machines stay, those of `manual` may be these, and a cloud on
    this machine (`endpoint`, `in_rehearsal`) takes no disk away.
    """
    told = run.file.provider
    if told["name"] != "aws" or in_rehearsal or is_here(str(told.get("endpoint", ""))):
        return None
    try:
        refuse_unless_it_outlives(run.store_url, capability("aws"))
    except StoreError as no:
        return str(no)
    return None


def writable(store: Store) -> Outcome:
    """Write a little where checkpoints go, read it back and remove it."""
    name, data = f"preflight-{secrets.token_hex(8)}", secrets.token_bytes(PROBE_BYTES)
    try:
        began = time.monotonic()
        store.place.write(name, data)
        wrote = time.monotonic() - began
        same = store.place.read(name) == data
        store.place.delete([name])
    except StoreError as no:
        return Outcome(FAIL, f"the store takes no checkpoint: {no}")
    except FileNotFoundError:
        return Outcome(FAIL, "what was written was not there to be read")
    if not same:
        return Outcome(FAIL, "what was read is not what was written")
    speed = PROBE_BYTES / max(wrote, 1e-6) / 1e6
    return Outcome(PASS, f"4 MiB written in {wrote:.3g} s, and read back", {"mb_per_s": round(speed, 1)})


def checkpoint(store: Store, near: Store | None, deep: bool = False) -> Outcome:
    """The newest verified checkpoint, and what of it must still be brought to the window's region."""
    try:
        newest = store.newest_verified(deep=deep)
    except StoreError as no:
        return Outcome(FAIL, str(no))
    if newest is None:
        return Outcome(PASS, "nothing was ever saved: the run begins at step 0", {"step": 0})
    numbers: dict[str, Any] = {"step": newest.step, "tokens": newest.tokens, "bytes": newest.bytes}
    text = f"step {newest.step}, {newest.tokens:,} tokens, {size(newest.bytes)}, verified"
    if near is None:
        return Outcome(PASS, text, numbers)
    try:
        way = store.way(newest, near)
        if way.bytes:
            told = {**numbers, "to_bring_bytes": way.bytes, "to_bring_s": way.seconds}
            long = "" if way.seconds is None else f", about {way.seconds:.0f} s"
            return Outcome(FAIL, f"{text}; {size(way.bytes)} of it are not near the window{long}", told)
        there = near.newest_verified(deep=deep)
    except StoreError as no:
        return Outcome(FAIL, f"near the window: {no}")
    if there is None or there.step != newest.step:
        return Outcome(
            FAIL, f"{text}; near the window the newest is {there.step if there else 'none'}", numbers
        )
    return Outcome(PASS, f"{text}, near the window too", numbers)


def data(at: str, options: Mapping[str, Any], listed: Path, hashes: int) -> Outcome:
    """All shards of a list, by size, and some by hash."""
    try:
        told = json.loads(listed.read_text(encoding="utf-8"))
        wanted = [(str(one["name"]), int(one["bytes"]), one.get("sha256")) for one in _files(told)]
    except (OSError, ValueError, KeyError, TypeError) as no:
        return Outcome(UNKNOWN, f"{listed.name} is no list of {{name, bytes, sha256}}: {no}")
    try:
        place = open_place(at, options)
        there = place.files("")
        missing = [name for name, _, _ in wanted if name not in there]
        short = [name for name, size, _ in wanted if name in there and there[name].bytes != size]
        altered = []
        for name, _, sha256 in _some(wanted, hashes):
            if name in there and sha256:
                digest = hashlib.sha256()
                with place.open(name) as file:
                    while piece := file.read(1 << 20):
                        digest.update(piece)
                if digest.hexdigest() != sha256:
                    altered.append(name)
    except (StoreError, FileNotFoundError) as no:
        return Outcome(FAIL, f"the data cannot be read: {no}")
    total = sum(size for _, size, _ in wanted)
    numbers = {"shards": len(wanted), "bytes": total, "missing": missing, "short": short, "altered": altered}
    for what, names in (("missing", missing), ("cut off", short), ("altered", altered)):
        if names:
            text = f"{len(names)} of {len(wanted)} shards {what}: {', '.join(names[:3])}"
            return Outcome(FAIL, text, numbers)
    return Outcome(PASS, f"{len(wanted)} shards, {size(total)}, all there", numbers)


def size(count: int) -> str:
    """Bytes as people read them."""
    value, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if value < 1000 or unit == "PB":
            break
        value /= 1000
    return f"{value:.3g} {unit}"


def _files(told: Any) -> Sequence[Mapping[str, Any]]:
    found = told.get("files") if isinstance(told, dict) else told
    if not isinstance(found, list) or not found:
        raise ValueError("it lists nothing")
    return found


def _some(wanted: Sequence[Any], most: int) -> Sequence[Any]:
    """Spread over all, so that neither the first nor the last shard is left out."""
    if most >= len(wanted) or most <= 1:
        return wanted[:most] if most < len(wanted) else wanted
    return [wanted[round(at * (len(wanted) - 1) / (most - 1))] for at in range(most)]
