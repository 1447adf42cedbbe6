"""How does a Hugging Face Trainer drain? By a callback: all ranks agree, then the Trainer saves.

The Trainer's own flags are per process; here they are set on every rank at the same step, once all agree.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tenure.trainer.hook import Hook
from tenure.trainer.words import EVAL

Commit = Callable[[Path, int, float], object]


def transformers_callback(
    hook: Hook, tokens: Callable[[int], float], commit: Commit = lambda path, step, tokens: None
) -> Any:
    """A `transformers.TrainerCallback`.

    `tokens(step)`: of the whole run after so many steps. `commit(path, step, tokens)`: called on the world's
    first process once `checkpoint-N` is whole, puts it into the store. Give it the Trainer
    (`callback.trainer = trainer`), so that a drain can be honoured in the middle of an evaluation too. After
    `train`, leave with `sys.exit(callback.leave())`.
    """
    from transformers import TrainerCallback

    class DrainCallback(TrainerCallback):
        def __init__(self) -> None:
            self.hook = hook
            self.trainer: Any = None
            self._open: contextlib.ExitStack | None = None

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            hook.signals.install()

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
            answer = hook.poll(state.global_step, tokens(state.global_step))
            if answer.saves:
                control.should_save = True
            elif control.should_save and not hook.room_for_save():
                control.should_save = False  # it would hold up the drain's
            if answer.drains:
                control.should_evaluate = False  # it would take the time that is left
                control.should_training_stop = True
            if control.should_save and not control.should_evaluate:
                self._begin(state)
            return control

        def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
            if hook.leaving is not None:  # its save is done
                control.should_evaluate = False
                control.should_save = hook.progress.committed_step < state.global_step
            if control.should_save and not control.should_evaluate:
                self._begin(state)
            return control

        def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            answer = hook.poll(state.global_step, tokens(state.global_step), EVAL)
            if answer.saves and self.trainer is not None:
                self._begin(state)
                self.trainer._save_checkpoint(self.trainer.model, None)
                self.on_save(args, state, control)
            if answer.drains and self.trainer is not None:
                raise SystemExit(hook.leave())  # an evaluation knows no other way out

        def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if self._open is None:
                self._begin(state)
            opened, self._open = self._open, None
            assert opened is not None
            with opened:
                if state.is_world_process_zero:
                    path = Path(args.output_dir) / f"checkpoint-{state.global_step}"
                    commit(path, state.global_step, tokens(state.global_step))

        def _begin(self, state: Any) -> None:
            if self._open is None:
                self._open = contextlib.ExitStack()
                self._open.enter_context(hook.saving(state.global_step, tokens(state.global_step)))

        def leave(self) -> int:
            """The exit code, once `train` has come back."""
            return hook.leave() if hook.leaving is not None else hook.finish()

    return DrainCallback()
