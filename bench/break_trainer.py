"""Does a trainer with its store keep what it says, whatever breaks? Many drawn runs, each of several lives.

    python bench/break_trainer.py --runs 500

Disks fill, networks go, answers get lost, clocks jump, processes die at any change they make; after each life
all that counts is read to the byte. A run that does not hold is named by its seed and ends it with status 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.progress import track

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from trainer_breaker import Told, broken_together  # noqa: E402


def main() -> int:
    """Play them, print what happened."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--runs", type=int, default=200)
    asked.add_argument("--first", type=int, default=0, help="the first seed")
    asked.add_argument("--lives", type=int, default=8)
    asked.add_argument("--folder", default="/dev/shm" if Path("/dev/shm").is_dir() else None)
    told = asked.parse_args()
    console, total, wrong = Console(), Told(), []
    began = time.monotonic()
    for seed in track(range(told.first, told.first + told.runs), "breaking", console=console):
        with tempfile.TemporaryDirectory(dir=told.folder) as folder:
            try:
                one = broken_together(Path(folder), seed, told.lives)
            except AssertionError as said:
                wrong.append((seed, said))
                continue
        total.lives += one.lives
        total.faults += one.faults
        total.steps += one.steps
        total.saves += one.saves
        total.failed_saves += one.failed_saves
        total.pruned += one.pruned
    console.print(
        f"{told.runs} runs, {total.lives.total()} lives, {total.steps:,} steps, {total.saves:,} saves kept, "
        f"{total.failed_saves:,} failed, {total.pruned:,} pruned, {time.monotonic() - began:.0f} s"
    )
    for word, counted in (("lives ended", total.lives), ("faults", total.faults)):
        console.print(word, _sorted(counted))
    for seed, said in wrong:
        console.print(f"seed {seed} does not hold: {said}")
    return 1 if wrong else 0


def _sorted(counted: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counted.most_common())


if __name__ == "__main__":
    sys.exit(main())
