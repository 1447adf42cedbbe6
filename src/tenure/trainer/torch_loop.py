"""How does a plain PyTorch loop drain? With the hook of its gang, and a loop that saves, retries and leaves.

torch is imported when these are called, never before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tenure.trainer.agreement import over_torch
from tenure.trainer.hook import Hook

TRIES = 3  #: of the last save


def sync_device() -> None:
    """Wait until the device has done all it was given: nothing is left under way when a process leaves."""
    import torch

    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def torch_hook(
    *, group: Any = None, every: int = 1, store_errors: tuple[type[Exception], ...] = (OSError,)
) -> Hook:
    """The hook of a process of a torch.distributed gang (or of a single process). Make it in the main thread.

    `group`: over which ranks agree; a gloo group of all ranks keeps the agreement off the device.
    """
    return Hook.from_env(agree=over_torch(group), sync=sync_device, every=every, store_errors=store_errors)


def run(
    hook: Hook,
    steps: Iterable[int],
    train_step: Callable[[int], object],
    save: Callable[[int, float], object],
    tokens: Callable[[int], float],
    save_every: int = 0,
) -> int:
    """Train, save and leave as the hook says; the exit code is returned.

    The last step is saved, whether it is that of a drain or of the run; 75 where that did not succeed.
    `steps`: the numbers of the steps to do, counted from 1 for the whole run. `save(step, tokens)`: writes
    and commits a checkpoint; called on every rank. `tokens(step)`: of the whole run once this step is done.
    `save_every`: steps between saves nobody asked for; 0: none but the last.
    """
    step = None
    for step in steps:
        train_step(step)
        answer = hook.poll(step, tokens(step))
        due = save_every > 0 and step % save_every == 0
        if answer.saves or (due and hook.room_for_save()):
            save_once(hook, step, tokens(step), save)
        if answer.drains:
            break
    if step is not None:
        last_save(hook, step, tokens(step), save)
    return end(hook)


def save_once(hook: Hook, step: int, tokens: float, save: Callable[[int, float], object]) -> bool:
    """One save, timed. Whether it is committed, the same on every rank."""
    with hook.saving(step, tokens) as saving:
        save(step, tokens)
    return saving.committed


def end(hook: Hook) -> int:
    """The exit code of a loop that is over: finished where all is kept and nobody has asked it to leave."""
    kept = hook.progress.committed_step >= hook.progress.step
    return hook.finish() if kept and hook.leaving is None else hook.leave()


def last_save(hook: Hook, step: int, tokens: float, save: Callable[[int, float], object]) -> bool:
    """Where the last step is not kept yet: tried again while the deadline leaves room. Whether it is."""
    for tried in range(TRIES):
        if hook.progress.committed_step >= step:
            return True
        deadline = hook.leaving.deadline if hook.leaving is not None else None
        left = float("inf") if deadline is None else deadline - hook.clock.now()
        if tried and hook.agreed(left < hook.progress.saves.quantile(0.5)):
            return False
        save_once(hook, step, tokens, save)
    return hook.progress.committed_step >= step
