"""Parts that sum to their whole, exactly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def apportion(whole: Ints, weights: Floats, *, otherwise: int) -> Ints:
    """Split each whole (…,) into parts (…, K) in proportion to its weights, by largest remainder.

    Where a whole has no weights, all of it is the part `otherwise`.
    """
    weights = weights.copy()
    weights[..., otherwise] += weights.sum(axis=-1) <= 0
    exact = whole[..., None] * (weights / weights.sum(axis=-1, keepdims=True))
    parts = np.floor(exact).astype(np.int64)
    left = whole - parts.sum(axis=-1)
    rank = np.argsort(np.argsort(parts - exact, axis=-1, kind="stable"), axis=-1)  # largest remainder first
    n = weights.shape[-1]
    parts += left[..., None] // n + (rank < left[..., None] % n)
    return parts


def fill_up(total: int, wanted: Floats, most: Ints) -> Ints:
    """Whole numbers near `wanted`, none above `most`, that sum to `total` (which `most` allows)."""
    parts = np.minimum(np.floor(np.maximum(wanted, 0)).astype(np.int64), most)
    left = total - int(parts.sum())
    for row in np.argsort(parts - most, kind="stable").tolist():  # where most room is left
        change = min(left, int(most[row] - parts[row])) if left > 0 else max(left, -int(parts[row]))
        parts[row] += change
        left -= change
    return parts
