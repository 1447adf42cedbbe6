"""Who may commit? Only the newest attempt; and what an older one commits late does not count.

An attempt begins by making its fence, once, in which it says where it resumed from. A fence and a commit
cannot be made in one step, so an older attempt may get a commit in just after it: the fence itself says which
of the older ones' commits were seen. Later ones are void, and a resume never finds them.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from tenure.checkpoints import layout
from tenure.checkpoints.places import Place
from tenure.checkpoints.words import Checkpoint, Fenced, Incomplete


class Fence(NamedTuple):
    """From `attempt` on, older attempts may not commit; theirs past `step` are void (None: all are)."""

    attempt: int
    step: int | None


def fences(place: Place) -> list[Fence]:
    """All of a run, oldest first."""
    found = []
    for path in place.files(layout.FENCES):
        number = path.rsplit("/", 1)[-1]
        if not number.isdigit():
            continue
        try:
            told = json.loads(place.read(path))
            step = told["step"]
            found.append(Fence(int(number), None if step is None else int(step)))
        except (ValueError, KeyError, TypeError):
            raise Incomplete(f"{path} cannot be read: it is altered; a person must look") from None
    return sorted(found)


def raise_fence(place: Place, attempt: int, resumed: Checkpoint | None) -> Fence:
    """
    Keep older attempts out. Repeated, it gives the fence as it was made. Fenced where a newer one stands.
    """
    check(place, attempt)
    step = None if resumed is None else resumed.step
    path = f"{layout.FENCES}/{attempt}"
    try:
        place.create(path, json.dumps({"attempt": attempt, "step": step}).encode())
    except FileExistsError:
        step = json.loads(place.read(path))["step"]
    check(place, attempt)
    return Fence(attempt, step)


def check(place: Place, attempt: int) -> None:
    """Raises Fenced where a newer attempt has taken over."""
    newest = max(
        (
            int(path.rsplit("/", 1)[-1])
            for path in place.files(layout.FENCES)
            if path.rsplit("/", 1)[-1].isdigit()
        ),
        default=attempt,
    )
    if newest > attempt:
        raise Fenced(f"attempt {newest} has taken over: attempt {attempt} may not commit any more")


def void(standing: list[Fence], commit: Checkpoint) -> bool:
    """Whether a commit came after a newer attempt had made its fence without having seen it."""
    return any(
        fence.attempt > commit.attempt and (fence.step is None or commit.step > fence.step)
        for fence in standing
    )
