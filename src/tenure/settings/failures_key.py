"""The key `failures` of a scenario: how nodes and racks fail by themselves, who mends them, and spares."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, model_validator

from tenure.settings.errors import Checked
from tenure.settings.plan_units import OpenPart, Positive, SomeSeconds, amount, part
from tenure.settings.units import whole

RATE = "either mtbf (a duration) or per_1000_node_days: how often one fails"
SPARES = "a part of the lab's nodes such as 2%, or a whole number of nodes"
MOST_SPARES = 100_000
Cv = Annotated[float, BeforeValidator(amount(0, 10, "a spread of repair times, in means,"))]
Shape = Annotated[float, BeforeValidator(amount(0.2, 10, "a Weibull shape, a number"))]
Times = Annotated[float, BeforeValidator(amount(1, 1e6, "a number"))]
Count = Annotated[int, BeforeValidator(whole(1, 100_000, "a whole number"))]


def _spares(value: Any) -> tuple[str, float]:
    """(`part`, of the nodes) or (`nodes`, how many)."""
    try:
        if isinstance(value, str) and value.rstrip().endswith("%"):
            return ("part", part(value))
        return ("nodes", float(whole(0, MOST_SPARES, SPARES)(value)))
    except ValueError:
        raise ValueError(SPARES) from None


class FailingFile(Checked):
    """Something that fails and is mended. `shape` below 1: infant mortality, begun anew by each repair."""

    mtbf: SomeSeconds | None = None
    per_1000_node_days: Positive | None = None
    repair: SomeSeconds
    cv: Cv = 1.0
    shape: Shape = 1.0

    @model_validator(mode="after")
    def _one_rate(self) -> FailingFile:
        if (self.mtbf is None) == (self.per_1000_node_days is None):
            raise ValueError(RATE)
        return self

    @property
    def mtbf_s(self) -> float:
        """Mean seconds up between two failures of one."""
        return self.mtbf if self.mtbf is not None else 86_400_000.0 / (self.per_1000_node_days or 1.0)


class FailingRackFile(Checked):
    """A rack as a whole: switches, backplane, power. It takes all its nodes."""

    mtbf: SomeSeconds
    repair: SomeSeconds
    cv: Cv = 1.0
    shape: Shape = 1.0

    @property
    def mtbf_s(self) -> float:
        return self.mtbf


class LemonsFile(Checked):
    """Nodes that fail `times` as often as the others."""

    part: OpenPart
    times: Times


class CommonFile(Checked):
    """Events that take several racks of one cluster at once, mended without crews."""

    per_year: Positive
    racks: Count
    repair: SomeSeconds


class ScenarioFailuresFile(Checked):
    """`crews`: repairs at once, first come first served. `spares`: nodes beside those of the lab."""

    node: FailingFile | None = None
    rack: FailingRackFile | None = None
    lemons: LemonsFile | None = None
    common: CommonFile | None = None
    crews: Count | None = None
    spares: Annotated[tuple[str, float], BeforeValidator(_spares)] = ("nodes", 0.0)

    @model_validator(mode="after")
    def _lemons_of_nodes(self) -> ScenarioFailuresFile:
        if self.lemons is not None and self.node is None:
            raise ValueError("`node` with lemons: how often the others fail")
        return self
