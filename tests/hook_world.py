"""A hook folder, a clock moved by hand, and a hook that looks when it is polled."""

from __future__ import annotations

import json
from pathlib import Path

from tenure.trainer import Hook, Place
from tenure.trainer.signals import Signals
from tenure.trainer.steady_clock import SteadyClock

NO_SIGNALS = ()


class Clocks:
    """A wall clock and a steady one, moved by hand."""

    def __init__(self) -> None:
        self.wall, self.steady = 1_000_000.0, 50.0

    def pass_s(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds

    def clock(self) -> SteadyClock:
        return SteadyClock(lambda: self.wall, lambda: self.steady)


def hook_of(folder: Path, clocks: Clocks, **more: object) -> Hook:
    options: dict[str, object] = {"clock": clocks.clock(), "signals": Signals(NO_SIGNALS), "env": {}}
    options |= {"thread": False, "place": Place(attempt=1)} | more
    return Hook(folder, **options)  # type: ignore[arg-type]


def put(folder: Path, name: str, **body: object) -> None:
    beside = folder / f".{name}"
    beside.write_text(json.dumps(body))
    beside.replace(folder / name)


def beat(folder: Path, rank: int = 0) -> dict[str, object]:
    return json.loads((folder / f"heartbeat-{rank}.json").read_text())
