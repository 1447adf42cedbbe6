"""`torch.distributed.checkpoint` (DCP): every rank writes its shards, and all of them are one checkpoint.

DCP writes to a scratch directory of its own for each save, so that its two ways to leave half a checkpoint
(a directory used again, a `.metadata` older than its shards) cannot arise; from there each rank's files go to
the store, and one rank commits once all are in. An asynchronous save is committed when it is durable, never
when `async_save` returns.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tenure.checkpoints.saving import Saving
from tenure.checkpoints.store import Store
from tenure.checkpoints.words import Checkpoint, Incomplete, StoreError

METADATA = ".metadata"


def save(
    store: Store,
    step: int,
    attempt: int,
    state: Mapping[str, Any],
    tokens: int,
    *,
    scratch: str,
    token: str = "",
    **told: Any,
) -> Checkpoint | None:
    """
    Save on all ranks and commit; rank 0 is given the checkpoint, the others None once theirs is in the store.

    `scratch`: a directory for the files on their way (on each machine, or shared). `token`: as `Store.begin`;
    without one the ranks agree on one.
    `told`: what else `Saving.commit` takes.
    """
    import torch.distributed.checkpoint as dcp

    saving, folder = _begun(store, step, attempt, scratch, token)
    with saving:
        dcp.save(dict(state), checkpoint_id=folder)
        return _ended(saving, folder, tokens, told)


def save_async(
    store: Store,
    step: int,
    attempt: int,
    state: Mapping[str, Any],
    tokens: int,
    *,
    scratch: str,
    token: str = "",
    **told: Any,
) -> Future[Checkpoint | None]:
    """As `save`, in the background: the future ends when it is durable and committed, or says why not."""
    import torch.distributed.checkpoint as dcp

    saving, folder = _begun(store, step, attempt, scratch, token)
    staged = dcp.async_save(dict(state), checkpoint_id=folder)
    worker = ThreadPoolExecutor(1, thread_name_prefix="tenure-save")

    def after() -> Checkpoint | None:
        with saving:
            staged.result()
            return _ended(saving, folder, tokens, told)

    future = worker.submit(after)
    worker.shutdown(wait=False)
    return future


def load(store: Store, checkpoint: Checkpoint, state: dict[str, Any], *, scratch: str) -> None:
    """Bring it here, held against its hashes, and load it into `state` in place; any number of ranks."""
    import torch.distributed.checkpoint as dcp

    folder = Path(scratch) / f"load-{checkpoint.name}-{_rank()[0]}"
    try:
        store.download(checkpoint, str(folder))
        dcp.load(state, checkpoint_id=folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check(store: Store, checkpoint: Checkpoint, *, scratch: str) -> list[str]:
    """Whether DCP itself can read it: its metadata, and that each shard it names is there and long enough."""
    from torch.distributed.checkpoint import FileSystemReader

    folder = Path(scratch) / f"check-{checkpoint.name}"
    try:
        try:
            store.download(checkpoint, str(folder))
        except Incomplete as wrong:
            return [str(wrong)]
        if not (folder / METADATA).is_file():
            return [f"{METADATA} is missing: DCP would not take it for complete"]
        wrong_ones = []
        for info in FileSystemReader(folder).read_metadata().storage_data.values():
            shard = folder / info.relative_path
            needed = info.offset + info.length
            if not shard.is_file():
                wrong_ones.append(f"{info.relative_path} is missing")
            elif shard.stat().st_size < needed:
                wrong_ones.append(
                    f"{info.relative_path} has {shard.stat().st_size} bytes, {needed} are needed"
                )
        return sorted(set(wrong_ones))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _rank() -> tuple[int, int]:
    import torch.distributed as dist

    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def _begun(store: Store, step: int, attempt: int, scratch: str, token: str) -> tuple[Saving, Path]:
    writers = _rank()[1]
    folder = Path(scratch) / f"save-{step}-{attempt}"
    if writers == 1:
        saving = store.begin(step, attempt, token=token)
        shutil.rmtree(folder, ignore_errors=True)  # of an earlier try
    else:
        saving = _begun_together(store, step, attempt, token, folder)
    folder.mkdir(parents=True, exist_ok=True)
    return saving, folder


def _begun_together(store: Store, step: int, attempt: int, token: str, folder: Path) -> Saving:
    """Rank 0 first; where it may not, no rank does, and none waits for the others."""
    import torch.distributed as dist

    rank, writers = _rank()
    saving, refused = None, None
    told: list[Any] = [token or uuid.uuid4().hex, None]
    if rank == 0:
        shutil.rmtree(folder, ignore_errors=True)
        try:
            saving = store.begin(step, attempt, writers=writers, token=told[0])
        except StoreError as wrong:
            refused, told[1] = wrong, wrong
    dist.broadcast_object_list(told, src=0)
    if told[1] is not None:
        raise refused or told[1]
    return saving or store.begin(step, attempt, rank=rank, writers=writers, token=told[0])


def _ended(saving: Saving, folder: Path, tokens: int, told: dict[str, Any]) -> Checkpoint | None:
    import torch

    mine = [*folder.glob(f"__{saving.rank}_*"), *([folder / METADATA] if saving.rank == 0 else [])]
    for file in sorted(mine):
        saving.add_file(file)
    saving.done()
    made = None
    if saving.rank == 0:
        world = {"ranks": saving.writers} | dict(told.pop("world", {}))
        made = saving.commit(tokens, framework=f"torch dcp {torch.__version__}", world=world, **told)
    for file in mine:
        file.unlink(missing_ok=True)
    return made
