"""What does a job at Slurm ask for, in Tenure's words? From options and comment; or why it never runs.

    sbatch --gpus=16 --time=1-0 --comment 'tenure: account=language/olmo min=2h kind=debug' …

The comment wins over QOS, account and user, which a site may map (`SlurmSettings`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tenure.engines.slurm.note import Note
from tenure.engines.slurm.rows import Job, gpus_of
from tenure.engines.slurm.settings import SlurmSettings
from tenure.settings.errors import BadInput, nearest, shown
from tenure.settings.job import job_of
from tenure.settings.units import account_path, duration_s, flag, name, number

SPEAKS = "tenure:"  #: how a comment that is meant for us begins


def _names(value: Any) -> list[str]:
    return [name(part) for part in str(value).split(",")]


def _word(value: Any) -> str:
    return str(value)


def _whole(value: Any) -> int:
    exact = number(value, "a whole number")
    if exact != exact.to_integral_value():
        raise ValueError("a whole number")
    return int(exact)


#: Key in a comment → (key of a job, how its value is read).
KEYS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "account": ("account", account_path),
    "min": ("min_runtime", duration_s),
    "min_runtime": ("min_runtime", duration_s),
    "max_runtime": ("max_runtime", duration_s),
    "kind": ("kind", _word),
    "priority": ("priority", _whole),
    "gpu": ("gpu", name),
    "cluster": ("clusters", _names),
    "clusters": ("clusters", _names),
    "same_rack": ("same_rack", flag),
    "resumable": ("resumable", flag),
    "checkpoint_every": ("checkpoint_every", duration_s),
    "saves_when_asked": ("saves_when_asked", flag),
    "restart": ("restart", duration_s),
    "after": ("after", _names),
    "name": ("name", _word),
    "hold": ("hold", flag),
}
#: What we write into the comment of a job that came by `tenure submit`, and what is not of the job itself.
OURS = ("order", "user")
OTHERS = ("notice",)


class Asked(NamedTuple):
    """What a job asks for. `refused`: why it can never run, in words; then `spec` may be incomplete."""

    spec: Mapping[str, Any]
    refused: str = ""
    order: str = ""  #: the Enrol that made it
    user: str = ""  #: for whom, where the server submitted it in its own name
    notice: str = ""  #: signal it wants before it may be stopped


def asked(job: Job, settings: SlurmSettings, node_gpus: int) -> Asked:
    """What the job asks for. `node_gpus`: GPUs of the largest node."""
    try:
        said = comment_words(job.comment)
        ours = {key: said.pop(key) for key in (*OURS, *OTHERS) if key in said}
    except ValueError as error:
        return Asked({}, str(error))
    found = Asked({}, "", ours.get("order", ""), ours.get("user", ""), ours.get("notice", ""))
    try:
        spec = {**_from_options(job, settings), **_from_comment(said)}
        spec["resumable"] = job.requeue and job.batch and spec["resumable"]
        spec["gpus"], spec["gpu"] = _gpus(job, settings, node_gpus, spec.get("gpu"))
        if spec["gpu"] is None:
            del spec["gpu"]
        after = _after(job)
        if after:
            spec["after"] = after
        if "account" not in spec:
            raise ValueError(
                "it names no account: --comment 'tenure: account=PATH', or --account=NAME if it is mapped"
            )
        job_of({key: value for key, value in spec.items() if key not in _LIVE_ONLY}, file=f"job {job.id}")
        if job.note is None:
            _refuse_what_slurm_alone_would_place(job, node_gpus, spec["gpus"])
    except BadInput as error:
        return found._replace(refused=str(error))
    except ValueError as error:
        return found._replace(refused=str(error))
    return found._replace(spec=spec)


class Reader:
    """`asked` for many jobs again and again: what has not changed since the last look is not read anew."""

    def __init__(self, settings: SlurmSettings) -> None:
        self._settings = settings
        self._node_gpus = 0
        self._last: dict[str, tuple[Job, Asked]] = {}
        self._now: dict[str, tuple[Job, Asked]] = {}

    def begin(self, node_gpus: int) -> None:
        """A look begins; `node_gpus`: GPUs of the largest node."""
        self._last = self._now if node_gpus == self._node_gpus else {}
        self._node_gpus, self._now = node_gpus, {}

    def __call__(self, job: Job) -> Asked:
        asks = job._replace(note=_NOTED if job.note is not None else None, **_MOVING)
        kept = self._last.get(job.id)
        if kept is None or kept[0] != asks:
            kept = (asks, asked(job, self._settings, self._node_gpus))
        self._now[job.id] = kept
        return kept[1]


_NOTED = Note(0, 0, {})
#: What changes of a job while what it asks for stays.
_MOVING: dict[str, Any] = {
    "state": "", "reason": "", "nodes": (), "submitted": 0.0, "started": None, "ended": None, "status": 0,
    "restarts": 0, "priority": 0,
}  # fmt: skip
_LIVE_ONLY = ("checkpoint_every", "saves_when_asked", "restart", "after", "name", "hold")


def comment_words(comment: str) -> dict[str, str]:
    """The `key=value` words of a comment that is meant for us; none where it is not. ValueError."""
    text = comment.strip()
    if not text.lower().startswith(SPEAKS):
        return {}
    try:
        words = shlex.split(text[len(SPEAKS) :].replace(";", " "))
    except ValueError:
        raise ValueError(f"its comment has an open quote: {shown(text)}") from None
    found: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        known = {**KEYS, **dict.fromkeys((*OURS, *OTHERS))}
        if key not in known or not equals:
            raise ValueError(f"its comment says {shown(word)}; allowed: KEY=VALUE, {nearest(key, known)}")
        found[key] = value
    return found


def _from_comment(said: Mapping[str, str]) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    for word, value in said.items():
        key, reader = KEYS[word]
        try:
            spec[key] = reader(value)
        except ValueError as error:
            raise ValueError(f"its comment says {word}={shown(value)}; allowed: {error}") from None
    return spec


def _from_options(job: Job, settings: SlurmSettings) -> dict[str, Any]:
    """From what Slurm's own options say."""
    spec: dict[str, Any] = {"min_runtime": settings.min_runtime, "resumable": job.requeue}
    if job.name:
        spec["name"] = "".join(letter for letter in job.name[:200] if letter.isprintable())
    if job.user in settings.users:
        spec["account"] = settings.users[job.user]
    if job.account in settings.accounts:
        spec["account"] = settings.accounts[job.account]
    if job.limit_s is not None:
        spec["max_runtime"] = job.limit_s
    if job.nice:
        spec["priority"] = -job.nice
    for key, value in settings.qos.get(job.qos, {}).items():
        spec[key] = KEYS[key][1](value) if key in KEYS else value
    return spec


