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
            "COLUMNS": os.environ.get("COLUMNS", "100"),
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
        return self.asked("queue", "--json", "-", quiet=True) is not None

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

    def asked(self, *words: str, quiet: bool = False) -> Any:
        """The answer as JSON; with `quiet` None where there is none."""
        try:
            return json.loads(self.call(*words))
        except (RuntimeError, ValueError, subprocess.TimeoutExpired):
            if quiet:
                return None
            raise

    def show(self, *words: str) -> None:
        say(f"$ tenure {' '.join(words)}")
        say(self.call(*words).rstrip() + "\n")

    def submit(self, name: str, steps: int, *flags: str, count: int = 1) -> str:
        words = ["submit", "--name", name, *flags, "--env", f"TENURE_DEMO_SAVES={self.folder / 'saves'}"]
        job = ""
        for _ in range(count):
            told = self.asked(*words, "--json", "-", "--", str(HERE / "work.sh"), str(steps))
            job = told["job"]
        times = f"   # {count} of them" if count > 1 else f"   # job {job}"
        say(f"$ tenure submit --name {name} {' '.join(flags)} -- work.sh {steps}{times}")
        return job

    def phase(self, job: str) -> str:
        return str(self.asked("show", job, "--json", "-")["phase"])

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
    part("Two nodes of four GPUs, three teams")
    lab.serve()

    part("Robots fill the lab with unbudgeted work: free of charge, stopped when somebody needs the GPUs")
    lab.submit("sweep", 240, "--account", "robots", "--gpus", "1", count=8)
    lab.until(lambda: len(running(lab)) == 8, "eight jobs to run")
    lab.show("queue")

    part("Ann debugs: ten seconds on one GPU")
    began = time.monotonic()
    debug = lab.submit("debug", 4, "--account", "language/ann", "--gpus", "1", "--min-runtime", "10s")
    lab.until(lambda: lab.phase(debug) in ("running", "ended"), "the debug job to run")
    say(f"it runs {time.monotonic() - began:.1f} s after `submit`, in the place of one of them:")
    lab.show("show", debug)

    part("Vision starts a gang of both nodes; bo wants one as well and has to wait: why?")
    lab.until(lambda: lab.phase(debug) == "ended", "the debug job to end")
    gang = lab.submit("train", 60, "--account", "vision", "--gpus", "8", "--min-runtime", "20s")
    lab.until(lambda: lab.phase(gang) == "running", "the gang to run")
    other = lab.submit("eval", 20, "--account", "language/bo", "--gpus", "4", "--min-runtime", "5s")
    time.sleep(1.5)
    lab.show("queue")
    lab.show("why", other)

    part("The server is killed; what runs goes on; it comes back and everything is as it was")
    before = {job: pids for job in running(lab) if (pids := processes_of(lab, job))}
    lab.crash()
    time.sleep(1.5)
    alive = {job: [pid for pid in pids if Path(f"/proc/{pid}").exists()] for job, pids in before.items()}
    say(
        f"without a server, {sum(map(bool, alive.values()))} of {len(before)} running jobs"
        " still have their processes"
    )
    lab.serve()
    lab.show("queue")

    part("Bo's job gets its place when the gang's protection ends, and the gang goes on from its save")
    lab.until(lambda: lab.phase(other) in ("running", "ended"), "bo's job to run")
    lab.until(lambda: lab.phase(other) == "ended", "bo's job to end")
    lab.until(
        lambda: lab.asked("show", gang, "--json", "-")["attempts"][-1]["attempt"] > 1, "the gang's restart"
    )
    lab.show("show", gang)
    lab.show("logs", gang)

    part("Who was owed what, and who got it")
    lab.show("audit")

    part("Everybody goes home")
    for job in lab.asked("queue", "--json", "-")["jobs"]:
        lab.call("cancel", job["job"])
    lab.until(lambda: not lab.asked("queue", "--json", "-")["jobs"], "the queue to empty")


def running(lab: Demo) -> list[str]:
    jobs = lab.asked("queue", "--json", "-")["jobs"]
    return [job["job"] for job in jobs if job["phase"] == "running"]


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
