"""A process that buys, and is killed while its purchase is under way (`test_complaints_providers`)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tenure.engines.clock import RealClock
from tenure.providers.opening import provider_of
from tenure.runs.buying import buy
from tenure.runs.signing import Rules
from tenure.service.run_place import AskedBook, database


def main(told: str) -> None:
    """`told`: {provider, data, run, plan, settle_s}."""
    asked = json.loads(told)
    provider = provider_of(asked["provider"], Path(asked["data"]), RealClock())
    with database(Path(asked["data"])) as db:
        book = AskedBook(db, asked["run"], RealClock())
        rules = Rules(key=b"a key of tests", settle_s=asked["settle_s"], look_s=0.2)
        bought = buy(book, provider, asked["plan"], rules, RealClock())
        sys.stdout.write(f"{bought.window} {bought.adopted}\n")


if __name__ == "__main__":
    main(sys.argv[1])
