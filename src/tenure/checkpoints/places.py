"""How is something made once, whole, or not at all? A folder and an object store answer differently.

A place writes whole files only (a reader never sees half of one), and makes a file *once*: of two who make
the same one, one is told FileExistsError. On a local disk that is a link to a finished file; in an object
store a put on condition that nothing is there. No step rests on renaming folders: object stores have none.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import fcntl
import itertools
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256 as hasher
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

from tenure.checkpoints.words import ClockOff, StoreError, StoreFull, StoreUnavailable

CHUNK = 8 << 20  #: bytes read or written at once
ONE_PUT = 64 << 20  #: bytes up to which an object is put in one piece
FULL = {"QuotaExceeded", "XMinioStorageFull", "InsufficientCapacity", "InsufficientStorage", "StorageFull"}
SKEWED = {"RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture"}
HALF = ".half-"  #: what a name begins with while it is being written on a local disk


class Seen(NamedTuple):
    """A file as a listing shows it."""

    bytes: int
    at: float  #: epoch seconds, by the store's clock


class Place(Protocol):
    """A folder for one run. Paths are relative, with forward slashes. All raise StoreUnavailable."""

    @property
    def where(self) -> str:
        """Its name, the same for all who open it by the same URL."""
        ...

    def create(self, path: str, data: bytes) -> None:
        """Make it with this content, once. FileExistsError where it is there already."""
        ...

    def write(self, path: str, data: bytes) -> None:
        """Put it there whole, over whatever was there."""
        ...

    def swap(self, path: str, seen: bytes, data: bytes) -> bool:
        """Put it there over `seen`, and over nothing else: False where something else is there by now."""
        ...

    def stream(self, path: str, chunks: Iterator[bytes]) -> None:
        """As `write`, of more than fits in memory."""
        ...

    def sha256(self, path: str) -> str | None:
        """The hash of the whole file as the store itself keeps it; None where it keeps none."""
        ...

    def read(self, path: str) -> bytes:
        """All of it. FileNotFoundError."""
        ...

    def open(self, path: str) -> IO[bytes]:
        """To be read piece by piece. FileNotFoundError."""
        ...

    def files(self, folder: str) -> dict[str, Seen]:
        """All files below a folder, by path; empty where there is none."""
        ...

    def delete(self, paths: list[str]) -> None:
        """Remove files; those already gone are no error."""
        ...


def open_place(url: str, options: Mapping[str, Any] | None = None) -> Place:
    """
    The place at a URL: a path or file://… is a folder on disk; anything else is fsspec's (s3://…, gs://…).

    `options` go to the file system of fsspec. StoreError for a scheme whose library is not installed.
    """
    if "://" not in url:
        return Folder(Path(url).absolute())
    if url.startswith("file://"):
        return Folder(Path(url[len("file://") :]))
    return Objects(url, options or {})


@contextlib.contextmanager
def told(what: str) -> Iterator[None]:
    """Whatever a disk or a network says, in this room's words."""
    try:
        yield
    except (FileExistsError, FileNotFoundError, StoreError):
        raise
    except Exception as wrong:  # each client library has errors of its own; none may be taken for done
        code = _code(wrong)
        number = wrong.errno if isinstance(wrong, OSError) else None
        if number in (errno.ENOSPC, errno.EDQUOT) or code in FULL:
            raise StoreFull(f"no room to {what}: {wrong}") from wrong
        if code in SKEWED:
            raise ClockOff(
                f"could not {what}: the clock of this machine and the store's are too far apart ({code}); "
                "set the clock and try again"
            ) from wrong
        said = str(wrong) if isinstance(wrong, OSError) and str(wrong) else f"{type(wrong).__name__}: {wrong}"
        raise StoreUnavailable(f"could not {what}: {said}" + (f" ({code})" if code else "")) from wrong


def _code(wrong: BaseException | None) -> str:
    """What an object store called it, wherever the client library has wrapped it."""
    for _ in range(10):
        if wrong is None:
            break
        answer = getattr(wrong, "response", None)
        if isinstance(answer, Mapping):
            return str(answer.get("Error", {}).get("Code", ""))
        wrong = wrong.__cause__ or wrong.__context__
    return ""


