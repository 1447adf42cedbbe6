"""Where checkpoints may lie, and what a store says that is full, out of reach, or has another time."""

from __future__ import annotations

import contextlib
import errno
import http.server
import os
import subprocess
import threading
from types import SimpleNamespace

import pytest

from stores import KINDS, again, open_new, s3_server, save
from tenure.checkpoints import ClockOff, Keep, Store, StoreError, StoreFull, StoreUnavailable
from tenure.checkpoints.outliving import dies_with_the_window, refuse_unless_it_outlives

AWS, OWN = SimpleNamespace(provider="aws"), SimpleNamespace(provider="own")
MOUNTS = """\
/dev/nvme0n1p1 / ext4 rw 0 0
/dev/nvme1n1 /scratch xfs rw 0 0
fs-1.efs.eu-west-1.amazonaws.com:/ /shared nfs4 rw 0 0
10.0.0.9@tcp:/fsx /fsx lustre rw 0 0
tmpfs /dev/shm tmpfs rw 0 0
bucket /volumes/my\\040bucket fuse.gcsfuse rw 0 0
overlay /in/container overlay rw 0 0
"""


@pytest.fixture(scope="module")
def s3():
    with s3_server() as options:
        yield options


@pytest.mark.parametrize(
    ("url", "provider", "says"),
    [
        ("s3://bucket/x", AWS, None),
        ("gs://bucket/x", AWS, None),
        ("memory://x", None, "memory of one process"),
        ("/shared/ckpt", AWS, None),
        ("file:///fsx/ckpt", AWS, None),
        ("/volumes/my bucket/x", AWS, None),
        ("/scratch/ckpt", AWS, "nvme1n1 at /scratch"),
        ("/scratchy/ckpt", AWS, "nvme0n1p1 at /)"),
        ("/data/ckpt", AWS, "wiped when the window ends"),
        ("/data/ckpt", OWN, None),
        ("/data/ckpt", None, None),
        ("/dev/shm/ckpt", OWN, "in memory"),
        ("/in/container/x", None, "container"),
    ],
)
def test_a_store_that_goes_with_the_window_is_refused(url, provider, says):
    told = dies_with_the_window(url, provider, MOUNTS)
    if says is None:
        assert told is None
        refuse_unless_it_outlives(url, provider, MOUNTS)
    else:
        assert says in told
        with pytest.raises(StoreError, match="bucket or on a network"):
            refuse_unless_it_outlives(url, provider, MOUNTS)


@contextlib.contextmanager
def answering(status: int, code: str):
    """An S3 that has one answer to everything."""

    class Answer(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 5

        def _say(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            self.rfile.read(length)
            body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>".encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _say

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield {
            "key": "test",
            "secret": "test",
            "endpoint_url": f"http://127.0.0.1:{server.server_port}",
            "config_kwargs": {"retries": {"max_attempts": 0}, "read_timeout": 10},
        }
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (403, "RequestTimeTooSkewed", ClockOff),
        (403, "QuotaExceeded", StoreFull),
        (507, "XMinioStorageFull", StoreFull),
        (403, "AccessDenied", StoreUnavailable),
        (404, "NoSuchBucket", StoreUnavailable),
    ],
)
def test_what_an_object_store_refuses_is_said_in_this_rooms_words(status, code, error):
    with answering(status, code) as options:
        store = Store("s3://kept/x", "r", options)
        with pytest.raises(StoreError) as said:
            store.place.create("COMMITTED/1", b"x")
    assert type(said.value) is error
    assert code in str(said.value) or "bucket" in str(said.value)


def test_a_disk_that_is_full_says_so_and_what_was_good_stays(tmp_path):
    mounted = tmp_path / "small"
    mounted.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mounted)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("a small disk can only be mounted by root")
    try:
        store = Store(str(mounted), "r")
        first = save(store, 1, size=300_000)
        with pytest.raises(StoreFull, match="no room"), store.begin(2, 1) as saving:
            saving.add_bytes("w.bin", b"x" * 900_000)
        assert store.newest_verified(deep=True) == first
        assert [one.name for one in store.found()] == ["1-1"], "the half written one takes no room"
        assert save(store, 3, size=300_000) == store.newest_verified(deep=True)
        store.prune(Keep(last=1))
        assert [one.step for one in store.checkpoints()] == [3]
    finally:
        subprocess.run(["umount", str(mounted)], check=True)


def test_a_disk_that_takes_nothing_any_more_is_unavailable_not_full(tmp_path, monkeypatch):
    store = open_new("folder", tmp_path, None)
    first = save(store, 1)
    real = os.fsync

    def broken(number: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(StoreUnavailable) as said:
        save(store, 2)
    assert not isinstance(said.value, StoreFull)
    monkeypatch.setattr(os, "fsync", real)
    assert store.newest_verified(deep=True) == first


@pytest.mark.parametrize("kind", [*KINDS, "memory"])
def test_what_was_read_is_put_in_its_place_only_while_it_stands(kind, tmp_path, s3):
    store = Store("memory://swap", "r") if kind == "memory" else open_new(kind, tmp_path, s3)
    place = store.place
    place.create("x", b"1")
    with pytest.raises(FileExistsError):
        place.create("x", b"2")
    assert place.swap("x", b"1", b"2")
    assert not place.swap("x", b"1", b"3")
    assert not place.swap("not there", b"1", b"3")
    assert place.read("x") == b"2"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_of_many_who_swap_at_once_one_wins_each_time(kind, tmp_path, s3):
    store = open_new(kind, tmp_path, s3)
    store.place.create("n", b"0")
    won = []

    def count() -> None:
        mine = again(store, s3)
        for _ in range(6):
            seen = mine.place.read("n")
            if mine.place.swap("n", seen, str(int(seen) + 1).encode()):
                won.append(1)

    threads = [threading.Thread(target=count) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert int(store.place.read("n")) == len(won) >= 6


def test_s3_keeps_the_hash_of_what_it_was_sent_and_it_is_compared_without_reading(s3):
    store = open_new("s3", None, s3)
    made = save(store, 1)
    file = store.manifest(made).files[0]
    assert store.place.sha256(f"{made.path}/{file.name}") == file.sha256


@pytest.mark.slow
def test_a_file_in_parts_is_there_whole_or_not_at_all(s3):
    store = open_new("s3", None, s3)
    chunks = [bytes([n]) * (9 << 20) for n in range(3)]
    store.place.stream("big", iter(chunks))
    assert store.place.read("big") == b"".join(chunks)

    def cut():
        yield chunks[0]
        yield chunks[1]
        raise OSError("the trainer is gone")

    with pytest.raises(StoreUnavailable):
        store.place.stream("cut", cut())
    assert "cut" not in store.place.files("")


def test_a_store_that_lets_two_make_one_file_is_refused_before_anything_is_saved(tmp_path):
    store = open_new("folder", tmp_path, None)
    store.place.create = store.place.write
    with pytest.raises(StoreError, match="cannot tell who was first"):
        store.begin(1, 1)
