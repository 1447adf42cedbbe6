"""A run under way, forecast again through the command: the acceptance table, and when to ask again."""

from __future__ import annotations

import pytest

from plan_files import example, planned


@pytest.mark.parametrize(
    ("speed", "failures", "done", "posterior", "p_over", "late", "shown", "bought"),
    [
        (3000, 6, 0.5167, 3000.0, 0.0039, 0.0004, (19.32, 19.70), (0, 0)),
        (2900, 7, 0.4963, 2900.4, 0.6867, 0.1542, (20.10, 20.51), (0, 1)),
        (2850, 9, 0.4813, 2850.6, 1.000, 0.7005, (20.67, 21.14), (1, 1)),
    ],
)
def test_half_way_the_command_says_whether_to_extend(
    tmp_path, speed, failures, done, posterior, p_over, late, shown, bought
):
    for overrun, days in zip((116_800, 400_000), bought, strict=True):
        plan = example(overrun={"per_day": overrun})
        seen = {"hours": 240, "failures": failures, "speed": speed}
        told = planned(tmp_path, "forecast", "run forecast", plan=plan, seen=seen)
        assert told["done"] == pytest.approx(done, abs=5e-5)
        assert told["posterior"]["speed"]["mean"] == pytest.approx(posterior, abs=0.05)
        assert told["posterior"]["speed"]["sd"] == pytest.approx(9.47, abs=0.005)
        assert told["p_overrun"] == pytest.approx(p_over, abs=3e-3)
        assert told["expected_overrun_days"] == pytest.approx(late, abs=1e-3)
        assert (told["duration_days"]["p50"], told["duration_days"]["p95"]) == pytest.approx(shown, abs=0.01)
        assert told["choice"]["days"] == days


def test_failures_that_breed_make_the_forecast_later(tmp_path):
    told = planned(tmp_path, "forecast", "run forecast", plan=example(model="compounding"))
    assert told["p_overrun"] == pytest.approx(0.704, abs=3e-3)


def test_tokens_kept_and_the_speed_seen_say_the_same(tmp_path):
    by_speed = planned(tmp_path, "forecast", "run forecast", plan=example())
    seen = {"hours": 240, "failures": 7, "tokens": by_speed["seen"]["tokens"]}
    by_tokens = planned(tmp_path, "forecast", "run forecast", plan=example(), seen=seen)
    assert by_tokens["p_overrun"] == pytest.approx(by_speed["p_overrun"])


def test_a_run_that_is_done_needs_no_extension(tmp_path):
    seen = {"hours": 460, "failures": 7, "tokens": 1.3e12}
    told = planned(tmp_path, "forecast", "run forecast", plan=example(), seen=seen)
    assert told["choice"]["days"] == 0
    assert told["duration_days"] is None
    assert "do not extend" in told["sentence"]


def test_the_forecast_says_when_to_ask_again(tmp_path):
    told = planned(tmp_path, "forecast", "run forecast", plan=example("aws"))
    assert told["ask_again_h"] == [360, 480 - 13], "at 75 %, and 13 hours before the end for the last time"
