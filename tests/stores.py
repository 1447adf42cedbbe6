"""Stores to test on: a folder, and an S3 over HTTP; and a place that fails at a chosen step."""

from __future__ import annotations

import contextlib
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
    """A place that dies before or after its n-th change. Reading is no step: it changes nothing."""

    place: Any
    at: int  #: counted from 1; a change more than there are: it lives
    after: bool
    wrong: BaseException = field(default_factory=Dead)
    done: int = 0

    @contextlib.contextmanager
    def _step(self) -> Iterator[None]:
        self.done += 1
        if self.done == self.at and not self.after:
            raise self.wrong
        yield
        if self.done == self.at and self.after:
            raise self.wrong

    def create(self, path: str, data: bytes) -> None:
        with self._step():
            self.place.create(path, data)

    def write(self, path: str, data: bytes) -> None:
        with self._step():
            self.place.write(path, data)

    def stream(self, path: str, chunks: Iterator[bytes]) -> None:
        with self._step():
            self.place.stream(path, self._cut(chunks))

    def _cut(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Death in the middle of a file, too."""
        for chunk in chunks:
            yield chunk[: len(chunk) // 2]
            self.done += 1
            if self.done == self.at:
                raise self.wrong
            yield chunk[len(chunk) // 2 :]

    def delete(self, paths: list[str]) -> None:
        for path in paths:
            with self._step():
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


def dies_at_every_step(store: Store, act: Any, look: Any) -> int:
    """
    `act(mortal store)` dying before, amid and after every change; `look()` after each death. Count of deaths.

    `act` must be repeatable: it is tried again on the same store until it lives.
    """
    place, deaths, at = store.place, 0, 1
    while True:
        died = False
        for after in (False, True):
            mortal = Mortal(place, at, after)
            store.place = mortal
            try:
                act(store)
            except Dead:
                died = True
                deaths += 1
            finally:
                store.place = place
            look()
        if not died:
            return deaths
        at += 1
