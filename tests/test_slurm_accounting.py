"""Jobs that Slurm itself has forgotten, found again by way of sacct: against a real slurmdbd."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_accounts import AccountedSite, why_not
from tenure.engines.protocol import SeenAttempt, Start
from tenure.engines.slurm.engine import SlurmEngine
from tenure.engines.slurm.settings import SlurmSettings

pytestmark = pytest.mark.slow
NODES = {"n001": 1}


@pytest.fixture(scope="module")
def site() -> Iterator[AccountedSite]:
    if reason := why_not():
        pytest.skip(reason)
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    folder = Path(tempfile.mkdtemp(prefix="tenure-slurm-"))
    site = AccountedSite(folder, worker=worker)
    try:
        site.boot()
        yield site
    finally:
        site.stop()
        shutil.rmtree(folder)


def shown(engine: SlurmEngine, job: str) -> SeenAttempt | None:
    return next((one for one in engine.see().attempts if one.job == job), None)


def test_how_a_forgotten_job_ended_is_asked_of_the_accounting(site: AccountedSite) -> None:
    engine = SlurmEngine(SlurmSettings(conf=str(site.conf), folder=str(site.folder / "said"), watch_s=0.2))
    says = "tenure: account=language/olmo min=2h"
    scripts = {"fails": "sleep 1; exit 5", "ends": "sleep 1", "cancelled": "exec sleep 600"}
    try:
        with site.configured(MinJobAge="2"):
            jobs = {
                name: site.sbatch("--hold", "--comment", says, "--gpus=1", script=script)
                for name, script in scripts.items()
            }
            for name, job in jobs.items():
                start = Start(f"1-{name}", job, 1, "language/olmo", "root", NODES, (), {}, "", None)
                engine.carry_out(start)
            site.wait(
                lambda: all((one := shown(engine, job)) is not None and one.started for job in jobs.values()),
                "all have begun",
            )
            site.run("scancel", jobs["cancelled"])
            # nobody looks until Slurm has forgotten all of them
            site.wait(
                lambda: (
                    not set(jobs.values()) & set(site.run("squeue", "-h", "-t", "all", "-o", "%i").split())
                ),
                "Slurm has forgotten them",
            )
            site.wait(
                lambda: (
                    "COMPLETED"
                    in site.run("sacct", "-n", "-X", "-j", jobs["ends"], "-o", "State", check=False)
                ),
                "the accounting has heard of it",
            )
            later = SlurmEngine(
                SlurmSettings(conf=str(site.conf), folder=str(site.folder / "said"), watch_s=0.2)
            )
            try:
                later.expect({(job, 1): NODES for job in jobs.values()})
                for one in (engine, later):
                    ends = {name: shown(one, job) for name, job in jobs.items()}
                    for end in ends.values():
                        assert end is not None
                        assert end.ended is not None
                        assert end.detail.startswith("sacct says ")
                    assert (ends["ends"].exit_code, ends["ends"].cancelled) == (0, False)  # type: ignore[union-attr]
                    assert ends["fails"].exit_code == 5  # type: ignore[union-attr]
                    assert ends["cancelled"].cancelled  # type: ignore[union-attr]
                    for name in ("ends", "fails"):
                        assert 0 <= ends[name].ended - ends[name].started <= 5  # type: ignore[union-attr, operator]
            finally:
                later.close()
    finally:
        engine.close()


def test_the_doctor_finds_the_accounting(site: AccountedSite) -> None:
    engine = SlurmEngine(SlurmSettings(conf=str(site.conf), folder=str(site.folder / "said"), watch_s=0.2))
    try:
        found = {one[0]: one for one in engine.doctor()}
        assert found["accounting"][1] is not False, found["accounting"]
    finally:
        engine.close()
