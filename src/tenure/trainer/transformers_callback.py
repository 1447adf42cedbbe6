"""How does a Hugging Face Trainer drain? By a callback: all ranks agree, then the Trainer saves.

The Trainer's own flags are per process; here they are set on every rank at the same step, once all agree.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tenure.trainer.hook import Hook
from tenure.trainer.torch_loop import end
from tenure.trainer.words import EVAL

Commit = Callable[[Path, int, float], object]


class _Save:
    """A save by the Trainer, which begins in one of its calls and ends in another."""

    def __init__(self, hook: Hook, tokens: Callable[[int], float], commit: Commit) -> None:
        self.hook, self.tokens, self.commit = hook, tokens, commit
        self._open: contextlib.ExitStack | None = None

    def begins(self, state: Any) -> None:
        """The Trainer is about to write."""
        if self._open is None:
            self._open = contextlib.ExitStack()
            self._open.enter_context(self.hook.saving(state.global_step, self.tokens(state.global_step)))

    def ends(self, args: Any, state: Any) -> None:
        """It has written this rank's part."""
        self.begins(state)
        opened, self._open = self._open, None
        assert opened is not None
        with opened:
            self.hook.agreed(False)  # each rank has written its part: none is left out of the commit
            if state.is_world_process_zero:
                path = Path(args.output_dir) / f"checkpoint-{state.global_step}"
                self.commit(path, state.global_step, self.tokens(state.global_step))


def _over(state: Any, control: Any) -> bool:
    """Whether no step follows: the last one is saved, whatever the Trainer's own strategy is."""
    return bool(control.should_training_stop or state.global_step >= state.max_steps)


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

    save = _Save(hook, tokens, commit)

    class DrainCallback(TrainerCallback):
        def __init__(self) -> None:
            self.trainer: Any = None

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            hook.signals.install()
            if state.global_step > 0:
                hook.resumed(state.global_step, tokens(state.global_step))

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
            answer = hook.poll(state.global_step, tokens(state.global_step))
            if answer.saves or _over(state, control):
                control.should_save = True
            elif control.should_save and not hook.room_for_save():
                control.should_save = False  # it would hold up the drain's
            if answer.drains:
                control.should_evaluate = False  # it would take the time that is left
                control.should_training_stop = True
            if control.should_save and not control.should_evaluate:
                save.begins(state)
            return control

        def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
            kept = hook.progress.committed_step >= state.global_step
            if hook.leaving is not None:  # its save is done
                control.should_evaluate = False
                control.should_save = not kept
            elif _over(state, control):
                control.should_save = not kept
            if control.should_save and not control.should_evaluate:
                save.begins(state)
            return control

        def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if control.should_save and args.save_strategy != "best":  # which decides after this
                save.begins(state)

        def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            answer = hook.poll(state.global_step, tokens(state.global_step), EVAL)
            if answer.saves and self.trainer is not None:
                save.begins(state)
                self.trainer._save_checkpoint(self.trainer.model, None)
                save.ends(args, state)
            if answer.drains and self.trainer is not None:
                raise SystemExit(hook.leave())  # an evaluation knows no other way out

        def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            save.ends(args, state)

        def leave(self) -> int:
            """The exit code, once `train` has come back."""
            return end(hook)

    return DrainCallback()
