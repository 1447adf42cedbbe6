"""What of an attempt does Slurm itself remember for us? One line in the job's AdminComment.

It lives as long as the job does, through every death of ours and of slurmctld: which attempt of Tenure's a
start of Slurm's is, where it was put, that it was told to leave and until when, how it ended before it was
queued again.

    tenure;attempt=2;restarts=1;nodes=n[001-002]*8;since=1796078500.0;order=7.start.3;stop=9.stop.1;told=1796078700.0;by=1796078820.0;signalled=1;requeue=1
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote, unquote

from tenure.engines.slurm.hostlist import compressed, expanded

BEGINS = "tenure;"


class Note(NamedTuple):
    """`restarts`: Slurm's count of restarts while this attempt runs; more means that it is over."""

    attempt: int
    restarts: int
    nodes: Mapping[str, int]  #: GPUs by node
    since: float = 0.0  #: epoch second at which it was released
    order: str = ""  #: the Start
    started: float | None = None  #: written with `stop`, before Slurm's own record of it is lost
    stop: str = ""  #: the Stop; "" = never told
    told: float = 0.0  #: epoch second of that Stop
    by: float = 0.0  #: epoch second by which it has to be gone
    signalled: bool = (
        False  #: the signal went out; written after it, so it may go out twice, never not at all
    )
    requeue: bool = False
    ended: float | None = None  #: written before Slurm's own record of the end is lost to a requeue
    status: int | None = None  #: wait status, with `ended`


def written(note: Note) -> str:
    """The line, without spaces."""
    by_gpus: dict[int, list[str]] = {}
    for node, gpus in note.nodes.items():
        by_gpus.setdefault(gpus, []).append(node)
    nodes = "+".join(f"{compressed(names)}*{gpus}" for gpus, names in sorted(by_gpus.items()))
    parts: dict[str, object] = {"attempt": note.attempt, "restarts": note.restarts, "nodes": nodes}
    parts |= {"since": f"{note.since:.3f}", "order": quote(note.order, "")}
    if note.started is not None:
        parts |= {"started": f"{note.started:.3f}"}
    if note.stop:
        parts |= {"stop": quote(note.stop, ""), "told": f"{note.told:.3f}", "by": f"{note.by:.3f}"}
        parts |= {"signalled": int(note.signalled), "requeue": int(note.requeue)}
    if note.ended is not None:
        parts |= {"ended": f"{note.ended:.3f}"}
    if note.status is not None:
        parts |= {"status": note.status}
    return BEGINS + ";".join(f"{key}={value}" for key, value in parts.items())


def read(text: str) -> Note | None:
    """The note in an AdminComment; None where it holds none of ours. ValueError where ours is spoiled."""
    if not text.startswith(BEGINS):
        return None
    parts = dict(part.split("=", 1) for part in text[len(BEGINS) :].split(";") if "=" in part)
    try:
        nodes: dict[str, int] = {}
        for part in filter(None, parts["nodes"].split("+")):
            names, gpus = part.rsplit("*", 1)
            nodes |= dict.fromkeys(expanded(names), int(gpus))
        return Note(
            attempt=int(parts["attempt"]),
            restarts=int(parts["restarts"]),
            nodes=nodes,
            since=float(parts.get("since", 0)),
            order=unquote(parts.get("order", "")),
            started=float(parts["started"]) if "started" in parts else None,
            stop=unquote(parts.get("stop", "")),
            told=float(parts.get("told", 0)),
            by=float(parts.get("by", 0)),
            signalled=parts.get("signalled") == "1",
            requeue=parts.get("requeue") == "1",
            ended=float(parts["ended"]) if "ended" in parts else None,
            status=int(parts["status"]) if "status" in parts else None,
        )
    except (KeyError, ValueError) as error:
        raise ValueError(f"a spoiled note: {text[:200]!r}") from error
