"""A real Slurm in one folder: munged, slurmctld and a slurmd for each pretend node, torn down by their pids.

GPUs are character devices that name nothing (`mknod`), nodes are processes with a port each. Needs root (for
`mknod` and for jobs of several users) and Debian's packages slurmctld, slurmd, slurm-client,
slurm-wlm-basic-plugins and munge.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

PROGRAMS = ("munged", "slurmctld", "slurmd", "squeue", "scontrol", "sbatch", "scancel", "sinfo", "sdiag")
MARK = "TENURE_SLURM_SITE"  #: in the environment of every process of a site: what may be killed by us
CPUS = 64
SUBMIT_HOOK = Path(__file__).parents[1] / "examples" / "slurm" / "job_submit.lua"

CONF = """\
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge.sock
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
PropagateResourceLimits=NONE
PropagatePrioProcess=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2,bf_continue,max_rpc_cnt=0
PriorityType=priority/basic
GresTypes=gpu
ReturnToService=2
SlurmdParameters=config_overrides
TreeWidth=65533
SlurmdTimeout=10
JobRequeue=1
MaxArraySize=2001
{options}
NodeName={nodes} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports} CPUs={cpus} RealMemory=500000 \
Gres=gpu:h100:{gpus} State=UNKNOWN
PartitionName=tenure Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=others Nodes=ALL MaxTime=INFINITE State=UP
"""

OPTIONS = {
    "MinJobAge": "300",
    "KillWait": "2",
    "JobCompType": "jobcomp/filetxt",
    "JobCompLoc": "{folder}/log/jobcomp.txt",
    "JobSubmitPlugins": "lua",
}


def why_not() -> str:
    """Why no site can be made here; empty where one can."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"no Slurm on this machine ({', '.join(missing)} missing)"
    if os.geteuid() != 0:
        return "a Slurm of its own needs root: it makes device nodes and starts jobs as their users"
    return ""


def free_block(size: int, first: int) -> int:
    """The first port of `size` in a row that nobody listens on, tried from `first` on."""
    for base in range(first, 60000 - size, size):
        with contextlib.ExitStack() as held:
            try:
                for port in range(base, base + size):
                    one = held.enter_context(socket.socket())
                    one.bind(("127.0.0.1", port))
            except OSError:
                continue
            return base
    raise RuntimeError("no block of free ports")


