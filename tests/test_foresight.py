"""What a job not submitted would meet is told in the words that it would be told in later."""

from __future__ import annotations

from pathlib import Path

from live_lab import Small
from tenure.service.live.desk import called
from tenure.service.live.foresight import decided
from tenure.service.live.showing import _held_back
from tenure.settings.live_job import submission


def test_an_instant_is_one_of_the_calendar_before_a_job_is_submitted_too(tmp_path: Path) -> None:
    small = Small(tmp_path)
    small.submit(gpus=16)  # unbudgeted: it makes way
    job = submission(small.spec("b/x", 8, min_runtime="1h"))
    told = decided(small.view, job, called(small.view), small.t)
    assert told["reason"] == "claiming"
    assert " UTC on " in told["sentence"]


def test_an_element_that_waits_for_its_array_says_so_once(tmp_path: Path) -> None:
    small = Small(tmp_path)
    small.ask("submit", spec=small.spec("a", 1, array="0-1%1"))
    sentence = _held_back(small.view, small.view.row_of("1_1"))
    assert sentence == "waits until fewer than 1 elements of its array are under way"
