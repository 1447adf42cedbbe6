"""Where does everything of a run lie in its store, and how is it written down?

run/<id>/ckpt/<step>-<attempt>/…               the files of a save, however many writers; where one was tried
                                               before by the same attempt: <step>-<attempt>.1, .2, …
run/<id>/ckpt/<step>-<attempt>/WRITER.json     made once, first: whose try the folder is
run/<id>/ckpt/<step>-<attempt>/PART-<rank>.json    what one writer says it wrote
run/<id>/ckpt/<step>-<attempt>/MANIFEST.json   all of it, written last
run/<id>/COMMITTED/<step>                      made once, after all was verified; only this makes a checkpoint
run/<id>/FENCE/<attempt>                       made once: from then on no older attempt may commit
run/<id>/VERIFIED/<save>                       when it was last read in full and found sound
run/<id>/LATEST                                a hint for people and other tools, never believed
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from tenure.checkpoints.words import FORMAT, Checkpoint, File, Incomplete, Manifest, StoreError

MANIFEST, PART, WRITER = "MANIFEST.json", "PART-", "WRITER.json"
MARK = "PRUNED"  #: in a save's folder: it is being pruned, what is left of it may go
COMMITTED, FENCES, SAVES, LATEST = "COMMITTED", "FENCE", "ckpt", "LATEST"
VERIFIED = "VERIFIED"
SAVE = re.compile(r"(\d+)-(\d+)(?:\.([1-9]\d*))?")  #: step, attempt, and which try again
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def check_run(run: str) -> str:
    """The run's id, if it can be a folder's name everywhere; ValueError."""
    if not NAME.fullmatch(run) or ".." in run:
        raise ValueError(f"'{run}' cannot name a run: letters, digits, dot, dash and underline, 100 at most")
    return run


def check_file(name: str) -> str:
    """A file's name within a checkpoint; ValueError where it would leave it or stand for something else."""
    parts = name.split("/")
    if not name or name.startswith("/") or any(part in ("", ".", "..") for part in parts) or "\\" in name:
        raise ValueError(f"'{name}' is no name of a file within a checkpoint")
    if len(parts) == 1 and (name in (MANIFEST, WRITER, MARK) or name.startswith(PART)):
        raise ValueError(f"'{name}' is the store's own")
    return name


def save_of(step: int, attempt: int, again: int = 0) -> str:
    """Folder of a save, relative to the run's; `again`: how many tries of the same attempt came before."""
    return f"{SAVES}/{step}-{attempt}" + (f".{again}" if again else "")


def committed_of(step: int) -> str:
    """The commit of a step."""
    return f"{COMMITTED}/{step}"


def sha256(data: bytes) -> str:
    """Hex digest."""
    return hashlib.sha256(data).hexdigest()


def manifest_bytes(manifest: Manifest) -> bytes:
    """MANIFEST.json."""
    told = manifest._asdict() | {"format": FORMAT, "files": [file._asdict() for file in manifest.files]}
    return json.dumps(told, sort_keys=True, indent=1).encode()


def read_manifest(data: bytes, where: str) -> Manifest:
    """A manifest from its file. Incomplete where it is cut off; StoreError where it is of a newer kind."""
    told = _json(data, where)
    if told.get("format", 0) > FORMAT:
        raise StoreError(f"{where} was written by a newer release")
    try:
        files = tuple(File(str(f["name"]), int(f["bytes"]), str(f["sha256"])) for f in told["files"])
        rest = {key: told[key] for key in Manifest._fields if key != "files" and key in told}
        return Manifest(files=files, **rest)
    except (KeyError, TypeError, ValueError) as wrong:
        raise Incomplete(f"{where} is no manifest: {wrong!r}") from None


def commit_bytes(manifest: Manifest, written: bytes, folder: str) -> bytes:
    """What a commit says: enough to list a store without opening its manifests."""
    return json.dumps(
        {
            "format": FORMAT,
            "step": manifest.step,
            "attempt": manifest.attempt,
            "tokens": manifest.tokens,
            "bytes": manifest.bytes,
            "files": len(manifest.files),
            "at": manifest.at,
            "final": manifest.final,
            "save": folder.rsplit("/", 1)[-1],
            "manifest_sha256": sha256(written),
        },
        sort_keys=True,
    ).encode()


def read_commit(data: bytes, where: str) -> Checkpoint:
    """A checkpoint from its commit. Incomplete where that is cut off."""
    told = _json(data, where)
    try:
        step, attempt = int(told["step"]), int(told["attempt"])
        named = SAVE.fullmatch(str(told["save"]))
        if named is None or (int(named[1]), int(named[2])) != (step, attempt):
            raise ValueError(told["save"])
        return Checkpoint(
            step=step,
            attempt=attempt,
            tokens=int(told["tokens"]),
            bytes=int(told["bytes"]),
            files=int(told["files"]),
            at=float(told["at"]),
            final=bool(told["final"]),
            path=save_of(step, attempt, int(named[3] or 0)),
            manifest_sha256=str(told["manifest_sha256"]),
        )
    except (KeyError, TypeError, ValueError) as wrong:
        raise Incomplete(f"{where} is no commit: {wrong!r}") from None


def _json(data: bytes, where: str) -> dict[str, Any]:
    try:
        told = json.loads(data)
    except ValueError:
        raise Incomplete(f"{where} cannot be read: it is cut off or altered") from None
    if not isinstance(told, dict):
        raise Incomplete(f"{where} cannot be read: it is no object")
    return told
