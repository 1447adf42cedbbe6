"""What goes wrong between the cloud and who asks it? By action and by the number of the call.

`Faults({("PurchaseCapacityBlock", 1): "drop_after"})`; `"*"` for any action, 0 for every call of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: Before anything is done: refused as busy, connection closed, no answer. `_after`: done, then the same.
BEFORE = ("503", "drop", "hang")
AFTER = ("503_after", "drop_after", "hang_after")
KINDS = (*BEFORE, *AFTER)


class Ec2Error(Exception):
    """An answer that says no."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status


class NoAnswer(Exception):
    """The connection is closed (`hangs` False), or nothing comes until it is."""

    def __init__(self, hangs: bool) -> None:
        super().__init__("hang" if hangs else "drop")
        self.hangs = hangs


@dataclass
class Faults:
    """What happens to which call. May be changed between calls."""

    plan: dict[tuple[str, int], str] = field(default_factory=dict)
    refusals: dict[tuple[str, int], tuple[str, str]] = field(default_factory=dict)  #: (code, message)

    def of(self, action: str, number: int) -> str:
        """The kind of fault of an action's n-th call, from 1; "" for none."""
        return str(_of(self.plan, action, number) or "")

    def refusal(self, action: str, number: int) -> tuple[str, str] | None:
        """The error it is answered with."""
        found: tuple[str, str] | None = _of(self.refusals, action, number)
        return found


def _of(plan: Mapping[tuple[str, int], Any], action: str, number: int) -> Any:
    for key in ((action, number), (action, 0), ("*", 0)):
        if key in plan:
            return plan[key]
    return None


def raise_for(kind: str) -> None:
    """The fault as what its sender sees."""
    word = kind.removesuffix("_after")
    if word == "503":
        raise Ec2Error("Unavailable", "The server is overloaded and can't handle the request", 503)
    raise NoAnswer(word == "hang")
