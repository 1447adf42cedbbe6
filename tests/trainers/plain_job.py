"""A loop with the hook and nothing else: FOLDER STEPS. Each save writes the step into a file of its rank."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tenure.trainer import Hook

folder, steps = Path(sys.argv[1]), int(sys.argv[2])
with Hook.from_env() as hook:
    kept = folder / f"kept-{hook.place.rank}"
    first = int(kept.read_text()) + 1 if kept.exists() else 1
    for step in range(first, steps + 1):
        time.sleep(0.02)
        answer = hook.poll(step, float(step))
        if answer.saves:
            with hook.saving(step):
                kept.write_text(str(step))
        if answer.drains:
            sys.exit(hook.leave())
    with hook.saving(steps):
        kept.write_text(str(steps))
    sys.exit(hook.finish())
