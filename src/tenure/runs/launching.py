"""Who starts the trainer's processes? The machine of the controller, or a lab whose scheduler places them.

The command finds in its environment where to speak (`TENURE_HOOK`), where to save (`TENURE_STORE`), which
attempt it is (`TENURE_RUN_ATTEMPT`: what is saved by an older one does not count) and the gang's addresses
(`TENURE_HOSTS`). An attempt is started under its number, so starting it twice starts it once.
"""

from __future__ import annotations

import getpass
from collections.abc import Mapping, Sequence
from datetime import datetime

from tenure.client.asking import Client
from tenure.client.errors import ClientError
from tenure.engines.local.engine import LocalEngine
from tenure.engines.protocol import EngineError, Start, Stop
from tenure.providers.protocol import Node
from tenure.runs.look import ABSENT, ENDED, QUEUED, UNDER_WAY, TrainerSeen
from tenure.runs.parts import PartSilent
from tenure.settings.run_file import Run


def environment(run: Run, attempt: int, nodes: Sequence[Node]) -> dict[str, str]:
    """What the trainer finds, the file's own `env` first. `nodes`: none where a scheduler tells them."""
    told = {
        **run.file.launch.env,
        "TENURE_HOOK": str(run.hook.resolve()),
        "TENURE_RUN": run.file.run,
        "TENURE_RUN_ATTEMPT": str(attempt),
        "TENURE_STORE": run.store_url,
    }
    if not nodes:
        return told
    hosts = [node.address or node.id for node in nodes]
    windows = sorted({node.window for node in nodes if node.window})
    told |= {"TENURE_HOSTS": ",".join(hosts), "TENURE_NODES": str(len(hosts))}
    return told | {"TENURE_WINDOW": ",".join(windows)}


class EngineTrainer:
    """A `parts.Trainer` on the local engine, from whose machine the command speaks to the gang."""

    def __init__(self, run: Run, engine: LocalEngine, here: str) -> None:
        self._run, self._engine, self._here = run, engine, here

    def start(self, attempt: int, nodes: Sequence[Node]) -> None:
        """Start it, once."""
        launch = self._run.file.launch
        order = Start(
            id=f"{self._run.file.run}-{attempt}-start",
            job=self._run.file.run,
            attempt=attempt,
            account="",
            user=getpass.getuser(),
            nodes={self._here: launch.gpus},
            command=launch.command,
            env=environment(self._run, attempt, nodes),
            workdir=str((self._run.folder / launch.workdir).resolve()),
            max_runtime_s=None,
            name=self._run.file.run,
        )
        self._order(order)

    def seen(self, attempt: int) -> TrainerSeen:
        """As the engine sees it."""
        try:
            found = self._engine.see().attempts
        except EngineError as silent:
            raise PartSilent(str(silent)) from silent
        mine = [one for one in found if (one.job, one.attempt) == (self._run.file.run, attempt)]
        if not mine:
            return TrainerSeen(ABSENT)
        one = mine[0]
        if one.ended is None:
            return TrainerSeen(UNDER_WAY)
        code = one.exit_code if one.signal is None else 128 + one.signal
        said = one.detail or f"exit {code}"
        log = self._engine.log_file(one.job, one.attempt)
        return TrainerSeen(ENDED, code, one.done, said if code == 0 else f"{said}, its log: {log.resolve()}")

    def stop(self, attempt: int) -> None:
        """SIGTERM, and after the grace SIGKILL."""
        name = self._run.file.run
        grace = self._run.file.launch.grace
        self._order(Stop(f"{name}-{attempt}-stop", name, attempt, grace, False, "the run says so"))

    def _order(self, order: Start | Stop) -> None:
        try:
            self._engine.carry_out(order)
        except EngineError as refused:
            raise PartSilent(str(refused)) from refused


class LabTrainer:
    """A `parts.Trainer` in a Tenure-scheduled lab: each attempt is a job, submitted once by its key.

    The lab may interrupt it, queue it again and start it anew: to the run that is the same attempt.
    """

    def __init__(self, run: Run, client: Client) -> None:
        self._run, self._client = run, client
        self._jobs: dict[int, str] = {}  #: by attempt: looked for in the whole queue once

    def start(self, attempt: int, nodes: Sequence[Node]) -> None:
        """Submit it; the same attempt is the same job."""
        launch = self._run.file.launch
        gpus = self._run.nodes * self._run.plan.gpus_per_node
        try:
            taken = self._client.submit(
                key=f"run/{self._name(attempt)}",
                receipt=False,
                name=self._name(attempt),
                command=list(launch.command),
                env=environment(self._run, attempt, ()),
                workdir=str((self._run.folder / launch.workdir).resolve()),
                **{"gpus": gpus, **_keys(launch.job)},
            )
        except ClientError as no:
            raise PartSilent(str(no)) from no
        self._jobs[attempt] = taken.job

    def seen(self, attempt: int) -> TrainerSeen:
        """As the lab shows it."""
        try:
            which = self._job(attempt)
            if which is None:
                return TrainerSeen(ABSENT)
            job = self._client.show(which)
        except ClientError as no:
            raise PartSilent(str(no)) from no
        if job.phase == "waiting":
            return TrainerSeen(QUEUED, detail=job.sentence or f"job {job.job} waits")
        last = job.attempts[-1] if job.attempts else None
        if job.phase != "ended":
            placed = None if last is None else datetime.fromisoformat(last.started).timestamp()
            return TrainerSeen(UNDER_WAY, placed=placed)
        done = job.end == "finished"
        code = last.exit_code if last is not None else None
        said = ", ".join(
            word for word in (job.end, job.detail, "" if code is None else f"exit {code}") if word
        )
        detail = f"job {which} {said}: tenure logs {which}"
        return TrainerSeen(ENDED, 0 if done and code is None else code, False, detail)

    def stop(self, attempt: int) -> None:
        """Cancel its job."""
        try:
            which = self._job(attempt)
            if which is not None and self._client.show(which).phase != "ended":
                self._client.cancel(which)
        except ClientError as no:
            raise PartSilent(str(no)) from no

    def _job(self, attempt: int) -> str | None:
        if attempt not in self._jobs:
            name, account = self._name(attempt), self._run.file.launch.job.get("account")
            rows = self._client.every_row(state="all", account=account)
            found = next((row.job for row in rows if row.name == name), None)
            if found is None:
                return None
            self._jobs[attempt] = found
        return self._jobs[attempt]

    def _name(self, attempt: int) -> str:
        return f"{self._run.file.run}-{attempt}"


def _keys(told: Mapping[str, str]) -> dict[str, object]:
    """Keys of a job as they are written in a run's file: whole numbers are numbers."""
    return {key: int(value) if value.isdigit() else value for key, value in told.items()}
