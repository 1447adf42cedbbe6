"""Lightning on the ranks that a test starts, with an agreement over its process group."""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from pathlib import Path

import lightning
import torch

from tenure.trainer import Hook, over_torch
from tenure.trainer.lightning_callback import lightning_callback
from tenure.trainer.watcher import USUAL

warnings.simplefilter("ignore")
asked = argparse.ArgumentParser()
asked.add_argument("--store")
asked.add_argument("--steps", type=int)
told, _ = asked.parse_known_args()
folder = Path(told.store)


class Tiny(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
        time.sleep(0.05)
        return self.layer(batch).square().mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)


data = torch.utils.data.DataLoader(torch.ones(64, 4), batch_size=4)
hook = Hook(os.environ["TENURE_HOOK"], agree=over_torch(), times=USUAL._replace(beat_s=0.2, look_s=0.2))
callback = lightning_callback(hook, folder, lambda step: float(step))
trainer = lightning.Trainer(
    max_steps=told.steps, max_epochs=-1, callbacks=[callback], accelerator="cpu", devices=2, strategy="ddp",
    logger=False, enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
    default_root_dir=folder,
)  # fmt: skip
trainer.fit(Tiny(), data)
sys.exit(callback.leave())
