"""Stores to test on: a folder, and an S3 over HTTP; and a place that fails at a chosen step."""

from __future__ import annotations

import contextlib
import itertools
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any

from tenure.checkpoints import Checkpoint, Store

KINDS = ("folder", "s3")


class Dead(BaseException):
    """As `kill -9`: nothing after it happens."""


@dataclass
class Mortal:
    """
    A place that dies at its n-th point: before, amid and after each change. Dead, it does nothing any more.

    Reading is no point: it changes nothing. `wrong` other than Dead is a fault after which it goes on.
    """

    place: Any
    at: int  #: counted from 1; more than there are: it lives
    wrong: BaseException = field(default_factory=Dead)
    points: int = 0
    dead: bool = False

    def _point(self) -> None:
        if self.dead:
            raise self.wrong
        self.points += 1
        if self.points == self.at:
            self.dead = isinstance(self.wrong, Dead)
            raise self.wrong

    @contextlib.contextmanager
    def _change(self) -> Iterator[None]:
        self._point()
        yield
        self._point()

    @property
    def where(self) -> str:
        return self.place.where

    def create(self, path: str, data: bytes) -> None:
        with self._change():
            self.place.create(path, data)

    def write(self, path: str, data: bytes) -> None:
        with self._change():
            self.place.write(path, data)

    def swap(self, path: str, seen: bytes, data: bytes) -> bool:
        with self._change():
            return self.place.swap(path, seen, data)

    def sha256(self, path: str) -> str | None:
        return self.place.sha256(path)

    def stream(self, path: str, chunks: Iterator[bytes]) -> None:
        with self._change():
            self.place.stream(path, self._cut(chunks))

    def _cut(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            yield chunk[: len(chunk) // 2]
            self._point()
            yield chunk[len(chunk) // 2 :]

    def delete(self, paths: list[str]) -> None:
        for path in paths:
            with self._change():
                self.place.delete([path])

    def read(self, path: str) -> bytes:
        return self.place.read(path)

    def open(self, path: str) -> IO[bytes]:
        return self.place.open(path)

    def files(self, folder: str) -> Any:
        return self.place.files(folder)


@contextlib.contextmanager
def s3_server() -> Iterator[dict[str, Any]]:
    """moto's S3 on loopback, as options for fsspec; it holds puts to their conditions."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        url = f"http://{host}:{port}"
        client = boto3.client(
            "s3",
            endpoint_url=url,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )
        client.create_bucket(Bucket="kept")
        client.close()
        yield {"key": "test", "secret": "test", "endpoint_url": url}
    finally:
        server.stop()


def open_new(kind: str, tmp_path: Any, s3: dict[str, Any] | None, run: str = "r") -> Store:
    """A store in which nothing lies yet."""
    name = uuid.uuid4().hex[:12]
    return Store(str(tmp_path / name), run) if kind == "folder" else Store(f"s3://kept/{name}", run, s3)


def again(store: Store, s3: dict[str, Any] | None) -> Store:
    """The same store as another process opens it."""
    return Store(store.url, store.run, s3 if store.url.startswith("s3") else None)


def save(store: Store, step: int, attempt: int = 1, size: int = 1000, **told: Any) -> Checkpoint:
    """Two files, of this step's own bytes."""
    saving = store.begin(step, attempt)
    saving.add_bytes("model/a.bin", bytes([step % 251]) * size)
    saving.add_bytes("b.bin", bytes([attempt % 251]) * 10)
    return saving.commit(step * 100, **told)


def at_every_point(make: Any, act: Any, look: Any, wrong: type[BaseException] = Dead) -> int:
    """
    `act(store)` on a store of its own (`make()`) that dies at each point in turn; count of deaths.

    After each death `look(store)`, then `act` again by somebody who lives, and `look` once more.
    """
    for at in itertools.count(1):
        store = make()
        place = store.place
        store.place = Mortal(place, at, wrong())
        died = False
        try:
            act(store)
        except wrong:
            died = True
        finally:
            store.place = place
        look(store)
        if not died:
            return at - 1
        act(store)
        look(store)
    raise AssertionError
