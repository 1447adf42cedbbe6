"""A Hugging Face Trainer on the ranks that a test starts (accelerate, gloo), with its checkpoints in a store.

TEST_SIGNAL_STEP: in which step a signal comes to rank 1, and to no other.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import uuid
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import transformers
from numbers_to_sum import Numbers

from tenure.checkpoints.store import Store
from tenure.trainer.torch_loop import torch_hook
from tenure.trainer.transformers_callback import transformers_callback

warnings.simplefilter("ignore")
transformers.utils.logging.set_verbosity_error()
asked = argparse.ArgumentParser()
asked.add_argument("--store")
asked.add_argument("--steps", type=int)
asked.add_argument("--losses", type=Path)
told, _ = asked.parse_known_args()
signal_step = int(os.environ.get("TEST_SIGNAL_STEP", "-1"))
torch.set_num_threads(1)


class Tiny(torch.nn.Module):
    """What is dropped is drawn from each rank's own generator: a checkpoint has to hold them all."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.Dropout(0.3), torch.nn.Tanh(), torch.nn.Linear(8, 1)
        )

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        if dist.get_rank() == 1 and trainer.state.global_step + 1 == signal_step:
            os.kill(os.getpid(), signal.SIGTERM)
        loss = (self.layers(x) - labels).square().mean()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if dist.get_rank() == 0:
            with told.losses.open("a", encoding="utf-8") as log:
                log.write(f"{trainer.state.global_step + 1} {mean.item().hex()}\n")
        return {"loss": loss}


def commit(path: Path, step: int, tokens: float) -> None:
    with store.begin(step, hook.place.attempt) as saving:
        saving.add_directory(path, path.name)
        saving.commit(int(tokens), framework="transformers")


folder = Path(told.store)
store = Store(told.store, "example")
arguments: dict[str, Any] = {
    "output_dir": str(folder / "written"), "max_steps": told.steps, "per_device_train_batch_size": 4,
    "save_strategy": "no", "report_to": [], "use_cpu": True, "disable_tqdm": True, "seed": 7,
    "logging_strategy": "no", "ddp_backend": "gloo",
}  # fmt: skip
transformers.set_seed(7)
training = transformers.TrainingArguments(**arguments)  # joins the gang
hook = torch_hook()
callback = transformers_callback(hook, lambda step: step * 8.0, commit)
trainer = transformers.Trainer(Tiny(), training, train_dataset=Numbers(), callbacks=[callback])
callback.trainer = trainer
where: list[Any] = [None]
if hook.place.rank == 0:
    newest = store.resume(hook.place.attempt)
    if newest is not None:
        brought = folder / uuid.uuid4().hex
        store.download(newest, str(brought))
        where[0] = str(brought / f"checkpoint-{newest.step}")
dist.broadcast_object_list(where)
trainer.train(resume_from_checkpoint=where[0])
code = callback.leave()
dist.destroy_process_group()
sys.exit(code)