class Folder:
    """A folder on a disk that this machine mounts."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.where = str(root.absolute())

    def create(self, path: str, data: bytes) -> None:
        """A finished file gets its name by a link, which fails where the name is taken."""
        self._put(path, iter([data]), os.link)

    def write(self, path: str, data: bytes) -> None:
        """A finished file takes the name over."""
        self._put(path, iter([data]), os.replace)

    def swap(self, path: str, seen: bytes, data: bytes) -> bool:
        """Under a lock that all who swap here take."""
        lock = self.root / f"{HALF}lock"
        with told(f"lock {lock}"), lock.open("wb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            try:
                if self.read(path) != seen:
                    return False
            except FileNotFoundError:
                return False
            self.write(path, data)
        return True

    def stream(self, path: str, chunks: Iterator[bytes]) -> None:
        """As `write`."""
        self._put(path, chunks, os.replace)

    def sha256(self, path: str) -> str | None:
        """A disk keeps none."""
        return None

    def _put(self, path: str, chunks: Iterator[bytes], name: Callable[[Path, Path], None]) -> None:
        target = self.root / path
        half = target.with_name(f"{HALF}{uuid.uuid4().hex}")
        with told(f"write {target}"):
            try:
                with _opened(half) as file:
                    for chunk in chunks:
                        file.write(chunk)
                    file.flush()
                    os.fsync(file.fileno())
                name(half, target)
                self._sync(target.parent)
            finally:
                half.unlink(missing_ok=True)

    def _sync(self, folder: Path) -> None:
        """The names in a folder survive a power cut only once the folder is written too, and its parents."""
        while True:
            number = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(number)
            finally:
                os.close(number)
            if folder == self.root or folder == folder.parent:
                return
            folder = folder.parent

    def read(self, path: str) -> bytes:
        """All of it."""
        with told(f"read {self.root / path}"):
            return (self.root / path).read_bytes()

    def open(self, path: str) -> IO[bytes]:
        """A plain file."""
        with told(f"read {self.root / path}"):
            return (self.root / path).open("rb")

    def files(self, folder: str) -> dict[str, Seen]:
        """Halves that a crash left behind are not shown."""
        found: dict[str, Seen] = {}
        with told(f"list {self.root / folder}"):
            for where, _, names in os.walk(self.root / folder, onerror=_unless_gone):
                for name in names:
                    if name.startswith(HALF):
                        continue
                    file = Path(where, name)
                    with contextlib.suppress(FileNotFoundError):
                        state = file.stat()
                        found[file.relative_to(self.root).as_posix()] = Seen(state.st_size, state.st_mtime)
        return found

    def delete(self, paths: list[str]) -> None:
        """Folders left empty go too."""
        for path in paths:
            file = self.root / path
            with told(f"delete {file}"):
                file.unlink(missing_ok=True)
                with contextlib.suppress(OSError):  # not empty, or gone
                    file.parent.rmdir()


def _opened(half: Path) -> IO[bytes]:
    """A new file, its folder made first: somebody who prunes may take the folder away again in between."""
    for _ in range(100):
        half.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            return half.open("wb")
    raise StoreUnavailable(f"{half.parent} vanishes again and again")


def _unless_gone(wrong: OSError) -> None:
    if not isinstance(wrong, FileNotFoundError):
        raise wrong


class Objects:
    """A bucket, or another file system of fsspec that makes files on condition."""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        import fsspec

        scheme = url.split("://", 1)[0]
        try:
            # listings are never remembered: others write here too
            self.fs, self.root = fsspec.core.url_to_fs(url, use_listings_cache=False, **options)
        except ImportError as missing:
            raise StoreError(f"{scheme}:// needs a library that is not installed: {missing}") from None
        except ValueError as unknown:
            raise StoreError(f"{url}: {unknown}") from None
        self.root = self.root.rstrip("/")
        self.where = f"{scheme}://{self.root}"
        self._s3 = scheme in ("s3", "s3a")

    def _at(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def create(self, path: str, data: bytes) -> None:
        """A put on condition that nothing is there."""
        with told(f"write {self._at(path)}"), _there():
            self.fs.pipe_file(self._at(path), data, mode="create")

    def write(self, path: str, data: bytes) -> None:
        """One put."""
        with told(f"write {self._at(path)}"), _there():
            self.fs.pipe_file(self._at(path), data)

    def swap(self, path: str, seen: bytes, data: bytes) -> bool:
        """
        A put on condition that what is there is what was read (S3's If-Match).

        Other object stores are not asked to: between the look and the put somebody else may get in.
        """
        at = self._at(path)
        with told(f"write {at}"):
            try:
                tag = self.fs.info(at).get("ETag") if self._s3 else None
                if self.fs.cat_file(at) != seen:
                    return False
                self.fs.pipe_file(at, data, **({"IfMatch": tag} if tag else {}))
            except FileNotFoundError:
                return False
            except OSError as wrong:
                if _code(wrong) in ("PreconditionFailed", "ConditionalRequestConflict"):
                    return False
                raise
        return True

    def sha256(self, path: str) -> str | None:
        """S3 keeps that of a file that was put in one piece."""
        if not self._s3:
            return None
        with told(f"read {self._at(path)}"):
            bucket, key, _ = self.fs.split_path(self._at(path))
            head = self.fs.call_s3("head_object", Bucket=bucket, Key=key, ChecksumMode="ENABLED")
        kept = head.get("ChecksumSHA256", "")
        return base64.b64decode(kept).hex() if kept and "-" not in kept else None

    def stream(self, path: str, chunks: Iterator[bytes]) -> None:
        """What is small in one put, with its hash; the rest in parts: nothing is there until the last is."""
        chunks = iter(chunks)
        first = list(itertools.islice(chunks, 2))
        if len(first) < 2 and sum(map(len, first)) <= ONE_PUT:
            data = b"".join(first)
            extra = {}
            if self._s3:
                hashed = base64.b64encode(hasher(data).digest()).decode()
                extra = {"ChecksumAlgorithm": "SHA256", "ChecksumSHA256": hashed}
            with told(f"write {self._at(path)}"), _there():
                self.fs.pipe_file(self._at(path), data, **extra)
            return
        self._parts(path, itertools.chain(first, chunks))

    def _parts(self, path: str, chunks: Iterator[bytes]) -> None:
        with told(f"write {self._at(path)}"), _there():
            file = self.fs.open(self._at(path), "wb", block_size=CHUNK, autocommit=False)
            try:
                for chunk in chunks:
                    file.write(chunk)
                file.close()
            except BaseException:  # what was cut off must never get the name of the whole
                with contextlib.suppress(Exception):
                    file.discard()
                raise
            file.commit()

    def read(self, path: str) -> bytes:
        """All of it."""
        with told(f"read {self._at(path)}"):
            return bytes(self.fs.cat_file(self._at(path)))

    def open(self, path: str) -> IO[bytes]:
        """Read ahead in large pieces."""
        with told(f"read {self._at(path)}"):
            opened: IO[bytes] = self.fs.open(self._at(path), "rb", block_size=CHUNK)
            return opened

    def files(self, folder: str) -> dict[str, Seen]:
        """One listing of all keys."""
        with told(f"list {self._at(folder)}"):
            self.fs.invalidate_cache()
            try:
                found = self.fs.find(self._at(folder), detail=True)
            except FileNotFoundError:
                return {}
        cut = len(self.root) + 1
        return {
            path[cut:]: Seen(int(info["size"]), _epoch(info))
            for path, info in found.items()
            if info["type"] == "file"
        }

    def delete(self, paths: list[str]) -> None:
        """All in as few calls as the store needs."""
        with told(f"delete {len(paths)} files below {self.root}"):
            gone = [self._at(path) for path in paths]
            if gone:
                with contextlib.suppress(FileNotFoundError):
                    self.fs.rm(gone)


@contextlib.contextmanager
def _there() -> Iterator[None]:
    """Nothing of a file that is written can be missing but its bucket."""
    try:
        yield
    except FileNotFoundError as missing:
        raise StoreUnavailable(f"there is no such bucket: {missing}") from missing


def _epoch(info: Mapping[str, Any]) -> float:
    for key in ("LastModified", "mtime", "created", "updated"):
        value = info.get(key)
        if value is not None:
            return float(value.timestamp() if hasattr(value, "timestamp") else value)
    return 0.0
