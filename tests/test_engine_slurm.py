"""How the Slurm engine starts jobs, stops them, and tells of their ends, on a real slurmctld."""

from __future__ import annotations

import signal
import time

import pytest

from slurm_lab import IGNORES, SAYS, TRAPS, Lab, lab, processes_of
from tenure.engines.protocol import (
    Forget,
    Notice,
    OrderRefused,
)

__all__ = ["lab"]  # a fixture

pytestmark = pytest.mark.slow


# --- starting -----------------------------------------------------------------------------------------------


def test_a_gang_starts_whole_on_exactly_its_nodes(lab: Lab) -> None:
    job = lab.submit(
        "--gpus=128", script='echo "$CUDA_VISIBLE_DEVICES on $SLURM_JOB_NODELIST"; exec sleep 600'
    )
    arrival = lab.arrival(job)
    assert arrival is not None
    assert (arrival.spec["gpus"], arrival.spec["account"], arrival.spec["min_runtime"]) == (
        128,
        "language/olmo",
        7200,
    )
    assert (arrival.user, arrival.held, arrival.refused) == ("root", False, "")
    assert lab.site.state(job) == "PENDING"

    wanted = lab.nodes(9, 24)
    seen = lab.start(job, wanted)
    assert dict(seen.nodes) == wanted
    assert lab.site.job(job)["NodeList"] == "n[009-024]"
    said = lab.site.run("scontrol", "-d", "show", "job", job)
    assert "Nodes=n[009-024]" in said
    assert "GRES=gpu:h100:8(IDX:0-7)" in said
    lab.site.wait(lambda: "on" in lab.out(job), "the script has begun")
    assert lab.out(job) == "0,1,2,3,4,5,6,7 on n[009-024]\n"
    assert lab.arrival(job) is None
    used = lab.site.run("sinfo", "-h", "-N", "-t", "alloc,mix", "-o", "%N").split()
    assert sorted(set(used)) == sorted(wanted)


def test_parts_of_a_node_are_shared_and_never_given_twice(lab: Lab) -> None:
    jobs = [
        lab.submit(f"--gpus={gpus}", script='echo "$CUDA_VISIBLE_DEVICES"; exec sleep 600')
        for gpus in (3, 4, 1)
    ]
    for job, gpus in zip(jobs, (3, 4, 1), strict=True):
        assert dict(lab.start(job, {"n031": gpus}).nodes) == {"n031": gpus}
    lab.site.wait(lambda: all(lab.out(job) for job in jobs), "all three have begun")
    given = [device for job in jobs for device in lab.out(job).strip().split(",")]
    assert sorted(given) == [str(number) for number in range(8)]


def test_many_starts_in_one_call_are_released_together_and_each_answers_for_itself(lab: Lab) -> None:
    jobs = [lab.submit("--gpus=8") for _ in range(12)]
    orders = [lab.order(job, {f"n{number:03d}": 8}) for number, job in enumerate(jobs, 1)]
    orders.insert(5, lab.order("999999", {"n064": 8}))
    orders.append(lab.order(jobs[0], {"n001": 8}, attempt=2))
    answers = lab.engine.carry_out_many(orders)
    assert [type(answer) for answer in answers[:5]] == [type(None)] * 5
    assert isinstance(answers[5], OrderRefused)
    assert "does not know job 999999" in str(answers[5])
    for number, job in enumerate(jobs, 1):
        assert dict(lab.until(job, 1, lambda one: one.started is not None).nodes) == {f"n{number:03d}": 8}


def test_a_start_repeated_by_another_server_starts_nothing_twice(lab: Lab) -> None:
    job = lab.submit("--gpus=8", script='echo "begun $SLURM_RESTART_COUNT"; exec sleep 600')
    order = lab.order(job, {"n002": 8})
    lab.engine.carry_out(order)
    lab.engine.carry_out(order)
    lab.another().carry_out(order)
    lab.until(job, 1, lambda one: one.started is not None)
    lab.another().carry_out(order)
    lab.site.wait(lambda: bool(lab.out(job)), "it has begun")
    time.sleep(0.5)
    assert lab.out(job) == "begun \n"
    assert lab.site.job(job)["Restarts"] == "0"
    with pytest.raises(OrderRefused, match="runs already, as attempt 1"):
        lab.engine.carry_out(lab.order(job, {"n003": 8}, attempt=2))


