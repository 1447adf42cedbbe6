"""The mapping `preflight` of a run's file: what must be ready before its window, and how each is asked.

Every key is optional; what is not told cannot be asked and is `unknown`. Commands are words, run as they are
on the machine that asks; `{node}` in one makes it run once for each node of `nodes`.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, model_validator

from tenure.settings.errors import Checked
from tenure.settings.plan_units import Part, Positive, SomeSeconds
from tenure.settings.provider_access import node_names
from tenure.settings.units import Text, whole

Count = Annotated[int, BeforeValidator(whole(1, 1_000_000))]
Few = Annotated[int, BeforeValidator(whole(0, 10_000))]


def _words(value: Any) -> Any:
    if not isinstance(value, list) or not value or not all(isinstance(word, (str, int)) for word in value):
        raise ValueError("a list of words, such as [ssh, '{node}', nvidia-smi]")
    return [str(word) for word in value]


Words = Annotated[list[str], BeforeValidator(_words)]


class QuotaFile(Checked):
    """What the provider allows, as its console shows it: no interface tells it for every kind of window."""

    nodes: Count


class ImageFile(Checked):
    """`command` prints the digest of what is there; it must hold `digest`."""

    digest: Text
    command: Words


class DataFile(Checked):
    """`at`: where the shards lie, near the window. `list`: a JSON file of {name, bytes, sha256}."""

    at: Text
    list: Text
    options: dict[str, Any] = {}
    hashes: Few = 3  #: of so many shards, spread over all


class HealthFile(Checked):
    """Tools of a node. Default: none is run."""

    smi: Words | None = None
    nvlink: Words | None = None
    dcgm: Words | None = None
    links: Count | None = None


class AllReduceFile(Checked):
    """`command`: nccl-tests' all_reduce_perf under its launcher. It prints, or writes the file `output`.

    Without one, a loop over gloo on this machine. `expected`: GB/s bus bandwidth; `share`: of it wanted.
    """

    command: Words | None = None
    output: Text | None = None
    ranks: Count | None = None
    expected: Positive | None = None
    share: Part = 0.9


class ProbeFile(Checked):
    """A short training with the hook. After `steps` it is told to drain. `share`: of the plan's speed."""

    command: Words
    steps: Count = 50
    nodes: Count | None = None
    share: Part = 0.95


class PreflightFile(Checked):
    quota: QuotaFile | None = None
    image: ImageFile | None = None
    data: DataFile | None = None
    near: Text | None = None  #: a store in the window's region, to which the newest checkpoint is copied
    launch: bool = False  #: launch one node into the window, read it back and let it go: it costs node time
    nodes: Annotated[tuple[str, ...], BeforeValidator(lambda one: node_names(one) if one else ())] = ()
    health: HealthFile | None = None
    all_reduce: AllReduceFile | None = None
    probe: ProbeFile | None = None
    bound: SomeSeconds = 600.0  #: of one check
    mend: SomeSeconds = 7200.0  #: how long mending what is found takes: the checks' deadline before the start

    @model_validator(mode="after")
    def _nodes(self) -> PreflightFile:
        commands = [] if self.health is None else [self.health.smi, self.health.nvlink, self.health.dcgm]
        named = any("{node}" in word for command in commands if command for word in command)
        if named and not self.nodes:
            raise ValueError("nodes: names for {node}")
        return self


__all__ = ["PreflightFile"]
