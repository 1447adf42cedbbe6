"""What people write on the command line, and how numbers are written back."""

from __future__ import annotations

import pytest
import typer

from tenure.cli.figures import count, duration, gpu_hours, instant, percent, points, significant
from tenure.cli.options import assignments, column_map, names, seed_list, value_lists


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (15, "15 s"),
        (60, "1 min"),
        (90, "90 s"),
        (411, "6 min 51 s"),
        (600, "10 min"),
        (3599.6, "60 min"),
        (3600, "1 h"),
        (5400, "1.5 h"),
        (6480, "1.8 h"),
        (86400, "1 d"),
        (100_000, "27.8 h"),
        (7 * 86400, "7 d"),
        (-90, "-90 s"),
        (None, "–"),
        (float("nan"), "–"),
    ],
)
def test_a_duration_is_written_in_the_unit_people_would_use(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_ratio_below_one_is_never_rounded_to_the_whole() -> None:
    assert percent(0.99996) == "99.9 %"
    assert percent(1.0) == "100 %"
    assert percent(0.9873) == "98.7 %"
    assert percent(0.0) == "0 %"
    assert percent(None) == "–"


def test_numbers_are_short_and_keep_their_thousands_apart() -> None:
    assert significant(12345.6) == "12,346"
    assert significant(98.76) == "98.8"
    assert significant(0.256) == "0.26"
    assert significant(20.0) == "20"
    assert count(1_000_000) == "1,000,000"
    assert gpu_hours(12.34) == "12.3"
    assert gpu_hours(0) == "0"
    assert points(-0.0123) == "-1.2"
    assert points(0.05) == "+5.0"


def test_an_instant_is_days_and_clock_with_the_date_where_it_is_known() -> None:
    assert instant(3 * 86400 + 4 * 3600 + 5) == "3 d 04:00:05"
    assert instant(7200) == "02:00"
    assert instant(86400, "2026-01-05T00:00:00Z") == "1 d 00:00 (2026-01-06 00:00 UTC)"


def test_settings_are_key_and_value() -> None:
    assert assignments(["policy.lookback=3d", " seed = 4 "]) == {"policy.lookback": "3d", "seed": "4"}
    assert assignments(None) == {}


@pytest.mark.parametrize("wrong", ["policy.lookback", "=3d", "policy.lookback=", "  "])
def test_a_setting_without_key_or_value_is_refused(wrong: str) -> None:
    with pytest.raises(typer.BadParameter, match="KEY=VALUE"):
        assignments([wrong])


def test_one_key_set_twice_is_refused_since_one_of_them_would_be_lost() -> None:
    with pytest.raises(typer.BadParameter, match="twice"):
        assignments(["policy.depth=3", "policy.depth=4"])


def test_lists_of_values_are_cut_at_commas_outside_brackets() -> None:
    assert value_lists(["policy.lookback=1d,3d,1d", "policy.depth=3"]) == {
        "policy.lookback": ["1d", "3d"],
        "policy.depth": ["3"],
    }
    assert value_lists(["workload={shape: ai2, seed: 1},{shape: sat}"]) == {
        "workload": ["{shape: ai2, seed: 1}", "{shape: sat}"]
    }


def test_a_key_without_any_value_is_refused() -> None:
    with pytest.raises(typer.BadParameter, match="no value"):
        value_lists(["policy.depth=,"])


def test_seeds_are_ranges_lists_or_both() -> None:
    assert seed_list("1-5") == [1, 2, 3, 4, 5]
    assert seed_list("1,2,7-8,2") == [1, 2, 7, 8]
    assert names("budget, fifo,budget,") == ["budget", "fifo"]


@pytest.mark.parametrize("wrong", ["", "a", "5-1", "1,,2", "1-", "-3"])
def test_what_is_no_list_of_seeds_is_refused(wrong: str) -> None:
    with pytest.raises(typer.BadParameter, match="seeds"):
        seed_list(wrong)


def test_columns_of_a_csv_are_named_by_their_meaning() -> None:
    assert column_map("job=job_id, gpus = n") == {"job": "job_id", "gpus": "n"}
    assert column_map(None) is None
    with pytest.raises(typer.BadParameter, match="KEY=NAME"):
        column_map("job")
