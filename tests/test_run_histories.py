"""A part of the drawn histories; all of them by `python tests/run_histories.py --histories 1000`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import run_histories
from tenure.runs import deadlines, deciding, watching

PART = 40


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 20])
def test_a_part_of_the_histories_ends_well(first: int) -> None:
    wrong = [
        history for seed in range(first, first + PART // 2) if (history := run_histories.one(seed)).wrong
    ]
    assert not wrong, "\n".join(f"seed {one.seed}: {one.wrong[:3]}" for one in wrong)


def judged(seeds: range) -> Iterator[str]:
    """What is wrong, history by history: who looks for one wrong stops at the first."""
    for seed in seeds:
        yield from run_histories.one(seed).wrong


@pytest.mark.slow
def test_histories_find_a_controller_and_a_trainer_that_leave_too_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exact = deadlines.ladder

    def late(end: float, terminates_s: float, **told: float):  # type: ignore[no-untyped-def]
        rungs = exact(end, terminates_s, **told)
        return rungs._replace(drain=rungs.term - 5.0, checkpoint=rungs.term - 10.0)

    monkeypatch.setattr(deadlines, "ladder", late)
    assert any("too late" in line or "taken down" in line for line in judged(range(6)))


@pytest.mark.slow
def test_histories_find_nodes_that_nobody_lets_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_wanted", lambda d, node: True)
    assert any(judged(range(12)))


@pytest.mark.slow
def test_histories_find_nodes_launched_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding.Deciding, "unseen", lambda self: 0)
    assert any("nodes at" in line for line in judged(range(40)))
