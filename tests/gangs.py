"""Real gangs of two and more processes that train over gloo: started, watched and ended by tests."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

JOB = Path(__file__).parent / "trainers" / "gang_job.py"
LAUNCHERS = {"torchrun": "torch.distributed.run", "tenure": "tenure.trainer.torchrun"}


def needs_torch() -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")


def free_port() -> int:
    """A port that nobody listens on and that the system gives to nobody who asks it for any."""
    first, _ = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    while True:
        port = random.SystemRandom().randrange(10_000, min(first, 20_000))
        with socket.socket() as found:
            try:
                found.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class Gang:
    """One attempt of a run whose store and hook folder lie in `folder`."""

    def __init__(
        self, folder: Path, attempt: int, *, steps: int, world: int = 2, by: str = "spawn", pace: float = 0.0,
        save_every: int = 0, odd: Mapping[str, object] | None = None, job: Path = JOB,
    ) -> None:  # fmt: skip
        needs_torch()
        self.folder, self.world = folder, world
        self.hook = folder / "hook"
        self.hook.mkdir(parents=True, exist_ok=True)
        arguments = [
            str(job), "--store", str(folder / "store"), "--steps", str(steps), "--pace", str(pace),
            "--save-every", str(save_every), "--losses", str(folder / f"losses-{attempt}"),
        ]  # fmt: skip
        env = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "TENURE_"))}
        env |= {"TENURE_HOOK": str(self.hook), "TENURE_RUN_ATTEMPT": str(attempt), "OMP_NUM_THREADS": "1"}
        env |= {"TENURE_BEAT_S": "0.2"}
        env |= {"TEST_ONCE": str(folder / "once"), "GLOO_SOCKET_IFNAME": "lo", "CUDA_VISIBLE_DEVICES": ""}
        env |= {key: str(value) for key, value in (odd or {}).items()}
        self.log = (folder / f"log-{attempt}").open("wb")
        if by == "spawn":
            env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(world)}
            starts = [
                ([sys.executable, *arguments], env | {"RANK": str(rank), "LOCAL_RANK": str(rank)})
                for rank in range(world)
            ]
        else:
            where = ["--master-addr=127.0.0.1", f"--master-port={free_port()}", f"--nproc-per-node={world}"]
            starts = [([sys.executable, "-m", LAUNCHERS[by], *where, *arguments], env)]
        self.processes = [
            subprocess.Popen(command, env=with_, stdout=self.log, stderr=self.log, start_new_session=True)
            for command, with_ in starts
        ]

    def __enter__(self) -> Gang:
        return self

    def __exit__(self, *_: object) -> None:
        for pid in {beat["pid"] for beat in self.beats().values()} if self.running() else ():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for process in self.processes:
            process.kill()
            process.wait(30)
        self.log.close()

    def running(self) -> bool:
        return any(process.poll() is None for process in self.processes)

    def wait(self, seconds: float = 300.0) -> list[int]:
        """All exit codes; fails where it takes longer."""
        until = time.monotonic() + seconds
        for process in self.processes:
            try:
                process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                pytest.fail(f"still running after {seconds} s:\n{self.told()}")
        return [process.returncode for process in self.processes]

    def told(self) -> str:
        """The end of what its processes wrote."""
        return "".join(path.read_text(errors="replace")[-3000:] for path in self.folder.glob("log-*"))

    def beats(self) -> dict[int, dict[str, Any]]:
        found = {}
        for path in self.hook.glob("heartbeat-*.json"):
            beat = json.loads(path.read_text())
            found[int(beat["rank"])] = beat
        return found

    def until(self, holds: Callable[[dict[int, dict[str, Any]]], bool], seconds: float = 300.0) -> None:
        """Wait for the heartbeats to say so."""
        end = time.monotonic() + seconds
        while not holds(self.beats()):
            if time.monotonic() > end or not self.running():
                pytest.fail(f"it never came to that: {self.beats()}\n{self.told()}")
            time.sleep(0.1)

    def put(self, name: str, **body: object) -> None:
        beside = self.hook / f".{name}"
        beside.write_text(json.dumps(body))
        beside.replace(self.hook / name)

    def ask(self, kind: str, which: str) -> None:
        self.put("request.json", id=which, kind=kind, deadline=time.time() + 600, reason="a test asks")

    def losses(self) -> dict[int, str]:
        """Of all attempts so far, the newest word on each step."""
        found: dict[int, str] = {}
        for path in sorted(self.folder.glob("losses-*")):
            for line in path.read_text().splitlines():
                step, loss = line.split()
                assert found.setdefault(int(step), loss) == loss, f"step {step} was learned otherwise"
        return found

    def losses_of(self, attempt: int) -> dict[int, str]:
        """Of one attempt."""
        lines = (self.folder / f"losses-{attempt}").read_text().splitlines()
        return {int(step): loss for step, loss in (line.split() for line in lines)}
