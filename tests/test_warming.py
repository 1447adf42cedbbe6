"""The child that compiles for a server: does it run all that the server will, and is it gone when told?"""

from __future__ import annotations

import gc
import importlib
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

import tenure
from live_lab import LAB
from tenure.service.live import heap, warming
from tenure.settings.lab import lab_of

SOURCES = Path(tenure.__file__).parent
ROOMS = ("daemon", "service/live")


def entries() -> list[tuple[str, str]]:
    """(module, name) of every compiled call that a running server makes."""
    found = []
    for room in ROOMS:
        for path in sorted((SOURCES / room).glob("*.py")):
            module = f"tenure.{room.replace('/', '.')}.{path.stem}"
            for name in sorted(set(re.findall(r"\b(\w+_entry)\(", path.read_text(encoding="utf-8")))):
                found.append((module, name))
    return found


def test_the_child_runs_every_compiled_call_that_a_server_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    called: Counter[str] = Counter()

    def counted(name: str, known: Any) -> Any:
        def call(*given: Any) -> Any:
            called[name] += 1
            return known(*given)

        return call

    wanted = entries()
    assert {name for _, name in wanted} >= {
        "open_entry",
        "live_turn_entry",
        "next_instant_entry",
        "look_entry",
    }
    for module, name in wanted:
        there = importlib.import_module(module)
        monkeypatch.setattr(there, name, counted(name, getattr(there, name)))
    monkeypatch.setattr(warming, "take_stock", counted("take_stock_entry", warming.take_stock))
    warming.ask_all(lab_of(LAB))
    assert {name for _, name in wanted} - set(called) == set()


def test_the_child_is_ended_when_the_server_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_PLAIN", "1")
    lab = tmp_path / "lab.yaml"
    lab.write_text(yaml.safe_dump(LAB))
    warming.compile_aside(lab, lambda: False)  # comes back by itself
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setattr(warming.sys, "executable", str(slow))
    began = time.monotonic()
    warming.compile_aside(lab, lambda: True)
    assert time.monotonic() - began < 20


def test_rubbish_is_looked_for_among_all_objects_every_ten_minutes_only() -> None:
    before, now = gc.get_threshold(), [0.0]
    sweeper = heap.Sweeper(lambda: now[0])

    def sweeps() -> int:
        return int(gc.get_stats()[2]["collections"])

    try:
        sweeper.look()
        assert gc.get_threshold() == (*before[:2], heap.NEVER)
        done = sweeps()
        now[0] = heap.SWEEP_EVERY_S - 1
        sweeper.look()
        kept = [[n] for n in range(300_000)]  # would have been enough for one
        assert sweeps() == done
        now[0] += 1
        sweeper.look()
        assert sweeps() == done + 1
        assert len(kept) == 300_000
    finally:
        gc.set_threshold(*before)


def test_a_machine_without_these_calls_keeps_its_heap_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap.ctypes, "CDLL", lambda _: object())
    heap.keep_small()
    heap.give_back()
