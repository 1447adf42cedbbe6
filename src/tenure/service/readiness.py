"""Whether a question can be answered at once, or something has to be made ready first."""

from __future__ import annotations


def kernels_ready() -> bool:
    """Whether compiled kernels of these very sources lie ready; if not, the first play compiles them."""
    from tenure.core.kernel import is_cached

    return is_cached()
