"""A Hugging Face job that can be drained: FOLDER STEPS [--signal-at N] [--drain-in-eval N]. Prints losses."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
import transformers
from numbers_to_sum import Numbers

from tenure.trainer import Hook
from tenure.trainer.transformers_callback import transformers_callback

warnings.simplefilter("ignore")
folder, steps = Path(sys.argv[1]), int(sys.argv[2])
options = dict(zip(sys.argv[3::2], map(int, sys.argv[4::2])))
losses: dict[int, str] = {}
evals = 0


class Tiny(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        global evals
        loss = (self.layer(x) - labels).square().mean()
        if self.training:
            step = trainer.state.global_step + 1
            losses[step] = loss.item().hex()
            if options.get("--signal-at") == step:
                os.kill(os.getpid(), signal.SIGTERM)
        else:
            evals += 1
            if options.get("--drain-in-eval") == evals:
                request = {"id": "e", "kind": "drain", "deadline": None, "reason": "in an evaluation"}
                (folder / "hook" / "request.json").write_text(json.dumps(request))
        return {"loss": loss, "logits": self.layer(x)}


def commit(path: Path, step: int, tokens: float) -> None:
    shutil.rmtree(folder / "kept", ignore_errors=True)
    shutil.copytree(path, folder / "kept" / path.name)


transformers.set_seed(7)
hook = Hook(folder / "hook", thread=False)
callback = transformers_callback(hook, lambda step: step * 32.0, commit)
arguments: dict[str, Any] = {
    "output_dir": str(folder / "written"), "max_steps": steps, "per_device_train_batch_size": 4,
    "per_device_eval_batch_size": 4, "save_strategy": "no", "eval_strategy": "steps", "eval_steps": 5,
    "report_to": [], "use_cpu": True, "disable_tqdm": True, "seed": 7, "logging_strategy": "no",
}  # fmt: skip
trainer = transformers.Trainer(
    Tiny(), transformers.TrainingArguments(**arguments), train_dataset=Numbers(), eval_dataset=Numbers(),
    callbacks=[callback],
)  # fmt: skip
callback.trainer = trainer
kept = next(iter((folder / "kept").glob("checkpoint-*")), None)
code = 1
try:
    trainer.train(resume_from_checkpoint=str(kept) if kept else None)
    code = callback.leave()
except SystemExit as left:
    code = int(left.code or 0)
print(json.dumps({"losses": losses, "code": code, "step": trainer.state.global_step}))
sys.exit(code)
