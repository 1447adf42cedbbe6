"""How do all ranks come to one answer at one step? By the greatest of what each would do.

An agreement is a function of a short list of whole numbers, called by every rank at the same step, that
returns for each place the greatest over all ranks. A single process agrees with itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from tenure.trainer.words import CHECKPOINT, CONTINUE, DRAIN, URGENCY, Answer

Agreement = Callable[[Sequence[int]], Sequence[int]]

NO_DEADLINE = -(1 << 62)
NAMES = {code: name for name, code in URGENCY.items()}


def alone(numbers: Sequence[int]) -> Sequence[int]:
    """One process."""
    return numbers


def over_torch(group: Any = None, device: Any = None) -> Agreement:
    """All-reduce MAX over torch.distributed, gloo or NCCL. `device`: where the backend wants its tensors."""

    def agree(numbers: Sequence[int]) -> Sequence[int]:
        import torch
        import torch.distributed as dist

        if not dist.is_available() or not dist.is_initialized() or dist.get_world_size(group) == 1:
            return numbers
        place = device
        if place is None:
            place = "cuda" if dist.get_backend(group) == "nccl" else "cpu"
        told = torch.tensor(list(numbers), dtype=torch.int64, device=place)
        dist.all_reduce(told, op=dist.ReduceOp.MAX, group=group)
        return [int(number) for number in told.tolist()]

    return agree


def mark(request: str) -> int:
    """A request's id as 48 bits: what ranks can compare. 0 for none."""
    return int.from_bytes(hashlib.sha256(request.encode()).digest()[:6], "big") or 1 if request else 0


def as_numbers(wish: Answer) -> list[int]:
    """What a rank would do: how urgent and which request (the most urgent survives); minus its deadline."""
    deadline = NO_DEADLINE if wish.deadline is None else -int(wish.deadline * 1000)
    return [URGENCY[wish.do] << 48 | mark(wish.request), deadline]


def as_answer(agreed: Sequence[int], wish: Answer) -> tuple[Answer, int]:
    """What all do, and the mark of its request. `wish`: this rank's own; where it won, its words are used."""
    do, which = NAMES[agreed[0] >> 48], agreed[0] & ((1 << 48) - 1)
    if do == CONTINUE:
        return Answer(), 0
    deadline = None if agreed[1] == NO_DEADLINE else -agreed[1] / 1000
    if do == wish.do and which == mark(wish.request):
        return wish._replace(deadline=deadline), which
    return Answer(do, deadline, "another rank was asked", ""), which


__all__ = ["Agreement", "CHECKPOINT", "DRAIN", "alone", "as_answer", "as_numbers", "mark", "over_torch"]
