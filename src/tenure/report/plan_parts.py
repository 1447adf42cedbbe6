"""What a page about a plan is made of: tiles with its answer, and parts below them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tenure.report.frames import Frame
from tenure.report.plan_figures import Blade
from tenure.report.sheets import Sheet


@dataclass(frozen=True)
class Tile:
    name: str
    value: str
    more: str = ""


@dataclass(frozen=True)
class Part:
    """A section of the page; what is empty is left out."""

    id: str
    title: str
    about: Sequence[str] = ()
    frames: Sequence[Frame] = ()
    blades: Sequence[Blade] = ()
    sheets: Sequence[Sheet] = ()
    warnings: Sequence[tuple[str, str]] = ()
    steps: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
