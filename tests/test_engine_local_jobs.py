"""What a job on this machine is given, what it says, and what it may: none knows too much."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from engine_sites import LocalSite, begun, ended, find, start, stop, wait_for
from local_site import as_root, either, output, run, run_forever, site, until
from tenure.engines.local.cgroups import find_cgroups
from tenure.engines.local.engine import LocalSettings
from tenure.engines.local.gpus import slots_of
from tenure.engines.local.shepherd import cut_log
from tenure.engines.protocol import EngineUnavailable, Forget, Notice, OrderRefused

__all__ = ["either", "site"]  # fixtures


# --- what a job is given ------------------------------------------------------------------------------------


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


@pytest.mark.slow
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


# --- what a job says ----------------------------------------------------------------------------------------


def test_a_job_says_that_it_has_saved_and_that_it_is_done(site: LocalSite) -> None:
    command = "trap 'touch $TENURE_DONE; exit 0' TERM; touch $TENURE_SAVED; while true; do sleep 0.05; done"
    before = time.time()
    site.engine.carry_out(start("a", [command]))
    seen = wait_for(site, "a", that=lambda seen: seen.saved is not None)
    assert seen.saved is not None
    assert before - 1 < seen.saved < time.time() + 1
    assert not seen.done
    site.engine.carry_out(stop("a", 300))
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


@pytest.mark.slow
def test_a_log_that_grows_without_end_is_cut_and_the_job_goes_on(tmp_path: Path) -> None:
    site = LocalSite(tmp_path, LocalSettings(log_bytes=1 << 20))
    go = tmp_path / "go"
    try:
        program = f"""import os, sys, time
print('first line')
for i in range(400): sys.stdout.write('x' * 99999 + '\\n')
sys.stdout.flush()
while not os.path.exists({str(go)!r}): time.sleep(0.05)
print('last line')
"""
        site.engine.carry_out(start("a", ["python3", "-c", program]))
        wait_for(site, "a", that=begun)
        path = site.folder / "attempts" / "a.1" / "log"
        cut = "[tenure: the log was longer than 1048576 bytes: cut here]"
        until(lambda: path.stat().st_size <= 1 << 20 and cut in path.read_text())
        go.touch()
        assert wait_for(site, "a", that=ended).exit_code == 0
        told = output(site)
        assert told.startswith("first line\n")
        assert told.endswith("last line\n")
        assert len(site.engine.log_of("a", 1, last_bytes=10)) == 10
    finally:
        site.close()


@pytest.mark.slow
def test_a_job_that_writes_while_its_log_is_cut_keeps_the_beginning_of_it(tmp_path: Path) -> None:
    """A cut is not atomic: what is written amid it may stand anywhere but before the first line."""
    path, limit = tmp_path / "log", 1 << 16
    program = f"import os; log = os.open({str(path)!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)\n"
    program += "os.write(log, b'first line\\n')\nwhile True: os.write(log, b'x' * 9999 + b'\\n')"
    with subprocess.Popen([sys.executable, "-c", program]) as writer:
        try:
            for _ in range(100):
                until(lambda: path.exists() and path.stat().st_size > limit)
                cut_log(str(path), limit)
                assert path.read_bytes()[:11] == b"first line\n"
        finally:
            writer.kill()
    assert b"cut here" in path.read_bytes()


def test_logs_are_there_after_an_attempt_is_forgotten_and_go_when_they_are_old(site: LocalSite) -> None:
    assert run(site, ["echo", "kept"]) == "kept\n"
    site.engine.carry_out(Forget("f", "a", 1))
    assert output(site) == "kept\n"
    site.reopen()
    assert output(site) == "kept\n"
    os.utime(site.folder / "forgotten" / "a.1", (0, 0))
    site.reopen()
    assert output(site) == ""


# --- as whom, and with what bounds --------------------------------------------------------------------------


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


@pytest.mark.slow
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


# --- the machine's own trouble ------------------------------------------------------------------------------


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
