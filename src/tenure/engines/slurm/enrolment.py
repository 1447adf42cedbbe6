"""How does `tenure submit` reach Slurm? As `sbatch --hold`, once: the order's id stands in the comment."""

from __future__ import annotations

import os
import pwd
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from tenure.engines.protocol import Enrol, OrderRefused
from tenure.engines.slurm.asked import KEYS, SPEAKS, comment_words
from tenure.engines.slurm.programs import Failed, Programs
from tenure.engines.slurm.rows import jobs_of
from tenure.engines.slurm.settings import SlurmSettings
from tenure.engines.slurm.shared_folder import SharedFolder

LONGEST_COMMENT = 1000


def submitted(order: Enrol, programs: Programs, settings: SlurmSettings, folder: SharedFolder) -> None:
    """Submit it, unless it has been. Raises OrderRefused, EngineUnavailable."""
    if order.id in _enrolled(programs, settings.partition):
        return
    try:
        programs.ask(
            "sbatch",
            "--hold",
            "--parsable",
            *_options(order, settings),
            text=_script(order, folder),
            timeout_s=20,
        )
    except Failed as error:
        raise OrderRefused(str(error)) from None


def _enrolled(programs: Programs, partition: str) -> set[str]:
    """Orders by which jobs came that Slurm still knows, those that have ended among them."""
    found = set()
    for job in jobs_of(programs, partition)[0]:
        try:
            found.add(comment_words(job.comment).get("order", ""))
        except ValueError:
            continue
    return found - {""}


def _options(order: Enrol, settings: SlurmSettings) -> list[str]:
    spec: dict[str, Any] = dict(order.spec)
    options = [
        f"--partition={settings.partition}",
        f"--comment={_comment(order, spec, settings)}",
        f"--gpus={spec['gpus']}",
        "--requeue" if spec.get("resumable", True) else "--no-requeue",
        f"--job-name={_printable(str(spec.get('name') or 'tenure'))}",
        "--export=NIL",
        "--open-mode=append",
    ]
    if spec.get("max_runtime"):
        seconds = int(spec["max_runtime"])
        options.append(f"--time={seconds // 60}:{seconds % 60:02d}")
    if spec.get("array"):
        options.append(f"--array={spec['array']}")
    workdir = order.workdir or _home(order.user, settings)
    if workdir:
        options.append(f"--chdir={workdir}")
    if settings.submit_as == "caller":
        options += _as_user(order.user)
    return options


def withdrawn(job: str, why: str, ask: Callable[..., None]) -> None:
    """Cancel a job that waits; why it never could run is left where `scontrol show job` shows it."""
    if why:
        ask("scontrol", "update", f"JobId={job}", f"AdminComment=Tenure: {_printable(why)}")
    ask("scancel", "--state=PENDING", job)


def _as_user(user: str) -> list[str]:
    try:
        entry = pwd.getpwnam(user)
    except (KeyError, ValueError):
        raise OrderRefused(f"this machine has no user {user!r}, as whom the job would run") from None
    if entry.pw_uid == os.geteuid():
        return []
    if os.geteuid() != 0:
        raise OrderRefused(f"the server is not root, so it cannot submit as {user!r}: use sbatch yourself")
    return [f"--uid={entry.pw_uid}", f"--gid={entry.pw_gid}"]


def _home(user: str, settings: SlurmSettings) -> str:
    try:
        return pwd.getpwnam(user).pw_dir if settings.submit_as == "caller" else "/"
    except KeyError:
        return ""


def _comment(order: Enrol, spec: Mapping[str, Any], settings: SlurmSettings) -> str:
    """All that Slurm has no option for. OrderRefused where it is too long for a comment."""
    words = {"order": order.id}
    if settings.submit_as == "server":
        words["user"] = order.user
    known = {key for key, _ in KEYS.values()}
    for key, value in spec.items():
        if key in known and key not in ("resumable", "max_runtime", "name") and value is not None:
            words[key] = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    text = f"{SPEAKS} " + " ".join(f"{key}={shlex.quote(value)}" for key, value in words.items())
    if len(text) > LONGEST_COMMENT or any(
        ";" in value or not value.isprintable() for value in words.values()
    ):
        raise OrderRefused(
            "what it asks for does not fit into a comment at Slurm: shorter names, no semicolons"
        )
    return text


def _printable(words: str) -> str:
    return "".join(letter for letter in words if letter.isprintable())[:200]


def _script(order: Enrol, folder: SharedFolder) -> str:
    """The batch script: sets what was asked for and becomes the command, so that signals reach it."""
    lines = [
        "#!/bin/bash",
        "export TENURE_JOB=${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}",
    ]
    path = folder.made()
    if path is not None:
        stem = f"{shlex.quote(str(path))}/$SLURM_JOB_ID.${{SLURM_RESTART_COUNT:-0}}"
        lines += [f"export TENURE_DONE={stem}.done TENURE_SAVED={stem}.saved"]
    for key, value in order.env.items():
        if not key.replace("_", "a").isalnum() or not key.isascii() or key[0].isdigit():
            raise OrderRefused(f"a variable named {key!r} cannot be set by a batch script")
        if not key.startswith(("SLURM_", "TENURE_")):
            lines.append(f"export {key}={shlex.quote(value)}")
    lines.append(f"exec {shlex.join(order.command)}")
    return "\n".join(lines) + "\n"
