"""Runs side by side: medians over seeds, what is better, lines and maps over knobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stories import random_story
from tenure.audit.measures import measure
from tenure.report.comparison import headline_sheet, spread_text, write_comparison
from tenure.report.sweeps import heat_map, knob_frame
from tenure.report.variants import swept_values, variants_of
from tenure.report.yardsticks import YARDSTICKS, best_of

DELIVERED = YARDSTICKS[0]
LOST = next(y for y in YARDSTICKS if y.path == ("gpu_hours", "lost"))
BAD = "<script>alert(1)</script>"


def a_run(policy: str, seed: int, total: float = 0.9, **settings: str) -> dict[str, Any]:
    measures = measure(random_story(seed)).to_dict()
    measures["delivered"]["total"] = total
    return {
        **measures,
        "policy": policy,
        "seed": seed,
        "set": {f"policy.{k}": v for k, v in settings.items()},
    }


def test_policies_stand_side_by_side(tmp_path: Path) -> None:
    runs = [a_run(policy, seed) for policy in ("budget", "window", BAD) for seed in (1, 2)]
    write_comparison(runs, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text.count("<script>") == 1
    assert "&lt;script&gt;alert(1)" in text
    for path in ("p/x", "q", "z"):
        assert path in text


def test_seeds_of_a_policy_are_one_column_with_their_range() -> None:
    runs = [a_run("budget", seed, total) for seed, total in ((1, 0.9), (2, 0.95), (3, 0.99))]
    (variant,) = variants_of(runs)
    assert variant.spread(DELIVERED) == (0.95, 0.9, 0.99)
    assert spread_text(DELIVERED, variant.spread(DELIVERED)) == "95.0 % (90.0 … 99.0)"


def test_the_better_one_is_marked_and_a_tie_is_not() -> None:
    assert best_of(DELIVERED, [0.9, 0.95, None]) == {1}
    assert best_of(LOST, [10.0, 20.0]) == {0}
    assert best_of(DELIVERED, [0.9501, 0.9502]) == set()
    sheet = headline_sheet(variants_of([a_run("budget", 1, 0.9), a_run("window", 1, 0.8)]))
    looks = [cell.look for cell in sheet.rows[0].cells]
    assert looks == ["text", "better", "", ""]


def test_what_differs_names_a_variant() -> None:
    runs = [a_run("budget", 1, lookback=value, tick="300") for value in ("1d", "7d")]
    assert swept_values(runs) == {"policy.lookback": ["1d", "7d"]}
    assert [variant.name for variant in variants_of(runs)] == ["lookback 1d", "lookback 7d"]


def test_one_knob_is_a_line_two_are_a_map(tmp_path: Path) -> None:
    runs = [
        a_run("budget", 1, total, lookback=back, max_protected=most)
        for back, most, total in (("1d", "2h", 0.8), ("1d", "8h", 0.85), ("7d", "2h", 0.9), ("7d", "8h", 1.0))
    ]
    variants, swept = variants_of(runs), swept_values(runs)
    found = heat_map(DELIVERED, variants, list(swept), list(swept.values()))
    assert found is not None
    assert [[square.text for square in squares] for _, squares in found.rows] == [
        ["80.0 %", "85.0 %"],
        ["90.0 %", "100.0 %"],
    ]
    assert found.rows[1][1][1].shade == 1
    frame = knob_frame(DELIVERED, variants, "policy.lookback", swept["policy.lookback"])
    assert frame is not None
    assert [label.text for label in frame.labels if label.text] == ["82.5 %", "95.0 %"]
    for name, chosen in (("two", runs), ("one", runs[:2]), ("none", runs[:1])):
        write_comparison(chosen, tmp_path / f"{name}.html")
        assert "All runs" in (tmp_path / f"{name}.html").read_text(encoding="utf-8")


def test_three_knobs_and_many_runs_become_a_page(tmp_path: Path) -> None:
    measures = a_run("budget", 1)
    runs = [
        {**measures, "set": {"policy.a": str(a), "policy.b": str(b), "policy.c": str(c)}}
        for a in range(3)
        for b in range(4)
        for c in range(5)
    ]
    write_comparison(runs, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    for knob in ("policy.a", "policy.b", "policy.c"):
        assert f"<h3>{knob}</h3>" in text


def test_runs_without_numbers_are_shown_as_dashes(tmp_path: Path) -> None:
    empty = {"policy": "budget", "seed": 1, "set": {}, "delivered": {"total": None, "accounts": {}}}
    write_comparison([empty, {**empty, "policy": "window"}], tmp_path / "page.html")
    assert "–" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_no_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing to compare"):
        write_comparison([], tmp_path / "page.html")
