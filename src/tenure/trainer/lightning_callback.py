"""How does a Lightning trainer drain? By a callback that polls after each step and each piece of validation.

Lightning's own SIGTERM handler tells the other ranks from inside the signal, by a broadcast that only rank 0
is right to send: a signal to another rank alone hangs the gang. The callback takes the signals over.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tenure.trainer.hook import Hook
from tenure.trainer.torch_loop import end, last_save, save_once
from tenure.trainer.words import EVAL, TRAIN, WARM_UP

Commit = Callable[[Path, int, float], object]


class _Gang:
    """What is done between Lightning's steps, whichever of its calls it is done in."""

    def __init__(
        self, hook: Hook, folder: Path, tokens: Callable[[int], float], commit: Commit, save_every: int
    ) -> None:
        self.hook, self.folder, self.tokens, self.commit = hook, folder, tokens, commit
        self.save_every, self.seen = save_every, -1

    def begins(self, trainer: Any) -> None:
        """Before the first step or piece of validation: what it was resumed from is kept."""
        if trainer.global_step > 0:
            self.hook.resumed(trainer.global_step, self.tokens(trainer.global_step))

    def after(self, trainer: Any, step: int, kind: str) -> None:
        """A step, or a piece of a validation."""
        answer = self.hook.poll(step, self.tokens(step), kind)
        due = kind == TRAIN and self.save_every and step % self.save_every == 0
        if answer.drains:
            last_save(self.hook, step, self.tokens(step), self._saver(trainer))
        elif answer.saves or (due and self.hook.room_for_save()):
            save_once(self.hook, step, self.tokens(step), self._saver(trainer))

    def ends(self, trainer: Any) -> None:
        """All steps are done. What a drain could not save by its deadline is told, not tried again."""
        if self.hook.leaving is None and self.hook.progress.step >= 0:
            step = trainer.global_step
            last_save(self.hook, step, self.tokens(step), self._saver(trainer))

    def _saver(self, trainer: Any) -> Callable[[int, float], None]:
        def save(step: int, told: float) -> None:
            path = self.folder / f"step-{step}.ckpt"
            trainer.save_checkpoint(path)
            if trainer.is_global_zero:
                self.commit(path, step, told)

        return save


def lightning_callback(
    hook: Hook,
    folder: str | Path,
    tokens: Callable[[int], float],
    commit: Commit = lambda path, step, tokens: None,
    save_every: int = 0,
) -> Any:
    """A `lightning.pytorch.Callback`.

    `folder`: where `step-N.ckpt` is written. `commit(path, step, tokens)`: called on rank 0 once it is whole,
    puts it into the store. `tokens(step)`: of the whole run after so many steps. `save_every`: steps between
    saves that nobody asked for; 0: none but that of the last step. After `fit`, leave with
    `sys.exit(callback.leave())`.
    """
    from lightning.pytorch import Callback

    gang = _Gang(hook, Path(folder), tokens, commit, save_every)

    class DrainCallback(Callback):
        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            hook.signals.install()  # in place of Lightning's
            gang.seen = trainer.global_step
            gang.begins(trainer)

        def on_sanity_check_start(self, trainer: Any, pl_module: Any) -> None:
            gang.begins(trainer)

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            gang.ends(trainer)

        def on_train_batch_end(
            self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            step = trainer.global_step
            if step == gang.seen:  # gradients are still being gathered
                return
            gang.seen = step
            gang.after(trainer, step, TRAIN)
            if hook.leaving is not None:
                trainer.limit_val_batches = 0  # a validation would take the time that is left
                trainer.fit_loop.min_epochs = trainer.fit_loop.epoch_loop.min_steps = None
                trainer.should_stop = True

        def on_validation_batch_end(
            self,
            trainer: Any,
            pl_module: Any,
            outputs: Any,
            batch: Any,
            batch_idx: int,
            dataloader_idx: int = 0,
        ) -> None:
            kind = WARM_UP if trainer.sanity_checking else EVAL
            gang.after(trainer, trainer.global_step, kind)
            if hook.leaving is not None:
                raise SystemExit(hook.leave())  # a loop of validation knows no other way out

        def leave(self) -> int:
            """The exit code, once `fit` has come back."""
            return end(hook)

    return DrainCallback()
