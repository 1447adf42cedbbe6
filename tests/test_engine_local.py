"""Real processes on this machine: none is started twice, none is left behind, whoever dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from engine_sites import LocalSite, begun, end_all, ended, find, processes_of, start, stop, wait_for
from local_site import either, output, record, run, run_forever, site, until
from tenure.engines.local.engine import LocalEngine
from tenure.engines.local.processes import is_there, stat_of
from tenure.engines.protocol import OrderRefused

__all__ = ["either", "site"]  # fixtures


# --- every process of it ------------------------------------------------------------------------------------


FORKS = """
sleep 301 &
setsid sleep 302 &
(setsid sh -c 'trap "" TERM HUP; sleep 303; sleep 303' &) &
env -i setsid sleep 304 &
python3 -c 'import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: time.sleep(305)
    os._exit(0)
'
trap '' TERM
touch $TENURE_SAVED
while true; do sleep 0.05; done
"""


@pytest.mark.slow
def test_what_forks_and_leaves_its_session_is_gone_after_a_stop(either: LocalSite) -> None:
    either.engine.carry_out(start("a", [FORKS]))
    wait_for(either, "a", that=lambda seen: seen.saved is not None)
    main, shepherd = record(either, "job")["pid"], record(either, "shepherd")["pid"]
    family = descendants(shepherd)
    assert len(family) >= 6
    assert len({session for _, session in family.values()}) >= 4, "they are in sessions of their own"
    either.engine.carry_out(stop("a", 0.2))
    seen = wait_for(either, "a", that=ended)
    assert (seen.told, seen.signal) == (True, 9)
    assert main in family
    assert not [pid for pid, (ticks, _) in family.items() if is_there(pid, ticks)]


def descendants(pid: int) -> dict[int, tuple[int, int]]:
    """(ticks, session) by pid of all processes below one."""
    stats = {int(n): found for n in os.listdir("/proc") if n.isdigit() and (found := stat_of(int(n)))}
    known = {pid}
    while more := {child for child, found in stats.items() if found[1] in known} - known:
        known |= more
    return {child: (stats[child][3], stats[child][2]) for child in known - {pid}}


def test_what_its_main_process_leaves_behind_is_ended_with_it(either: LocalSite) -> None:
    either.engine.carry_out(start("a", ["setsid sleep 300 & echo $! ; exit 4"]))
    seen = wait_for(either, "a", that=ended)
    assert (seen.exit_code, seen.told) == (4, False)
    assert stat_of(int(output(either))) is None


@pytest.mark.slow
def test_told_to_stop_what_it_left_behind_may_use_the_grace_too(either: LocalSite) -> None:
    """A shell dies of the signal at once; the program it started is still saving."""
    program = (
        "import signal, time, os; signal.signal(15, lambda *_: (time.sleep(0.5), print('saved', flush=True),"
    )
    program += " os._exit(0))); print('ready', flush=True); time.sleep(60)"
    either.engine.carry_out(start("a", [f'python3 -c "{program}" & wait']))
    until(lambda: "ready" in output(either))
    either.engine.carry_out(stop("a", 300))
    seen = wait_for(either, "a", that=ended)
    assert output(either) == "ready\nsaved\n"
    assert (seen.told, seen.done) == (True, False)


def test_what_forks_without_end_is_ended_too(either: LocalSite) -> None:
    program = "import os, time, signal\nsignal.signal(15, signal.SIG_IGN)\nend = time.time() + 60\n"
    program += (
        "while time.time() < end:\n    if os.fork(): os._exit(0)\n    os.setsid()\n    time.sleep(0.001)\n"
    )
    either.engine.carry_out(start("a", ["python3", "-c", program + "\n"]))
    seen = wait_for(either, "a", that=ended)
    assert seen.exit_code == 0  # its first process was gone at once, and with it all that it left
    until(lambda: not processes_of(either.folder))


# --- shepherds die ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_when_its_shepherd_is_killed_it_runs_on_and_its_end_is_seen(
    either: LocalSite, tmp_path: Path
) -> None:
    either.engine.carry_out(start("a", [f"until test -e {tmp_path}/go; do sleep 0.05; done; echo end"]))
    wait_for(either, "a", that=begun)
    os.kill(record(either, "shepherd")["pid"], signal.SIGKILL)
    before = record(either, "shepherd")["pid"]
    until(lambda: either.engine.see() and record(either, "shepherd")["pid"] != before)
    assert find(either.engine, "a").ended is None  # type: ignore[union-attr]
    let_go_at = time.time()
    (tmp_path / "go").touch()
    seen = wait_for(either, "a", that=ended)
    assert output(either) == "end\n"
    assert (seen.exit_code, seen.signal, seen.detail) == (
        None,
        None,
        "its shepherd was killed: how it ended is not known",
    )
    assert seen.started is not None
    assert seen.ended is not None
    assert let_go_at - 1 <= seen.ended <= time.time() + 1


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stop", "limit"])
def test_when_its_shepherd_is_killed_stop_and_limit_still_hold(either: LocalSite, how: str) -> None:
    either.engine.carry_out(start("a", [FORKS], max_runtime_s=2 if how == "limit" else None))
    wait_for(either, "a", that=lambda seen: seen.saved is not None)
    os.kill(record(either, "shepherd")["pid"], signal.SIGKILL)
    if how == "stop":
        either.engine.carry_out(stop("a", 0.3))
    seen = wait_for(either, "a", that=ended)
    assert (seen.told, seen.timed_out) == (how == "stop", how == "limit")
    until(lambda: not processes_of(either.folder))


def test_a_number_given_to_another_process_is_never_signalled(site: LocalSite) -> None:
    site.engine.carry_out(start("a", ["sleep", "60"]))
    wait_for(site, "a", that=begun)
    job, shepherd = record(site, "job"), record(site, "shepherd")
    os.kill(shepherd["pid"], signal.SIGKILL)
    os.kill(job["pid"], signal.SIGKILL)
    time.sleep(0.05)  # no number is given twice within one tick of 10 ms, so this stranger began in another
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        assert stat_of(stranger.pid)[3] != job["ticks"]  # type: ignore[index]
        folder = site.folder / "attempts" / "a.1"
        (folder / "job.json").write_text(json.dumps(job | {"pid": stranger.pid}))
        (folder / "shepherd.json").write_text(json.dumps(shepherd | {"pid": stranger.pid}))
        site.reopen()
        site.engine.carry_out(stop("a", 0))
        seen = wait_for(site, "a", that=ended)
        assert seen.exit_code is None
        assert stranger.poll() is None, "somebody else's process was ended"
        stranger.kill()


def test_after_the_machine_was_started_anew_an_attempt_has_failed_with_its_node(site: LocalSite) -> None:
    site.engine.carry_out(start("a", ["sleep", "60"]))
    wait_for(site, "a", that=begun)
    for name in ("shepherd", "job"):
        os.kill(record(site, name)["pid"], signal.SIGKILL)
    order = record(site, "order")
    path = site.folder / "attempts" / "a.1" / "order.json"
    path.write_text(json.dumps(order | {"boot": "another boot 1"}))
    site.reopen()
    seen = wait_for(site, "a", that=ended)
    assert (seen.node_failed, seen.told, seen.exit_code) == (True, False, None)
    assert seen.ended is not None
    assert seen.started is not None
    assert seen.ended >= seen.started
    site.engine.carry_out(start("a", ["true"]))  # said again, it does not run again
    time.sleep(0.3)
    assert find(site.engine, "a") == seen


def test_a_machine_that_shuts_down_is_no_failure_of_the_job(site: LocalSite) -> None:
    site.engine.carry_out(start("a", ["sleep", "60"]))
    wait_for(site, "a", that=begun)
    os.kill(record(site, "shepherd")["pid"], signal.SIGTERM)
    time.sleep(0.2)
    assert find(site.engine, "a").ended is None  # type: ignore[union-attr]
    os.kill(record(site, "job")["pid"], signal.SIGTERM)
    assert wait_for(site, "a", that=ended).node_failed


def test_killed_by_somebody_else_it_says_so(site: LocalSite) -> None:
    site.engine.carry_out(start("a", ["sleep", "60"]))
    wait_for(site, "a", that=begun)
    os.kill(record(site, "job")["pid"], signal.SIGTERM)
    seen = wait_for(site, "a", that=ended)
    assert (seen.signal, seen.told, seen.node_failed) == (15, False, False)
    assert seen.detail == "ended by signal 15, which Tenure did not send"


# --- engines die --------------------------------------------------------------------------------------------


VICTIM = """
import sys, time
from pathlib import Path
from tenure.engines.local.engine import LocalEngine
from tenure.engines.protocol import Forget, Start, Stop
engine = LocalEngine(Path(sys.argv[1]), {"n1": 4, "n2": 4})
sys.stdout.write("open\\n")
sys.stdout.flush()
for job in ("a", "b", "c"):
    engine.carry_out(Start(job, job, 1, "vision", "ann", {"n1": 1}, [sys.argv[2]], {}, "/", None))
