"""Distinct values by sorting: on millions of nearly sorted instants far faster than by hashing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def distinct(values: NDArray[Any]) -> NDArray[Any]:
    """The distinct values, ascending."""
    ordered = np.sort(values, kind="stable")
    new = np.ones(len(ordered), bool)
    new[1:] = ordered[1:] != ordered[:-1]
    return ordered[new]


def numbered(values: NDArray[Any]) -> tuple[NDArray[Any], Ints]:
    """The distinct values, ascending, and for each value its place among them."""
    known = distinct(values)
    return known, np.searchsorted(known, values)
