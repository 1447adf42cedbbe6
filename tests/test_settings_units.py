from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.settings.units import (
    account_path,
    duration_s,
    duration_text,
    flag,
    instant,
    name,
    number,
    share,
    share_text,
    whole,
)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("90s", 90),
        ("15m", 900),
        ("8h", 28_800),
        ("7d", 604_800),
        ("1.5h", 5_400),
        ("1.1h", 3_960),  # not by way of a float
        ("2h30m", 9_000),
        (" 5 m ", 300),
        (90, 90),
        ("90", 90),
        ("1.2e6", 1_200_000),
        (0, 0),
        ("0s", 0),
        ("0.2s", 1),  # above 0 stays above 0: a minimum of 0 would mean another thing
        (1e3, 1000),
    ],
)
def test_durations_are_whole_seconds(written: Any, seconds: int) -> None:
    assert duration_s(written) == seconds


@pytest.mark.parametrize(
    "written",
    ["", "h", "8 hours", "8H", "-1s", -1, "1e13", "1e999", "1e400d", ".nan", "nan", "inf", float("nan"),
     float("inf"), True, None, [], {}, "30m2h", "1h1h", "1h-5m", "٣s", "9" * 400, 10**40, "1:30"],
)  # fmt: skip
def test_what_is_no_duration_is_refused(written: Any) -> None:
    with pytest.raises(ValueError, match="a duration such as"):
        duration_s(written)


@given(st.integers(0, 10**12))
def test_a_duration_is_read_back_as_it_is_told(seconds: int) -> None:
    assert duration_s(duration_text(seconds)) == seconds


@pytest.mark.parametrize(
    ("written", "millionths"),
    [("35%", 350_000), ("0.35", 350_000), (0.35, 350_000), (1, 1_000_000), ("100%", 1_000_000), (0, 0),
     ("33.33%", 333_300), ("66.6666666%", 666_666), ("1e-3", 1_000)],
)  # fmt: skip
def test_shares_are_millionths(written: Any, millionths: int) -> None:
    assert share(written) == millionths


@pytest.mark.parametrize("written", ["101%", -0.1, "-1%", "nan", "half", None, True, "%", "1e99"])
def test_what_is_no_share_is_refused(written: Any) -> None:
    with pytest.raises(ValueError, match="a part such as 35% or"):
        share(written)


def test_a_share_without_its_percent_sign_is_told_how_to_write_it() -> None:
    with pytest.raises(ValueError, match="write 35%"):
        share(35)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=9))
def test_parts_of_a_whole_never_sum_to_more_than_it(weights: list[int]) -> None:
    total = sum(weights) or 1
    assert sum(share(f"{100 * weight / total:.9f}%") for weight in weights) <= 1_000_000 + len(weights)
    exact = [f"{weight * 10**8 // total}e-8" for weight in weights]
    assert sum(share(part) for part in exact) <= 1_000_000


def test_a_share_is_told_as_it_was_written() -> None:
    assert [share_text(share(text)) for text in ("35%", "0.5%", "33.33%", "100%")] == [
        "35%", "0.5%", "33.33%", "100%",
    ]  # fmt: skip


def test_numbers_that_yaml_reads_as_text_are_numbers() -> None:
    assert number("1.2e12") == 1_200_000_000_000
    assert number(0.1) == number("0.1")


@pytest.mark.parametrize("written", [7.5, "7.5", 0, -8, "eight", True, None, 10**40, "1e30", float("nan")])
def test_whole_numbers_are_whole_and_in_range(written: Any) -> None:
    with pytest.raises(ValueError, match="GPUs from 1 to 64"):
        whole(1, 64, "GPUs")(written)
    assert whole(1, 64)("8") == 8 == whole(1, 64)(8.0)


def test_names_and_paths() -> None:
    assert name(7) == "7"
    assert account_path("language/olmo/ann") == "language/olmo/ann"
    for bad in ("", " a", "a/b", "a\nb", "x" * 300, None, True, 1.5):
        with pytest.raises(ValueError, match="a name without a slash"):
            name(bad)
    for bad in ("", "/a", "a//b", "a/", 3.5, None):
        with pytest.raises(ValueError, match="path of an account"):
            account_path(bad)


def test_instants_are_utc() -> None:
    assert instant("2026-01-05T00:00:00Z") == datetime(2026, 1, 5, tzinfo=UTC)
    assert instant("2026-01-05 01:00:00+01:00") == datetime(2026, 1, 5, tzinfo=UTC)
    for bad in ("soon", 5, "0001-01-01T00:00:00+23:00", None):
        with pytest.raises(ValueError, match="a date and time such as"):
            instant(bad)


def test_flags() -> None:
    assert flag(True)
    assert flag("yes")
    assert not flag("off")
    for bad in (1, 0, "maybe", None):
        with pytest.raises(ValueError, match="true or false"):
            flag(bad)
