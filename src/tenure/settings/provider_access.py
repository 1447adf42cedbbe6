"""Which provider is meant, and how is it reached? The mapping `provider` of a run's file, by its `name`.

`aws`: region, image, subnets by zone. `manual`: a file of windows that were agreed with somebody who has no
interface. `own`: reservations on one's own cluster. Names of nodes are lists, or short like `gpu[01-16]`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, model_validator

from tenure.settings.errors import BadInput, Checked, checked, nearest, shown
from tenure.settings.plan_units import SomeSeconds
from tenure.settings.units import Name, Text, instant, number, whole
from tenure.settings.yaml_file import read_yaml

MOST_NODES = 10_000
PLAN_ONLY = {
    "gcp": "gcp is known for plans only (`plan window`): buy there, and give the window to `manual`",
    "azure": "azure is known for plans only (`plan window`): buy there, and give the window to `manual`",
    "sfcompute": "sfcompute is known for plans only: buy there, and give the window to `manual`",
}
_SHORT = re.compile(r"([A-Za-z0-9._-]*)\[(\d+)-(\d+)\]([A-Za-z0-9._-]*)")


def node_names(value: Any) -> Any:
    """`gpu[01-03]`, `a,b` or a list of such, as names in order. ValueError where it is none."""
    allowed = "names of nodes: a list, or short like gpu[01-16]"
    told = value.split(",") if isinstance(value, str) else value
    if not isinstance(told, list) or not told or not all(isinstance(one, str) and one for one in told):
        raise ValueError(allowed)
    names: list[str] = []
    for one in told:
        found = _SHORT.fullmatch(one.strip())
        if found is None:
            if "[" in one or "]" in one or not one.strip():
                raise ValueError(allowed)
            names.append(one.strip())
            continue
        before, low, high, after = found.groups()
        if int(high) - int(low) >= MOST_NODES or int(high) < int(low):
            raise ValueError(f"{allowed}, at most {MOST_NODES}")
        names += [f"{before}{n:0{len(low)}d}{after}" for n in range(int(low), int(high) + 1)]
    if len(set(names)) != len(names):
        raise ValueError("names of nodes, each once")
    return tuple(names)


def _fee(value: Any) -> Decimal:
    allowed = "a sum of money from 0 to 1e12"
    exact = number(value, allowed)
    if not 0 <= exact <= 10**12:
        raise ValueError(allowed)
    return exact


def _texts(value: Any) -> Any:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ValueError("a mapping (key: value)")
    return {key: str(told) for key, told in value.items()}


def _currency(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z]{3}", value.strip()):
        raise ValueError("a currency by its three letters, such as EUR")
    return value.strip().upper()


Currency = Annotated[str, BeforeValidator(_currency)]
Names = Annotated[tuple[str, ...], BeforeValidator(node_names)]
Fee = Annotated[Decimal, BeforeValidator(_fee)]
At = Annotated[Any, BeforeValidator(instant)]
Count = Annotated[int, BeforeValidator(whole(1, 100_000))]
Mapped = Annotated[dict[str, str], BeforeValidator(_texts)]


class AwsAccess(Checked):
    """Credentials are found by boto3 itself (`profile`, environment, instance role)."""

    name: Literal["aws"]
    region: Text
    instance_type: Text
    image: str = ""
    subnets: Mapped = {}
    platform: Text = "Linux/UNIX"
    launch: dict[str, Any] = {}
    profile: str = ""
    endpoint: str = ""
    gpus_per_node: Count | None = None
    connect_timeout: SomeSeconds = 5.0
    read_timeout: SomeSeconds = 60.0


class ManualAccess(Checked):
    """`file`: of the windows that were agreed; what Tenure notes about them lies beside it."""

    name: Literal["manual"]
    file: Text


class OwnAccess(Checked):
    """`by`: `slurm` (scontrol reservations), `tenure` (reservations of the server at `url`), or `lab`: the
    trainer is a job there, and the ends of its protections are the windows."""

    name: Literal["own"]
    by: Literal["slurm", "tenure", "lab"]
    nodes: Names = ()
    gpus_per_node: Count = 8
    user: Name = "root"
    url: str | None = None
    state: Text = "own-nodes.json"

    @model_validator(mode="after")
    def _named(self) -> OwnAccess:
        if (self.by == "lab") == bool(self.nodes):
            raise ValueError("nodes: their names, except by lab: it chooses them itself")
        return self


Access = AwsAccess | ManualAccess | OwnAccess
KINDS: dict[str, type[Checked]] = {"aws": AwsAccess, "manual": ManualAccess, "own": OwnAccess}


def provider_access(told: Mapping[str, Any], *, file: str = "run") -> Access:
    """The mapping `provider` of a run's file; BadInput where it is wrong."""
    name = str(told.get("name", ""))
    if name in PLAN_ONLY:
        raise BadInput(file, "provider.name", shown(name), PLAN_ONLY[name])
    if name not in KINDS:
        raise BadInput(file, "provider.name", shown(name), nearest(name, KINDS))
    found: Any = checked(KINDS[name], dict(told), file=file, at=("provider",))
    return found  # type: ignore[no-any-return]


class AgreedFile(Checked):
    """One window that was agreed. `extends`: it makes another longer."""

    id: Name
    start: At
    end: At
    fee: Fee
    currency: Currency
    nodes: Names
    gpus_per_node: Count
    instance_type: Text = "agreed"
    zone: Text = "agreed"
    platform: Text = "Linux/UNIX"
    extends: str = ""
    good_until: Annotated[Any, BeforeValidator(lambda one: None if one is None else instant(one))] = None

    @model_validator(mode="after")
    def _dates(self) -> AgreedFile:
        if self.end <= self.start:
            raise ValueError("an end after the start")
        return self


class AgreedWindows(Checked):
    """The file of `manual`. `down`: nodes that do not work now."""

    windows: tuple[AgreedFile, ...]
    down: Annotated[tuple[str, ...], BeforeValidator(lambda one: node_names(one) if one else ())] = ()

    @model_validator(mode="after")
    def _ids(self) -> AgreedWindows:
        ids = [one.id for one in self.windows]
        for window in self.windows:
            if ids.count(window.id) > 1:
                raise ValueError(f"each id once; '{window.id}' is there twice")
            if window.extends and window.extends not in ids:
                raise ValueError(f"'{window.id}' extends '{window.extends}', which is not there")
        return self


def read_agreed_windows(path: Path) -> AgreedWindows:
    """The windows of a file; BadInput where it is wrong."""
    return checked(AgreedWindows, read_yaml(path), file=path.name)
