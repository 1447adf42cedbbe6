"""A run's trainer as a job of a Tenure-scheduled lab: submitted once, seen, ended; on a real server."""

from __future__ import annotations

from pathlib import Path

import pytest

from live_server import serving, wait_for
from run_world import run_of
from tenure.providers.protocol import RESERVED, RUNNING, Node
from tenure.runs.launching import LabTrainer
from tenure.runs.look import ABSENT, ENDED, UNDER_WAY
from tenure.runs.parts import PartSilent

NODE = Node("place1", RUNNING, "lab", "lab", RESERVED, "", 0.0)


@pytest.mark.slow
def test_an_attempt_is_one_job_of_the_lab_however_often_it_is_started(tmp_path: Path) -> None:
    job = {"account": "vision", "gpus": "8", "min_runtime": "1h"}
    launch = {"command": ["sleep", "36000"], "engine": "lab", "job": job}
    run = run_of(tmp_path, provider={"name": "own", "by": "lab"}, launch=launch)
    (tmp_path / "lab").mkdir()
    with serving(tmp_path / "lab") as served, served.client() as client:
        trainer = LabTrainer(run, client)
        assert trainer.seen(1).state == ABSENT
        trainer.start(1, [NODE])
        trainer.start(1, [NODE])
        LabTrainer(run, client).start(1, [NODE])  # by a controller that came back
        wait_for("it runs", lambda: trainer.seen(1).state == UNDER_WAY)
        rows = [row for row in client.queue(state="all").jobs if row.name == "example-1"]
        assert len(rows) == 1
        shown = client.show(rows[0].job)
        assert shown.gpus == 8
        assert shown.env is not None
        assert shown.env["TENURE_RUN_ATTEMPT"] == "1"
        assert trainer.seen(2).state == ABSENT
        trainer.stop(1)
        trainer.stop(1)
        wait_for("it is over", lambda: trainer.seen(1).state == ENDED)
        assert trainer.seen(1).exit_code != 0
        served.process.terminate()
        served.process.wait()
        with pytest.raises(PartSilent):
            trainer.start(2, [NODE])
