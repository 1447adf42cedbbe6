"""Every published number is worked out anew, and its verdict is what the two numbers say."""

from __future__ import annotations

import pytest

from tenure.planner.published import CLOSE, FIT, NOT, PARTLY, REPRODUCED, rows

ROWS = rows()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what)
def test_a_verdict_is_what_the_numbers_say(row):
    if row.verdict in (REPRODUCED, FIT):
        assert abs(row.error) <= CLOSE, row
    elif row.verdict == NOT:
        assert abs(row.error) > CLOSE, row
    else:
        assert row.verdict == PARTLY
    assert row.how


def test_the_numbers_are_the_known_ones():
    found = {row.what: row.ours for row in ROWS}
    for what, value, rel in (
        ("whole job stops", 0.4444, 2e-4),
        ("groups recover apart", 0.8009, 1e-4),
        ("MTTF of 98,304 GPUs", 18.03, 5e-4),
        ("MTTF of 98,304 GPUs at 2.3 per 1,000 servers a day", 51, 0.01),
        ("MTTF of 1,024 GPUs", 28.8, 0.01),
        ("MTTF of 100,000 GPUs", 17.7, 0.01),
        ("interval for ETTR 0.5 at 100,000 GPUs, 2.34", 39.2, 0.01),
        ("spare GPUs of 608, 2.2 h recovery", 40, 1e-9),
        ("GPUs bought for a job of 32,768", 37_656, 0),
        ("effective time, 419 interruptions", 0.9162, 1e-4),
        ("effective time, all 466", 0.9104, 1e-4),
        ("cluster at 960 W against 1,200 W (1.9/1.7)", 1.122, 1e-3),
        ("best limit by a measured curve", 685, 0.005),
        ("work with 8 of 72 held against none", 1.024, 1e-3),
    ):
        assert found[what] == pytest.approx(value, rel=rel), what
