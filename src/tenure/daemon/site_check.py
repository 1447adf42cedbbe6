"""One run of a site's health check: its exit status and one JSON object on stdout, within bounds.

The script is given the node's name as its last argument and in TENURE_NODE. It prints one object:
`{"ok": true}`, or `{"ok": false, "reason": "ECC errors on GPU 3", "checks": {...}}`, and exits 0 or not to
match. A script that crashes, prints something else, or says one thing and exits another has told nothing:
that is unknown, and moves no node. One that does not end in time has told something: the node hangs.

Whatever it started is gone afterwards, also what left its process group: all it started carries its mark.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from tenure.daemon.health import Verdict

MOST_BYTES = 1 << 16  #: of stdout; more is no answer
MOST_WORDS = 300  #: characters of a reason that are kept
MARK = "TENURE_CHECK_ID"
_CHUNK = 1 << 15
_POLL_S = 0.02
_numbers = iter(range(1, 1 << 62))


class Heard(NamedTuple):
    """What one run came to."""

    status: int | None  #: exit status; negative: the signal that ended it; None: it was killed in time's name
    out: bytes
    said: str  #: the end of stderr
    too_much: bool


def check_node(
    command: Sequence[str],
    node: str,
    *,
    at: float,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
) -> Verdict:
    """Run the check for a node and judge it. Never raises for anything the script does."""
    try:
        heard = run_bounded([*command, node], node, timeout_s=timeout_s, env=env)
    except (OSError, ValueError) as refused:
        return Verdict(node, None, _short(f"cannot be run: {refused}"), at)
    return judged(node, heard, at=at, timeout_s=timeout_s)


def judged(node: str, heard: Heard, *, at: float, timeout_s: float) -> Verdict:
    """The verdict on what was heard."""
    if heard.too_much:
        return Verdict(node, None, f"printed more than {MOST_BYTES} bytes", at)
    if heard.status is None:
        return Verdict(node, False, f"did not answer within {timeout_s:g} s", at)
    try:
        told = json.loads(heard.out)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict) or not isinstance(told.get("ok"), bool):
        ended = f"exit status {heard.status}" if heard.status >= 0 else f"signal {-heard.status}"
        said = f": {heard.said}" if heard.said else ""
        return Verdict(node, None, _short(f'no JSON object with "ok" on stdout, {ended}{said}'), at)
    ok = told["ok"]
    if ok != (heard.status == 0):
        word = "ok" if ok else "not ok"
        return Verdict(node, None, f"says {word} and exits with {heard.status}", at)
    checks = told.get("checks")
    reason = told.get("reason")
    return Verdict(
        node,
        ok,
        _short(reason) if isinstance(reason, str) and reason.strip() else "" if ok else _named(checks),
        at,
        checks if isinstance(checks, dict) else {},
    )


def run_bounded(
    words: Sequence[str], node: str, *, timeout_s: float, env: Mapping[str, str] | None = None
) -> Heard:
    """Run a program for at most `timeout_s`, keep MOST_BYTES of what it prints, leave nothing behind."""
    mark = f"{os.getpid()}-{time.monotonic_ns()}-{next(_numbers)}"
    process = subprocess.Popen(
        list(words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**(os.environ if env is None else env), "TENURE_NODE": node, MARK: mark},
    )
    try:
        return _listen(process, time.monotonic() + timeout_s)
    finally:
        _end_all(process, mark)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def _listen(process: subprocess.Popen[bytes], deadline: float) -> Heard:
    out, said, too_much = bytearray(), b"", False
    assert process.stdout is not None
    assert process.stderr is not None
    with selectors.DefaultSelector() as pipes:
        for pipe in (process.stdout, process.stderr):
            os.set_blocking(pipe.fileno(), False)
            pipes.register(pipe, selectors.EVENT_READ)
        while time.monotonic() < deadline and not too_much:
            ended = process.poll() is not None  # asked before reading: what it printed is then in the pipe
            got = False
            for key, _ in pipes.select(0 if ended else _POLL_S):
                chunk = _chunk_of(key.fileobj)  # type: ignore[arg-type]
                got = got or bool(chunk)
                if chunk == b"":
                    pipes.unregister(key.fileobj)
                elif chunk is not None and key.fileobj is process.stdout:
                    out += chunk
                    too_much = len(out) > MOST_BYTES
                elif chunk is not None:
                    said = (said + chunk)[-MOST_WORDS * 4 :]
            if ended and not got:
                break
            if not pipes.get_map() and not ended:
                time.sleep(_POLL_S)
    last = said.decode("utf-8", "replace").strip().splitlines()
    return Heard(process.poll(), bytes(out), _short(last[-1]) if last else "", too_much)


def _chunk_of(pipe: IO[bytes]) -> bytes | None:
    """What can be read now; b"" at its end, None where nothing has come yet."""
    try:
        return os.read(pipe.fileno(), _CHUNK)
    except BlockingIOError:
        return None


def _end_all(process: subprocess.Popen[bytes], mark: str) -> None:
    """Kill the whole group, then all that carries the mark, until none is left (bounded)."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:  # in a call of the kernel's that cannot be interrupted: nothing helps
        return
    for _ in range(20):
        left = marked(mark)
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        time.sleep(_POLL_S)


def marked(mark: str) -> list[int]:
    """Processes that carry the mark in their environment and are no zombies."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:  # gone, or another user's
                continue
    return found


def _named(checks: Any) -> str:
    """A reason made of the checks that failed, where the script gave none."""
    if not isinstance(checks, dict):
        return "failed"
    bad = [str(name) for name, value in checks.items() if value is False or value == "failed"]
    return _short("failed: " + ", ".join(bad)) if bad else "failed"


def _short(words: str) -> str:
    plain = " ".join("".join(letter if letter.isprintable() else " " for letter in words).split())
    return plain if len(plain) <= MOST_WORDS else plain[: MOST_WORDS - 1] + "…"
