"""Runs jobs on this machine, and lets them run on when the daemon dies (`engine.LocalEngine`).

Little is imported here: a shepherd's process imports from this folder, and must begin quickly.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from tenure.engines.clock import Clock
    from tenure.engines.local.engine import LocalEngine
    from tenure.settings.lab import Lab


def open_local(lab: Lab, data: Path, clock: Clock) -> LocalEngine:
    """This machine as the nodes of a lab, all of them."""
    from tenure.engines.local.engine import LocalEngine

    return LocalEngine(data, {node.name: node.gpus for node in lab.nodes}, clock=clock)
