"""`torch.save`: one process, one file of whatever can be pickled. Loaded with weights only, unless asked."""

from __future__ import annotations

import io
from typing import Any

from tenure.checkpoints.store import Store
from tenure.checkpoints.words import Checkpoint

NAME = "state.pt"


def save(store: Store, step: int, attempt: int, state: Any, tokens: int, **told: Any) -> Checkpoint:
    """Save and commit. `told`: what else `Saving.commit` takes (loader, parent, window, final …)."""
    import torch

    written = io.BytesIO()
    torch.save(state, written)
    with store.begin(step, attempt) as saving:
        saving.add_bytes(NAME, written.getvalue())
        return saving.commit(tokens, framework=f"torch {torch.__version__}", **told)


def load(store: Store, checkpoint: Checkpoint, *, anything: bool = False) -> Any:
    """The state, on the CPU, held against its hash. `anything`: also unpickle what could run code."""
    import torch

    data = store.read(checkpoint, NAME)
    return torch.load(io.BytesIO(data), map_location="cpu", weights_only=not anything)
