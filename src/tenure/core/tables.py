"""Tables: one structured array a noun, read by column.

`jobs.gpus[job]` means the same on a structured array (compiled: one pointer a noun, a row is one cache
line) and on the NamedTuple of its column views that `columns(...)` gives (plain Python, where a field
look-up on a structured array would be slow). Both share memory, so it does not matter which one wrote.
A read-only array stays read-only by column: a kernel that writes to one does not compile.
"""

from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tenure.core.kernel import COMPILED

Table = NDArray[np.void]
I8, I4, I2, I1, B1, F8 = np.int64, np.int32, np.int16, np.int8, np.bool_, np.float64


def table_type(**fields: Any) -> np.dtype[Any]:
    """A row type; wide fields first keeps it aligned and free of holes."""
    return np.dtype(list(fields.items()), align=True)


def empty(rows: int, dtype: np.dtype[Any], **fill: Any) -> Table:
    """A zeroed table with the given columns filled."""
    table: Table = np.zeros(rows, dtype)
    for name, value in fill.items():
        table[name] = value
    return table


@cache
def _view_class(names: tuple[str, ...]) -> Any:
    fields: Any = namedtuple("Fields", list(names))  # type: ignore[misc]

    class Columns(fields):  # type: ignore[misc]
        """Column views of one table; as long as the table has rows, as in compiled code."""

        __slots__ = ()

        def __len__(self) -> int:
            return len(next(iter(self)))

    return Columns


def columns(table: Any) -> Any:
    """The table as kernels want it here: itself when compiled, its column views when plain."""
    if COMPILED or not isinstance(table, np.ndarray) or table.dtype.names is None:
        return table
    names = table.dtype.names
    return _view_class(names)(*[table[name] for name in names])
