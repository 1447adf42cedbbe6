"""A training for trying things: it counts, saves, resumes. No GPU, no framework: Python and Tenure.

    TENURE_HOOK=hook python examples/own/count.py --steps 200

A step waits for `--pace` and draws one number; the sum of all is what is learned. Whoever resumes goes on
from the newest verified checkpoint, so however often it is interrupted it ends with the same sum.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time

from tenure.checkpoints.store import Store
from tenure.checkpoints.words import StoreError
from tenure.trainer import Hook


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    asked.add_argument("--store", default=os.environ.get("TENURE_STORE", "store"))
    asked.add_argument("--run", default=os.environ.get("TENURE_RUN", "example"))
    asked.add_argument("--steps", type=int, default=200)
    asked.add_argument("--pace", type=float, default=0.05, help="seconds a step")
    asked.add_argument("--tokens", type=float, default=1000.0, help="a step")
    told = asked.parse_args()
    store = Store(told.store, told.run)
    with Hook.from_env(store_errors=(OSError, StoreError)) as hook:
        newest = store.newest_verified(deep=True)
        store.take_over(hook.place.attempt, newest)
        learned = {"step": 0, "sum": 0.0} if newest is None else json.loads(store.read(newest, "state.json"))

        def save(step: int) -> None:
            with hook.saving(step, step * told.tokens):
                saving = store.begin(step, hook.place.attempt)
                saving.add_bytes("state.json", json.dumps(learned).encode())
                saving.commit(tokens=int(step * told.tokens), framework="json")

        for step in range(learned["step"] + 1, told.steps + 1):
            time.sleep(told.pace)
            learned = {"step": step, "sum": learned["sum"] + random.Random(step).random()}
            answer = hook.poll(step, step * told.tokens)
            if answer.saves:
                save(step)
            if answer.drains:
                return hook.leave()
        save(told.steps)
        return hook.finish()


if __name__ == "__main__":
    sys.exit(main())
