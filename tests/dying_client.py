"""A store's client to be killed at a chosen HTTP request: each line on stdin orders a process of its own.

The parent has imported everything and made nothing that a fork would break; so a client begins in no time.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from typing import Any

import aiobotocore.session
import s3fs  # noqa: F401

from stores import save
from tenure.checkpoints import AlreadyCommitted, Keep, Store, places

SESSION = aiobotocore.session.AioSession()


async def warm(options: dict[str, Any]) -> None:
    """The models of the service are read once, and stay in the session."""
    told = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
    async with SESSION.create_client("s3", endpoint_url=options["endpoint_url"], **told):
        pass


def act(order: dict[str, Any]) -> None:
    """Save, copy, prune or take over, as it is ordered."""
    store = Store(order["url"], "r", order["options"] | {"session": SESSION})
    if order["do"] == "save":
        save(store, 3)
    elif order["do"] == "save in parts":
        places.CHUNK = 5 << 20  # the least that S3 takes as a part
        with store.begin(3, 1) as saving:
            saving.add_stream("model/a.bin", iter([b"a" * places.CHUNK, b"b" * places.CHUNK, b"c" * 1000]))
            saving.commit(300)
    elif order["do"] == "copy":
        here = Store(order["here"], "r")
        here.copy(here.checkpoints()[-1], store)
    elif order["do"] == "prune":
        store.prune(Keep(last=1))
    else:
        store.take_over(2, store.newest_verified())


def main() -> None:
    """Fork for each order; its process's number and how it ended are told, a line each."""
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "warm":
            asyncio.run(warm(order["options"]))
            print("warm", flush=True)
            continue
        child = os.fork()
        if child == 0:
            try:
                act(order)
            except AlreadyCommitted:
                pass
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
