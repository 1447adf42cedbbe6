"""Compiled code of old sources is cleared away: the newest folders stay, and whatever a process uses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tenure.core.kernel import IN_USE
from tenure.service.readiness import clear_away


def folders(root: Path, names: str) -> None:
    """One folder a letter, the first the oldest."""
    for age, letter in enumerate(names):
        folder = root / (letter * 16)
        (folder / "core_0").mkdir(parents=True)
        (folder / "core_0" / "decide.1.nbc").write_text("code")
        os.utime(folder, (1000 + age, 1000 + age))


def left(root: Path) -> str:
    return "".join(sorted(one.name[0] for one in root.iterdir()))


def test_the_newest_folders_stay(tmp_path: Path) -> None:
    folders(tmp_path, "fedcba")
    clear_away(tmp_path, keep=2)
    assert left(tmp_path) == "ab"


def test_a_folder_in_use_stays_whatever_its_age(tmp_path: Path) -> None:
    folders(tmp_path, "fedc")
    held = tmp_path / ("f" * 16) / IN_USE
    code = "import sys, os, fcntl; fcntl.flock(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT), fcntl.LOCK_SH)"
    with subprocess.Popen(
        [sys.executable, "-c", f"{code}; print(flush=True); sys.stdin.read()", str(held)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as user:
        assert user.stdout is not None
        user.stdout.readline()
        os.utime(held.parent, (1000, 1000))  # it is still the oldest
        clear_away(tmp_path, keep=1)
        assert left(tmp_path) == "cf"
        user.communicate(b"")
    clear_away(tmp_path, keep=1)
    assert left(tmp_path) == "c"


def test_what_is_no_such_folder_is_let_alone(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    folders(tmp_path, "ab")
    clear_away(tmp_path, keep=0)
    assert [one.name for one in tmp_path.iterdir()] == ["notes"]
    clear_away(tmp_path / "nowhere")


def test_a_process_holds_the_folder_of_its_sources(tmp_path: Path) -> None:
    root = tmp_path / "kernels"
    folders(root, "ab")
    code = (
        "from tenure.core import kernel; from tenure.service.readiness import clear_away;"
        "clear_away(kernel.cache_root(), keep=0);"
        "print(*[f.name for f in kernel.cache_root().iterdir()], kernel.sources_digest())"
    )
    environment = {key: value for key, value in os.environ.items() if key != "TENURE_PLAIN"}
    told = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, "TENURE_CACHE": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    (kept, own) = told.stdout.split()
    assert kept == own
