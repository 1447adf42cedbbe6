"""safetensors: tensors by name and nothing that could run code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenure.checkpoints.store import Store
from tenure.checkpoints.words import Checkpoint

NAME = "model.safetensors"


def save(
    store: Store, step: int, attempt: int, tensors: Mapping[str, Any], tokens: int, **told: Any
) -> Checkpoint:
    """Save torch tensors and commit. `told`: what else `Saving.commit` takes."""
    import safetensors
    from safetensors.torch import save as packed

    with store.begin(step, attempt) as saving:
        saving.add_bytes(NAME, packed(dict(tensors)))
        return saving.commit(tokens, framework=f"safetensors {safetensors.__version__}", **told)


def load(store: Store, checkpoint: Checkpoint) -> dict[str, Any]:
    """The tensors by name, held against their hash."""
    from safetensors.torch import load as unpacked

    return dict(unpacked(store.read(checkpoint, NAME)))