def _gpus(job: Job, settings: SlurmSettings, node_gpus: int, wanted: str | None) -> tuple[int, str | None]:
    """GPUs in all, and their type. ValueError."""
    ways = {
        "--gpus": (job.per_job, 1),
        "--gpus-per-node or --gres": (job.per_node, job.min_nodes),
        "--gpus-per-task": (job.per_task, job.tasks),
    }
    total, kind = 0, ""
    for text, times in ways.values():
        count, found = gpus_of(text)
        if count:
            total, kind = count * times, found
            break
    if not total and gpus_of(job.per_socket)[0]:
        raise ValueError("--gpus-per-socket does not say how many in all: say --gpus or --gpus-per-node")
    if not total:
        raise ValueError("it asks for no GPU: say --gpus=N, or choose another partition")
    if job.note is None and job.max_nodes > job.min_nodes and not job.per_job:
        raise ValueError(
            f"it takes from {job.min_nodes} to {job.max_nodes} nodes: say one number (--nodes=N), or --gpus=N"
        )
    return total, wanted or settings.gpu_types.get(kind) or None


def _after(job: Job) -> list[str]:
    """`--dependency` as jobs that must have ended before: Slurm itself does not look while a job is held.

    `70_*` (a whole array) stays as it is. ValueError for what Tenure has no word for."""
    found = []
    for part in filter(None, re.split(r"[,?]", job.dependency)):
        matched = re.fullmatch(r"(afterok|afterany):(\d+(?:_(?:\d+|\*))?)(?:\((\w+)\))?", part)
        if matched is None or "?" in job.dependency:
            raise ValueError(
                f"--dependency={job.dependency}: all of afterok:JOB and afterany:JOB is understood"
            )
        if matched[3] == "failed":
            raise ValueError(f"what it waits for has failed: {part}")
        found.append(f"{matched[2]}:{'ok' if matched[1] == 'afterok' else 'any'}")
    return found


def _refuse_what_slurm_alone_would_place(job: Job, node_gpus: int, gpus: int) -> None:
    """Tenure chooses the nodes: what fixes them otherwise can never be met. ValueError."""
    if job.het:
        raise ValueError("heterogeneous jobs (--het-group) are not placed by Tenure")
    if "," in job.partition:
        raise ValueError(f"it names several partitions ({job.partition}): name one")
    if job.asked_nodes:
        raise ValueError(f"--nodelist={job.asked_nodes}: Tenure chooses the nodes; leave it out")
    if job.features:
        raise ValueError(f"--constraint={job.features}: say gpu=TYPE in the comment instead")
    if job.reservation:
        raise ValueError(f"--reservation={job.reservation}: reserve nodes in Tenure instead")
    if job.min_nodes > 1 and gpus != job.min_nodes * node_gpus:
        raise ValueError(
            f"{gpus} GPUs on {job.min_nodes} nodes: up to {node_gpus} stand on one node, more on whole nodes;"
            f" leave --nodes out, or ask for {job.min_nodes * node_gpus} GPUs"
        )
    if job.exclusive and gpus % node_gpus:
        raise ValueError(f"--exclusive takes whole nodes: ask for all {node_gpus} GPUs, or leave it out")
