"""Charts as files, and the colours that every chart shares."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stories import Teller, random_story
from tenure.audit.measures import measure
from tenure.core.words import Happened
from tenure.report.charts import write_charts
from tenure.report.colours import ACCOUNT_COLOURS, OTHER, account_colours, path_colours
from tenure.report.frames import (
    log_seconds,
    nice_step,
    number,
    on_log,
    percent,
    seconds,
    stairs,
    step_for,
    summed,
    time_ticks,
    value_ticks,
)

NAMES = ("accounts", "waits", "occupancy", "picture")


@pytest.mark.slow
def test_every_chart_is_written_the_same_each_time(tmp_path: Path) -> None:
    story = random_story(3, turns=100)
    measures = measure(story).to_dict()
    files = write_charts(story, measures, tmp_path / "charts")
    assert {file.name for file in files} == {f"{name}.{kind}" for name in NAMES for kind in ("svg", "png")}
    again = write_charts(story, measures, tmp_path / "again", formats=("svg",))
    for file in again:
        assert ET.parse(file).getroot().tag.endswith("svg")
        assert file.read_bytes() == (tmp_path / "charts" / file.name).read_bytes()
        assert (tmp_path / "charts" / f"{file.stem}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_names_with_dollars_and_brackets_are_drawn_as_they_are(tmp_path: Path) -> None:
    story = random_story(3)
    accounts = [replace(account, path=account.path and f"{account.path}$x_{{") for account in story.accounts]
    story = replace(story, accounts=accounts, events=story.events[story.events["event"] != Happened.SHARE])
    write_charts(story, measure(story).to_dict(), tmp_path, formats=("svg",))
    assert "$x_{" in (tmp_path / "accounts.svg").read_text(encoding="utf-8")


def test_an_account_has_one_colour_wherever_it_is_shown() -> None:
    story = Teller({"p": 0.5, "p/x": 0.5, "p/y": 0.5, "q": 0.5}).story()
    by_story = account_colours(story)
    by_paths = path_colours([account.path for account in story.accounts if account.path])
    assert by_paths == {path: colour for path, colour in by_story.items() if path}
    assert by_story["p"] == OTHER
    assert len({by_story[path] for path in ("p/x", "p/y", "q")}) == 3


def oklab(colour: str) -> np.ndarray:
    """Oklab of #rrggbb (B. Ottosson 2020), for any matrix of sight."""
    return _lab(_linear(colour))


def _linear(colour: str) -> np.ndarray:
    srgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


def _lab(linear: np.ndarray) -> np.ndarray:
    cones = np.array([[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]])
    mixed = np.array([[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]])
    return mixed @ np.cbrt(np.clip(cones @ linear, 0, None))


#: Full deficiency, Machado, Oliveira and Fernandes 2009; the distance two colours must keep under it.
SIGHTS = {
    "normal": (np.eye(3), 0.07),
    "protanopia": (np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]]), 0.05),
    "deuteranopia": (np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]), 0.05),
    "tritanopia": (np.array([[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]]), 0.035),
}


@pytest.mark.parametrize("sight", SIGHTS)
def test_any_two_account_colours_can_be_told_apart(sight: str) -> None:
    matrix, least = SIGHTS[sight]
    seen = {colour: _lab(np.clip(matrix @ _linear(colour), 0, 1)) for colour in ACCOUNT_COLOURS}
    for one, other in itertools.combinations(ACCOUNT_COLOURS, 2):
        assert np.linalg.norm(seen[one] - seen[other]) >= least, (one, other)


def test_figures_are_written_for_people() -> None:
    assert number(1234567.8) == "1\u202f234\u202f568"
    assert number(0.12345) == "0.123"
    assert number(-3.0) == "−3"
    assert number(None) == number(float("nan")) == "–"
    assert percent(0.98765) == "98.8 %"
    assert [seconds(v) for v in (0, 30, 90, 150, 7200, 86400, 5 * 86400)] == [
        "0 s", "30 s", "90 s", "2.5 min", "2 h", "24 h", "5 d"
    ]  # fmt: skip


def test_axes_are_round() -> None:
    assert [nice_step(span, 4) for span in (1, 9, 10, 37, 1024)] == [0.25, 2.5, 2.5, 10, 500]
    top, ticks = value_ticks(37)
    assert top == 40
    assert [tick.text for tick in ticks] == ["0", "10", "20", "30", "40"]
    texts = [tick.text for tick in time_ticks(0, 30 * 86400, "2026-01-05T00:00:00Z")]
    assert texts[0] == "5 Jan"
    assert len(texts) <= 8
    assert [tick.text for tick in time_ticks(0, 4 * 3600, None, 4)] == ["0 h", "1 h", "2 h", "3 h", "4 h"]


def test_a_logarithmic_axis_ends_beyond_the_longest_wait() -> None:
    top, ticks = log_seconds(5000)
    assert top == 36000
    assert ticks[0].at == 0
    assert on_log([0, 1, top], top).tolist() == [0, 0, 1000]


def test_steps_keep_their_sums() -> None:
    hours = np.arange(50.0)
    assert step_for(30 * 86400) == 4 * 3600
    assert summed(hours, 4).sum() == hours.sum()
    assert stairs(np.array([0, 500, 1000]), np.array([10, 20])) == "M0 990L500 990L500 980L1000 980"
