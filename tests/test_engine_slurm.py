"""The Slurm engine on a real slurmctld with 64 nodes of 8 GPUs."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from slurm_site import SlurmSite
from tenure.engines.clock import ChosenClock, RealClock
from tenure.engines.protocol import (
    EngineError,
    EngineUnavailable,
    Enrol,
    Forget,
    Notice,
    Order,
    OrderRefused,
    Seen,
    SeenArrival,
    SeenAttempt,
    SetNode,
    Start,
    Stop,
    Withdraw,
)
from tenure.engines.slurm import SlurmEngine, SlurmSettings
from tenure.engines.slurm.programs import Programs
from tenure.engines.slurm.shadow import ShadowSlurm

pytestmark = pytest.mark.slow

SAYS = "tenure: account=language/olmo min=2h"
STATE_SAVED_S = (
    6.5  #: slurmctld writes its state down every five seconds; who dies before that comes back older
)
TRAPS = 'trap "echo told; exit 3" TERM; echo ready; sleep 600 & wait'
IGNORES = 'trap "echo told" TERM; echo ready; while true; do sleep 600 & wait; done'


class Lab:
    """The site with an engine on it, and short words for what tests do."""

    def __init__(self, site: SlurmSite, folder: Path) -> None:
        self.site = site
        self.settings = SlurmSettings(conf=str(site.conf), folder=str(folder), watch_s=0.2)
        self.engine = SlurmEngine(self.settings)
        self.folder = folder
        self.made: list[SlurmEngine] = [self.engine]
        self.orders = 0

    def another(self, **changed: Any) -> SlurmEngine:
        """As after a restart of the server: an engine that remembers nothing."""
        self.made.append(SlurmEngine(self.settings.model_copy(update=changed)))
        return self.made[-1]

    def id(self, kind: str) -> str:
        self.orders += 1
        return f"{id(self)}.{self.orders}.{kind}"

    def submit(self, *options: str, script: str = "exec sleep 600", says: str = SAYS) -> str:
        return self.site.sbatch("--comment", says, *options, script=script)

    def order(self, job: str, nodes: Mapping[str, int], attempt: int = 1, **more: Any) -> Start:
        start = Start(self.id("start"), job, attempt, "language/olmo", "root", nodes, (), {}, "", None)
        return start._replace(**more)

    def start(self, job: str, nodes: Mapping[str, int], attempt: int = 1, **more: Any) -> SeenAttempt:
        self.engine.carry_out(self.order(job, nodes, attempt, **more))
        return self.until(job, attempt, lambda one: one.started is not None)

    def stop(self, job: str, attempt: int = 1, *, grace_s: float = 4, requeue: bool = True) -> Stop:
        order = Stop(self.id("stop"), job, attempt, grace_s, requeue, "a test")
        self.engine.carry_out(order)
        return order

    def see(self) -> Seen:
        return self.engine.see()

    def attempt(self, job: str, attempt: int = 1, seen: Seen | None = None) -> SeenAttempt | None:
        found = [one for one in (seen or self.see()).attempts if (one.job, one.attempt) == (job, attempt)]
        assert len(found) <= 1, found
        return found[0] if found else None

    def arrival(self, job: str, seen: Seen | None = None) -> SeenArrival | None:
        found = [one for one in (seen or self.see()).arrivals if one.job == job]
        assert len(found) <= 1, found
        return found[0] if found else None

    def until(
        self, job: str, attempt: int, holds: Callable[[SeenAttempt], bool], seconds: float = 20
    ) -> SeenAttempt:
        last: list[SeenAttempt | None] = [None]

        def met() -> bool:
            last[0] = self.attempt(job, attempt)
            return last[0] is not None and holds(last[0])

        try:
            self.site.wait(met, seconds, f"attempt {attempt} of {job}")
        except AssertionError:
            raise AssertionError(f"{last[0]}\n{self.site.job(job)}") from None
        assert last[0] is not None
        return last[0]

    def until_ended(self, job: str, attempt: int = 1, seconds: float = 20) -> SeenAttempt:
        return self.until(job, attempt, lambda one: one.ended is not None, seconds)

    def ready(self, job: str) -> None:
        """Wait until its script has set its traps."""
        self.site.wait(lambda: "ready" in self.out(job), 20, f"{job} is ready")

    def out(self, job: str) -> str:
        path = self.site.folder / "out" / f"slurm-{job}.out"
        return path.read_text() if path.exists() else ""

    def nodes(self, first: int, last: int, gpus: int = 8) -> dict[str, int]:
        return {f"n{number:03d}": gpus for number in range(first, last + 1)}


@pytest.fixture
def lab(slurm: SlurmSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = slurm.folder / "said"
    lab = Lab(slurm, folder)
    yield lab
    for engine in lab.made:
        engine.close()
    slurm.clear()


def processes_of(mark: str) -> list[int]:
    """Processes that carry these words in their command."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if mark.encode() in (entry / "cmdline").read_bytes().replace(b"\0", b" "):
                    found.append(int(entry.name))
    return [pid for pid in found if pid != os.getpid()]


