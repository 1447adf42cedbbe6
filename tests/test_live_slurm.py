"""The whole scheduler on a real Slurm of 64 nodes with 8 GPUs: the server's process, sbatch, kills.

`TENURE_SLURM_KILLS=30` kills the server so many times (default 5).
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from live_server import Served, start_server
from slurm_site import SlurmSite
from tenure.client import Client

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("TENURE_SLURM_KILLS", "5"))
OPTIONS = ("--engine", "slurm")


def lab_of(site: SlurmSite, policy: dict[str, Any]) -> dict[str, Any]:
    return {
        "lab": "slurm",
        "clusters": {"lab": {"nodes": [{"name": name, "gpus": site.gpus} for name in site.nodes]}},
        "accounts": {
            "language": {"share": "50%", "accounts": {"olmo": {"share": "100%"}}},
            "vision": {"share": "50%"},
        },
        "policy": policy,
        "live": {"engine": {"slurm": {"conf": str(site.conf), "folder": str(site.folder / "said")}}},
    }


class Live:
    """The server on the site, which may be killed and started again."""

    def __init__(self, site: SlurmSite, folder: Path, policy: dict[str, Any], *, shadow: bool) -> None:
        self.site, self.folder, self.lab = site, folder, lab_of(site, policy)
        self.options = (*OPTIONS, "--shadow") if shadow else OPTIONS
        self.served: Served = start_server(folder, self.lab, *self.options)

    @property
    def client(self) -> Client:
        return self.served.client()

    def kill(self) -> None:
        """As the machine would: at once, whatever it was at."""
        self.served.end(signal.SIGKILL)

    def again(self) -> None:
        self.served = start_server(self.folder, self.lab, *self.options)

    def sbatch(self, account: str, min_runtime: str, *options: str, script: str) -> str:
        return self.site.sbatch(
            "--comment", f"tenure: account={account} min={min_runtime}", *options, script=script
        )

    def job(self, job: str) -> Any:
        with self.client as client:
            return client.show(job)

    def until(self, what: str, true: Callable[[], bool], seconds: float = 300) -> None:
        try:
            self.site.wait(true, what, seconds)
        except AssertionError as error:
            said = "".join(self.served.said)[-3000:]
            queue = self.site.run("squeue", "-a", "-t", "all", "-o", "%i %T %r %N %k", check=False)
            raise AssertionError(f"{error}\n{queue}\n{said}") from None

    def phase(self, job: str) -> str:
        try:
            return str(self.job(job).phase)
        except Exception:  # not arrived yet
            return ""


@pytest.fixture
def open_live(slurm: SlurmSite, tmp_path: Path) -> Iterator[Callable[..., Live]]:
    opened: list[Live] = []

    def open_it(*, shadow: bool = False, **policy: Any) -> Live:
        slurm.clear()
        policy = {"grace": {"budgeted": "6s", "unbudgeted": "4s"}, **policy}
        opened.append(Live(slurm, tmp_path, policy, shadow=shadow))
        return opened[-1]

    yield open_it
    for live in opened:
        live.served.end(signal.SIGKILL)
    slurm.clear()


def test_a_day_on_slurm(open_live: Callable[..., Live]) -> None:
    live = open_live(back_off="1s")
    gang = live.sbatch("language/olmo", "1h", "--gpus=128", script="exec sleep 900")
    live.until("the gang runs", lambda: live.phase(gang) == "running")
    live.until("it runs at Slurm too", lambda: live.site.state(gang) == "RUNNING")
    attempt = live.job(gang).attempts[0]
    assert (len(attempt.nodes), set(attempt.nodes.values())) == (16, {8})
    assert sorted(attempt.nodes) == sorted(
        live.site.run("scontrol", "show", "hostnames", live.site.job(gang)["NodeList"]).split()
    )

    tasks: list[str] = []
    for count in (30, 20):
        filler = live.sbatch("vision", "0", "--gpus=8", f"--array=1-{count}", script="exec sleep 900")
        tasks += [f"{filler}_{number}" for number in range(1, count + 1)]
        last = tasks[-1]
        live.until("they have arrived", lambda last=last: live.phase(last) != "")  # type: ignore[misc]
    with live.client as client:
        # a node of the pool may be kept for quick work
        live.until("the rest of the cluster is full", lambda: live.site.idle() <= 1)
        assert Counter(client.show(task).phase for task in tasks)["running"] >= 47

        with live.served.client("root", admin=True) as root:
            wanted = root.submit(
                account="language/olmo", gpus=16, min_runtime="1h", name="urgent", command=["sleep", "900"],
                workdir=str(live.site.folder / "out"),
            ).job  # fmt: skip
        live.until("it displaced somebody", lambda: live.phase(wanted) == "running")
        shown = client.show(wanted)
        assert shown.gpus == 16
        victims = [
            job for job in map(client.show, tasks) if job.attempts and job.attempts[0].end == "preempted"
        ]
        assert 1 <= len(victims) <= 2
        nodes = {node for job in victims for node in job.attempts[0].nodes}
        assert nodes <= set(shown.attempts[0].nodes)
        for job in victims:
            assert job.phase == "waiting"
            told = [str(one) for one in client.events(job.job)]
            assert any(wanted in text for text in told), told
            assert live.site.state(job.job) == "PENDING"
        assert live.phase(gang) == "running", "it is protected"

        client.cancel(gang, reason="a test")
        live.until("the gang left and others moved in", lambda: live.phase(gang) == "ended")
        assert client.show(gang).end == "cancelled"
        live.until("all tasks run", lambda: all(client.show(task).phase == "running" for task in tasks))
        again = [client.show(job.job) for job in victims]
        assert all(len(job.attempts) == 2 for job in again)

        live.site.run("scancel", tasks[0])
        live.until("a cancel behind its back is seen", lambda: live.phase(tasks[0]) == "ended")
        assert client.show(tasks[0]).end == "cancelled"
        refused = live.site.sbatch("--comment", "tenure: account=nobody/knows", "--gpus=1", script="true")
        live.until("it is taken out of the queue", lambda: live.site.state(refused) == "CANCELLED")


def test_arrays_with_a_limit_of_their_own_run_to_their_end(open_live: Callable[..., Live]) -> None:
    live = open_live()
    theirs = live.sbatch("vision", "10m", "--gpus=8", "--array=0-4%2", script="exec sleep 2")
    with live.served.client("root", admin=True) as root:
        told = root.submit(
            account="language/olmo", gpus=8, min_runtime="10m", array="0-4%2", command=["sleep", "2"],
            workdir=str(live.site.folder / "out"),
        )  # fmt: skip
        assert told.jobs == [f"{told.job}_{task}" for task in range(5)]
        for array in (theirs, told.job):
            live.until(f"{array} is over", lambda array=array: live.phase(array) == "ended")  # type: ignore[misc]
            tasks = root.show(array).elements
            assert [one.end for one in tasks] == ["finished"] * 5


def test_killed_at_any_instant_it_loses_nothing_and_starts_nothing_twice(
    open_live: Callable[..., Live],
) -> None:
    live = open_live(back_off="1s")
    rng = np.random.default_rng([7, KILLS])
    traces = live.site.folder / "out" / "traces"
    traces.mkdir(exist_ok=True)
    for old in traces.iterdir():
        old.unlink()
    script = (
        "me=$SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0}; echo begun >> traces/$me;"
        ' trap "echo told >> traces/$me; exit 1" TERM; sleep $1 & wait; echo done >> traces/$me'
    )
    jobs: list[str] = []

    def submit(count: int) -> None:
        for _ in range(count):
            account, least = [("language/olmo", "2s"), ("vision", "10m"), ("vision", "0")][
                int(rng.integers(3))
            ]
            gpus = int(rng.choice([1, 4, 8, 64, 128]))
            length = str(int(rng.integers(2, 9)))
            jobs.append(live.sbatch(account, least, f"--gpus={gpus}", script=script.replace("$1", length)))

    submit(20)
    for _ in range(KILLS):
        time.sleep(float(rng.uniform(0.2, 4.0)))
        live.kill()
        submit(6)
        time.sleep(float(rng.uniform(0.0, 3.0)))
        live.again()
    live.until(
        "every job has ended", lambda: all(live.phase(job) == "ended" for job in jobs), 300 + 20 * KILLS
    )
    shown = {job: live.job(job) for job in jobs}
    assert Counter(job.end for job in shown.values()) == {"finished": len(jobs)}
    for job, told in shown.items():
        files = sorted(traces.glob(f"{job}.*"), key=lambda path: int(path.suffix[1:]))
        words = [path.read_text().split() for path in files]
        assert all(one.count("begun") == 1 for one in words), (job, words)
        assert [one[-1] for one in words if "done" in one] == ["done"], (job, words)
        assert len(words) <= len(told.attempts), (job, words, told.attempts)
        assert [one.attempt for one in told.attempts] == list(range(1, len(told.attempts) + 1))
        assert sum(one.end == "finished" for one in told.attempts) == 1
        assert all(one.stopped is not None for one in told.attempts)
    assert not live.site.run("squeue", "-h", "-a", "-o", "%i").strip(), "nothing is left at Slurm"


def test_a_shadow_decides_and_touches_nothing(open_live: Callable[..., Live]) -> None:
    live = open_live(shadow=True)
    jobs = [live.sbatch("vision", "1h", "--gpus=8", script="exec sleep 900") for _ in range(3)]
    live.until("it would start them", lambda: all(live.phase(job) == "running" for job in jobs))
    time.sleep(3)
    for job in jobs:
        fields = live.site.job(job)
        assert (fields["JobState"], fields["Priority"], fields["ReqNodeList"]) == ("PENDING", "0", "(null)")
        assert "AdminComment" not in fields


def test_a_shadow_compares_what_slurm_did_with_what_it_would_have_done(
    open_live: Callable[..., Live],
) -> None:
    live = open_live(shadow=True)
    ran, waits = (live.sbatch("vision", "1h", "--gpus=8", script="exec sleep 4") for _ in range(2))
    live.until("it would start them", lambda: all(live.phase(job) == "running" for job in (ran, waits)))
    live.site.run("scontrol", "release", ran)
    live.until("it has ended there and here", lambda: live.phase(ran) == "ended")
    live.kill()
    unseen = live.sbatch("language/olmo", "1h", "--gpus=16", script="exec sleep 900")
    live.site.run("scontrol", "release", unseen)
    live.until("it runs there", lambda: live.site.state(unseen) == "RUNNING")
    live.again()
    live.until("it runs here", lambda: live.phase(unseen) == "running")
    with live.client as client:
        told = client.audit_shadow()
    theirs, ours = told["runs"]
    assert (theirs["jobs"]["finished"], theirs["jobs"]["running"], theirs["jobs"]["waiting"]) == (1, 1, 1)
    assert (ours["jobs"]["finished"], ours["jobs"]["running"], ours["jobs"]["waiting"]) == (1, 2, 0)
    assert told["left_out"]["jobs"] == 0
    assert waits in [one["job"] for one in told["jobs"]["sooner"]]
