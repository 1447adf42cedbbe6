"""Real processes on this machine: none is started twice, none is left behind, none knows too much."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine_sites import LocalSite, begun, end_all, ended, find, processes_of, start, stop, wait_for
from tenure.engines.local.cgroups import find_cgroups
from tenure.engines.local.engine import LocalEngine, LocalSettings
from tenure.engines.local.gpus import slots_of
from tenure.engines.local.processes import is_there, stat_of
from tenure.engines.protocol import EngineUnavailable, Forget, Notice, OrderRefused

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may run jobs as somebody else")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[LocalSite]:
    place = LocalSite(tmp_path)
    yield place
    place.close()


@pytest.fixture(params=[True, False], ids=["cgroups", "none"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalSite]:
    place = LocalSite(tmp_path, LocalSettings(cgroups=request.param))
    if request.param and place.engine.cgroups.kind == "none":
        pytest.skip("no cgroup can be made on this machine")
    yield place
    place.close()


def output(site: LocalSite, job: str = "a") -> str:
    return site.engine.log_of(job, 1, last_bytes=1 << 22).decode()


def run(site: LocalSite, command: list[str], job: str = "a", **more: object) -> str:
    """What a command writes, run to its end."""
    site.engine.carry_out(start(job, command, **more))
    wait_for(site, job, that=ended)
    return output(site, job)


def record(site: LocalSite, name: str, job: str = "a") -> dict[str, Any]:
    read: dict[str, Any] = json.loads((site.folder / "attempts" / f"{job}.1" / f"{name}.json").read_text())
    return read


def until(that: Any, within_s: float = 20) -> None:
    deadline = time.monotonic() + within_s
    while not that():
        assert time.monotonic() < deadline, "it never came to be so"
        time.sleep(0.01)


# --- every process of it ------------------------------------------------------------------------------

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


def test_told_to_stop_what_it_left_behind_may_use_the_grace_too(either: LocalSite) -> None:
    """A shell dies of the signal at once; the program it started is still saving."""
    program = (
        "import signal, time, os; signal.signal(15, lambda *_: (time.sleep(0.5), print('saved', flush=True),"
    )
    program += " os._exit(0))); print('ready', flush=True); time.sleep(60)"
    either.engine.carry_out(start("a", [f'python3 -c "{program}" & wait']))
    until(lambda: "ready" in output(either))
    either.engine.carry_out(stop("a", 10))
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


# --- shepherds die ------------------------------------------------------------------------------------


def test_when_its_shepherd_is_killed_it_runs_on_and_its_end_is_seen(either: LocalSite) -> None:
    either.engine.carry_out(start("a", ["sleep 1.5; echo end"]))
    wait_for(either, "a", that=begun)
    os.kill(record(either, "shepherd")["pid"], signal.SIGKILL)
    before = record(either, "shepherd")["pid"]
    until(lambda: either.engine.see() and record(either, "shepherd")["pid"] != before)
    assert find(either.engine, "a").ended is None  # type: ignore[union-attr]
    seen = wait_for(either, "a", that=ended)
    assert output(either) == "end\n"
    assert (seen.exit_code, seen.signal, seen.detail) == (
        None,
        None,
        "its shepherd was killed: how it ended is not known",
    )
    assert seen.started is not None
    assert seen.ended is not None
    assert 1.4 <= seen.ended - seen.started < 4


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
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
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


# --- engines die --------------------------------------------------------------------------------------

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
        deadline = time.monotonic() + 20
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


def test_whoever_asks_to_be_woken_hears_of_a_beginning_and_an_end(site: LocalSite) -> None:
    woken = threading.Semaphore(0)
    site.engine.on_change(woken.release)
    site.engine.carry_out(start("a", ["sleep", "0.3"]))
    until(lambda: woken.acquire(timeout=5) and find(site.engine, "a").started is not None)  # type: ignore[union-attr]
    asked = time.monotonic()
    until(lambda: woken.acquire(timeout=5) and find(site.engine, "a").ended is not None)  # type: ignore[union-attr]
    assert time.monotonic() - asked < 5


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


# --- what a job is given ------------------------------------------------------------------------------


def test_a_job_knows_what_it_must_and_nothing_of_the_daemon(
    site: LocalSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENURE_TOKEN", "secret")
    monkeypatch.setenv("DATABASE_PASSWORD", "secret")
    env = {"TENURE_TOKEN": "own", "TENURE_JOB": "another's", "LR": "0.1", "ümlaut": "größe\nzwei"}
    told = run(site, ["env", "-0"], env=env, nodes={"n1": 2, "n2": 1}, name="größe")
    seen = dict(word.split("=", 1) for word in told.split("\0") if word)
    assert "secret" not in told
    assert "TENURE_TOKEN" not in seen
    assert (seen["LR"], seen["ümlaut"], seen["TENURE_JOB"]) == ("0.1", "größe\nzwei", "a")
    assert (seen["TENURE_ATTEMPT"], seen["TENURE_ACCOUNT"], seen["TENURE_NAME"]) == ("1", "vision", "größe")
    assert json.loads(seen["TENURE_NODES"]) == {"n1": 2, "n2": 1}
    assert seen["CUDA_VISIBLE_DEVICES"] == "0,1,4"


def test_a_job_holds_no_file_that_the_daemon_has_open(site: LocalSite) -> None:
    ends = os.pipe()
    try:
        for end in ends:
            os.set_inheritable(end, True)
        assert run(site, ["ls", "/proc/self/fd"]).split() == [
            "0",
            "1",
            "2",
            "3",
        ]  # 3: the folder that `ls` reads
        assert set(os.listdir(f"/proc/{run_forever(site)}/fd")) <= {str(i) for i in range(9)}
    finally:
        for end in ends:
            os.close(end)


def run_forever(site: LocalSite) -> int:
    """The shepherd of a job that runs on."""
    site.engine.carry_out(start("z", ["sleep", "60"]))
    wait_for(site, "z", that=begun)
    return int(record(site, "shepherd", "z")["pid"])


def test_gpus_are_never_given_twice_and_stay_given_over_a_restart(site: LocalSite) -> None:
    site.engine.carry_out(start("a", ["sleep", "60"], nodes={"n1": 2}))
    site.engine.carry_out(start("b", ["sleep", "60"], nodes={"n1": 1}))
    site.reopen()
    assert run(site, ["echo $CUDA_VISIBLE_DEVICES"], "c") == "3\n"
    with pytest.raises(OrderRefused, match="n1 has 1 GPUs free, and 2 are asked for"):
        site.engine.carry_out(start("d", ["true"], nodes={"n1": 2}))
    with pytest.raises(OrderRefused, match="attempt 1 of a is still running"):
        site.engine.carry_out(start("a", ["true"], 2))
    site.engine.carry_out(stop("a", 0))
    wait_for(site, "a", that=ended)
    assert run(site, ["echo $CUDA_VISIBLE_DEVICES"], "e", nodes={"n1": 3}) == "0,1,3\n"


def test_words_reach_the_program_as_they_are(site: LocalSite) -> None:
    words = ["a b", "$HOME", "`id`", "new\nline", "", "größe 🎉", "-n", "x" * 100_000]
    assert run(site, ["printf", "%s\\0", *words]) == "\0".join(words) + "\0"
    assert run(site, ["echo $((6 * 7)) | cat; [[ 1 ]] && echo bash"], "b") == "42\nbash\n"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"command": []}, "there is no command"),
        ({"command": ["", "x"]}, "first word of the command is empty"),
        ({"command": ["echo", "a\0b"]}, "argument 1 holds a NUL byte"),
        ({"command": ["echo", "x" * 200_000]}, "argument 1 is 200000 bytes long, the kernel takes 131071"),
        ({"command": ["echo", "\ud800"]}, "argument 1 holds what is no text"),
        ({"command": ["echo", *(["x" * 1000] * 30_000)]}, "bytes, the kernel takes"),
        ({"env": {f"V{i}": "x" * 100_000 for i in range(100)}}, "bytes, the kernel takes"),
        ({"env": {"BIG": "x" * 10_000_000}}, "variable 'BIG' is 10000004 bytes long"),
        ({"env": {"A=B": "1"}}, "a variable cannot be called 'A=B'"),
        ({"env": {"": "1"}}, "a variable cannot be called ''"),
        ({"env": {"A": "\0"}}, "variable 'A' holds a NUL byte"),
        ({"env": {"TENURE_NOTICE_SIGNAL": "USR9"}}, "there is no signal 'USR9'"),
        ({"workdir": "/tmp\0"}, "holds a NUL byte"),
        ({"job": "x" * 300}, "a job's id has 1 to 200 bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_no_program_can_be_given_is_refused_in_one_sentence(
    site: LocalSite, change: dict[str, Any], message: str
) -> None:
    order = start("a", ["true"])._replace(**change)
    assert site.engine.log_of(order.job, 1) == b""
    with pytest.raises(OrderRefused) as refused:
        site.engine.carry_out(order)
    assert message in str(refused.value)
    assert len(str(refused.value)) < 200
    assert os.listdir(site.folder / "attempts") == []


def test_ids_that_look_like_paths_stay_in_their_folder(site: LocalSite) -> None:
    for job in ("../../x", "..", "a/b", "größe", "a.1", "%2e", "-rf", " "):
        assert run(site, ["echo", "here"], job, nodes={"n2": 1}) == "here\n"
    assert {seen.job for seen in site.engine.see().attempts} >= {"../../x", "a/b", "größe"}
    assert sorted(os.listdir(site.folder)) == ["attempts", "forgotten", "slots.lock"]


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ({"command": ["no-such-program", "x"]}, "cannot begin: No such file or directory"),
        ({"command": ["/etc/passwd", "x"]}, "cannot begin: Permission denied"),
        ({"workdir": "/no/such/folder"}, "cannot begin: No such file or directory: /no/such/folder"),
    ],
)
def test_what_cannot_begin_fails_and_says_why(site: LocalSite, change: dict[str, Any], detail: str) -> None:
    site.engine.carry_out(start("a", ["true"])._replace(**change))
    seen = wait_for(site, "a", that=ended)
    assert seen.exit_code == 127
    assert seen.detail.startswith(detail)


# --- what a job says ----------------------------------------------------------------------------------


def test_a_job_says_that_it_has_saved_and_that_it_is_done(site: LocalSite) -> None:
    command = "trap 'touch $TENURE_DONE; exit 0' TERM; touch $TENURE_SAVED; while true; do sleep 0.05; done"
    site.engine.carry_out(start("a", [command]))
    seen = wait_for(site, "a", that=lambda seen: seen.saved is not None)
    assert seen.saved is not None
    assert abs(seen.saved - time.time()) < 10
    assert not seen.done
    site.engine.carry_out(stop("a", 10))
    seen = wait_for(site, "a", that=ended)
    assert (seen.told, seen.done, seen.exit_code) == (True, True, 0)


def test_a_notice_is_a_file_and_a_signal_only_where_the_job_asks_for_one(site: LocalSite) -> None:
    wait = "trap 'echo heard; exit 0' USR1; touch $TENURE_SAVED; while true; do sleep 0.05; done"
    site.engine.carry_out(start("a", [wait], env={"TENURE_NOTICE_SIGNAL": "SIGUSR1"}))
    site.engine.carry_out(
        start("b", ["while [ ! -e $TENURE_NOTICE ]; do sleep 0.05; done; cat $TENURE_NOTICE"])
    )
    for job in "ab":
        wait_for(site, job, that=begun)
    wait_for(site, "a", that=lambda seen: seen.saved is not None)
    for job in "ab":
        site.engine.carry_out(Notice(f"n{job}", job, 1, 1_234_567_890.0))
    assert wait_for(site, "a", that=ended).exit_code == 0
    assert wait_for(site, "b", that=ended).exit_code == 0
    assert (output(site, "a"), output(site, "b")) == ("heard\n", "1234567890\n")


def test_a_job_may_claim_no_save_outside_its_own_time(site: LocalSite) -> None:
    run(site, ["touch -d '2001-01-01' $TENURE_SAVED"], "a")
    run(site, ["touch -d '2101-01-01' $TENURE_SAVED"], "b")
    assert find(site.engine, "a").saved is None  # type: ignore[union-attr]
    future = find(site.engine, "b")
    assert future is not None
    assert future.saved == future.ended


def test_a_log_that_grows_without_end_is_cut_and_the_job_goes_on(tmp_path: Path) -> None:
    site = LocalSite(tmp_path, LocalSettings(log_bytes=1 << 20))
    try:
        program = (
            "import sys\nprint('first line')\nfor i in range(400): sys.stdout.write('x' * 99999 + '\\n')\n"
        )
        program += "import time; time.sleep(2.5); print('last line')"
        told = run(site, ["python3", "-c", program])
        path = site.folder / "attempts" / "a.1" / "log"
        assert path.stat().st_size <= 1 << 20
        assert told.endswith("last line\n")
        assert path.read_text().startswith("first line\n")
        assert "[tenure: the log was longer than 1048576 bytes: cut here]" in path.read_text()
        assert find(site.engine, "a").exit_code == 0  # type: ignore[union-attr]
        assert len(site.engine.log_of("a", 1, last_bytes=10)) == 10
    finally:
        site.close()


def test_logs_are_there_after_an_attempt_is_forgotten_and_go_when_they_are_old(site: LocalSite) -> None:
    assert run(site, ["echo", "kept"]) == "kept\n"
    site.engine.carry_out(Forget("f", "a", 1))
    assert output(site) == "kept\n"
    site.reopen()
    assert output(site) == "kept\n"
    os.utime(site.folder / "forgotten" / "a.1", (0, 0))
    site.reopen()
    assert output(site) == ""


# --- as whom, and with what bounds --------------------------------------------------------------------


@as_root
def test_a_job_runs_as_the_user_who_submitted_it(tmp_path: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(folder.stat().st_mode | 0o011)
    site = LocalSite(tmp_path)
    try:
        told = run(
            site, ["id -u; id -G; echo $USER; touch $TENURE_DONE; cat /proc/self/status"], user="nobody"
        )
        uid, groups, user, *status = told.splitlines()
        assert (uid, user) == (str(nobody.pw_uid), "nobody")
        assert set(groups.split()) == {str(g) for g in os.getgrouplist("nobody", nobody.pw_gid)}
        assert "CapEff:\t0000000000000000" in status
        assert find(site.engine, "a").done  # type: ignore[union-attr]
        assert (
            run(site, [f"cat {site.folder}/attempts/b.1/order.json"], "b", user="nobody").count("denied") == 1
        )
        assert run(site, ["id -u"], "c", user="no-such-user") == "0\n"
        site.engine.settings = LocalSettings(users="daemon")
        assert run(site, ["id -u"], "d", user="nobody") == "0\n"
        site.engine.settings = LocalSettings(users="require")
        with pytest.raises(OrderRefused, match="this machine knows no user 'no-such-user'"):
            site.engine.carry_out(start("e", ["true"], user="no-such-user"))
    finally:
        site.close()


def test_memory_and_processes_are_bounded_where_cgroups_can(tmp_path: Path) -> None:
    settings = LocalSettings(memory_bytes_per_gpu=64 << 20, most_processes=20)
    site = LocalSite(tmp_path, settings)
    try:
        if set(site.engine.cgroups.limited) != {"memory", "pids"}:
            assert any("jobs are not bounded" in remark for remark in site.engine.remarks)
            pytest.skip("no cgroup can bound memory and processes on this machine")
        site.engine.carry_out(start("a", ["python3", "-c", "x = bytearray(300 << 20)"]))
        seen = wait_for(site, "a", that=ended)
        assert (seen.signal, seen.detail) == (9, "killed: it used more memory than it may")
        told = run(site, ["for i in $(seq 40); do sleep 1 & done"], "b")
        assert "fork" in told
        assert run(
            site, ["python3", "-c", "x = bytearray(100 << 20); print('fits')"], "c", nodes={"n1": 3}
        ) == ("fits\n")
    finally:
        site.close()


def test_a_machine_without_cgroups_is_told_of_and_works(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("proc /proc proc rw 0 0\n")
    assert find_cgroups(tmp_path, frozenset(("memory",)), str(mounts)).kind == "none"
    assert find_cgroups(tmp_path, frozenset(), str(tmp_path / "nothing")).kind == "none"


def test_slots_are_numbered_through_and_real_gpus_are_counted() -> None:
    slots = slots_of({"n1": 2, "n2": 3}, 0)
    assert (list(slots.of("n1")), list(slots.of("n2"))) == ([0, 1], [2, 3, 4])
    assert slots.choose({"n1": 1, "n2": 2}, [0, 3]) == [1, 2, 4]
    assert "no GPU was found" in slots.remark
    assert "5 GPUs are declared and this machine has 4" in slots_of({"n1": 2, "n2": 3}, 4).remark
    assert list(slots_of(None, 8).gpus.values()) == [8]
    assert slots_of(None, 8).remark == ""


# --- the machine's own trouble ------------------------------------------------------------------------


@as_root
def test_on_a_full_disk_nothing_is_started_and_every_end_is_still_written(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        site = LocalSite(disk)
        try:
            site.engine.carry_out(start("a", ["cat /dev/zero; sleep 0.3; exit 5"]))
            wait_for(site, "a", that=begun)
            until(lambda: os.statvfs(disk).f_bavail == 0)
            with pytest.raises((EngineUnavailable, OrderRefused)):
                site.engine.carry_out(start("b", ["true"]))
            assert wait_for(site, "a", that=ended).exit_code == 5
            assert [seen.job for seen in site.engine.see().attempts] == ["a"]
            (site.folder / "attempts" / "a.1" / "log").unlink()
            assert run(site, ["echo", "again"], "b") == "again\n"
        finally:
            site.close()
    finally:
        subprocess.run(["umount", disk], check=True)


def test_what_a_power_cut_left_half_written_is_as_if_it_had_never_been(site: LocalSite) -> None:
    torn = site.folder / "attempts" / "a.1"
    torn.mkdir()
    (torn / "order.json").write_text('{"id": "st')
    (site.folder / "attempts" / ".new-1-1").mkdir()
    site.reopen()
    assert site.engine.see().attempts == []
    assert run(site, ["echo", "runs"]) == "runs\n"
