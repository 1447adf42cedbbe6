"""The live scheduler on this machine, in a minute: real processes, a preemption, a crash, an audit.

Run by `make demo`. It keeps its data in a folder of its own, listens on a free port of the loopback, and
leaves nothing running, also when it is interrupted.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tenure.client import Client, ClientError

HERE = Path(__file__).resolve().parent
TENURE = Path(sys.executable).with_name("tenure")
PATIENCE_S = 60


def say(text: str = "") -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Demo:
    """A server in a folder, and whoever talks to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "saves").mkdir(parents=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.data = folder / "data"
        self.env = {
            **os.environ,
            "TENURE_URL": f"http://127.0.0.1:{self.port}",
            "COLUMNS": os.environ.get("COLUMNS", "110"),
            "TENURE_PLAIN": "1",  # compiling takes a minute the first time, and so small a lab needs none
        }
        self.env.pop("TENURE_TOKEN", None)
        self.server: subprocess.Popen[bytes] | None = None

    # --- the server ------------------------------------------------------------------------------------

    def serve(self) -> None:
        words = ["serve", str(HERE / "lab.yaml"), "--engine", "local", "--data", str(self.data)]
        words += ["--port", str(self.port)]
        say(f"$ tenure serve {os.path.relpath(HERE / 'lab.yaml')} --engine local &")
        log = (self.folder / "server.log").open("ab")
        # in a session of its own, as a service manager would start it
        self.server = subprocess.Popen(
            [TENURE, *words], env=self.env, stdout=log, stderr=log, start_new_session=True
        )
        self.until(self.answers, "the server to answer")

    def answers(self) -> bool:
        assert self.server is not None
        if self.server.poll() is not None:
            raise SystemExit(f"the server ended:\n{(self.folder / 'server.log').read_text()[-3000:]}")
        try:
            with self.client() as lab:
                return bool(lab.server().leader)
        except (OSError, ClientError):
            return False

    def crash(self) -> None:
        assert self.server is not None
        say(f"$ kill -9 {self.server.pid}        # the server, in the middle of everything")
        self.server.kill()
        self.server.wait()

    # --- people ----------------------------------------------------------------------------------------

    def call(self, *words: str) -> str:
        ran = subprocess.run(
            [TENURE, *words], env=self.env | self.token(), capture_output=True, text=True, timeout=120
        )
        if ran.returncode:
            raise RuntimeError(f"tenure {' '.join(words)}: {ran.stderr or ran.stdout}")
        return ran.stdout

    def token(self) -> dict[str, str]:
        kept = self.data / "admin.token"
        return {"TENURE_TOKEN": kept.read_text().strip()} if kept.exists() else {}

    def client(self) -> Client:
        return Client(self.env["TENURE_URL"], self.token().get("TENURE_TOKEN"), wait=lambda _: None)

    def jobs(self, state: str | None = None) -> list[str]:
        with self.client() as lab:
            return [one.job for one in lab.queue(state=state).jobs]

    def show(self, *words: str) -> None:
        say(f"$ tenure {' '.join(words)}")
        say(self.call(*words).rstrip() + "\n")

    def submit(self, name: str, steps: int, *flags: str) -> str:
        words = ["submit", "--name", name, *flags, "--env", f"TENURE_DEMO_SAVES={self.folder / 'saves'}"]
        told = json.loads(self.call(*words, "--json", "-", "--", str(HERE / "work.sh"), str(steps)))
        say(f"$ tenure submit --name {name} {' '.join(flags)} -- work.sh {steps}        # job {told['job']}")
        return str(told["job"])

    def phase(self, job: str) -> str:
        with self.client() as lab:
            return str(lab.show(job).phase)

    def until(self, true: Callable[[], Any], what: str) -> float:
        began = time.monotonic()
        while not true():
            if time.monotonic() - began > PATIENCE_S:
                raise SystemExit(
                    f"waited {PATIENCE_S} s for {what}; {self.folder / 'server.log'} may say why"
                )
            time.sleep(0.1)
        return time.monotonic() - began

    # --- the end ---------------------------------------------------------------------------------------

    def processes(self) -> list[int]:
        """Everything alive that this demo started: it carries the folder's name in its environment."""
        mark = os.fsencode(f"TENURE_DEMO_SAVES={self.folder / 'saves'}")
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def close(self) -> None:
        if self.server is not None and self.server.poll() is None:
            self.server.send_signal(signal.SIGTERM)
            try:
                self.server.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.server.kill()
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


@contextmanager
def demo(folder: Path) -> Iterator[Demo]:
    one = Demo(folder)
    try:
        yield one
    finally:
        one.close()


def part(title: str) -> None:
    say(f"\n--- {title} " + "-" * max(0, 94 - len(title)) + "\n")


def play(lab: Demo) -> None:
    part("Four nodes of two GPUs, three teams")
    lab.serve()

    part("Robots fill the lab with unbudgeted work: free of charge, stopped when somebody needs the GPUs")
    lab.submit("sweep", 600, "--account", "robots", "--gpus", "1", "--array", "0-7")
    lab.until(lambda: len(lab.jobs("running")) == 8, "eight jobs to run")
    lab.show("queue")

    part("Ann debugs: ten seconds on one GPU")
    began = time.monotonic()
    debug = lab.submit("debug", 6, "--account", "language/ann", "--gpus", "1", "--min-runtime", "10s")
    lab.until(lambda: lab.phase(debug) in ("running", "ended"), "the debug job to run")
    say(f"\nIt runs {time.monotonic() - began:.1f} s after `submit` began, in the place of a sweep:\n")
    lab.show("show", debug)

    part("Vision trains on two whole nodes, and has a second such job: why does that one wait?")
    first = lab.submit("train-a", 40, "--account", "vision", "--gpus", "4", "--min-runtime", "15s")
    second = lab.submit("train-b", 20, "--account", "vision", "--gpus", "4", "--min-runtime", "15s")
    lab.until(lambda: lab.phase(first) == "running", "the gang to run")
    lab.show("why", second)  # at once: on a loaded machine the gang may be done soon
    lab.show("queue")

    part("The server is killed. What runs goes on; the server comes back, and everything is as it was")
    lab.until(lambda: lab.phase(debug) == "ended", "the debug job to end")
    lab.until(lambda: all(processes_of(lab, job) for job in lab.jobs("running")), "every job to begin")
    before = {job: processes_of(lab, job) for job in lab.jobs("running")}
    lab.crash()
    time.sleep(1)
    alive = sum(any(Path(f"/proc/{pid}").exists() for pid in pids) for pids in before.values())
    say(f"Without a server {alive} of {len(before)} running jobs go on.\n")
    lab.serve()
    lab.show("queue")

    part("Vision's second job gets the nodes of the first; a sweep that made way is back, from its save")
    lab.until(lambda: lab.phase(second) in ("running", "ended"), "the second gang to run")
    lab.show("show", second)
    lab.until(lambda: back(lab), "a sweep to be back")
    sweep = back(lab)
    lab.show("show", sweep)
    lab.show("logs", sweep)

    part("Who was owed what, and who got it")
    lab.until(lambda: lab.phase(second) == "ended", "the second gang to end")
    lab.show("audit")

    part("Everybody goes home")
    for job in dict.fromkeys(name.partition("_")[0] for name in lab.jobs()):
        lab.show("cancel", job)
    lab.until(lambda: not lab.jobs(), "the queue to empty")


def back(lab: Demo) -> str:
    """A sweep that was stopped and runs again; "" while there is none."""
    with lab.client() as asked:
        for one in asked.queue(account="robots", state="running").jobs:
            if len(asked.show(one.job).attempts) > 1:
                return one.job
    return ""


def processes_of(lab: Demo, job: str) -> list[int]:
    mark = os.fsencode(f"TENURE_JOB={job}")
    found = []
    for pid in lab.processes():
        try:
            if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.append(pid)
        except OSError:
            continue
    return found


def main(words: Sequence[str]) -> int:
    began = time.monotonic()
    folder = Path(words[0] if words else "out/demo").resolve()
    with demo(folder) as lab:
        play(lab)
    left = lab.processes()
    say(
        f"{len(left)} processes left running; {time.monotonic() - began:.0f} s in all."
        f" Data and logs: {folder}"
    )
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