# --- starting -----------------------------------------------------------------------------------------


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
    lab.site.wait(lambda: "on" in lab.out(job), 5, "the script has begun")
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
    lab.site.wait(lambda: all(lab.out(job) for job in jobs), 5, "all three have begun")
    given = [device for job in jobs for device in lab.out(job).strip().split(",")]
    assert sorted(given) == [str(number) for number in range(8)]


def test_many_starts_in_one_call_are_released_together_and_each_answers_for_itself(lab: Lab) -> None:
    jobs = [lab.submit("--gpus=8") for _ in range(12)]
    orders = [lab.order(job, {f"n{number:03d}": 8}) for number, job in enumerate(jobs, 1)]
    orders.insert(5, lab.order("999999", {"n064": 8}))
    orders.append(lab.order(jobs[0], {"n001": 8}, attempt=2))
    before = time.monotonic()
    answers = lab.engine.carry_out_many(orders)
    took_s = time.monotonic() - before
    assert [type(answer) for answer in answers[:5]] == [type(None)] * 5
    assert isinstance(answers[5], OrderRefused)
    assert "does not know job 999999" in str(answers[5])
    assert took_s < 5
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
    lab.site.wait(lambda: bool(lab.out(job)), 5, "it has begun")
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


# --- stopping -----------------------------------------------------------------------------------------


def test_a_preempted_job_is_told_queued_again_and_runs_again_elsewhere(lab: Lab) -> None:
    job = lab.submit(
        "--gpus=16", "--open-mode=append", script=f'echo "run ${{SLURM_RESTART_COUNT:-0}}"; {TRAPS}'
    )
    first = lab.start(job, lab.nodes(1, 2))
    lab.site.wait(lambda: "run 0" in lab.out(job), 5, "it has begun")
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
    lab.site.wait(lambda: lab.site.state(job) == "PENDING", 5, "it waits at Slurm")
    requeued_at = int(
        lab.site.run("squeue", "-h", "-j", job, "-O", "SubmitTime", more={"SLURM_TIME_FORMAT": "%s"})
    )
    lab.engine.carry_out(stop)  # once more: nothing is left to stop

    second = lab.start(job, lab.nodes(5, 6), attempt=2)
    assert dict(second.nodes) == lab.nodes(5, 6)
    assert second.started is not None
    assert second.started - requeued_at >= 2
    assert second.started - requeued_at <= 15, "the two minutes after a requeue are lifted"
    lab.site.wait(lambda: "run 1" in lab.out(job), 5, "it runs again")
    assert lab.out(job).split("\n")[0] == "run 0"
    assert "told" in lab.out(job)
    last = lab.attempt(job, 1)
    assert last is None or last.ended is not None


