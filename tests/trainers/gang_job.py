"""The example's training, made slow or odd on purpose by TEST_… variables (see each below)."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "train"))

from train import Learner, main


def number(key: str) -> float:
    return float(os.environ.get(key, "-1"))


class Odd(Learner):
    """TEST_SAVE_S: length of a save; TEST_KILL_STEP / TEST_HANG_STEP with TEST_RANK: what happens there."""

    def train_step(self, step: int) -> None:
        here = self.rank == number("TEST_RANK") and not Path(os.environ["TEST_ONCE"]).exists()
        if here and step == number("TEST_KILL_STEP"):
            Path(os.environ["TEST_ONCE"]).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if here and step == number("TEST_HANG_STEP"):
            time.sleep(600)
        if here and step == number("TEST_SIGNAL_STEP"):
            os.kill(os.getpid(), signal.SIGTERM)
        super().train_step(step)

    def save(self, step: int, tokens: float) -> None:
        time.sleep(max(0.0, number("TEST_SAVE_S")))
        super().save(step, tokens)


if __name__ == "__main__":
    sys.exit(main(learner_of=Odd))
