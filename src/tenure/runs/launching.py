"""Who starts the trainer's processes? The machine of the controller, or a lab whose scheduler places them.

The command finds in its environment where to speak (`TENURE_HOOK`), where to save (`TENURE_STORE`), which
attempt it is (`TENURE_RUN_ATTEMPT`: what is saved by an older one does not count) and the gang's addresses
(`TENURE_HOSTS`). An attempt is started under its number, so starting it twice starts it once.
"""

from __future__ import annotations

import getpass
from collections.abc import Mapping, Sequence

from tenure.client.asking import Client
from tenure.client.errors import NotAllowed, Refused, ServerUnavailable
from tenure.engines.protocol import Engine, EngineError, Start, Stop
from tenure.providers.protocol import Node
from tenure.runs.look import ABSENT, ENDED, UNDER_WAY, TrainerSeen
from tenure.runs.parts import PartSilent
from tenure.settings.run_file import Run


def environment(run: Run, attempt: int, nodes: Sequence[Node]) -> dict[str, str]:
    """What the trainer finds, the file's own `env` first."""
    hosts = [node.address or node.id for node in nodes]
    return {
        **run.file.launch.env,
        "TENURE_HOOK": str(run.hook.resolve()),
        "TENURE_RUN": run.file.run,
        "TENURE_RUN_ATTEMPT": str(attempt),
        "TENURE_STORE": run.store_url,
        "TENURE_HOSTS": ",".join(hosts),
        "TENURE_NODES": str(len(hosts)),
    }


class EngineTrainer:
    """A `parts.Trainer` on an engine: the local one, on whose machine the command speaks to the gang."""

    def __init__(self, run: Run, engine: Engine, here: str) -> None:
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
        return TrainerSeen(ENDED, code, one.done, one.detail or f"exit {code}")

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
    """A `parts.Trainer` in a Tenure-scheduled lab: each attempt is a job, submitted once by its key."""

    def __init__(self, run: Run, client: Client) -> None:
        self._run, self._client = run, client

    def start(self, attempt: int, nodes: Sequence[Node]) -> None:
        """Submit it; the same attempt is the same job."""
        launch = self._run.file.launch
        try:
            self._client.submit(
                key=f"run/{self._name(attempt)}",
                receipt=False,
                name=self._name(attempt),
                command=list(launch.command),
                env=environment(self._run, attempt, nodes),
                workdir=str((self._run.folder / launch.workdir).resolve()),
                **_keys(launch.job),
            )
        except (ServerUnavailable, NotAllowed, Refused) as no:
            raise PartSilent(str(no)) from no

    def seen(self, attempt: int) -> TrainerSeen:
        """As the lab shows it."""
        try:
            rows = self._client.queue(state="all").jobs
            mine = next((row.job for row in rows if row.name == self._name(attempt)), None)
            if mine is None:
                return TrainerSeen(ABSENT)
            job = self._client.show(mine)
        except (ServerUnavailable, NotAllowed, Refused) as no:
            raise PartSilent(str(no)) from no
        if job.phase != "ended":
            return TrainerSeen(UNDER_WAY)
        done = job.end == "finished"
        code = job.attempts[-1].exit_code if job.attempts else None
        return TrainerSeen(ENDED, 0 if done and code is None else code, False, f"{job.end}: {job.detail}")

    def stop(self, attempt: int) -> None:
        """Cancel its job."""
        try:
            rows = self._client.queue(state="all").jobs
            for row in rows:
                if row.name == self._name(attempt) and row.phase != "ended":
                    self._client.cancel(row.job)
        except (ServerUnavailable, NotAllowed, Refused) as no:
            raise PartSilent(str(no)) from no

    def _name(self, attempt: int) -> str:
        return f"{self._run.file.run}-{attempt}"


def _keys(told: Mapping[str, str]) -> dict[str, object]:
    """Keys of a job as they are written in a run's file: whole numbers are numbers."""
    return {key: int(value) if value.isdigit() else value for key, value in told.items()}
