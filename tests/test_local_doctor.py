"""`tenure doctor` of one machine: as whom jobs run, and what is odd about it."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from tenure.engines.local.doctor import findings
from tenure.engines.local.engine import LocalEngine, LocalSettings


@pytest.mark.parametrize(
    ("users", "euid", "words"),
    [
        ("switch", 0, "as those who submit them; as root where"),
        ("require", 0, "never as anybody else"),
        ("daemon", 0, "all jobs run as root"),
        ("switch", 1000, "all jobs run as tenure"),
        ("require", 1000, "those of anybody else are refused"),
    ],
)
def test_the_doctor_says_as_whom_jobs_run(users: str, euid: int, words: str) -> None:
    ((subject, ok, text, remedy),) = findings(users, euid, "tenure", ())
    assert subject == "users"
    assert words in text
    assert (ok is True) == (remedy == "")


def test_the_doctor_of_a_machine_repeats_what_its_engine_remarks(tmp_path: Path) -> None:
    engine = LocalEngine(tmp_path / "local", {"n0": 1}, settings=LocalSettings(cgroups=False, users="daemon"))
    try:
        found = engine.doctor()
        assert [text for subject, _, text, _ in found if subject == "machine"] == engine.remarks
        assert any("no cgroup" in text for _, _, text, _ in found)
        assert pwd.getpwuid(os.geteuid()).pw_name in found[0][2]
    finally:
        engine.close()
