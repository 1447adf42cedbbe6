"""A Lightning job that can be drained: FOLDER STEPS [--signal-at N] [--drain-in-eval N]. Prints losses."""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from pathlib import Path

import lightning
import torch

from tenure.trainer import Hook
from tenure.trainer.lightning_callback import lightning_callback

warnings.simplefilter("ignore")
folder, steps = Path(sys.argv[1]), int(sys.argv[2])
options = dict(zip(sys.argv[3::2], map(int, sys.argv[4::2])))
losses: dict[int, str] = {}


class Tiny(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.evals = 0

    def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
        drawn = torch.Generator().manual_seed(self.global_step)  # the data follow the step, wherever it runs
        told = torch.randn(8, 4, generator=drawn)
        loss = (self.layer(told) - told.sum(dim=1, keepdim=True)).square().mean()
        losses[self.global_step + 1] = loss.item().hex()
        if options.get("--signal-at") == self.global_step + 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return loss

    def validation_step(self, batch: torch.Tensor, index: int) -> None:
        self.evals += 1
        if options.get("--drain-in-eval") == self.evals:
            request = {
                "id": "e",
                "kind": "drain",
                "deadline": None,
                "reason": "in the middle of an evaluation",
            }
            (folder / "hook" / "request.json").write_text(json.dumps(request))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.05)


lightning.seed_everything(7)
data = torch.utils.data.DataLoader(torch.zeros(40, 1), batch_size=4)
hook = Hook(folder / "hook", thread=False)
callback = lightning_callback(
    hook,
    folder / "written",
    lambda step: step * 32.0,
    lambda path, step, tokens: path.replace(folder / "kept.ckpt"),
)
trainer = lightning.Trainer(
    max_steps=steps, max_epochs=-1, min_steps=steps, callbacks=[callback], accelerator="cpu", logger=False,
    enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
    default_root_dir=folder, val_check_interval=5, num_sanity_val_steps=1,
)  # fmt: skip
kept = folder / "kept.ckpt"
code = 1
try:
    trainer.fit(Tiny(), data, data, ckpt_path=str(kept) if kept.exists() else None, weights_only=False)
    code = callback.leave()
except SystemExit as left:
    code = int(left.code or 0)
print(json.dumps({"losses": losses, "code": code, "step": trainer.global_step}))
sys.exit(code)
