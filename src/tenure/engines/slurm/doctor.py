"""What must a site still configure at Slurm? One finding for each thing that Tenure rests on.

A finding is (subject, ok, text, remedy): ok is None where it cannot be told, or where it is as well to know.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from tenure.engines.protocol import EngineError
from tenure.engines.slurm.programs import Failed, Programs
from tenure.engines.slurm.rows import Node, nodes_of
from tenure.engines.slurm.settings import SlurmSettings
from tenure.engines.slurm.skew import Skew

Finding = tuple[str, bool | None, str, str]

OLDEST = (22, 5)  #: the release all this is tried on
SHORTEST_GRACE_S = 15  #: what unbudgeted work gets, where a policy says nothing
LEAST_MINJOBAGE_S = 120
MOST_SKEW_S = 5.0
HOOK = "examples/slurm/job_submit.lua"


def findings(settings: SlurmSettings, programs: Programs, skew: Skew) -> list[Finding]:
    """All of them. Where Slurm does not answer there is only that."""
    try:
        config = _config(programs)
        nodes, odd = nodes_of(programs, settings.partition)
        partition = _partition(programs, settings.partition)
        shared = _shared_with(programs, settings.partition, {node.name for node in nodes})
        ahead_s = skew.ahead_s()
    except EngineError as error:
        return [
            (
                "slurm",
                False,
                str(error),
                "is slurmctld up, and SLURM_CONF (or live: {engine: {slurm: {conf: …}}}) right?",
            )
        ]
    return [
        _version(config),
        *_of_partition(settings.partition, partition, nodes, shared),
        _held(config, settings),
        *_of_ends(config),
        *_of_requeues(config, partition),
        *_of_gpus(config, partition),
        _rights(config),
        _clock(ahead_s),
        *_of_folder(settings),
        *([("answers", None, f"{odd} lines of sinfo cannot be read", "tell us which")] if odd else []),
    ]


def _config(programs: Programs) -> dict[str, str]:
    pairs = (line.partition("=") for line in programs.told("scontrol", "show", "config").splitlines())
    return {name.strip(): value.strip() for name, equals, value in pairs if equals}


def _partition(programs: Programs, name: str) -> dict[str, str] | None:
    try:
        said = programs.ask("scontrol", "-o", "show", "partition", name)
    except Failed:
        return None
    return {key: value for key, _, value in (word.partition("=") for word in said.split())}


def _shared_with(programs: Programs, partition: str, ours: set[str]) -> dict[str, int]:
    """Other partitions over nodes of ours, and how many nodes."""
    shared: dict[str, int] = {}
    for line in programs.told("sinfo", "-h", "-a", "-N", "-o", "%N %R").splitlines():
        node, _, other = line.strip().partition(" ")
        if other != partition and node in ours:
            shared[other] = shared.get(other, 0) + 1
    return shared


def _seconds(text: str) -> int | None:
    """`30 sec` as 30."""
    found = re.match(r"(\d+)", text)
    return None if found is None else int(found[1])


def _version(config: Mapping[str, str]) -> Finding:
    said = config.get("SLURM_VERSION", "")
    found = re.match(r"(\d+)\.(\d+)", said)
    if found is None:
        return "version", None, f"Slurm's version cannot be read ({said!r})", ""
    new = (int(found[1]), int(found[2])) >= OLDEST
    return "version", new, f"Slurm {said}", "" if new else f"{OLDEST[0]}.{OLDEST[1]:02d} or newer"


def _of_partition(
    name: str, partition: Mapping[str, str] | None, nodes: list[Node], shared: Mapping[str, int]
) -> list[Finding]:
    if partition is None:
        remedy = f"PartitionName={name} Nodes=… State=UP, or live: {{engine: {{slurm: {{partition: …}}}}}}"
        return [("partition", False, f"there is no partition {name}", remedy)]
    up = partition.get("State") == "UP"
    told: list[Finding] = [
        (
            "partition",
            up,
            f"{name} is {partition.get('State', '?')}",
            "" if up else f"PartitionName={name} … State=UP",
        )
    ]
    bare = [node.name for node in nodes if node.gpus == 0]
    text = f"{len(nodes)} nodes, {sum(node.gpus for node in nodes)} GPUs"
    if bare:
        text += f"; {len(bare)} without GPUs, such as {bare[0]}"
    told.append(
        ("nodes", bool(nodes) and not bare, text, "NodeName=… Gres=gpu:N, and gres.conf" if bare else "")
    )
    if shared:
        names = ", ".join(f"{other} ({count} nodes)" for other, count in sorted(shared.items()))
        remedy = "give each node to one partition, or keep the others State=INACTIVE"
        told.append(("shared nodes", False, f"jobs of {names} may take the same GPUs unseen", remedy))
    else:
        told.append(("shared nodes", True, "no other partition has these nodes", ""))
    return told


def _held(config: Mapping[str, str], settings: SlurmSettings) -> Finding:
    """Whether jobs wait by themselves."""
    plugins = config.get("JobSubmitPlugins", "")
    if "lua" not in plugins.split(","):
        remedy = f"JobSubmitPlugins=lua, with {HOOK} as job_submit.lua beside slurm.conf"
        return "held jobs", False, "nothing holds jobs that come without --hold: Slurm may start them", remedy
    hook = Path(settings.conf or config.get("SLURM_CONF", "")).parent / "job_submit.lua"
    try:
        text = hook.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return (
            "held jobs",
            None,
            f"{hook} cannot be read from here",
            f"does it hold jobs of {settings.partition}?",
        )
    named = f'"{settings.partition}"' in text and "priority = 0" in text
    remedy = "" if named else f'local PARTITION = "{settings.partition}" in it, from {HOOK}'
    return (
        "held jobs",
        named,
        f"job_submit.lua {'holds' if named else 'does not name'} {settings.partition}",
        remedy,
    )


def _of_ends(config: Mapping[str, str]) -> list[Finding]:
    """Whether an end is still to be known when somebody looks."""
    age_s = _seconds(config.get("MinJobAge", ""))
    long = age_s is not None and age_s >= LEAST_MINJOBAGE_S
    told: list[Finding] = [
        (
            "MinJobAge", long, f"ended jobs are kept for {age_s} s",
            "" if long else "MinJobAge=300: so long may the server be away before it must ask elsewhere",
        )
    ]  # fmt: skip
    if "slurmdbd" in config.get("AccountingStorageType", ""):
        told.append(("accounting", True, "slurmdbd knows how older jobs ended", ""))
    elif config.get("JobCompType") == "jobcomp/filetxt":
        readable = os.access(config.get("JobCompLoc", ""), os.R_OK)
        can = "tells" if readable else "cannot be read here to tell"
        text = f"{config.get('JobCompLoc')} {can} how older jobs ended"
        told.append(("accounting", True if readable else None, text, ""))
    else:
        remedy = (
            "AccountingStorageType=accounting_storage/slurmdbd, or JobCompType=jobcomp/filetxt and JobCompLoc"
        )
        told.append(("accounting", None, "who ends while the server is away for longer ends unknown", remedy))
    return told


def _of_requeues(config: Mapping[str, str], partition: Mapping[str, str] | None) -> list[Finding]:
    requeue = config.get("JobRequeue") == "1"
    kill_s = _seconds(config.get("KillWait", ""))
    quick = kill_s is not None and kill_s <= SHORTEST_GRACE_S
    by_slurm = config.get("PreemptType", "preempt/none") != "preempt/none"
    mode = (partition or {}).get("PreemptMode", "OFF")
    preempts = by_slurm and mode != "OFF"
    back = config.get("ReturnToService", "")
    return [
        (
            "JobRequeue", requeue, f"stopped jobs are {'' if requeue else 'not '}queued again",
            "" if requeue else "JobRequeue=1",
        ),
        (
            "KillWait", quick, f"TERM to KILL takes {kill_s} s",
            "" if quick else f"KillWait={SHORTEST_GRACE_S}: a shorter grace lasts as long as KillWait does",
        ),
        (
            "preemption", not preempts,
            "Slurm itself preempts nobody here" if not preempts else f"Slurm itself preempts here ({mode})",
            "" if not preempts else "PreemptMode=OFF on the partition's line",
        ),
        (
            "ReturnToService", True if back == "1" else None,
            {
                "0": "a node that was down stays so until it is resumed",
                "2": "a node set DOWN by hand comes back by itself: drain it instead",
            }.get(back, "a node that did not answer comes back by itself"),
            "",
        ),
    ]  # fmt: skip


def _of_gpus(config: Mapping[str, str], partition: Mapping[str, str] | None) -> list[Finding]:
    """Whether GPUs are what runs out first."""
    by_tres = config.get("SelectType") == "select/cons_tres"
    told: list[Finding] = [
        (
            "SelectType",
            by_tres,
            config.get("SelectType", "?"),
            "" if by_tres else "SelectType=select/cons_tres",
        )
    ]
    counts_memory = "MEMORY" in config.get("SelectTypeParameters", "").upper()
    defaults = (config, partition or {})
    named = any(
        key.startswith("DefMemPer") and value not in ("UNLIMITED", "0")
        for one in defaults
        for key, value in one.items()
    )
    named = named or any("DefMemPerGPU" in one.get("JobDefaults", "") for one in defaults)
    if counts_memory and not named:
        remedy = "DefMemPerGPU=… (a node's memory by its GPUs), on the partition's line or for all"
        told.append(
            ("memory", False, "a job that names no memory takes all of its node, GPUs or not", remedy)
        )
    else:
        told.append(("memory", True, "a job that names no memory leaves some for others", ""))
    return told


def _rights(config: Mapping[str, str]) -> Finding:
    found = re.search(r"\((\d+)\)", config.get("SlurmUser", ""))
    ours = os.geteuid()
    if ours == 0:
        return "rights", True, "the server is root: it may release, stop, and submit as anybody", ""
    if found is not None and ours == int(found[1]):
        return (
            "rights",
            None,
            "the server is SlurmUser: all but submitting as somebody else",
            "submit_as: server",
        )
    return (
        "rights",
        False,
        f"user id {ours} may not release or stop jobs of others",
        "run as SlurmUser or root",
    )


def _clock(ahead_s: float) -> Finding:
    near = abs(ahead_s) <= MOST_SKEW_S
    text = "slurmctld's clock is ours" if near else f"slurmctld's clock is {ahead_s:+.0f} s from ours"
    return (
        "clock",
        True if near else None,
        text,
        "" if near else "keep both by NTP; instants are told by slurmctld's",
    )


def _of_folder(settings: SlurmSettings) -> list[Finding]:
    if settings.folder is None:
        text = "jobs cannot say that they are done or saved: one that is told to stop is always queued again"
        return [
            (
                "folder",
                None,
                text,
                "live: {engine: {slurm: {folder: PATH}}}, on a file system all nodes share",
            )
        ]
    there = os.access(settings.folder, os.W_OK | os.X_OK)
    return [("folder", there, settings.folder, "" if there else f"mkdir -m 1777 {settings.folder}")]
