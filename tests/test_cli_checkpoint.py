"""`tenure checkpoint`: what it says, and with which status it ends."""

from __future__ import annotations

import json
import os

import pytest
from rich.cells import cell_len
from rich.console import Console
from typer.testing import CliRunner

from stores import save
from tenure.checkpoints import Keep, Store
from tenure.cli import tables_of_checkpoints
from tenure.cli.main import app
from tenure.service import checkpoints as asking


def ran(*words: str, status: int = 0) -> str:
    told = CliRunner().invoke(app, ["checkpoint", *words])
    assert told.exit_code == status, told.output
    return told.output


@pytest.fixture
def place(tmp_path):
    return str(tmp_path / "a")


@pytest.fixture
def store(place):
    made = Store(place, "llm")
    for step in (1, 2, 3, 4):
        save(made, step, final=step == 1)
    return made


def test_a_list_shows_all_that_lies_there_and_where_to_resume(store, place):
    store.begin(5, 1).add_bytes("half.bin", b"x")
    said = ran("list", place, "llm")
    assert "Resume from 4-1" in said
    assert "partial" in said
    told = json.loads(ran("list", place, "llm", "--json", "-"))
    assert told["newest"] == "4-1"
    assert [one["state"] for one in told["checkpoints"]] == ["committed"] * 4 + ["partial"]
    assert "Nothing of other" in ran("list", place, "other")


def test_what_is_damaged_is_said_and_ends_with_1(store, place):
    assert "sound" in ran("verify", place, "llm", "--deep")
    store.place.write("ckpt/3-1/b.bin", b"0123456789")
    ran("verify", place, "llm")
    told = json.loads(ran("verify", place, "llm", "--deep", "--json", "-", status=1))
    assert [one["name"] for one in told["checkpoints"] if not one["sound"]] == ["3-1"]
    assert "altered" in ran("verify", place, "llm", "3", "--deep", status=1)
    ran("verify", place, "llm", "4-1", "--deep")


def test_a_copy_says_how_far_it_is_and_is_a_checkpoint_there(store, place, tmp_path):
    there = str(tmp_path / "b")
    told = json.loads(ran("copy", place, "llm", there, "--dry-run", "--gb-per-s", "0.000001", "--json", "-"))
    assert (told["bytes_to_go"], told["expected_s"], told["copied"]) == (1010, 1.01, False)
    assert not (tmp_path / "b").exists()
    for _ in range(2):
        assert "committed" in ran("copy", place, "llm", there)
    assert Store(there, "llm").newest_verified(deep=True) == store.newest_verified()
    assert json.loads(ran("copy", place, "llm", there, "--dry-run", "--json", "-"))["bytes_to_go"] == 0


def test_pruning_says_what_goes_and_why_the_rest_stays(store, place):
    told = json.loads(ran("prune", place, "llm", "--keep", "1", "--dry-run", "--json", "-"))
    assert told["deleted"] == ["2-1", "3-1"]
    assert len(store.checkpoints()) == 4
    said = ran("prune", place, "llm", "--keep", "1")
    assert "final" in said
    assert [one.step for one in store.checkpoints()] == [1, 4]


def test_a_save_of_a_writer_that_died_can_be_committed_by_hand(store, place):
    store.place.delete(["COMMITTED/4"])
    assert json.loads(ran("list", place, "llm", "--json", "-"))["newest"] == "3-1"
    assert "4-1 is committed" in ran("commit", place, "llm", "4-1")
    assert store.newest_verified(deep=True).step == 4


@pytest.mark.parametrize(
    "words",
    [
        ["list", "PLACE", "a/b"],
        ["list", "gopher://x", "llm"],
        ["verify", "PLACE", "llm", "five"],
        ["verify", "PLACE", "llm", "99"],
        ["copy", "PLACE", "other", "THERE"],
        ["prune", "PLACE", "llm", "--every", "often"],
        ["prune", "PLACE", "llm", "--keep", "0"],
        ["commit", "PLACE", "llm", "4"],
        ["list", "PLACE", "llm", "--option", "x"],
    ],
)
def test_a_question_that_is_wrong_ends_with_2_and_nothing_is_done(words, store, place, tmp_path):
    names = {"PLACE": place, "THERE": str(tmp_path / "there")}
    said = ran(*[names.get(word, word) for word in words], status=2)
    assert "Traceback" not in said
    assert not (tmp_path / "there").exists()
    assert len(store.checkpoints()) == 4


@pytest.mark.slow
def test_a_store_that_cannot_be_used_ends_with_1(store, place):
    for step in (1, 2, 3, 4):
        store.place.write(f"ckpt/{step}-1/b.bin", b"")
    assert "all are kept" in ran("prune", place, "llm", status=1)
    ran("copy", place, "llm", f"{place}-b", status=1)
    ran("commit", place, "llm", "9-1", status=1)
    assert "None of them can be resumed from" in ran("list", place, "llm")


