"""A tiny training that can be drained, killed and resumed at any step, with the same losses bit for bit.

On one process:   TENURE_HOOK=/tmp/hook python examples/train/train.py --store /tmp/store --steps 200
On two:           TENURE_HOOK=/tmp/hook python -m tenure.trainer.torchrun --nproc-per-node 2 \
                      examples/train/train.py --store /tmp/store --steps 200

A line of text is learned letter by letter. Everything that comes next follows from the checkpoint: weights,
optimizer, and the step, from which each rank draws its part of the data.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from tenure.checkpoints.store import Store
from tenure.checkpoints.words import StoreUnavailable
from tenure.trainer.torch_loop import run, torch_hook

TEXT = "the quick brown fox jumps over the lazy dog. " * 20
LETTERS = sorted(set(TEXT))
BATCH, CONTEXT = 16, 8  #: sequences a rank and step; letters that are seen


class Learner:
    """Model, optimizer, and how they step, save and load."""

    def __init__(self, store: Store, attempt: int, rank: int, world: int) -> None:
        self.store, self.attempt, self.rank, self.world = store, attempt, rank, world
        torch.manual_seed(7)
        self.model = torch.nn.Sequential(
            torch.nn.Embedding(len(LETTERS), 16),
            torch.nn.Flatten(),
            torch.nn.Linear(16 * CONTEXT, 64),
            torch.nn.Tanh(),
            torch.nn.Linear(64, len(LETTERS)),
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)
        self.codes = torch.tensor([LETTERS.index(letter) for letter in TEXT])
        self.losses: dict[int, float] = {}
        self.parent: int | None = None
        self.token = ""  #: shared by the ranks of one start: parts of an earlier one are not taken for theirs

    def tokens(self, step: int) -> float:
        """Of the whole run, once this step is done."""
        return float(step * BATCH * CONTEXT * self.world)

    def train_step(self, step: int) -> None:
        """One step of the gang."""
        drawn = torch.Generator().manual_seed(step * self.world + self.rank)
        begins = torch.randint(len(self.codes) - CONTEXT, (BATCH,), generator=drawn)
        seen = torch.stack([self.codes[at : at + CONTEXT] for at in begins])
        loss = torch.nn.functional.cross_entropy(self.model(seen), self.codes[begins + CONTEXT])
        self.optimizer.zero_grad()
        loss.backward()
        if self.world > 1:
            for parameter in self.model.parameters():
                assert parameter.grad is not None
                dist.all_reduce(parameter.grad)
                parameter.grad /= self.world
        self.optimizer.step()
        self.losses[step] = float(loss.detach())

    def save(self, step: int, tokens: float) -> None:
        """Each rank adds its part; the first one commits when all parts are there and verified."""
        saving = self.store.begin(step, self.attempt, rank=self.rank, writers=self.world, token=self.token)
        if self.rank == 0:
            whole = io.BytesIO()
            torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, whole)
            saving.add_bytes("model.pt", whole.getvalue())
        saving.add_bytes(f"rank-{self.rank}.json", json.dumps({"step": step}).encode())
        if self.rank == 0:
            saving.commit(tokens=int(tokens), parent=self.parent, framework="torch.save")
        else:
            saving.done()

    def load(self) -> int:
        """The step to go on after: of the newest verified checkpoint, the same on every rank; 0 for none."""
        # every byte is read: an altered one is found here, where the one before it can be taken
        newest = self.store.resume(self.attempt) if self.rank == 0 else None
        told: list[Any] = [newest, uuid.uuid4().hex]
        if self.world > 1:
            dist.broadcast_object_list(told)
        newest, self.token = told
        if newest is None:
            return 0
        kept = torch.load(io.BytesIO(self.store.read(newest, "model.pt")), weights_only=True)
        self.model.load_state_dict(kept["model"])
        self.optimizer.load_state_dict(kept["optimizer"])
        self.parent = newest.step
        return int(newest.step)


def main(arguments: list[str] | None = None, learner_of: type[Learner] = Learner) -> int:
    """Train from the newest checkpoint on; the exit code is returned."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    # whoever carries the run says both in the environment
    asked.add_argument("--store", default=os.environ.get("TENURE_STORE", "store"))
    asked.add_argument("--run", default=os.environ.get("TENURE_RUN", "example"))
    asked.add_argument("--steps", type=int, default=200)
    asked.add_argument("--save-every", type=int, default=50)
    asked.add_argument("--pace", type=float, default=0.0, help="seconds to wait in each step")
    asked.add_argument("--losses", type=Path, help="add each step's loss to this file")
    told = asked.parse_args(arguments)
    torch.set_num_threads(1)
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    hook = torch_hook(store_errors=(OSError, StoreUnavailable))
    with hook:
        place = hook.place
        learner = learner_of(Store(told.store, told.run), place.attempt, place.rank, place.world)
        first = learner.load() + 1
        if first > 1:
            hook.resumed(first - 1, learner.tokens(first - 1))

        def train_step(step: int) -> None:
            learner.train_step(step)
            time.sleep(told.pace)
            if told.losses is not None and place.rank == 0:
                with told.losses.open("a", encoding="utf-8") as log:
                    log.write(f"{step} {learner.losses[step].hex()}\n")

        steps = range(first, told.steps + 1)
        code = run(hook, steps, train_step, learner.save, learner.tokens, save_every=told.save_every)
    if dist.is_initialized():
        dist.destroy_process_group()
    return code


if __name__ == "__main__":
    sys.exit(main())
