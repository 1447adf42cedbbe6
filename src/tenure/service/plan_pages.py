"""The one page of each plan, and its charts as files."""

from __future__ import annotations

from pathlib import Path

from tenure.planner.curves import forecast_curves, gang_curve, window_curves
from tenure.report import plan_charts, plan_page
from tenure.service.forecasts import Forecasted
from tenure.service.outputs import placed
from tenure.service.plans import GangPlanned, PlacePlanned, WindowPlanned


def write_window(planned: WindowPlanned, file: Path) -> None:
    with placed(file) as draft:
        plan_page.write_window_page(planned.answer, window_curves(planned.plan), draft)


def write_gang(planned: GangPlanned, file: Path) -> None:
    with placed(file) as draft:
        plan_page.write_gang_page(planned.answer, gang_curve(planned.file), draft)


def write_place(planned: PlacePlanned, file: Path) -> None:
    with placed(file) as draft:
        plan_page.write_place_page(planned.answer, draft)


def write_forecast(planned: Forecasted, file: Path) -> None:
    with placed(file) as draft:
        plan_page.write_forecast_page(planned.answer, forecast_curves(planned.found), draft)


def write_charts(planned: WindowPlanned, folder: Path) -> None:
    """The page's charts, as SVG and PNG."""
    plan_charts.write_charts(planned.answer, window_curves(planned.plan), folder)
