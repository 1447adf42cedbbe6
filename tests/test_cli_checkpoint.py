"""`tenure checkpoint`: what it says, and with which status it ends."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from stores import save
from tenure.checkpoints import Store
from tenure.cli.main import app


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
    assert "← resume here" in said
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


def test_a_store_that_cannot_be_used_ends_with_1(store, place):
    for step in (1, 2, 3, 4):
        store.place.write(f"ckpt/{step}-1/b.bin", b"")
    assert "all are kept" in ran("prune", place, "llm", status=1)
    ran("copy", place, "llm", f"{place}-b", status=1)
    ran("commit", place, "llm", "9-1", status=1)
    assert "None of them can be resumed from" in ran("list", place, "llm")
