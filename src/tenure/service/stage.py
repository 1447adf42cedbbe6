"""The stage of a play: the files read and checked, the policy chosen, the world built."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tenure.core.policy import Policy
from tenure.settings.units import duration_text
from tenure.simulator.scenario import Scenario, build_world, built_in, load_scenario
from tenure.simulator.world import Names, World

Source = Path | str | Mapping[str, Any]
ProgressCall = Callable[[float, str], None]  #: part done, from 0 to 1; what is being done
DEFAULT_POLICY = "budget"


class Script(NamedTuple):
    """A scenario with the policy it is played under; nothing is drawn or read from traces yet."""

    scenario: Scenario
    policy: str  #: its name
    rule: str
    knobs: Policy
    seed: int
    text: str  #: of its file
    lookback_given: bool  #: somebody said how far back use counts; if not, every report says what holds

    @property
    def lookback(self) -> str:
        """How far back use counts, as it is written in a file."""
        return duration_text(self.knobs.lookback_s)


class Stage(NamedTuple):
    """A script and its world."""

    script: Script
    world: World
    names: Names
    warnings: list[str]


def read(
    source: Source,
    policy: str | None = None,
    set_: Mapping[str, str] | None = None,
    seed: int | None = None,
) -> Script:
    """Read and check a scenario. Raises BadInput about the first thing wrong in it or in what is set."""
    scenario = load_scenario(source, set_=set_)
    name = policy or DEFAULT_POLICY
    rule, knobs = scenario.policy(name)
    given = {"lookback", "half_life"} & ({*scenario.lab.policy} | {key[7:] for key in scenario.changes})
    return Script(
        scenario,
        name,
        rule,
        knobs,
        scenario.seed if seed is None else seed,
        _text_of(source),
        bool(given),
    )


def _text_of(source: Source) -> str:
    if isinstance(source, Mapping):
        return json.dumps(source, indent=2, default=str)
    path = Path(source)
    return path.read_text(encoding="utf-8-sig") if path.exists() else built_in()[str(source)]


def build(script: Script, progress: ProgressCall | None = None) -> Stage:
    """Draw the world, reading its trace where it has one. Raises BadInput where the trace does not fit."""
    if progress is not None:
        progress(
            0.0, "reading the trace" if script.scenario.written.trace is not None else "drawing the world"
        )
    world, names = build_world(script.scenario, seed=script.seed)
    return Stage(script, world, names, list(dict.fromkeys([*script.scenario.warnings, *names.remarks])))


def portable(source: Source) -> str | Mapping[str, Any]:
    """The source in a form that another process, perhaps in another folder, understands."""
    if isinstance(source, Mapping):
        return source
    path = Path(source)
    return str(path.resolve()) if path.exists() else str(source)
