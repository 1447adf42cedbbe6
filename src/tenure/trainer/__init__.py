"""What does a training job import? The hook: go on, save or drain. Standard library only.

`hook.Hook` for any loop, `torch_loop`, `lightning_callback` and `transformers_callback` for frameworks (they
import theirs when they are used), `torchrun` to start a gang whose last save is not cut off by its launcher.
"""

from tenure.trainer.agreement import Agreement, alone, over_torch
from tenure.trainer.hook import Hook, SaveFailed, Saving
from tenure.trainer.place import Place, place_of
from tenure.trainer.signals import ignore_in_worker
from tenure.trainer.watcher import Times
from tenure.trainer.words import CHECKPOINT, CONTINUE, DRAIN, DRAINED, INCOMPLETE, Answer

__all__ = [
    "Hook",
    "Answer",
    "Saving",
    "SaveFailed",
    "Agreement",
    "alone",
    "over_torch",
    "Place",
    "place_of",
    "Times",
    "ignore_in_worker",
    "CONTINUE",
    "CHECKPOINT",
    "DRAIN",
    "DRAINED",
    "INCOMPLETE",
]