def test_who_ignores_the_signal_is_gone_when_the_grace_is_over(lab: Lab) -> None:
    mark = f"sleep 77{lab.site.base}"
    job = lab.submit("--gpus=8", script=IGNORES.replace("sleep 600", mark))
    lab.start(job, {"n003": 8})
    lab.site.wait(lambda: bool(processes_of(mark)), 5, "it has begun")
    before = time.monotonic()
    lab.stop(job, grace_s=4)
    time.sleep(1)
    seen = lab.attempt(job)
    assert seen is not None
    assert seen.ended is None
    assert seen.told
    ended = lab.until_ended(job)
    took_s = time.monotonic() - before
    assert 3 < took_s < 4 + 4
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
    ended = lab.until_ended(job, seconds=10)
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
    lab.site.wait(lambda: len(processes_of(mark)) >= 2, 10, "both tasks of the step run")
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
    lab.site.wait(lambda: "saved" in lab.out(wants), 5, "the signal came")
    assert lab.site.state(silent) == "RUNNING"


# --- ends ---------------------------------------------------------------------------------------------


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
    lab.site.wait(lambda: lab.site.job(job)["Priority"] == "0", 5, "it is held again")
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
            60, "Slurm has forgotten both",
        )  # fmt: skip
        text = completed.read_text()
        completed.write_text("".join(line for line in text.splitlines(True) if f"JobId={lost} " not in line))
        found, missed = lab.until_ended(listed), lab.until_ended(lost)
        assert found.exit_code == 5
        assert found.ended is not None
        assert started.started is not None
        assert 2 <= found.ended - started.started <= 5
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
    lab.site.wait(lambda: "two" in lab.out(job), 5, "written")
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


# --- arrivals -----------------------------------------------------------------------------------------


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
    lab.site.wait(lambda: lab.site.state(theirs) == "RUNNING", 10, "their job runs")
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
    lab.site.wait(lambda: lab.site.state(runs) == "RUNNING", 10, "it runs")
    seen = lab.until(runs, 1, lambda one: one.started is not None)
    assert dict(seen.nodes) == {"n040": 3}
    assert lab.site.state(runs) == "RUNNING"


# --- enrolment ----------------------------------------------------------------------------------------


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
    lab.site.wait(lambda: bool(lab.out(job)), 5, "it has begun")
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
    lab.site.wait(lambda: "nobody" in lab.out(found.job), 5, "it runs as nobody")
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


# --- nodes --------------------------------------------------------------------------------------------


def node_of(seen: Seen, name: str) -> Any:
    return {node.name: node for node in seen.nodes}[name]


def test_nodes_are_seen_and_told_both_ways(lab: Lab) -> None:
    seen = lab.see()
    assert len(seen.nodes) == 64
    assert all(node.up and not node.draining and node.gpus == 8 for node in seen.nodes)
    try:
        lab.site.run("scontrol", "update", "NodeName=n060", "State=DRAIN", "Reason=ECC errors | row 3")
        node = node_of(lab.see(), "n060")
        assert (node.up, node.draining, node.reason) == (True, True, "ECC errors | row 3")
        order = SetNode(lab.id("node"), "n061", True, "looks sick\nto us")
        lab.engine.carry_out(order)
        lab.engine.carry_out(order)
        node = node_of(lab.see(), "n061")
        assert (node.up, node.draining, node.reason) == (True, True, "tenure: looks sick to us")
        for name in ("n060", "n061"):
            back = SetNode(lab.id("node"), name, False, "")
            lab.engine.carry_out(back)
            lab.engine.carry_out(back)
            assert not node_of(lab.see(), name).draining
        lab.site.run("scontrol", "update", "NodeName=n062", "State=DOWN", "Reason=cable")
        assert node_of(lab.see(), "n062").up is False
    finally:
        for name in ("n060", "n061", "n062"):
            lab.site.run("scontrol", "update", f"NodeName={name}", "State=RESUME", check=False)
    with pytest.raises(OrderRefused, match="no node n999"):
        lab.engine.carry_out(SetNode(lab.id("node"), "n999", True, ""))
    lab.site.wait(lambda: all(node.up for node in lab.see().nodes), 20, "all nodes are up")


