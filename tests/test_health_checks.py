"""A site's health check, run for real: it is bounded, judged fairly and leaves nothing behind."""

from __future__ import annotations

import os
import stat
import sys
import time
from pathlib import Path

import pytest

from tenure.daemon.health import Verdict
from tenure.daemon.site_check import MARK, check_node


def script(folder: Path, body: str) -> list[str]:
    path = folder / "check"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return [str(path)]


def python(folder: Path, body: str) -> list[str]:
    path = folder / "check.py"
    path.write_text(body)
    return [sys.executable, str(path)]


def judge(command: list[str], timeout_s: float = 10.0) -> Verdict:
    return check_node(command, "n0", at=5.0, timeout_s=timeout_s)


def test_a_check_that_says_ok_passes_and_is_told_which_node(tmp_path: Path) -> None:
    verdict = judge(script(tmp_path, 'test "$1" = n0 && test "$TENURE_NODE" = n0 && echo \'{"ok": true}\''))
    assert verdict == Verdict("n0", True, "", 5.0, {})


def test_a_check_that_says_not_ok_fails_with_its_reason_and_its_parts(tmp_path: Path) -> None:
    body = 'echo \'{"ok": false, "reason": "ECC errors on GPU 3", "checks": {"ecc": false}}\'; exit 1'
    assert judge(script(tmp_path, body)) == Verdict("n0", False, "ECC errors on GPU 3", 5.0, {"ecc": False})


def test_the_parts_that_failed_are_the_reason_where_none_is_given(tmp_path: Path) -> None:
    body = 'echo \'{"ok": false, "checks": {"ecc": false, "disk": true}}\'; exit 3'
    assert judge(script(tmp_path, body)).reason == "failed: ecc"


@pytest.mark.parametrize(
    "body",
    [
        "exit 1",
        "echo all is well",
        "echo '[1, 2]'",
        'echo \'{"ok": "yes"}\'',
        "echo '{\"ok\": true}'; exit 1",
        "echo '{\"ok\": false}'",
        'echo \'{"ok": true} {"ok": true}\'',
        "printf '\\377\\376'",
        "kill -SEGV $$",
        "python3 -c 'print(\"[\" * 50000)'",
    ],
)
def test_what_cannot_be_understood_is_unknown_and_not_failed(tmp_path: Path, body: str) -> None:
    verdict = judge(script(tmp_path, body))
    assert verdict.ok is None
    assert verdict.reason


def test_the_last_words_of_a_crash_are_in_the_reason(tmp_path: Path) -> None:
    verdict = judge(script(tmp_path, "echo one >&2; echo 'no such device' >&2; exit 7"))
    assert verdict.reason == 'no JSON object with "ok" on stdout, exit status 7: no such device'


def test_a_program_that_is_not_there_is_unknown(tmp_path: Path) -> None:
    assert judge([str(tmp_path / "absent")]).reason.startswith("cannot be run: ")


def test_a_check_that_hangs_is_killed_in_time_and_has_failed(tmp_path: Path) -> None:
    began = time.monotonic()
    verdict = judge(script(tmp_path, "trap '' TERM INT; while :; do sleep 60; done"), timeout_s=0.5)
    assert (verdict.ok, verdict.reason) == (False, "did not answer within 0.5 s")
    assert time.monotonic() - began < 60


def test_a_check_that_prints_without_end_is_cut_short(tmp_path: Path) -> None:
    began = time.monotonic()
    verdict = judge(script(tmp_path, "head -c 100000000 /dev/zero; echo '{\"ok\": true}'"))
    assert (verdict.ok, verdict.reason) == (None, "printed more than 65536 bytes")
    assert time.monotonic() - began < 60


def test_a_check_that_fills_stderr_is_heard_all_the_same(tmp_path: Path) -> None:
    body = "head -c 50000000 /dev/zero | tr '\\0' x >&2; echo '{\"ok\": true}'"
    assert judge(script(tmp_path, body)).ok is True


def processes_with_any_mark() -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if f"{MARK}={os.getpid()}-".encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def test_nothing_a_check_started_outlives_it_even_in_a_session_of_its_own(tmp_path: Path) -> None:
    body = """
import os, sys, time
for _ in range(5):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(300)
        os._exit(0)
time.sleep(0.2)
print('{"ok": true}', flush=True)
"""
    began = time.monotonic()
    assert judge(python(tmp_path, body)).ok is True  # although its children still hold its stdout
    assert time.monotonic() - began < 60
    assert processes_with_any_mark() == []


def test_a_check_that_hangs_takes_its_children_with_it(tmp_path: Path) -> None:
    assert judge(script(tmp_path, "sleep 300 & sleep 300 & wait"), timeout_s=0.3).ok is False
    assert processes_with_any_mark() == []