def test_a_start_cut_between_its_two_steps_is_finished_when_it_is_repeated(lab: Lab) -> None:
    job = lab.submit("--gpus=8")
    order = lab.order(job, {"n005": 8})
    lab.engine._place(order, lab.engine._jobs()[job], lab.see().at)
    seen = lab.attempt(job)
    assert seen is not None
    assert seen.started is None
    assert "held" in seen.detail
    lab.another().carry_out(order)
    assert dict(lab.until(job, 1, lambda one: one.started is not None).nodes) == {"n005": 8}


def test_a_start_for_what_the_job_did_not_ask_for_is_refused(lab: Lab) -> None:
    job = lab.submit("--gpus=8")
    with pytest.raises(OrderRefused, match="asks Slurm for 8 GPUs"):
        lab.engine.carry_out(lab.order(job, {"n001": 4}))
    with pytest.raises(OrderRefused, match="Invalid node name"):
        lab.engine.carry_out(lab.order(job, {"n999": 8}))
    assert lab.site.state(job) == "PENDING"


def test_slurm_itself_ends_a_job_at_its_limit(lab: Lab) -> None:
    job = lab.submit("--gpus=1", "--time=1:00")
    arrival = lab.arrival(job)
    assert arrival is not None
    assert arrival.spec["max_runtime"] == 60
    lab.start(job, {"n001": 1}, max_runtime_s=1)
    assert lab.site.job(job)["TimeLimit"] == "00:00:01" or lab.site.job(job)["TimeLimit"] == "00:01:00"


# --- stopping -----------------------------------------------------------------------------------------------


def test_a_preempted_job_is_told_queued_again_and_runs_again_elsewhere(lab: Lab) -> None:
    job = lab.submit(
        "--gpus=16", "--open-mode=append", script=f'echo "run ${{SLURM_RESTART_COUNT:-0}}"; {TRAPS}'
    )
    first = lab.start(job, lab.nodes(1, 2))
    lab.site.wait(lambda: "run 0" in lab.out(job), "it has begun")
    stop = lab.stop(job, grace_s=10)
    seen = lab.see()
    while (ended := lab.attempt(job, 1, seen)) is None or ended.ended is None:
        assert lab.arrival(job, seen) is None, "it waits only once it has ended"
        seen = lab.see()
    assert ended.told
    assert (ended.cancelled, ended.timed_out, ended.node_failed, ended.done) == (False, False, False, False)
    assert first.started is not None
    assert first.started <= ended.ended <= seen.at + 1
    assert lab.arrival(job, seen) is not None, "it is never away from the queue"
    lab.site.wait(lambda: lab.site.state(job) == "PENDING", "it waits at Slurm")
    requeued_at = int(
        lab.site.run("squeue", "-h", "-j", job, "-O", "SubmitTime", more={"SLURM_TIME_FORMAT": "%s"})
    )
    lab.engine.carry_out(stop)  # once more: nothing is left to stop

    second = lab.start(job, lab.nodes(5, 6), attempt=2)
    assert dict(second.nodes) == lab.nodes(5, 6)
    assert second.started is not None
    assert second.started - requeued_at >= 2
    assert second.started - requeued_at < 110, "the two minutes after a requeue are lifted"
    lab.site.wait(lambda: "run 1" in lab.out(job), "it runs again")
    assert lab.out(job).split("\n")[0] == "run 0"
    assert "told" in lab.out(job)
    last = lab.attempt(job, 1)
    assert last is None or last.ended is not None


def test_who_ignores_the_signal_is_gone_when_the_grace_is_over(lab: Lab) -> None:
    mark = f"sleep 77{lab.site.base}"
    job = lab.submit("--gpus=8", script=IGNORES.replace("sleep 600", mark))
    lab.start(job, {"n003": 8})
    lab.site.wait(lambda: bool(processes_of(mark)), "it has begun")
    before = time.monotonic()
    lab.stop(job, grace_s=4)
    seen = lab.attempt(job)
    assert seen is not None
    assert seen.told
    ended = lab.until_ended(job)
    assert time.monotonic() - before > 3
    assert ended.told
    assert not processes_of(mark)
    assert "told" in lab.out(job)


