"""A client killed at any HTTP request to S3: a checkpoint is left to resume from, and none is lost.

Each request that changes something is in turn the first that is not sent; the last of all is done and never
answered. That is every death there is: one after a request leaves what one before the next does, and a death
amid requests that only read leaves what the change before them left.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import boto3
import pytest

from deadly_proxy import Proxy, proxied
from stores import s3_server, save
from tenure.checkpoints import Store

pytestmark = pytest.mark.slow

URL = "s3://kept/here"


class Site(NamedTuple):
    """An S3, a way to it that kills, and processes to be killed."""

    proxy: Proxy
    direct: dict[str, Any]
    options: dict[str, Any]
    clients: subprocess.Popen[str]
    bucket: Any

    def told(self) -> str:
        assert self.clients.stdout is not None
        return self.clients.stdout.readline().strip()

    def order(self, **order: Any) -> None:
        assert self.clients.stdin is not None
        self.clients.stdin.write(json.dumps(order | {"url": URL, "options": self.options}) + "\n")
        self.clients.stdin.flush()

    def ran(self, at: int, after: bool, **order: Any) -> tuple[int, int]:
        """How a client ended, and how many of its requests that change something were seen."""
        self.proxy.expect(at, after=after)
        self.order(**order)
        self.proxy.client_is(int(self.told()))
        return int(self.told()), self.proxy.seen()

    def lies(self) -> dict[str, bytes]:
        return {one.key: one.get()["Body"].read() for one in self.bucket.objects.all()}

    def put_back(self, before: dict[str, bytes]) -> None:
        """As it was; what has not changed is left."""
        now = self.lies()
        for key in now.keys() - before.keys():
            self.bucket.Object(key).delete()
        for key, data in before.items():
            if now.get(key) != data:
                self.bucket.put_object(Key=key, Body=data)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TENURE_PLAIN": "1"}
    command = [sys.executable, str(Path(__file__).parent / "dying_client.py")]
    with s3_server() as direct, proxied(direct["endpoint_url"]) as (proxy, url):
        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
        s3 = boto3.resource("s3", endpoint_url=direct["endpoint_url"], **keys)
        clients = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        site = Site(proxy, direct, direct | {"endpoint_url": url}, clients, s3.Bucket("kept"))
        try:
            site.order(do="warm")
            assert site.told() == "warm"
            yield site
        finally:
            clients.communicate()
            s3.meta.client.close()


def killed_everywhere(site: Site, look: Any, **order: Any) -> int:
    """
    A client at each of its requests in turn; how many that were. After each death `look(steps, ended)`: steps
    of all checkpoints, each of which verifies to the byte; then another client ends what was begun.
    """
    before = site.lies()
    code, requests = site.ran(0, False, **order)
    assert code == 0
    for at, after in [*((at, False) for at in range(1, requests + 1)), (requests, True)]:
        site.put_back(before)
        code, _ = site.ran(at, after, **order)
        assert code == -9, f"it lived through the death at request {at}"
        look(sound(site), False)
        assert site.ran(0, False, **order)[0] == 0, f"cut off at request {at}, it cannot be ended"
        look(sound(site), True)
    site.put_back({})
    return requests


def sound(site: Site) -> list[int]:
    """Steps of all checkpoints; what is resumed from is the newest of them."""
    store = Store(URL, "r", site.direct)
    known = store.checkpoints()
    assert all(store.verify(one, deep=True) == [] for one in known)
    newest = store.newest_verified()
    assert newest is not None
    assert newest == known[-1]
    return [one.step for one in known]


@pytest.mark.parametrize(("do", "least"), [("save", 7), ("save in parts", 10)])
def test_a_save(site: Site, do: str, least: int) -> None:
    save(Store(URL, "r", site.direct), 2)

    def look(steps: list[int], ended: bool) -> None:
        assert steps in ([[2, 3]] if ended else [[2], [2, 3]])

    assert killed_everywhere(site, look, do=do) >= least


def test_a_copy(site: Site, tmp_path: Path) -> None:
    here = Store(str(tmp_path), "r")
    save(here, 7)
    save(Store(URL, "r", site.direct), 2)

    def look(steps: list[int], ended: bool) -> None:
        assert steps in ([[2, 7]] if ended else [[2], [2, 7]])
        assert [here.verify(one, deep=True) for one in here.checkpoints()] == [[]]

    assert killed_everywhere(site, look, do="copy", here=str(tmp_path)) >= 6


def test_pruning(site: Site) -> None:
    for step in (1, 2, 3):
        save(Store(URL, "r", site.direct), step, final=step == 1)

    def look(steps: list[int], ended: bool) -> None:
        assert steps in ([[1, 3]] if ended else [[1, 2, 3], [1, 3]])

    assert killed_everywhere(site, look, do="prune") >= 6


def test_a_take_over(site: Site) -> None:
    save(Store(URL, "r", site.direct), 2)
    assert killed_everywhere(site, lambda steps, ended: None, do="take over") >= 1
