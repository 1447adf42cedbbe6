"""The example's training fed by a DataLoader with worker processes; TEST_WORKERS says how they start."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "train"))

from train import Learner, main

from tenure.trainer import ignore_in_worker


class Endless(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
    def __iter__(self) -> Iterator[int]:
        while True:
            yield os.getpid()


class Fed(Learner):
    feed: Iterator[torch.Tensor] | None = None

    def train_step(self, step: int) -> None:
        if self.feed is None:
            init = ignore_in_worker if os.environ["TEST_WORKERS"] == "ignore" else None
            loader = torch.utils.data.DataLoader(Endless(), batch_size=1, num_workers=2, worker_init_fn=init)
            self.feed = iter(loader)
        next(self.feed)
        super().train_step(step)


if __name__ == "__main__":
    sys.exit(main(learner_of=Fed))