def test_the_grace_goes_on_under_another_server(lab: Lab) -> None:
    job = lab.submit("--gpus=8", script=IGNORES)
    lab.start(job, {"n003": 8})
    lab.ready(job)
    stop = lab.stop(job, grace_s=4)
    lab.engine.close()
    time.sleep(1)
    lab.engine = lab.another()
    lab.engine.carry_out(stop._replace(grace_s=600))  # the recorded deadline holds, not a new one
    ended = lab.until_ended(job)
    assert ended.told
    assert lab.arrival(job) is not None


def test_a_stop_for_good_leaves_nothing_in_the_queue(lab: Lab) -> None:
    job = lab.submit("--gpus=8", script=TRAPS)
    lab.start(job, {"n003": 8})
    lab.ready(job)
    lab.stop(job, requeue=False)
    ended = lab.until_ended(job)
    assert ended.told
    assert ended.exit_code == 3
    assert lab.arrival(job) is None
    stubborn = lab.submit("--gpus=8", script=IGNORES)
    lab.start(stubborn, {"n004": 8})
    lab.ready(stubborn)
    lab.stop(stubborn, requeue=False, grace_s=2)
    ended = lab.until_ended(stubborn)
    assert (ended.told, ended.cancelled) == (True, False)
    assert lab.arrival(stubborn) is None


def test_a_second_stop_may_shorten_the_first_and_call_off_its_return(lab: Lab) -> None:
    job = lab.submit("--gpus=8", script=IGNORES)
    lab.start(job, {"n003": 8})
    lab.ready(job)
    lab.stop(job, grace_s=300, requeue=True)
    lab.stop(job, grace_s=2, requeue=False)
    assert lab.until_ended(job).told
    assert lab.arrival(job) is None
    assert lab.site.state(job) == "CANCELLED"


def test_a_stop_of_what_ended_by_itself_does_nothing(lab: Lab) -> None:
    job = lab.submit("--gpus=1", script="exit 7")
    lab.engine.carry_out(lab.order(job, {"n001": 1}))
    ended = lab.until_ended(job)
    assert (ended.exit_code, ended.told, ended.cancelled) == (7, False, False)
    lab.stop(job)
    seen = lab.see()
    assert lab.arrival(job, seen) is None
    again = lab.attempt(job, 1, seen)
    assert again is not None
    assert not again.told


def test_what_is_stopped_before_it_has_begun_waits_again(lab: Lab) -> None:
    blocker = lab.submit("--gpus=8")
    lab.start(blocker, {"n001": 8})
    job = lab.submit("--gpus=8")
    lab.engine.carry_out(lab.order(job, {"n001": 8}))  # cannot begin: the node is taken
    seen = lab.see()
    waits = lab.attempt(job, 1, seen)
    assert waits is not None
    assert waits.started is None
    assert lab.arrival(job, seen) is None
    lab.stop(job)
    ended = lab.until_ended(job)
    assert ended.told
    assert lab.arrival(job) is not None
    assert dict(lab.start(job, {"n002": 8}, attempt=2).nodes) == {"n002": 8}


def test_steps_leave_with_their_job(lab: Lab) -> None:
    mark = f"sleep 78{lab.site.base}"
    job = lab.submit("--gpus=16", "--ntasks-per-node=1", script=f"srun --ntasks=2 {mark}")
    lab.start(job, lab.nodes(1, 2))
    lab.site.wait(lambda: len(processes_of(mark)) >= 2, "both tasks of the step run")
    lab.stop(job, grace_s=6)
    assert lab.until_ended(job).told
    assert not processes_of(mark)


def test_a_notice_goes_only_to_who_asked_for_it(lab: Lab) -> None:
    script = 'trap "echo saved" USR1; echo ready; while true; do sleep 1 & wait; done'
    wants = lab.submit("--gpus=1", script=script, says=f"{SAYS} notice=USR1")
    silent = lab.submit("--gpus=1", script="exec sleep 600")
    for job in (wants, silent):
        lab.start(job, {"n001": 1})
    lab.ready(wants)
    for job in (wants, silent):
        lab.engine.carry_out(Notice(lab.id("notice"), job, 1, lab.see().at + 300))
    lab.site.wait(lambda: "saved" in lab.out(wants), "the signal came")
    assert lab.site.state(silent) == "RUNNING"


# --- ends ---------------------------------------------------------------------------------------------------


