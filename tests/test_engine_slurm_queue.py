"""What arrives at Slurm by `sbatch` or by Tenure, and how it waits there, on a real slurmctld."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_lab import SAYS, Lab, lab
from tenure.engines.protocol import (
    Enrol,
    Notice,
    OrderRefused,
    Stop,
    Withdraw,
)

__all__ = ["lab"]  # a fixture

pytestmark = pytest.mark.slow


# --- arrivals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "spec"),
    [
        (["--gpus=4"], {"gpus": 4}),
        (["--gpus=h100:16"], {"gpus": 16, "gpu": "H100"}),
        (["--gres=gpu:8", "-N2"], {"gpus": 16}),
        (["--gres=gpu"], {"gpus": 1}),
        (["--gres=gpu:h100:2"], {"gpus": 2, "gpu": "H100"}),
        (["--gpus-per-node=8", "--nodes=3", "--exclusive"], {"gpus": 24}),
        (["--gpus-per-task=1", "--ntasks=8"], {"gpus": 8}),
        (["--gpus=1", "--time=1-02:00:00"], {"max_runtime": 93600}),
        (["--gpus=1", "--time=90"], {"max_runtime": 5400}),
        (["--gpus=1", "--nice=50"], {"priority": -50}),
        (["--gpus=1", "--no-requeue"], {"resumable": False}),
        (["--gpus=1", "--job-name=über train"], {"name": "über train"}),
        (["--gpus=1", "--comment=tenure: account=a min=15m"], {"min_runtime": 900}),
        (["--gpus=1", "--comment=tenure: account=a priority=7 kind=debug"], {"priority": 7, "kind": "debug"}),
        (["--gpus=1", "--comment=", "--account=olmo"], {"account": "language/olmo", "min_runtime": 3600}),
        (["--gpus=1", "--comment=", "--uid=nobody"], {"account": "vision"}),
        (["--gpus=1", "--qos=quick"], {"gpus": 1}),
    ],
)  # fmt: skip
def test_what_sbatch_says_is_what_arrives(lab: Lab, options: list[str], spec: dict[str, Any]) -> None:
    engine = lab.another(
        accounts={"olmo": "language/olmo"},
        users={"nobody": "vision"},
        gpu_types={"h100": "H100"},
        min_runtime=3600,
    )
    says = [] if any("comment" in option for option in options) else ["--comment", SAYS]
    job = lab.site.sbatch(*says, *options)
    arrival = lab.arrival(job, engine.see())
    assert arrival is not None
    assert arrival.refused == ""
    assert {key: arrival.spec[key] for key in spec} == spec
    assert lab.site.job(job)["Priority"] == "0"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--gpus=1", "--comment=none of ours"], "names no account"),
        (["--gpus=1", "--comment=tenure: account=a min=soon"], "min='soon'"),
        (["--gpus=1", "--comment=tenure: account=a kind=fast"], "batch | debug | session"),
        (["--gpus=1", "--comment=tenure: acount=a"], "did you mean account"),
        (["--gres=gpu:8", "-N2-4"], "from 2 to 4 nodes"),
        (["--gres=gpu:4", "-N2"], "leave --nodes out"),
        (["--gpus=2", "--exclusive"], "whole nodes"),
        (["--gpus=1", "--gpus-per-socket=1", "--sockets-per-node=1"], ""),
    ],
)
def test_what_can_never_run_says_why(lab: Lab, options: list[str], why: str) -> None:
    says = [] if any("comment" in option for option in options) else ["--comment", SAYS]
    job = lab.site.sbatch(*says, *options)
    arrival = lab.arrival(job)
    assert arrival is not None
    assert why in arrival.refused


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ([], "ask for GPUs"),
        (["--gpus=1", "--nodelist=n001"], "leave --nodelist out"),
        (["--gpus=1", "--partition=tenure,others"], "name one partition"),
    ],
)
def test_the_submit_hook_refuses_in_words(lab: Lab, options: list[str], why: str) -> None:
    said = lab.site.run("sbatch", "--wrap", "true", *options, check=False)
    assert why in said


def test_only_tenure_releases_and_holds_what_waits(lab: Lab) -> None:
    job = lab.site.sbatch("--uid=nobody", "--gpus=1", "--comment", SAYS)
    for word in ("release", "hold"):
        said = lab.site.run("setpriv", "--reuid=nobody", "--clear-groups", "scontrol", word, job, check=False)
        assert "Tenure" in said or "error" in said.lower()
    assert lab.site.state(job) == "PENDING"
    assert lab.arrival(job).held is False  # type: ignore[union-attr]
    lab.site.run("scontrol", "hold", job)  # an administrator may
    assert lab.arrival(job).held is True  # type: ignore[union-attr]


def test_what_a_job_waits_for_is_told_and_no_longer_asked_of_slurm(lab: Lab) -> None:
    first = lab.submit("--gpus=1", script="exit 1")
    array = lab.submit("--gpus=1", "--array=1-2")
    after = lab.submit("--gpus=1", f"--dependency=afterok:{first},afterany:{array}")
    odd = lab.submit("--gpus=1", f"--dependency=afternotok:{first}")
    seen = lab.see()
    told = lab.arrival(after, seen)
    assert told is not None
    assert told.spec["after"] == [f"{first}:ok", f"{array}_1:any", f"{array}_2:any"]
    assert told.held is False
    assert "afterok:JOB and afterany:JOB" in lab.arrival(odd, seen).refused  # type: ignore[union-attr]
    assert lab.start(after, {"n001": 1}).started is not None, "whether it holds is for Tenure to know"


def test_tasks_of_an_array_are_jobs_of_their_own(lab: Lab) -> None:
    array = lab.submit("--gpus=2", "--array=3-6%2", script='echo "task $SLURM_ARRAY_TASK_ID"; exec sleep 600')
    seen = lab.see()
    ids = [f"{array}_{task}" for task in range(3, 7)]
    assert [lab.arrival(job, seen).held for job in ids] == [False, False, True, True]  # type: ignore[union-attr]
    assert lab.arrival(ids[0], seen).spec["gpus"] == 2  # type: ignore[union-attr]
    for job, node in ((ids[0], "n001"), (ids[1], "n002")):
        assert dict(lab.start(job, {node: 2}).nodes) == {node: 2}
    assert [lab.arrival(job).held for job in ids[2:]] == [True, True]  # type: ignore[union-attr]
    lab.stop(ids[0], grace_s=5)
    assert lab.until_ended(ids[0]).told
    assert dict(lab.start(ids[0], {"n007": 2}, attempt=2).nodes) == {"n007": 2}
    lab.stop(ids[1], requeue=False, grace_s=5)
    lab.until_ended(ids[1])
    assert [lab.arrival(job).held for job in ids[2:]] == [False, True]  # type: ignore[union-attr]
    assert dict(lab.start(ids[2], {"n002": 2}).nodes) == {"n002": 2}


def test_other_partitions_are_no_business_of_ours(lab: Lab) -> None:
    theirs = lab.site.sbatch("--partition=others", "--gpus=1", "--comment", SAYS)
    lab.site.wait(lambda: lab.site.state(theirs) == "RUNNING", "their job runs")
    seen = lab.see()
    assert lab.arrival(theirs, seen) is None
    assert lab.attempt(theirs, 1, seen) is None
    for order in (
        Stop(lab.id("stop"), theirs, 1, 0, False, ""), Withdraw(lab.id("withdraw"), theirs),
        Notice(lab.id("notice"), theirs, 1, 0),
    ):  # fmt: skip
        lab.engine.carry_out(order)
    with pytest.raises(OrderRefused):
        lab.engine.carry_out(lab.order(theirs, {"n001": 1}))
    assert lab.site.state(theirs) == "RUNNING"


def test_what_came_unheld_is_held_and_what_runs_unasked_is_shown(lab: Lab) -> None:
    unheld = lab.submit("--gpus=1", "--begin=now+1hour")
    lab.site.run("scontrol", "release", unheld)
    lab.see()
    assert lab.site.job(unheld)["Priority"] == "0"
    runs = lab.submit("--gpus=3")
    lab.site.run("scontrol", "update", f"JobId={runs}", "ReqNodeList=n040")
    lab.site.run("scontrol", "release", runs)
    lab.site.wait(lambda: lab.site.state(runs) == "RUNNING", "it runs")
    seen = lab.until(runs, 1, lambda one: one.started is not None)
    assert dict(seen.nodes) == {"n040": 3}
    assert lab.site.state(runs) == "RUNNING"


# --- enrolment ----------------------------------------------------------------------------------------------


def enrol(lab: Lab, **more: Any) -> Enrol:
    order = Enrol(
        lab.id("enrol"),
        "root",
        {"account": "language/olmo", "gpus": 16, "min_runtime": 7200, "kind": "batch", "name": "eins zwei"},
        ("bash", "-c", 'echo "$GREETING from $PWD, $TENURE_JOB"; exec sleep 600'),
        {"GREETING": 'it\'s "quoted" $HOME'},
        str(lab.site.folder / "out"),
    )
    return order._replace(**more)


def test_an_enrolled_job_arrives_once_however_often_it_is_ordered(lab: Lab) -> None:
    order = enrol(lab)
    lab.engine.carry_out(order)
    lab.engine.carry_out(order)
    lab.another().carry_out(order)
    found = [one for one in lab.see().arrivals if one.enrolled == order.id]
    assert len(found) == 1
    job = found[0].job
    assert (found[0].user, found[0].refused) == ("root", "")
    for key, value in order.spec.items():
        assert found[0].spec[key] == value
    lab.start(job, lab.nodes(1, 2))
    lab.site.wait(lambda: bool(lab.out(job)), "it has begun")
    assert lab.out(job) == f'it\'s "quoted" $HOME from {lab.site.folder}/out, {job}\n'
    lab.stop(job, requeue=False)
    lab.until_ended(job)
    lab.another().carry_out(order)
    assert not [one for one in lab.see().arrivals if one.enrolled == order.id], "nor after it has ended"


def test_an_enrolled_job_runs_as_who_asked(lab: Lab) -> None:
    lab.engine.carry_out(enrol(lab, user="nobody", command=("bash", "-c", "id -un; exec sleep 600")))
    (found,) = lab.see().arrivals
    assert found.user == "nobody"
    lab.start(found.job, lab.nodes(1, 2))
    lab.site.wait(lambda: "nobody" in lab.out(found.job), "it runs as nobody")
    with pytest.raises(OrderRefused, match="no user 'zoe'"):
        lab.engine.carry_out(enrol(lab, user="zoe"))
    server = lab.another(submit_as="server")
    server.carry_out(enrol(lab, user="zoe"))
    assert [one.user for one in server.see().arrivals if one.job != found.job] == ["zoe"]


def test_a_job_that_says_it_is_done_is_not_queued_again(lab: Lab) -> None:
    script = 'trap "touch $TENURE_SAVED $TENURE_DONE; exit 0" TERM; echo ready; sleep 600 & wait'
    lab.engine.carry_out(enrol(lab, command=("bash", "-c", script)))
    (found,) = lab.see().arrivals
    lab.start(found.job, lab.nodes(1, 2))
    lab.ready(found.job)
    lab.stop(found.job, grace_s=10)
    ended = lab.until_ended(found.job)
    assert (ended.told, ended.done, ended.exit_code) == (True, True, 0)
    assert ended.saved is not None
    assert lab.arrival(found.job) is None
    assert lab.site.state(found.job) == "COMPLETED"


def test_a_waiting_job_is_withdrawn_and_a_running_one_is_not(lab: Lab) -> None:
    waits, runs = lab.submit("--gpus=1"), lab.submit("--gpus=1")
    lab.start(runs, {"n001": 1})
    order = Withdraw(lab.id("withdraw"), waits)
    lab.engine.carry_out(order)
    lab.engine.carry_out(order)
    assert lab.arrival(waits) is None
    assert lab.site.state(waits) == "CANCELLED"
    with pytest.raises(OrderRefused, match="it runs"):
        lab.engine.carry_out(Withdraw(lab.id("withdraw"), runs))
    assert lab.site.state(runs) == "RUNNING"


def test_whoever_asks_slurm_for_a_job_that_was_refused_is_told_why(lab: Lab) -> None:
    waits = lab.submit("--gpus=1")
    lab.engine.carry_out(Withdraw(lab.id("withdraw"), waits, "job: account: found the unknown account 'x'\n"))
    shown = lab.site.run("scontrol", "show", "job", waits)
    assert "JobState=CANCELLED" in shown
    assert "AdminComment=Tenure: job: account: found the unknown account 'x' \n" in shown
    lab.see()