@pytest.mark.parametrize("columns", [60, 72, 80, 120])
def test_every_table_fits_a_narrow_screen_and_loses_nothing_that_matters(columns, tmp_path):
    store = Store(str(tmp_path / "a"), "llm-70b")
    for step in (118_000, 120_000, 122_500):
        save(store, step, 3, final=step == 120_000)
    store.place.delete(["COMMITTED/122500"])
    store.begin(125_000, 3).add_bytes("half.bin", b"x" * 4000)
    store.place.write("ckpt/118000-3/b.bin", b"0123456789")
    tables = {
        tables_of_checkpoints.listed: asking.listed(store),
        tables_of_checkpoints.verified: asking.verified(store, deep=True),
        tables_of_checkpoints.pruned: asking.pruned(store, asking.rule(1, None, "24h"), dry=True),
    }
    said = {}
    for table, answer in tables.items():
        console = Console(width=columns, highlight=False, markup=False, emoji=False)
        with console.capture() as drawn:
            table(console, answer)
        said[table] = drawn.get()
        assert max(cell_len(line) for line in said[table].splitlines()) <= columns
    for name in ("118000-3", "120000-3", "122500-3", "125000-3"):
        assert name in said[tables_of_checkpoints.listed]
    assert "…" not in said[tables_of_checkpoints.listed]
    flat = " ".join(said[tables_of_checkpoints.listed].split())
    for word in (
        "final: committed",
        "Resume from 120000-3",
        "partial: not committed",
        "`tenure checkpoint commit` makes it one",
    ):
        assert word in flat
    assert "118000-3: b.bin is altered: its hash is another" in said[tables_of_checkpoints.verified]
    assert "the last" in said[tables_of_checkpoints.pruned]


def aged(store: Store, name: str, days: float) -> None:
    path = store.place.root / "VERIFIED" / name
    at = path.stat().st_mtime - days * 86400
    os.utime(path, (at, at))


def test_only_what_was_not_read_in_full_for_so_long_is_due(store, place):
    def due() -> list[str]:
        told = json.loads(ran("verify", place, "llm", "--due", "7d", "--json", "-"))
        return [one["name"] for one in told["checkpoints"]]

    assert due() == ["1-1", "2-1", "3-1", "4-1"], "none was ever read"
    assert due() == []
    assert "Nothing is due" in ran("verify", place, "llm", "--due", "7d")
    aged(store, "2-1", 8)
    aged(store, "3-1", 9)
    aged(store, "1-1", 6)
    assert due() == ["3-1", "2-1"], "the longest ago first"
    store.place.write("ckpt/2-1/b.bin", b"0123456789")
    assert due() == [], "it is not looked at each time"
    aged(store, "2-1", 8)
    for _ in range(2):
        assert "2-1: b.bin is altered" in ran("verify", place, "llm", "--due", "7d", status=1), "until mended"
    ran("verify", place, "llm", "2", "--due", "7d", status=2)
    ran("verify", place, "llm", "--due", "soon", status=2)


def test_what_was_pruned_leaves_no_note_for_one_that_has_its_name_later(store, place):
    ran("verify", place, "llm", "--deep")
    assert ran("prune", place, "llm", "--keep", "1")
    left = {path.rsplit("/", 1)[-1] for path in store.place.files("VERIFIED")}
    assert left == {"1-1", "4-1"}


def test_what_takes_long_tells_how_far_it_is(store, place, tmp_path):
    """Bars are moved from nothing to the whole, and never back."""

    def moves(ask) -> list[float]:
        came: list[tuple[float, str]] = []
        ask(lambda part, doing: came.append((part, doing)))
        parts = [part for part, _ in came]
        assert parts == sorted(parts)
        assert all(0 <= part <= 1 for part in parts)
        return parts

    there = Store(str(tmp_path / "b"), "llm")
    assert moves(lambda move: asking.verified(store, deep=True, progress=move))[-1] == 1
    assert moves(lambda move: asking.verified(store, progress=move))[-1] == 1
    assert moves(lambda move: asking.copied(store, there, progress=move))[-1] == 1
    for deep in (True, False):
        dry = moves(
            lambda move, deep=deep: asking.pruned(store, Keep(last=1), deep=deep, dry=True, progress=move)
        )
        assert len(dry) >= 4
        assert dry[-1] == 0.5
    gone = moves(lambda move: asking.pruned(store, Keep(last=1), progress=move))
    assert len(set(gone)) == 5, "each of the four that is verified, and each of the two that goes"
