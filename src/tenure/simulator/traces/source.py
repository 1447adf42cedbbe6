"""Opening a trace: plain, gzip or zstd text; every failure is one clear message."""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from tenure.settings.errors import BadInput

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
UTF16 = (b"\xff\xfe", b"\xfe\xff")
TAR_MARK_AT = 257
SPOILED = (EOFError, OSError, zlib.error, tarfile.TarError)


@contextmanager
def open_text(file: Path, member: str = "") -> Iterator[IO[str]]:
    """The text of `file`, unpacked by what its first bytes say (not by its name); line ends are kept.

    Of a tar archive it is the first file whose name holds `member`.
    Bytes that are no UTF-8 become U+FFFD: a spoiled name must not cost the whole trace.
    Raises BadInput where the file cannot be read, is cut short or is damaged.
    """
    try:
        with open(file, "rb") as plain:
            unpacked = _unpack(plain, plain.peek(4)[:4])
            if unpacked.peek(TAR_MARK_AT + 5)[TAR_MARK_AT : TAR_MARK_AT + 5] == b"ustar":
                unpacked = _member(unpacked, member)
            encoding = "utf-16" if unpacked.peek(2)[:2] in UTF16 else "utf-8-sig"
            with io.TextIOWrapper(unpacked, encoding=encoding, errors="replace", newline="") as text:
                yield text
    except SPOILED as problem:
        raise BadInput(
            str(file), "", _told(problem), "a readable file: plain text, gzip or zstd"
        ) from problem


def _unpack(plain: io.BufferedReader, mark: bytes) -> io.BufferedReader:
    if mark[:2] == GZIP:
        return io.BufferedReader(cast(Any, gzip.GzipFile(fileobj=plain)), 1 << 18)
    if mark == ZSTD:
        import pyarrow as pa  # zstandard's own reader says nothing when a file is cut short

        return io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(plain, "r"), "zstd"), 1 << 18)
    return plain


class _OneWay(io.RawIOBase):
    """A file of a streamed archive, for readers that would ask whether they may seek."""

    def __init__(self, content: IO[bytes]) -> None:
        self._content = content

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._content.read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)


def _member(packed: io.BufferedReader, name: str) -> io.BufferedReader:
    archive = tarfile.open(fileobj=packed, mode="r|")
    for entry in archive:
        if entry.isreg() and name in entry.name and not Path(entry.name).name.startswith("."):
            content = archive.extractfile(entry)
            if content is not None:
                return io.BufferedReader(_OneWay(content), 1 << 18)
    raise OSError(f"no file named like {name or 'anything'!r} in the archive")


def _told(problem: BaseException) -> str:
    if isinstance(problem, FileNotFoundError):
        return "no such file"
    if isinstance(problem, IsADirectoryError):
        return "a folder"
    if isinstance(problem, EOFError) or "runcated" in str(problem):
        return "a compressed file that ends too early (was the download complete?)"
    if isinstance(problem, PermissionError):
        return "a file that may not be read"
    return f"a damaged file ({problem})"
