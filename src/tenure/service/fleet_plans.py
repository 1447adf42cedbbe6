"""Plans of a fleet: a file in, the whole answer out, as `--json` writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tenure.planner.fleet_curves import goodput_curves, power_curves
from tenure.planner.plan_calibrate import plan_calibrate
from tenure.planner.plan_capping import plan_capping
from tenure.planner.plan_failures import Counted, plan_failures
from tenure.planner.plan_goodput import Log, plan_goodput
from tenure.planner.plan_power import plan_power
from tenure.planner.plan_spares import plan_spares
from tenure.planner.published import rows
from tenure.report.fleet_page import write_goodput_page, write_spares_page
from tenure.report.fleet_records_page import write_failures_page
from tenure.report.limits_page import write_power_page
from tenure.report.power_page import write_calibration_page, write_capping_page
from tenure.service.outputs import placed, write_json
from tenure.settings.calibration_file import read_calibration_file, read_readings
from tenure.settings.capping_file import read_capping_file
from tenure.settings.errors import BadInput
from tenure.settings.failure_rates_file import RecordFile, read_failure_rates_file
from tenure.settings.goodput_file import GoodputFile, counted, read_goodput_file, separate_runs
from tenure.settings.incident_file import read_incidents, read_lives
from tenure.settings.power_file import read_power_file
from tenure.settings.spares_file import read_spares_file
from tenure.settings.yaml_file import read_yaml


def goodput(path: Path, page: Path | None = None) -> dict[str, Any]:
    """What part of its time a job works. BadInput where the file is wrong. `page`: HTML to write."""
    file = read_goodput_file(path)
    runs = separate_runs(read_yaml(path), file=str(path)) if file.runs else {}
    log = None if file.failures is None or file.failures.log is None else _log(file, path)
    answer = plan_goodput(file, log)
    answer["runs"] = {
        name: plan_goodput(own, log if own.failures == file.failures else None) for name, own in runs.items()
    }
    if page is not None:
        with placed(page) as draft:
            known = file if log is None else counted(file, log.events)
            write_goodput_page(answer, goodput_curves(known), draft)
    return answer


def _log(file: GoodputFile, path: Path) -> Log:
    """The incidents of the log that a file names."""
    told = file.failures
    assert told is not None
    assert told.log is not None
    log = path.parent / told.log
    incidents = read_incidents(log)
    nodes = incidents.of_nodes()
    if told.of_nodes is not None and len(nodes) > told.of_nodes:
        raise BadInput(str(path), "failures.of_nodes", f"{told.of_nodes}", f"the {len(nodes)} nodes of {log}")
    assert told.of_nodes is not None
    assert told.days is not None
    return Log(incidents.of_causes(), nodes, told.of_nodes, told.days)


def spares(path: Path, page: Path | None = None, scenario: Path | None = None) -> dict[str, Any]:
    """What to buy so that a job keeps its shape. BadInput where the file is wrong or spares are no answer.

    `scenario`: a file to write, the plan as `simulate` plays it.
    """
    answer = plan_spares(read_spares_file(path), name=str(path))
    if scenario is not None:
        with placed(scenario) as draft:
            write_json(answer["idle_spares"]["scenario"], draft)
    if page is not None:
        with placed(page) as draft:
            write_spares_page(answer, draft)
    return answer


def power(path: Path, page: Path | None = None) -> dict[str, Any]:
    """Accelerators and limit under a supply. BadInput where the file is wrong or asks past its curve."""
    file = read_power_file(path)
    answer = plan_power(file, name=str(path))
    if page is not None:
        with placed(page) as draft:
            write_power_page(answer, power_curves(file), draft)
    return answer


def failures(path: Path, page: Path | None = None) -> dict[str, Any]:
    """How often things fail, from counts and logs. BadInput where the file or a log is wrong."""
    file = read_failure_rates_file(path)
    records = [_counted(record, path) for record in file.records]
    lives, passed_over = None, 0
    if file.lives is not None:
        told = file.lives
        read = read_lives(path.parent / told.file, (told.begin, told.end, told.event), told.failed)
        lives = np.array(read.lives_s), np.array(read.failed)
        passed_over = len(read.passed_over)
    answer = plan_failures(file, records, lives, passed_over)
    if page is not None:
        with placed(page) as draft:
            write_failures_page(answer, draft)
    return answer


def _counted(record: RecordFile, path: Path) -> Counted:
    if record.log is None:
        return Counted(record, record.causes or {})
    log = path.parent / record.log
    incidents = read_incidents(log)
    nodes = incidents.of_nodes()
    if len(nodes) > record.nodes:
        raise BadInput(str(path), "records.nodes", f"{record.nodes}", f"the {len(nodes)} nodes of {log}")
    times_d: list[float] = []
    if record.start is not None:
        begin_s = record.start.timestamp()
        times_d = [(time_s - begin_s) / 86_400.0 for time_s in incidents.times_s]
        if min(times_d) < 0 or max(times_d) > record.days:
            allowed = f"all of {log} within `days` after start: {min(times_d):.3g} to {max(times_d):.3g} are"
            raise BadInput(str(path), "records.start", str(record.start), allowed)
    return Counted(record, incidents.of_causes(), nodes, times_d)


def capping(path: Path, page: Path | None = None) -> dict[str, Any]:
    """Whom to cap under a tree of breakers. BadInput where the file is wrong or nothing would do."""
    answer = plan_capping(read_capping_file(path), name=str(path))
    if page is not None:
        with placed(page) as draft:
            write_capping_page(answer, draft)
    return answer


def calibrate(path: Path, page: Path | None = None) -> dict[str, Any]:
    """Rack readings beside the meters above them. BadInput where the file or a reading is wrong."""
    file = read_calibration_file(path)
    read = read_readings(path.parent / file.readings, file)
    answer = plan_calibrate(file, read.times, read.columns, name=str(path))
    if page is not None:
        with placed(page) as draft:
            write_calibration_page(answer, draft)
    return answer


def published() -> list[dict[str, Any]]:
    """Published numbers worked out anew, each with its verdict and convention."""
    return [{**row._asdict(), "error": row.error} for row in rows()]
