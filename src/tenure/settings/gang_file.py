"""The file of `plan gang`: how many nodes, how they come, and what each costs while it waits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, model_validator

from tenure.settings.errors import BadInput, Checked, checked
from tenure.settings.plan_units import MOST_NODES, Positive, Price, SomeSeconds, amount
from tenure.settings.units import whole
from tenure.settings.yaml_file import read_yaml

Nodes = Annotated[int, BeforeValidator(whole(1, MOST_NODES, "a whole number of nodes"))]
Success = Annotated[
    float, BeforeValidator(amount(0, 1, "the chance that one attempt brings one node,", above=True))
]


class ArrivalsFile(Checked):
    """How nodes come by themselves."""

    kind: Literal["linear", "exponential", "trickle"]
    days: Positive | None = None
    have: Annotated[int, BeforeValidator(whole(0, MOST_NODES, "a whole number of nodes"))] | None = None
    per_day: Positive | None = None

    @model_validator(mode="after")
    def _whole(self) -> ArrivalsFile:
        given = {key for key in ("days", "have", "per_day") if getattr(self, key) is not None}
        needed = {"have", "per_day"} if self.kind == "trickle" else {"days"}
        if given != needed:
            raise ValueError(f"{self.kind} with {' and '.join(sorted(needed))} and nothing else")
        return self


class ZoneFile(Checked):
    """Capacity is there for `open_h`, then not for `tight_h`, each on average."""

    open_h: Positive
    tight_h: Positive


class GangFile(Checked):
    nodes: Nodes
    success: Success = 1.0
    price_per_node_hour: Price = 0.0
    round: SomeSeconds = 900.0
    arrivals: ArrivalsFile | None = None
    zone: ZoneFile | None = None
    draws: Annotated[int, BeforeValidator(whole(1000, 5_000_000, "a whole number of draws"))] = 200_000
    seed: Annotated[int, BeforeValidator(whole(0, 2**63 - 1))] = 7


def read_gang_file(path: Path) -> GangFile:
    """The plan of a file; BadInput where it is wrong."""
    return gang_file_of(read_yaml(path), file=str(path))


def gang_file_of(raw: Any, *, file: str = "plan") -> GangFile:
    """The plan of a mapping."""
    plan = checked(GangFile, raw, file=file)
    if plan.arrivals is not None and plan.arrivals.have is not None and plan.arrivals.have > plan.nodes:
        raise BadInput(
            file, "arrivals.have", f"{plan.arrivals.have} nodes of {plan.nodes}", "at most the gang's nodes"
        )
    return plan