def test_each_end_is_told_as_it_was(lab: Lab) -> None:
    scripts = {"good": "exit 0", "bad": "exit 9", "shot": "kill -SEGV $$"}
    jobs = {name: lab.submit("--gpus=1", script=script) for name, script in scripts.items()}
    for job in jobs.values():
        lab.engine.carry_out(lab.order(job, {"n001": 1}))
    ends = {name: lab.until_ended(job) for name, job in jobs.items()}
    assert (ends["good"].exit_code, ends["good"].signal) == (0, None)
    assert (ends["bad"].exit_code, ends["bad"].signal) == (9, None)
    assert ends["shot"].signal == signal.SIGSEGV or ends["shot"].exit_code == 128 + signal.SIGSEGV
    for name, job in jobs.items():
        assert not ends[name].told
        lab.engine.carry_out(Forget(lab.id("forget"), job, 1))
        assert lab.attempt(job) is None, "forgotten, though Slurm still speaks of it"


def test_what_is_cancelled_behind_our_back_is_seen(lab: Lab) -> None:
    runs, waits = lab.submit("--gpus=1"), lab.submit("--gpus=1")
    lab.start(runs, {"n001": 1})
    lab.site.run("scancel", runs, waits)
    ended = lab.until_ended(runs)
    assert (ended.cancelled, ended.told) == (True, False)
    seen = lab.see()
    assert lab.arrival(waits, seen) is None
    assert lab.attempt(waits, 1, seen) is None


def test_what_is_queued_again_behind_our_back_is_held_and_no_fault_of_the_jobs(lab: Lab) -> None:
    job = lab.submit("--gpus=1")
    lab.start(job, {"n001": 1})
    time.sleep(0.5)
    lab.site.run("scontrol", "requeue", job)
    ended = lab.until_ended(job)
    assert (ended.node_failed, ended.told) == (True, False)
    assert lab.arrival(job) is not None
    lab.site.wait(lambda: lab.site.job(job)["Priority"] == "0", "it is held again")
    assert lab.start(job, {"n002": 1}, attempt=2).started is not None


def test_a_job_that_left_while_nobody_looked_is_found_in_the_list_of_completed_ones(lab: Lab) -> None:
    listed, lost = (
        lab.submit("--gpus=1", script="sleep 2; exit 5"),
        lab.submit("--gpus=1", script="sleep 2; exit 5"),
    )
    completed = lab.site.folder / "log" / "jobcomp.txt"
    with lab.site.configured(MinJobAge="2"):
        for job in (listed, lost):
            lab.start(job, {"n001": 1})
        started = lab.attempt(listed)
        assert started is not None
        lab.site.wait(
            lambda: not {listed, lost} & set(lab.site.run("squeue", "-h", "-t", "all", "-o", "%i").split()),
            "Slurm has forgotten both",
        )  # fmt: skip
        text = completed.read_text()
        completed.write_text("".join(line for line in text.splitlines(True) if f"JobId={lost} " not in line))
        found, missed = lab.until_ended(listed), lab.until_ended(lost)
        assert found.exit_code == 5
        assert found.ended is not None
        assert started.started is not None
        assert 2 <= found.ended - started.started < 60
        assert "list of completed jobs" in found.detail
        assert missed.exit_code == 255
        assert "without a trace" in missed.detail
        later = lab.another()
        later.expect({(listed, 1): {"n001": 1}})
        assert [one.exit_code for one in later.see().attempts if one.job == listed] == [5]
        lab.engine.carry_out(Forget(lab.id("forget"), listed, 1))
        assert lab.attempt(listed) is None


def test_the_end_of_its_output_is_read_but_no_file_of_others(lab: Lab) -> None:
    job = lab.submit("--gpus=1", script="echo one; echo two")
    lab.engine.carry_out(lab.order(job, {"n001": 1}))
    lab.until_ended(job)
    lab.site.wait(lambda: "two" in lab.out(job), "written")
    assert lab.engine.log_of(job, 1) == b"one\ntwo\n"
    assert lab.engine.log_of(job, 1, last_bytes=4) == b"two\n"
    assert lab.engine.log_of("999999", 1) == b""
    other = lab.site.sbatch(
        "--uid=nobody",
        "--gpus=1",
        "--comment",
        SAYS,
        f"--output={lab.site.folder}/etc/munge.key",
        script="true",
    )
    lab.see()
    assert lab.engine.log_of(other, 1) == b"", "an output path may name anything"
