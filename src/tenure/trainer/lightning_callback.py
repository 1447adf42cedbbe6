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

    class DrainCallback(Callback):
        def __init__(self) -> None:
            self.hook, self.seen = hook, -1

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            hook.signals.install()  # in place of Lightning's
            self.seen = trainer.global_step
            self._resumed(trainer)

        def on_sanity_check_start(self, trainer: Any, pl_module: Any) -> None:
            self._resumed(trainer)

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            if hook.leaving is None and hook.progress.step >= 0:  # what a drain could not save is told
                step = trainer.global_step
                last_save(hook, step, tokens(step), self._saver(trainer))

        def on_train_batch_end(
            self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            step = trainer.global_step
            if step == self.seen:  # gradients are still being gathered
                return
            self.seen = step
            self._after(trainer, step, TRAIN)
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
            self._after(trainer, trainer.global_step, kind)
            if hook.leaving is not None:
                raise SystemExit(hook.leave())  # a loop of validation knows no other way out

        def _after(self, trainer: Any, step: int, kind: str) -> None:
            answer = hook.poll(step, tokens(step), kind)
            due = kind == TRAIN and save_every and step % save_every == 0
            if answer.drains:
                last_save(hook, step, tokens(step), self._saver(trainer))
            elif answer.saves or (due and hook.room_for_save()):
                save_once(hook, step, tokens(step), self._saver(trainer))

        def _resumed(self, trainer: Any) -> None:
            if trainer.global_step > 0:
                hook.resumed(trainer.global_step, tokens(trainer.global_step))

        def _saver(self, trainer: Any) -> Callable[[int, float], None]:
            def save(step: int, told: float) -> None:
                path = Path(folder) / f"step-{step}.ckpt"
                trainer.save_checkpoint(path)
                if trainer.is_global_zero:
                    commit(path, step, told)

            return save

        def leave(self) -> int:
            """The exit code, once `fit` has come back."""
            return end(hook)

    return DrainCallback()
