"""The child that compiles for a server: does it run all that the server will, and is it gone when told?"""

from __future__ import annotations

import gc
import importlib
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

import tenure
from live_lab import LAB
from live_server import Served, wait_for
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
    assert warming.ask_all(lab_of(LAB))
    assert {name for _, name in wanted} - set(called) == set()


#: Runs what follows; then says which entries were called, by signature, and which were compiled here.
TELLS = """
import json, sys
from numba.core.dispatcher import Dispatcher

into, asked = sys.argv.pop(1), sys.argv.pop(1)
try:
    exec(asked)
finally:
    ran, compiled = [], []
    for name in [name for name in sys.modules if name.startswith("tenure.")]:
        for one in vars(sys.modules[name]).values():
            if isinstance(one, Dispatcher) and one.stats.cache_path:  # an entry: kernels are parts of them
                ran += [f"{one.__qualname__}{signature}" for signature in one.signatures]
                compiled += [one.__qualname__] if one.stats.cache_misses else []
    with open(into, "w") as out:
        json.dump([sorted(set(ran)), sorted(set(compiled))], out)
"""
COMPILES = (
    "from tenure.service.live.warming import compile_all as do; from tenure.settings.lab import read_lab; "
)
COMPILES += "from pathlib import Path; do(read_lab(Path(sys.argv[1])))"
SERVES = "from tenure.cli.main import main; main()"


def asked_of_everything(served: Served) -> None:
    with served.client() as lab:
        job = lab.submit(account="a", gpus=8, min_runtime=600, command=["sleep", "600"]).job
        waits = lab.submit(account="b/x", gpus=16, min_runtime=600, command=["true"]).job
        lab.why(waits)
        lab.why_if(account="a", gpus=16)
        lab.hold(waits)
        lab.release(waits)
        lab.set_node("mars-0001", "drain", "fan")
        lab.queue()
        lab.show(waits)
        lab.accounts()
        lab.cancel(job)
        wait_for("it has left", lambda: lab.show(job).phase == "ended")


@pytest.mark.slow
def test_after_the_child_a_server_compiles_nothing(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    environment = {name: value for name, value in os.environ.items() if name != "TENURE_PLAIN"}

    def words(what: str, *more: str) -> list[str]:
        return [sys.executable, "-c", TELLS, str(tmp_path / "told"), what, *more]

    def told() -> tuple[set[str], list[str]]:
        ran, compiled = json.loads((tmp_path / "told").read_text())
        return set(ran), compiled

    file, data = tmp_path / "lab.yaml", tmp_path / "data"
    quick = {**LAB, "policy": {"grace": {"budgeted": "1s"}}}
    file.write_text(yaml.safe_dump(quick))
    subprocess.run(words(COMPILES, str(file)), env=environment, check=True)
    child, _ = told()
    more_nodes = {**quick, "clusters": {"mars": {"nodes": 3, "gpus_per_node": 8}}}
    for lab in (quick, more_nodes):  # and comes back to another lab
        file.write_text(yaml.safe_dump(lab))
        options = ("serve", str(file), "--engine", "fake", "--data", str(data), "--port", "0")
        process = subprocess.Popen(
            words(SERVES, *options),
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        served = Served(process, data)
        try:
            served.wait_until_up()
            asked_of_everything(served)
        finally:
            status = served.end()
        assert status == 0, "".join(served.said)
        ran, compiled = told()
        assert compiled == []
        assert ran
        assert ran <= child


def test_what_a_simulation_left_in_the_cache_is_not_all_that_a_server_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "0123456789abcdef"
    folder.mkdir()
    (folder / "some.nbi").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(folder))
    monkeypatch.setenv("TENURE_CACHE", str(tmp_path))
    monkeypatch.setattr(warming, "COMPILED", True)
    monkeypatch.setattr(warming, "ask_all", lambda lab: bool(lab))
    assert not warming.is_compiled()
    warming.compile_all(None)  # type: ignore[arg-type]
    assert not warming.is_compiled()
    warming.compile_all(lab_of(LAB))
    assert warming.is_compiled()
    monkeypatch.setattr(warming, "COMPILED", False)
    assert warming.is_compiled()


@pytest.mark.slow
def test_the_child_is_ended_when_the_server_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_PLAIN", "1")
    lab = tmp_path / "lab.yaml"
    lab.write_text(yaml.safe_dump(LAB))
    warming.compile_aside(lab, lambda: False)  # comes back by itself
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 300\n")
    slow.chmod(0o755)
    monkeypatch.setattr(warming.sys, "executable", str(slow))
    began = time.monotonic()
    warming.compile_aside(lab, lambda: True)
    assert time.monotonic() - began < 200


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_machine_without_these_calls_keeps_its_heap_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap.ctypes, "CDLL", lambda _: object())
    heap.keep_small()
    heap.give_back()
