"""A real server process on a free port, with the fake engine, for tests to ask."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import yaml
from typer.testing import CliRunner

from tenure.cli.main import app
from tenure.client import Client

TENURE = str(Path(sys.executable).with_name("tenure"))
LAB = {
    "lab": "test",
    "clusters": {"jupiter": {"nodes": 4, "gpus_per_node": 8, "gpu": "H100"}},
    "accounts": {
        "language": {
            "share": "60%",
            "managers": ["pia"],
            "accounts": {"olmo": {"share": "70%", "managers": ["lee"], "researchers": ["ann", "bo"]}},
        },
        "vision": {"share": "40%"},
    },
    "policy": {"lookback": "7d", "grace": {"budgeted": "2s", "unbudgeted": "1s"}},
}
UP_WITHIN_S = 300


class Served:
    """A server process: where it is, what it said, and clients for its users."""

    def __init__(self, process: subprocess.Popen[str], data: Path) -> None:
        self.process, self.data = process, data
        self.said: list[str] = []
        self.url = ""
        self._tokens: dict[tuple[str, bool], str] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)

    def wait_until_up(self) -> None:
        until = time.monotonic() + UP_WITHIN_S
        while time.monotonic() < until:
            found = re.search(r"up at (http://[^\s;]+)", "".join(self.said))
            if found:
                self.url = found[1]
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError(f"the server did not come up:\n{''.join(self.said)[-3000:]}")

    @property
    def admin_token(self) -> str:
        return (self.data / "admin.token").read_text().strip()

    def client(self, user: str = "admin", *, admin: bool = False) -> Client:
        if user == "admin":
            return Client(self.url, self.admin_token)
        if (user, admin) not in self._tokens:
            with self.client() as lab:
                self._tokens[user, admin] = lab.create_token(user, admin=admin).token
        return Client(self.url, self._tokens[user, admin])

    def environment(self, token: str | None, env: Mapping[str, str]) -> dict[str, str]:
        """What a command finds."""
        place = {"TENURE_URL": self.url, "TENURE_TOKEN": token or self.admin_token}
        return {**place, "NO_COLOR": "1", "COLUMNS": "100", "TENURE_PLAIN": "1", **env}

    def run(self, *words: str, token: str | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        """A command of the CLI against this server, in this process."""
        told = CliRunner().invoke(app, list(words), env=self.environment(token, env), prog_name="tenure")
        return subprocess.CompletedProcess(words, told.exit_code, told.stdout, told.stderr)

    def run_apart(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """… in a process of its own."""
        environment = {**os.environ, **self.environment(None, env)}
        return subprocess.run([TENURE, *words], env=environment, capture_output=True, text=True, timeout=600)

    def end(self, how: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            status = self.process.wait(120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait(60)
        self._reader.join(60)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        return status


def start_server(folder: Path, lab: Mapping[str, object] = LAB, *options: str, wait: bool = True) -> Served:
    """Start `tenure serve` in a folder; `wait`: until it is up."""
    file = folder / "lab.yaml"
    file.write_text(yaml.safe_dump(dict(lab)))
    data = folder / "data"
    words = [TENURE, "serve", str(file), "--engine", "fake", "--data", str(data), "--port", "0", *options]
    environment = {**os.environ, "TENURE_PLAIN": "1"}
    process = subprocess.Popen(
        words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    served = Served(process, data)
    try:
        served.wait_until_up()
    except BaseException:
        served.end(signal.SIGKILL)
        raise
    return served


@contextmanager
def serving(folder: Path, lab: Mapping[str, object] = LAB, *options: str) -> Iterator[Served]:
    """A server for the length of a block; it must end well."""
    served = start_server(folder, lab, *options)
    try:
        yield served
    finally:
        status = served.end()
    assert status == 0, "".join(served.said)[-3000:]


def wait_for(what: str, true: object, within_s: float = 180.0) -> None:
    """Wait until `true()` is; `what` names it where it never is."""
    until = time.monotonic() + within_s
    while not true():  # type: ignore[operator]
        assert time.monotonic() < until, f"not within {within_s} s: {what}"
        time.sleep(0.05)