if sys.argv[3] == "all":
    engine.carry_out(Stop("x", "a", 1, 0.02, True, "somebody else's turn"))
    while True:
        for seen in engine.see().attempts:
            if seen.ended is not None:
                engine.carry_out(Forget("f", seen.job, seen.attempt))
sys.stdin.read()
"""


def killed_on_the_way(data: Path, command: str, orders: str, after_s: float) -> None:
    """An engine in a process of its own is killed so long after it was opened."""
    words = [sys.executable, "-c", VICTIM, str(data), command, orders]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as victim:
        assert victim.stdin is not None
        assert victim.stdout is not None
        assert victim.stdout.readline() == b"open\n"
        time.sleep(after_s)
        victim.kill()


def trial(folder: Path, number: int, chance: Any) -> None:
    """An engine is killed while it starts three jobs, stops one and forgets them; some shepherds too."""
    runs, data = folder / "runs", folder / "local"
    command = f"echo $TENURE_JOB $$ >> {runs}; sleep 0.15"
    every = number % 3 == 1
    killed_on_the_way(
        data, command, "all" if every else "starts", float(chance.uniform(0, 0.4 if every else 0.15))
    )
    shot = kill_shepherds(data, chance) if number % 3 == 2 else 0
    engine = LocalEngine(data, {"n1": 4, "n2": 4})
    try:
        for order in [*(start(job, [command]) for job in "abc"), *([stop("a", 0.02)] if every else [])] * 2:
            engine.carry_out(order)
        deadline = time.monotonic() + 180
        while any(seen.ended is None for seen in engine.see().attempts):
            assert time.monotonic() < deadline, engine.see().attempts
            time.sleep(0.01)
        seen = {found.job: found for found in engine.see().attempts}
    finally:
        engine.close()
    forgotten = {name.removesuffix(".1") for name in os.listdir(data / "forgotten")}
    assert sorted([*seen, *forgotten]) == ["a", "b", "c"]
    ran = [line.split()[0] for line in runs.read_text().splitlines()] if runs.exists() else []
    assert len(ran) == len(set(ran)), f"trial {number}: ran twice: {ran}"
    clean = [job for job, found in seen.items() if found.exit_code == 0]
    assert set(clean) <= set(ran)
    assert forgotten - {"a"} <= set(ran), "forgotten, and had never run"
    assert len(forgotten) + len(clean) >= 3 - shot - every, f"trial {number}: {seen}"
    end_all(data)


def kill_shepherds(data: Path, chance: Any) -> int:
    shot = 0
    for pid, command in processes_of(data).items():
        if "run_shepherd" in command and chance.random() < 0.5:
            os.kill(pid, signal.SIGKILL)
            shot += 1
    return shot


@pytest.mark.parametrize(
    "batch", [pytest.param(0), *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, 8))]
)
def test_engines_killed_at_any_instant_start_nothing_twice_and_lose_nothing(
    batch: int, tmp_path: Path
) -> None:
    import numpy as np

    chance = np.random.default_rng([11, batch])
    for number in range(9):
        folder = tmp_path / str(number)
        folder.mkdir()
        trial(folder, number, chance)


@pytest.mark.slow
def test_a_shepherd_killed_at_any_instant_of_its_beginning_never_makes_a_job_run_twice(
    site: LocalSite,
) -> None:
    runs = site.folder / "runs"
    for number in range(12):
        job = f"j{number}"
        site.engine.carry_out(start(job, [f"echo {job} >> {runs}; sleep 0.05"]))
        (pid,) = [a.spawned for a in site.engine._attempts.values() if a.job == job]
        time.sleep(number * 0.008)
        os.kill(pid, signal.SIGKILL)
        seen = wait_for(site, job, that=ended)
        ran = runs.read_text().split().count(job) if runs.exists() else 0
        assert ran <= 1
        if ran == 0:
            assert seen.started is None or seen.exit_code is None
            assert "shepherd was killed" in seen.detail


def test_two_engines_at_once_give_no_gpu_twice(site: LocalSite) -> None:
    other = LocalEngine(site.folder, {"n1": 4, "n2": 4})
    refused = []

    def give(engine: LocalEngine, name: str) -> None:
        for i in range(6):
            try:
                engine.carry_out(start(f"{name}{i}", ["sleep", "60"]))
            except OrderRefused as error:
                refused.append(str(error))

    threads = [threading.Thread(target=give, args=pair) for pair in ((site.engine, "a"), (other, "b"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.close()
    assert len(refused) == 8
    assert set(refused) == {"n1 has 0 GPUs free, and 1 are asked for"}
    orders = [json.loads(p.read_text()) for p in site.folder.glob("attempts/*/order.json")]
    assert sorted(order["slots"] for order in orders) == [[0], [1], [2], [3]]


def test_whoever_asks_to_be_woken_hears_of_a_beginning_and_an_end(site: LocalSite, tmp_path: Path) -> None:
    woken = threading.Semaphore(0)
    site.engine.on_change(woken.release)
    site.engine.carry_out(start("a", [f"until test -e {tmp_path}/go; do sleep 0.05; done"]))
    until(lambda: woken.acquire(timeout=5) and find(site.engine, "a").started is not None)  # type: ignore[union-attr]
    (tmp_path / "go").touch()
    until(lambda: woken.acquire(timeout=5) and find(site.engine, "a").ended is not None)  # type: ignore[union-attr]


@pytest.mark.slow
def test_looking_again_opens_no_file_where_nothing_has_changed(site: LocalSite) -> None:
    for number in range(3):
        run(site, ["true"], f"over{number}")
        site.engine.carry_out(start(f"runs{number}", ["sleep", "60"]))
        wait_for(site, f"runs{number}", that=begun)
    time.sleep(0.3)
    site.engine.see()
    opened: list[str] = []
    watching = [True]
    sys.addaudithook(
        lambda event, args: opened.append(str(args[0])) if event == "open" and watching else None
    )
    try:
        for _ in range(5):
            assert len(site.engine.see().attempts) == 6
    finally:
        watching.clear()
    assert [path for path in opened if str(site.folder) in path] == []


def test_a_shepherd_needs_nothing_but_the_standard_library_and_little_of_that(site: LocalSite) -> None:
    pid = run_forever(site)
    maps = Path(f"/proc/{pid}/maps").read_text()
    assert "site-packages" not in maps
    assert "numpy" not in maps
    code = "import sys; sys.path.insert(0, sys.argv[1]); import tenure.engines.local.shepherd;"
    code += " print(*sys.modules)"
    root = str(Path(__file__).parent.parent / "src")
    asked = [sys.executable, "-I", "-S", "-c", code, root]
    loaded = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()
    assert {name for name in loaded if name.startswith("tenure")} == {
        "tenure",
        "tenure.engines",
        "tenure.engines.local",
        "tenure.engines.local.processes",
        "tenure.engines.local.shepherd",
    }
    assert not {"subprocess", "threading", "logging", "pathlib", "asyncio"} & set(loaded)
    assert len(loaded) < 90
