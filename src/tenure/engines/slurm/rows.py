"""What do squeue and sinfo say, line by line? One call for all jobs, one for all nodes, read strictly.

A line that is not as it must be is left out and counted (`odd`): nothing is guessed from half a line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from tenure.engines.slurm.hostlist import expanded
from tenure.engines.slurm.note import Note, read
from tenure.engines.slurm.programs import Programs

SEPARATOR = "\x1f"  #: no person types it into a comment
UNLIMITED = ("UNLIMITED", "NOT_SET", "INVALID", "Partition_Limit")

#: States by what they mean for us.
WAITS = frozenset(("PENDING", "REQUEUE_HOLD", "REQUEUED", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"))
LIVES = frozenset(
    ("RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING")
)
OVER = frozenset(
    ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE")
    + ("PREEMPTED", "REVOKED")
)


class Job(NamedTuple):
    """A job as squeue has it. Instants are epoch seconds, None where there is none."""

    id: str  #: `123`, or `123_4` for a task of an array
    raw: str  #: Slurm's own number of it, which the job sees as SLURM_JOB_ID
    user: str
    partition: str
    state: str
    reason: str
    nodes: tuple[str, ...]
    min_nodes: int
    max_nodes: int
    tasks: int
    submitted: float
    started: float | None
    ended: float | None
    status: int  #: wait status of the batch script
    restarts: int
    requeue: bool  #: Slurm may queue it again
    batch: bool  #: of a script; not salloc, not srun
    dependency: str
    per_job: str  #: GPUs asked for, in Slurm's spelling
    per_node: str
    per_socket: str
    per_task: str
    exclusive: bool
    asked_nodes: str
    features: str
    reservation: str
    het: str
    nice: int
    priority: int  #: 0 = held
    limit_s: int | None
    qos: str
    account: str
    name: str
    output: str
    note: Note | None
    comment: str


class Node(NamedTuple):
    """A node as sinfo has it."""

    name: str
    states: frozenset[str]
    gpus: int
    gpu_type: str
    reason: str


def _word(text: str) -> str:
    return "" if text in ("(null)", "N/A", "None", "none") else text


def _instant(text: str) -> float | None:
    return None if text in ("N/A", "NONE", "Unknown", "0", "") else float(int(text))


def _limit_s(text: str) -> int | None:
    """`1-02:03:04`, `02:03:04` or `03:04` as seconds."""
    if text in UNLIMITED:
        return None
    matched = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d\d)", text)
    if matched is None:
        raise ValueError(f"not a length of time: {text!r}")
    days, hours, minutes, seconds = (int(part or 0) for part in matched.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _note(text: str) -> Note | None:
    return read(_word(text))


def _flag(text: str) -> bool:
    return {"0": False, "1": True}[text]


def _nodes(text: str) -> tuple[str, ...]:
    return tuple(expanded(_word(text)))


#: Fields of `Job` in their order: squeue's name of it, and how to read it.
JOB_FIELDS: tuple[tuple[str, Callable[[str], Any]], ...] = (
    ("JobArrayID", str),
    ("JobID", str),
    ("UserName", str),
    ("Partition", str),
    ("State", str),
    ("Reason", _word),
    ("NodeList", _nodes),
    ("NumNodes", int),
    ("MaxNodes", int),
    ("NumTasks", int),
    ("SubmitTime", float),
    ("StartTime", _instant),
    ("EndTime", _instant),
    ("exit_code", int),
    ("RestartCnt", int),
    ("Requeue", _flag),
    ("BatchFlag", _flag),
    ("Dependency", _word),
    ("tres-per-job", _word),
    ("tres-per-node", _word),
    ("tres-per-socket", _word),
    ("tres-per-task", _word),
    ("OverSubscribe", lambda text: text == "NO"),
    ("ReqNodes", _word),
    ("Feature", _word),
    ("Reservation", _word),
    ("HetJobID", _word),
    ("Nice", int),
    ("PriorityLong", int),
    ("TimeLimit", _limit_s),
    ("QOS", _word),
    ("Account", _word),
    ("Name", str),
    ("STDOUT", str),
    ("admin_comment", _note),
    ("Comment", _word),
)
JOB_FORMAT = ",".join(f"{name}:{SEPARATOR}" for name, _ in JOB_FIELDS)
NODE_FORMAT = ",".join(f"{name}:{SEPARATOR}" for name in ("NodeList", "StateComplete", "Gres", "Reason"))


def in_partition(partition: str) -> list[str]:
    """The option that leaves the others out; none where all are meant."""
    return ["-p", partition] if partition else []


def jobs_of(programs: Programs, partition: str) -> tuple[list[Job], int]:
    """All jobs of the partition that slurmctld still knows, each task of an array by itself; and how many
    lines were odd. Raises EngineUnavailable."""
    text = programs.told("squeue", "-h", "-a", "-r", "-t", "all", *in_partition(partition), "-O", JOB_FORMAT)
    return read_jobs(text)


def read_jobs(text: str) -> tuple[list[Job], int]:
    """The lines of `squeue -O JOB_FORMAT`."""
    jobs, odd = [], 0
    for line in text.split("\n"):
        if not line:
            continue
        parts = line.split(SEPARATOR)
        try:
            if len(parts) != len(JOB_FIELDS) + 1 or parts[-1].strip():
                raise ValueError("a line of another form")
            jobs.append(Job._make(reader(part) for (_, reader), part in zip(JOB_FIELDS, parts, strict=False)))
        except (ValueError, KeyError):
            odd += 1
    return jobs, odd


def throttles_of(programs: Programs, partition: str) -> dict[str, int]:
    """How many tasks of an array may run at once, by the array's id: `--array=0-9%2`. EngineUnavailable."""
    text = programs.told("squeue", "-h", "-a", "-t", "PENDING", *in_partition(partition), "-o", "%i")
    found = (re.fullmatch(r"(\d+)_\[.*%(\d+)\]", line.strip()) for line in text.splitlines())
    return {one[1]: int(one[2]) for one in found if one is not None and int(one[2]) > 0}


