"""What the benches of plans assert: the work an exact answer takes, and what forecasting again is worth."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

BENCH = Path(__file__).resolve().parent.parent / "bench"


def bench(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"bench_{name}", BENCH / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_exact_answers_take_as_many_terms_as_before():
    plan = bench("plan")
    assert plan.counted() == plan.TERMS


@pytest.fixture(scope="module")
def policies():
    return bench("forecasting").compared(40)


def test_the_planner_is_near_perfect_information_and_below_the_simple_policies(policies):
    """Few runs here; docs/why/what-forecasting-is-worth.md has a thousand."""
    planner, perfect, _, median, on_demand = (float(one.costs.mean()) for one in policies)
    assert planner <= 1.03 * perfect
    assert planner < median
    assert planner < on_demand


def test_forecasting_again_costs_no_more_than_never_extending(policies):
    planner, _, never, *_ = policies
    assert planner.window == never.window
    assert planner.costs.mean() <= never.costs.mean()


def test_drawn_runs_are_those_that_are_believed():
    forecasting = bench("forecasting")
    runs, length = forecasting.drawn(1500, 3), forecasting.BELIEVED.length()
    error = length.sd / np.sqrt(len(runs))
    assert runs.days.mean() == pytest.approx(length.mean, abs=4.5 * error + 0.02)
    for part in (0.1, 0.5, 0.9):
        at = float(length.quantile(np.array(part)))
        assert (runs.days <= at).mean() == pytest.approx(part, abs=0.045)