def test_a_dead_node_ends_its_gang_once_and_the_gang_waits_again(lab: Lab) -> None:
    gang, other = lab.submit("--gpus=32"), lab.submit("--gpus=8")
    lab.start(gang, lab.nodes(41, 44))
    lab.start(other, {"n045": 8})
    try:
        lab.site.kill_slurmd("n042")
        ended = lab.until_ended(gang, seconds=90)
        assert (ended.node_failed, ended.told, ended.cancelled) == (True, False, False)
        assert node_of(lab.see(), "n042").up is False
        assert lab.arrival(gang) is not None
        untouched = lab.attempt(other)
        assert untouched is not None
        assert untouched.ended is None
        lab.site.wait(lambda: lab.site.job(gang)["Priority"] == "0", 10, "it is held again")
        assert dict(lab.start(gang, lab.nodes(46, 49), attempt=2).nodes) == lab.nodes(46, 49)
    finally:
        lab.site.start_slurmd("n042")
    lab.site.wait(lambda: node_of(lab.see(), "n042").up, 30, "the node is back")


# --- silence ------------------------------------------------------------------------------------------


def test_a_dead_slurmctld_is_silence_and_nothing_is_lost(lab: Lab) -> None:
    runs, waits = lab.submit("--gpus=8"), lab.submit("--gpus=8")
    lab.start(runs, {"n001": 8})
    engine = lab.another(timeout_s=1.0)
    before_that = lab.order(waits, {"n002": 8})
    time.sleep(STATE_SAVED_S)
    lab.site.kill_slurmctld()
    try:
        for act in (engine.see, lambda: engine.carry_out(before_that)):
            before = time.monotonic()
            with pytest.raises(EngineUnavailable):
                act()
            assert time.monotonic() - before < 3
    finally:
        lab.site.start_slurmctld()
    seen = lab.see()
    assert lab.attempt(runs, 1, seen).ended is None  # type: ignore[union-attr]
    lab.engine.carry_out(before_that)
    assert dict(lab.until(waits, 1, lambda one: one.started is not None).nodes) == {"n002": 8}


def test_a_start_that_slurmctld_forgot_is_no_fault_of_the_jobs(lab: Lab) -> None:
    job = lab.submit("--gpus=8")
    time.sleep(STATE_SAVED_S)
    lab.start(job, {"n003": 8})
    lab.site.kill_slurmctld()  # before it has written down that it started the job
    lab.site.start_slurmctld()
    seen = lab.see()
    attempt = lab.attempt(job, 1, seen)
    if lab.site.job(job).get("JobState") == "RUNNING":
        assert attempt is not None
        assert attempt.ended is None
        return  # it had been written down after all
    assert attempt is not None
    assert (attempt.ended is not None, attempt.node_failed) == (True, True)
    assert lab.arrival(job, seen) is not None
    lab.site.wait(
        lambda: not lab.site.run("squeue", "-h", "-t", "R,CG", "-o", "%i").strip(), 20, "nothing runs"
    )
    assert dict(lab.start(job, {"n004": 8}, attempt=2).nodes) == {"n004": 8}


def test_a_hung_slurmctld_is_silence_within_the_bound(lab: Lab) -> None:
    engine = lab.another(timeout_s=0.5)
    engine.see()
    pid = lab.site.pid_of_slurmctld()
    os.kill(pid, signal.SIGSTOP)
    try:
        before = time.monotonic()
        with pytest.raises(EngineUnavailable, match="did not answer within"):
            engine.see()
        assert time.monotonic() - before < 2
    finally:
        os.kill(pid, signal.SIGCONT)
    lab.site.wait(lambda: bool(lab.another().see().nodes), 10, "it answers again")


def test_instants_are_by_slurms_clock_whatever_ours_says(lab: Lab) -> None:
    job = lab.submit("--gpus=1")
    for wrong_by_s in (-3600.0, 0.0, 7200.0):
        engine = SlurmEngine(lab.settings, ChosenClock(time.time() + wrong_by_s))
        assert abs(engine.see().at - time.time()) < 2
        engine.close()
    started = lab.start(job, {"n001": 1}).started
    assert started is not None
    assert started <= lab.see().at + 1
    assert RealClock().now() - started < 10