def nodes_of(programs: Programs, partition: str) -> tuple[list[Node], int]:
    """All nodes of the partition, and how many lines were odd. Raises EngineUnavailable."""
    return read_nodes(programs.told("sinfo", "-h", "-N", *in_partition(partition), "-O", NODE_FORMAT))


def read_nodes(text: str) -> tuple[list[Node], int]:
    """The lines of `sinfo -N -O NODE_FORMAT`."""
    nodes, odd = [], 0
    for line in text.split("\n"):
        parts = line.split(SEPARATOR)
        if len(parts) != 5:
            odd += bool(line)
            continue
        name, states, gres, reason = parts[:4]
        try:
            gpus, kind = gpus_of(_word(gres))
        except ValueError:
            odd += 1
            continue
        words = frozenset(states.strip().lower().rstrip("*").split("+"))
        nodes.append(Node(name, words, gpus, kind, _word(reason)))
    return nodes, odd


def gpus_of(text: str) -> tuple[int, str]:
    """
    How many GPUs a GRES list names, and of which type ("" where several or none).

    `gres:gpu:h100:8`, `gpu:8(S:0-1)`, `gres/gpu=4`, `gpu`, `gres:gpu:a:4,nic:1`. ValueError where it cannot
    be read.
    """
    total, kinds = 0, set()
    for one in re.sub(r"\([^)]*\)", "", text).split(","):
        words = re.split(r"[:=]", re.sub(r"^gres[:/]", "", one.strip()))
        if words[0] != "gpu":
            continue
        if len(words) > 3:
            raise ValueError(f"not a GRES: {one!r}")
        count = words[-1] if len(words) > 1 and words[-1].isdigit() else "1"
        if len(words) == 3 and not words[-1].isdigit():
            raise ValueError(f"not a GRES: {one!r}")
        kinds.add(words[1] if len(words) == 3 or (len(words) == 2 and not words[1].isdigit()) else "")
        total += int(count)
    return total, kinds.pop() if len(kinds) == 1 else ""
