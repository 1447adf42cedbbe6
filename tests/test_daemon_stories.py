"""The live loop lives a scenario as the simulator plays it, line by line, and however often it is killed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from live_world import Life, first_difference, played_story
from strategies import scenarios
from tenure.daemon.patch import keyframe_of, same, state_from
from tenure.daemon.recover import replay, state_before
from tenure.daemon.state import book_of, state_of
from test_board import parts_that_differ

pytestmark = pytest.mark.core
SCENARIOS = Path(__file__).parent / "scenarios"
FILES = sorted(SCENARIOS.glob("*.yaml"))
HOUR = 3600
EXAMPLES = int(os.environ.get("TENURE_EXAMPLES", "15"))
tried = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
#: Those that take long to live through are lived for this long.
UNTIL_S = {"case_02": 20 * HOUR, "case_13": 20 * HOUR}
FEW = ("case_03", "case_05", "case_11", "case_14", "case_19", "s17", "s19", "s20")
QUICK = ("case_03", "case_11", "s20")


def until(path: Path) -> int | None:
    return next((until_s for name, until_s in UNTIL_S.items() if path.stem.startswith(name)), None)


def few() -> list[Any]:
    """Some that show much; those that take long are slow."""
    return marked([next(path for path in FILES if path.stem.startswith(name)) for name in FEW])


def marked(paths: list[Path]) -> list[Any]:
    return [
        pytest.param(path, id=path.stem, marks=() if path.stem.startswith(QUICK) else pytest.mark.slow)
        for path in paths
    ]


def is_open(path: Path) -> bool:
    """Whether all its work is constructed: drawn streams submit by what only a simulation sees."""
    return "\nworkload:" not in path.read_text(encoding="utf-8")


# --- the same decisions -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("path", marked([path for path in FILES if is_open(path)]))
def test_a_scenario_is_lived_as_it_is_played(path: Path, tmp_path: Path) -> None:
    life = Life(path, tmp_path, until_s=until(path)).live()
    assert first_difference(life.story(), played_story(path, until(path))) == ""
    assert life.engine.wrongs == []


@pytest.mark.slow
@tried
@given(scenarios())
def test_whatever_happens_is_lived_as_it_is_played(
    tmp_path_factory: pytest.TempPathFactory, scenario: dict[str, Any]
) -> None:
    life = Life(scenario, tmp_path_factory.mktemp("life")).live()
    assert first_difference(life.story(), played_story(scenario)) == ""
    assert life.engine.wrongs == []


# --- kept up = rebuilt --------------------------------------------------------------------------------


def check_books(life: Life) -> None:
    """The state by patches is the state; the book made of it is the book."""
    ledger, daemon = life.ledger, life.daemon
    book = daemon._book
    assert book is not None
    state = state_before(ledger, ledger.last_turn() + 1)
    assert state is not None
    assert same(state, state_of(book)) == []
    assert same(state_from(keyframe_of(state)), state) == []
    again = book_of(state, life.scenario.lab, book.policy, book.start)
    assert again.cards == book.cards
    rows = min(len(again.core.jobs), len(book.core.jobs))
    assert book.n_jobs <= rows
    kept = book.board._replace(
        stays=book.board.stays[:rows], entries=book.board.entries[: rows * len(book.lab.clusters)]
    )
    built = again.board._replace(
        stays=again.board.stays[:rows], entries=again.board.entries[: rows * len(book.lab.clusters)]
    )
    assert parts_that_differ(book.core, book.policy, kept, built, book.t) == []


@pytest.mark.slow
@pytest.mark.parametrize("path", few())
def test_the_book_of_the_record_is_the_book_kept_up(path: Path, tmp_path: Path) -> None:
    life = Life(path, tmp_path, check=check_books, until_s=8 * HOUR).live()
    assert life.turns >= 3


@pytest.mark.slow
@tried
@given(scenarios())
def test_the_book_of_the_record_is_the_book_kept_up_whatever_happens(
    tmp_path_factory: pytest.TempPathFactory, scenario: dict[str, Any]
) -> None:
    Life(scenario, tmp_path_factory.mktemp("life"), check=check_books).live()


# --- killed -------------------------------------------------------------------------------------------


def kill(life: Life) -> None:
    """The process is gone; another one starts."""
    life.daemon = life.wake_up()


@pytest.mark.slow
@pytest.mark.parametrize("path", few())
def test_killed_after_every_turn_it_tells_the_same_story(path: Path, tmp_path: Path) -> None:
    life = Life(path, tmp_path, check=kill, until_s=8 * HOUR).live()
    assert first_difference(life.story(), played_story(path, 8 * HOUR)) == ""


@pytest.mark.slow
@tried
@given(scenarios())
def test_killed_before_any_order_is_carried_out_it_tells_the_same_story(
    tmp_path_factory: pytest.TempPathFactory, scenario: dict[str, Any]
) -> None:
    life = Mortal(scenario, tmp_path_factory.mktemp("life")).live()
    assert first_difference(life.story(), played_story(scenario)) == ""
    assert life.engine.wrongs == []


class Killed(BaseException):
    """As `kill -9`: nothing after it happens."""


class Mortal(Life):
    """Each process dies when it is about to carry out the first order of a turn, and a new one starts."""

    def settle(self) -> None:
        while True:
            daemon, carry_out = self.daemon, self.engine.carry_out
            recorded = self.ledger.last_turn()

            def die(order: Any, recorded: int = recorded, carry_out: Any = carry_out) -> None:
                if self.ledger.last_turn() > recorded:
                    raise Killed
                carry_out(order)

            self.engine.carry_out = die  # type: ignore[method-assign]
            try:
                super().settle()
                return
            except Killed:
                self.daemon = self.wake_up()
            finally:
                self.engine.carry_out = carry_out  # type: ignore[method-assign]
                assert daemon is not None


# --- decided again ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("path", few()[:4])
def test_a_recorded_turn_decided_again_is_the_same(path: Path, tmp_path: Path) -> None:
    life = Life(path, tmp_path, until_s=6 * HOUR).live()
    for turn in range(2, life.ledger.last_turn() + 1):
        told = replay(life.ledger, turn, life.scenario.lab, life.policy)
        assert (told.same, told.same_state, told.same_code) == (True, True, True), told