# --- cost ---------------------------------------------------------------------------------------------


def test_a_thousand_waiting_jobs_are_seen_quickly(
    lab: Lab, record_property: Callable[[str, object], None]
) -> None:
    array = lab.submit("--gpus=8", "--array=1-1000")
    lab.see()
    took = []
    for _ in range(5):
        before = time.perf_counter()
        seen = lab.see()
        took.append(time.perf_counter() - before)
    assert sum(one.job.startswith(f"{array}_") for one in seen.arrivals) == 1000
    record_property("see_1000_waiting_s", min(took))
    print(
        f"see(): 1,000 waiting, 64 nodes: {min(took) * 1000:.0f} ms at best, {max(took) * 1000:.0f} at worst"
    )
    assert min(took) < 1.0


def test_twenty_starts_cost_one_call_each_and_two_for_all_of_them(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [lab.submit("--gpus=1") for _ in range(20)]
    lab.see()
    asked: list[str] = []
    ask = lab.engine.programs.ask

    def counted(*argv: str, **how: Any) -> str:
        asked.append(" ".join(argv[:2]))
        return ask(*argv, **how)

    monkeypatch.setattr(lab.engine.programs, "ask", counted)
    orders = [lab.order(job, {f"n{number:03d}": 1}) for number, job in enumerate(jobs, start=1)]
    assert lab.engine.carry_out_many(orders) == [None] * 20
    calls = Counter(call.split()[0] if call.startswith("squeue") else call for call in asked)
    assert calls == {"squeue": 1, "scontrol update": 20, "scontrol release": 1}


def test_twenty_stops_look_at_the_queue_once_and_each_is_noted_and_signalled(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [lab.submit("--gpus=1", script=IGNORES if n == 0 else TRAPS) for n in range(20)]
    orders = [lab.order(job, {f"n{number:03d}": 1}) for number, job in enumerate(jobs, start=1)]
    assert lab.engine.carry_out_many(orders) == [None] * 20
    for job in jobs:
        lab.ready(job)
    asked: list[str] = []
    ask = lab.engine.programs.ask

    def counted(*argv: str, **how: Any) -> str:
        asked.append(" ".join(argv[:2]).partition("=")[0])
        return ask(*argv, **how)

    monkeypatch.setattr(lab.engine.programs, "ask", counted)
    stops: list[Order] = [Stop(lab.id("stop"), job, 1, 9, True, "a test") for job in jobs]
    twice = Stop(lab.id("stop"), jobs[0], 1, 5, False, "once more")
    assert lab.engine.carry_out_many([*stops, twice]) == [None] * 21
    calls = Counter("squeue" if call.startswith("squeue") else call for call in asked)
    del calls["scontrol show"]  # KillWait, once for good
    # the one told twice is looked up anew, and has its signal already
    assert calls == {"squeue": 2, "scontrol update": 2 * 20 + 1, "scancel --signal": 20}
    for job in jobs:
        assert lab.until_ended(job).told
    again = [lab.arrival(job) is not None for job in jobs]
    assert again == [False] + [True] * 19  # the later word: not queued again


def test_of_many_orders_none_is_tried_after_one_that_got_no_answer(lab: Lab) -> None:
    asked: list[str] = []

    class Hanging(Programs):
        def ask(self, *argv: str, text: str | None = None, timeout_s: float | None = None) -> str:
            asked.append(argv[0])
            if argv[:2] == ("scontrol", "update"):
                raise EngineUnavailable("scontrol did not answer")
            return lab.engine.programs.ask(*argv, text=text, timeout_s=timeout_s)

    jobs = [lab.submit("--gpus=1") for _ in range(5)]
    engine = lab.another()
    engine.programs = Hanging()
    orders = [lab.order(job, {f"n{number:03d}": 1}) for number, job in enumerate(jobs, start=1)]
    answers = engine.carry_out_many(orders)
    assert [type(answer) for answer in answers] == [EngineUnavailable] * 5
    assert asked.count("scontrol") == 1
    assert lab.engine.carry_out_many(orders) == [None] * 5
    for job in jobs:
        lab.until(job, 1, lambda one: one.started is not None)
    asked.clear()
    stops: list[Order] = [Stop(lab.id("stop"), job, 1, 4, True, "a test") for job in jobs]
    assert [type(answer) for answer in engine.carry_out_many(stops)] == [EngineUnavailable] * 5
    assert asked.count("scontrol") == 1


def test_a_change_wakes_who_waits_for_one(lab: Lab) -> None:
    woken: list[float] = []
    lab.engine.on_change(lambda: woken.append(time.monotonic()))
    lab.site.wait(lambda: bool(woken), 5, "the first look")
    woken.clear()
    time.sleep(0.6)
    assert not woken, "nothing changed"
    lab.submit("--gpus=1")
    lab.site.wait(lambda: bool(woken), 3, "woken by the submission")


# --- shadow and doctor --------------------------------------------------------------------------------


def test_shadow_mode_reads_whole_queues_and_touches_nothing(lab: Lab) -> None:
    theirs = lab.site.sbatch("--partition=others", "--gpus=16", "--nodes=2", "--comment", SAYS)
    lab.site.wait(lambda: lab.site.state(theirs) == "RUNNING", 10, "their job runs")
    free = lab.site.sbatch("--partition=others", "--gpus=8", "--begin=now+1hour", "--comment", SAYS)
    waits = lab.submit("--gpus=8")
    shadow = ShadowSlurm(lab.settings.model_copy(update={"watched": []}))
    lab.made.append(shadow)
    before = {job: lab.site.job(job) for job in (theirs, free, waits)}
    seen = shadow.see()
    running = lab.attempt(theirs, 1, seen)
    assert running is not None
    assert list(running.nodes.values()) == [8, 8]
    assert {arrival.job for arrival in seen.arrivals} >= {free, waits}
    for order in (lab.order(waits, {"n001": 8}), Withdraw("w", waits), SetNode("n", "n001", True, "")):
        with pytest.raises(EngineError, match="only reads"):
            shadow.carry_out(order)
    after = {job: lab.site.job(job) for job in (theirs, free, waits)}
    moving = ("RunTime", "LastSchedEval", "Scheduler")
    for job, fields in after.items():
        assert {k: v for k, v in fields.items() if k not in moving} == {
            k: v for k, v in before[job].items() if k not in moving
        }


def test_the_doctor_finds_a_site_sound_but_for_what_is_odd_about_it(lab: Lab) -> None:
    found = {subject: (ok, text, remedy) for subject, ok, text, remedy in lab.engine.doctor()}
    for subject in (
        "version", "partition", "nodes", "held jobs", "MinJobAge", "accounting", "JobRequeue", "KillWait",
        "preemption", "SelectType", "memory", "rights", "clock",
    ):  # fmt: skip
        assert found[subject][0] is True, (subject, found[subject])
    assert found["shared nodes"][0] is False
    assert "others (64 nodes)" in found["shared nodes"][1]
    assert found["ReturnToService"][0] is None


def test_the_doctor_names_the_line_to_change(lab: Lab) -> None:
    with lab.site.configured(MinJobAge="2", KillWait="60", JobRequeue="0"):
        found = {subject: (ok, remedy) for subject, ok, _, remedy in lab.engine.doctor()}
        assert found["MinJobAge"][0] is False
        assert found["KillWait"] == (False, "KillWait=15: a shorter grace lasts as long as KillWait does")
        assert found["JobRequeue"] == (False, "JobRequeue=1")
    absent = {one[0]: one for one in lab.another(partition="nowhere").doctor()}
    assert absent["partition"][1] is False
    assert "no partition nowhere" in absent["partition"][2]
    silent = lab.another(conf="/nonexistent/slurm.conf", timeout_s=0.5).doctor()
    assert [ok for _, ok, _, _ in silent] == [False]
