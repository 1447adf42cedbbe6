"""The one decorator of compiled code, and what makes its cache honest.

Every kernel is ordinary Python over tables; `@kernel` compiles it where numba is present and leaves it
alone where it is not (or where `TENURE_PLAIN=1`). Both give the same bits: no fastmath, no parallel loops.

numba's own cache keys a kernel by its *own* file, so editing a kernel that another file calls would go on
answering from old code. The cache folder here is named by a hash of all sources of the package and of the
flags, so a changed line anywhere, another numba or a bounds-checked run starts a folder of its own. Each
process holds its folder by a lock for as long as it lives; `service/readiness.py` clears away old ones.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R", bound=type)

PACKAGE = Path(__file__).resolve().parent.parent
KERNEL_ROOMS = ("core", "simulator")
IN_USE = "in-use"  #: the file in a cache folder that processes using it have locked
FLAGS = ("NUMBA_BOUNDSCHECK", "NUMBA_OPT", "NUMBA_CPU_NAME", "NUMBA_DISABLE_JIT")


def sources_digest() -> str:
    """Hash of every file that can hold a kernel, of the flags and of the versions that compile them."""
    digest = hashlib.sha256()
    for room in KERNEL_ROOMS:
        for path in sorted((PACKAGE / room).rglob("*.py")):
            digest.update(path.relative_to(PACKAGE).as_posix().encode())
            digest.update(path.read_bytes())
    for flag in FLAGS:
        digest.update(f"{flag}={os.environ.get(flag, '')}".encode())
    digest.update(sys.version.encode())
    return digest.hexdigest()[:16]


def cache_root() -> Path:
    """Where the folders of compiled code lie, one for each state of the sources."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(os.environ.get("TENURE_CACHE", os.path.join(home, "tenure", "kernels")))


def _hold(folder: Path) -> None:
    """Lock the folder, shared, until this process ends; without locks or leave to write nothing is done."""
    try:
        import fcntl

        folder.mkdir(parents=True, exist_ok=True)
        fcntl.flock(os.open(folder / IN_USE, os.O_RDWR | os.O_CREAT, 0o666), fcntl.LOCK_SH | fcntl.LOCK_NB)
        os.utime(folder)
    except (ImportError, OSError):
        return


def _compilers() -> tuple[Callable[[F], F], Callable[[F], F]] | None:
    """(for kernels, for entries), or None where everything stays plain."""
    if os.environ.get("TENURE_PLAIN") == "1":
        return None
    os.environ["NUMBA_CACHE_DIR"] = str(cache_root() / sources_digest())
    try:
        import numba
    except ImportError:  # the live scheduler needs no compiler: the plain path decides the same
        return None
    from tenure.core.compiler import PARTS

    numba.config.CACHE_DIR = os.environ["NUMBA_CACHE_DIR"]
    _hold(Path(numba.config.CACHE_DIR))
    if PARTS is None:
        whole = numba.njit(cache=True, error_model="numpy", nogil=True)
        return whole, whole
    part, whole = PARTS
    # Kernels make no arrays, so no reference is counted (`_nrt`): counting is atomic, and at every table read
    return (
        numba.njit(error_model="numpy", nogil=True, _nrt=False, pipeline_class=part),
        numba.njit(cache=True, error_model="numpy", nogil=True, _nrt=False, pipeline_class=whole),
    )


_COMPILERS = _compilers()
COMPILED = _COMPILERS is not None


def kernel(function: F) -> F:
    """Compile `function` as a part, or leave it plain. Keep kernels small, outputs last, units named."""
    if _COMPILERS is None:
        return function
    part = _COMPILERS[0](function)
    _one_version(part)
    return part


def _one_version(part: Any) -> None:
    """Let a call with a constant mean the same code as one with a variable: numba would compile it anew."""
    from numba.core.types import unliteral

    template_of = part.get_call_template

    def with_plain_types(args: Any, kws: Any) -> Any:
        return template_of(
            tuple(unliteral(one) for one in args), {key: unliteral(one) for key, one in kws.items()}
        )

    part.get_call_template = with_plain_types


def entry(function: F) -> F:
    """A kernel that Python calls.

    Kernels call only kernels: what both need is a kernel with an entry beside it.
    """
    return function if _COMPILERS is None else _COMPILERS[1](function)


def bundle(record: R) -> R:
    """A NamedTuple of tables or numbers that every kernel is handed: compiled, as one pointer."""
    if _COMPILERS is not None:
        from tenure.core.compiler import bundle as point_to

        point_to(record)
    return record


def is_cached() -> bool:
    """Whether compiled code of these very sources lies ready; if not, the first use compiles for a while."""
    if not COMPILED:
        return True
    folder = Path(os.environ["NUMBA_CACHE_DIR"])
    return folder.is_dir() and any(folder.rglob("*.nbi"))
