"""A run's trainer on the controller's machine: what it is told, and where a person finds what it said."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from local_site import until
from run_world import run_of
from tenure.engines.local.engine import LocalEngine
from tenure.providers.protocol import RESERVED, RUNNING, Node
from tenure.runs.launching import EngineTrainer
from tenure.runs.look import ENDED, TrainerSeen

GANG = [Node(f"n{which}", RUNNING, "own", "march", RESERVED, "", 0.0) for which in (1, 2)]


@contextmanager
def trainer_of(folder: Path, **launch: Any) -> Iterator[EngineTrainer]:
    engine = LocalEngine(folder / "engine", {"here": 1})
    try:
        yield EngineTrainer(run_of(folder, launch=launch), engine, "here")
    finally:
        engine.close()


def ended(trainer: EngineTrainer) -> TrainerSeen:
    until(lambda: trainer.seen(1).state == ENDED)
    return trainer.seen(1)


def test_a_trainer_is_told_the_gang_and_not_the_machine_that_starts_it(tmp_path: Path) -> None:
    say = 'printf "%s %s %s" "$TENURE_NODES" "$TENURE_HOSTS" "$TENURE_WINDOW" > told'
    with trainer_of(tmp_path, command=["bash", "-c", say]) as trainer:
        trainer.start(1, GANG)
        assert ended(trainer).exit_code == 0
    assert (tmp_path / "told").read_text() == "2 n1,n2 march"


def test_a_trainer_that_fails_is_told_with_the_file_of_what_it_wrote(tmp_path: Path) -> None:
    with trainer_of(tmp_path, command=["bash", "-c", "echo cannot find the data; exit 3"]) as trainer:
        trainer.start(1, GANG)
        detail = ended(trainer).detail
    assert detail.startswith("exit 3")
    named = next(Path(word) for word in detail.split() if word.startswith("/"))
    assert named.read_text() == "cannot find the data\n"
