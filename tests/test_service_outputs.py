"""Files are whole or absent, and refused before the work."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tenure.service.outputs import check_writable, json_text, placed, write_json
from tenure.settings.errors import BadInput


def test_a_file_appears_whole_and_nothing_else_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "story.jsonl.gz"
    with placed(target) as draft:
        assert draft.parent == tmp_path
        assert "".join(draft.suffixes[-2:]) == ".jsonl.gz"  # writers choose by suffix
        draft.write_text("all of it")
        assert not target.exists()
    assert target.read_text() == "all of it"
    assert list(tmp_path.iterdir()) == [target]


def test_what_fails_half_way_leaves_the_old_file_as_it_was(tmp_path: Path) -> None:
    target = tmp_path / "numbers.json"
    target.write_text("old")

    def fail() -> None:
        with placed(target) as draft:
            draft.write_text("half")
            raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError):
        fail()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_link_stays_a_link_and_a_device_a_device(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    link.symlink_to(real)
    write_json({"a": 1}, link)
    assert link.is_symlink()
    assert json.loads(real.read_text()) == {"a": 1}
    write_json({"a": 1}, Path("/dev/null"))
    assert not Path("/dev/null").is_file()


def test_output_paths_are_refused_before_the_work(tmp_path: Path) -> None:
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text("lab: x")
    good = tmp_path / "out.json"
    check_writable(good, None, tmp_path / "page.html", inputs=(scenario,))
    assert not good.exists()
    for paths, complaint in [
        ((tmp_path,), "a folder"),
        ((tmp_path / "nowhere" / "out.json",), "no folder"),
        ((scenario,), "a file this command reads"),
        ((good, good), "the same file for two outputs"),
    ]:
        with pytest.raises(BadInput, match=complaint):
            check_writable(*paths, inputs=(scenario,))


def test_json_holds_plain_numbers_and_null_for_what_is_none() -> None:
    told = json.loads(
        json_text(
            {
                "n": np.int64(3),
                "ratio": float("nan"),
                "wait": np.float64("inf"),
                "rows": np.arange(2),
                "pair": (1, None),
                "yes": np.bool_(True),
            }
        )
    )
    assert told == {"n": 3, "ratio": None, "wait": None, "rows": [0, 1], "pair": [1, None], "yes": True}
