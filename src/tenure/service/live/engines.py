"""Which engine runs the jobs of a lab, by its name; each is imported only where it is asked for."""

from __future__ import annotations

from pathlib import Path

from tenure.engines.clock import Clock
from tenure.engines.protocol import Engine
from tenure.engines.shadow import ShadowEngine
from tenure.settings.errors import BadInput, checked, shown
from tenure.settings.lab import Lab
from tenure.settings.live_file import LocalFile

ENGINES = ("local", "slurm", "fake")


def open_engine(name: str, lab: Lab, data: Path, clock: Clock, *, shadow: bool = False) -> Engine:
    """The engine of that name for this lab; it keeps what it must remember in `data`. Raises BadInput.

    `shadow`: one that only reads it, and pretends what it is ordered.
    """
    engine = _engine(name, lab, data, clock, shadow)
    return ShadowEngine(engine, clock, data / "shadow.json") if shadow else engine


def _engine(name: str, lab: Lab, data: Path, clock: Clock, shadow: bool) -> Engine:
    told = lab.live.engine.get(name, {})
    if name == "fake":
        from tenure.engines.fake import FakeCluster

        return FakeCluster.at(data / "fake-cluster.json", {node.name: node.gpus for node in lab.nodes}, clock)
    if name == "local":
        from tenure.engines.local.engine import LocalEngine, LocalSettings

        keys = checked(LocalFile, told, file=lab.file, at=("live", "engine", name)).model_dump()
        settings = LocalSettings(keep_s=keys.pop("keep"), **keys)
        nodes = {node.name: node.gpus for node in lab.nodes}
        return LocalEngine(data / "local", nodes, clock=clock, settings=settings)
    if name == "slurm":
        from tenure.engines.slurm import ShadowSlurm, SlurmEngine, SlurmSettings

        keys_of_slurm = checked(SlurmSettings, told, file=lab.file, at=("live", "engine", name))
        return (ShadowSlurm if shadow else SlurmEngine)(keys_of_slurm, clock)
    raise BadInput("--engine", "", shown(name), " | ".join(ENGINES))