class SlurmSite:
    """One Slurm. `env` is what its clients need; every call of a client is bounded in time."""

    def __init__(self, folder: Path, *, nodes: int = 64, gpus: int = 8, worker: int = 0) -> None:
        self.folder, self.gpus = folder, gpus
        self.nodes = [f"n{number:03d}" for number in range(1, nodes + 1)]
        # two runs of the tests may begin at once: each looks from elsewhere
        self.base = free_block(nodes + 8, 20000 + 4000 * worker + os.getpid() % 40 * 97)
        self.options = dict(OPTIONS)
        self.conf = folder / "etc" / "slurm.conf"
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "SBATCH", "SQUEUE"))},
            "SLURM_CONF": str(self.conf),
            MARK: str(folder),
        }

    # --- life ---------------------------------------------------------------------------------------

    def boot(self, lua: str = "") -> None:
        """From no files to all nodes idle. `lua`: text of job_submit.lua; none without."""
        for name in ("etc", "run", "log", "state", "spool", "dev", "out"):
            (self.folder / name).mkdir(parents=True)
        self.folder.chmod(0o755)
        (self.folder / "out").chmod(0o1777)
        for number in range(self.gpus):
            os.mknod(self.folder / "dev" / f"gpu{number}", 0o20666, os.makedev(1, 3))
        key = self.folder / "etc" / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        first, last = self.nodes[0], self.nodes[-1]
        devices = self.folder / "dev" / f"gpu[0-{self.gpus - 1}]"
        (self.folder / "etc" / "gres.conf").write_text(
            f"NodeName=n[{first[1:]}-{last[1:]}] Name=gpu Type=h100 File={devices}\n"
        )
        (self.folder / "etc" / "cgroup.conf").write_text(_cgroup_conf())
        if lua:
            (self.folder / "etc" / "job_submit.lua").write_text(lua)
        else:
            del self.options["JobSubmitPlugins"]
        self._write_conf()
        run = self.folder / "run"
        self._started(
            "munged", "--force", f"--key-file={key}", f"--socket={run}/munge.sock", "--num-threads=2",
            f"--pid-file={run}/munged.pid", f"--log-file={self.folder}/log/munged.log",
            f"--seed-file={self.folder}/etc/munge.seed",
        )  # fmt: skip
        self.start_slurmctld()
        for node in self.nodes:
            self.start_slurmd(node)
        self.wait(lambda: self.idle() == len(self.nodes), "all nodes are idle")

    def _write_conf(self) -> None:
        first, last = self.nodes[0], self.nodes[-1]
        options = "\n".join(f"{k}={v.format(folder=self.folder)}" for k, v in self.options.items())
        self.conf.write_text(
            CONF.format(
                host=socket.gethostname().split(".")[0],
                folder=self.folder,
                ctld_port=self.base,
                options=options,
                nodes=f"n[{first[1:]}-{last[1:]}]",
                ports=f"[{self.base + 1}-{self.base + len(self.nodes)}]",
                cpus=CPUS,
                gpus=self.gpus,
            )
        )

    @contextlib.contextmanager
    def configured(self, **options: str) -> Iterator[None]:
        """With other settings in slurm.conf for a while, such as MinJobAge="2"."""
        before = dict(self.options)
        try:
            self.options.update(options)
            self._write_conf()
            self.run("scontrol", "reconfigure")
            yield
        finally:
            self.options = before
            self._write_conf()
            self.run("scontrol", "reconfigure")

    def _started(self, *argv: str) -> None:
        done = subprocess.run(argv, env=self.env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{argv[0]} did not start: {done.stdout}{done.stderr}"

    def start_slurmctld(self) -> None:
        self._started("slurmctld", "-f", str(self.conf))
        self.wait(
            lambda: "UP" in self.run("scontrol", "ping", check=False),
            f"slurmctld is up (log in {self.folder})",
        )

    def start_slurmd(self, node: str) -> None:
        self._started("slurmd", "-f", str(self.conf), "-N", node)

    def kill_slurmctld(self) -> None:
        self._kill(self.folder / "run" / "slurmctld.pid", signal.SIGKILL)

    def kill_slurmd(self, node: str) -> None:
        """The node dies with all that runs on it."""
        self._kill(self.folder / "run" / f"slurmd-{node}.pid", signal.SIGKILL)
        for pid, name, words in self._ours():
            if name == "slurmstepd" and (self.folder / "spool" / node).as_posix() in words:
                os.kill(pid, signal.SIGKILL)

    def pid_of_slurmctld(self) -> int:
        return int((self.folder / "run" / "slurmctld.pid").read_text())

    def _kill(self, pid_file: Path, how: signal.Signals) -> None:
        pid = int(pid_file.read_text())
        assert self._is_ours(pid), f"{pid} of {pid_file} is not a process of this site"
        os.kill(pid, how)
        _until_gone([pid], 120)
        pid_file.unlink(missing_ok=True)

    def _is_ours(self, pid: int) -> bool:
        try:
            return f"{MARK}={self.folder}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return False

    def _ours(self) -> list[tuple[int, str, str]]:
        """(pid, name, environment's and command's words) of every process that carries this site's mark."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and self._is_ours(int(entry.name)):
                with contextlib.suppress(OSError):
                    words = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                    found.append(
                        (
                            int(entry.name),
                            (entry / "comm").read_text().strip(),
                            words.decode("utf-8", "replace"),
                        )
                    )
        return found

    def stop(self) -> None:
        """End all of it; nothing is left, whatever state it was in."""
        with contextlib.suppress(AssertionError, subprocess.TimeoutExpired, OSError):
            self.clear()
        for how, wait_s in ((signal.SIGTERM, 30.0), (signal.SIGKILL, 120.0)):
            names = ("slurmd", "slurmctld", "munged") if how == signal.SIGTERM else ()
            left = [
                pid for pid, name, _ in self._ours() if pid != os.getpid() and (not names or name in names)
            ]
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, how)
            _until_gone(left, wait_s)
        assert not [one for one in self._ours() if one[0] != os.getpid()]

    # --- use ----------------------------------------------------------------------------------------

    def run(
        self, *argv: str, check: bool = True, timeout: float = 120, more: Mapping[str, str] | None = None
    ) -> str:
        done = subprocess.run(
            argv, env={**self.env, **(more or {})}, capture_output=True, text=True, timeout=timeout,
            stdin=subprocess.DEVNULL, cwd=self.folder / "out",
        )  # fmt: skip
        assert not check or done.returncode == 0, f"{' '.join(argv)}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def sbatch(self, *options: str, script: str = "exec sleep 600") -> str:
        """Submit a script; its job id."""
        text = script if script.startswith("#!") else f"#!/bin/bash\n{script}\n"
        path = self.folder / "out" / f"script-{time.monotonic_ns()}.sh"
        path.write_text(text)
        said = self.run("sbatch", "--parsable", *options, str(path))
        path.unlink()
        return said.strip().splitlines()[-1].split(";")[0]

    def job(self, job: str) -> dict[str, str]:
        """The fields of `scontrol show job`; empty where Slurm has forgotten it."""
        said = self.run("scontrol", "-o", "-d", "show", "job", job, check=False)
        return dict(word.split("=", 1) for word in said.split() if "=" in word)

    def state(self, job: str) -> str:
        return self.job(job).get("JobState", "")

    def idle(self) -> int:
        return len(set(self.run("sinfo", "-h", "-N", "-p", "tenure", "-t", "idle", "-o", "%N").split()))

    def clear(self) -> None:
        """Cancel every job and wait until all nodes are empty."""

        def empty() -> bool:
            left = self.run("squeue", "-h", "-a", "-r", "-o", "%i %t").splitlines()
            there = [line.split()[0] for line in left if not line.endswith(" CG")]
            if there:
                self.run("scancel", "--quiet", *there, check=False, timeout=60)
            return not left

        self.wait(empty, "all jobs are gone")

    def wait(self, until: Callable[[], bool], what: str, seconds: float = 180) -> None:
        give_up = time.monotonic() + seconds
        while not until():
            assert time.monotonic() < give_up, f"not within {seconds:g} s: {what}"
            time.sleep(0.1)


def _cgroup_conf() -> str:
    """22.05 needs no cgroups with proctrack/linuxproc; newer ones must be told to do without."""
    said = subprocess.run(["slurmd", "-V"], capture_output=True, text=True).stdout
    major = int("".join(c if c.isdigit() else " " for c in said).split()[0])
    return "CgroupPlugin=disabled\n" if major >= 23 else "CgroupAutomount=no\n"


def _until_gone(pids: Sequence[int], seconds: float) -> None:
    give_up = time.monotonic() + seconds
    while any(Path(f"/proc/{pid}").exists() and not _zombie(pid) for pid in pids):
        if time.monotonic() > give_up:
            return
        time.sleep(0.02)


def _zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


@pytest.fixture(scope="session")
def slurm() -> Iterator[SlurmSite]:
    """A Slurm of 64 nodes with 8 GPUs each, for one worker's tests. Skips where none can be made."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    folder = Path(tempfile.mkdtemp(prefix="tenure-slurm-"))  # pytest's own is closed to other users
    site = SlurmSite(folder, worker=int(worker))
    try:
        site.boot(lua=SUBMIT_HOOK.read_text(encoding="utf-8"))
        yield site
    finally:
        site.stop()
        shutil.rmtree(folder)
