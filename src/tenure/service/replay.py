"""Playing one scenario: files in; story, measures and pages out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass

ProgressCall = Callable[[float, str], None]
