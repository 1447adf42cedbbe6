"""Writes turns and commands until it is killed: a program for tests/test_ledger_faults.py.

Reads a database on each line of its input, and starts a process that writes to it as fast as it can. That one
tells every commit (`turn 7`, `asked 12`) after it was made; this one says `over` once it is gone.
"""

from __future__ import annotations

import os
import sys
import threading
import time

from tenure.ledger.ledger import open_ledger
from tenure.ledger.records import Answer, Asked, OrderRow
from turn_rows import turn_row


def tell(text: str) -> None:
    os.write(1, f"{text}\n".encode())  # one call: whole lines, even when killed


def write(url: str) -> None:
    ledger = open_ledger(url)
    lease = ledger.lead("writer", time.time(), 60.0)
    assert lease is not None
    tell(f"pid {os.getpid()}")

    def ask() -> None:
        while True:
            (number,) = ledger.ask([Asked("ann", "submit", "", {"env": "x" * 5000}, 1.0)])
            tell(f"asked {number}")

    threading.Thread(target=ask, daemon=True).start()
    while True:
        turn = ledger.last_turn() + 1
        answers = [Answer(command.number, True, {"turn": turn}) for command in ledger.unanswered(20)]
        patch = {"turn": turn, "bulk": "y" * 20_000}
        ledger.record(turn_row(turn, patch=patch, answers=answers), lease)
        tell(f"turn {turn}")
        settled: list[OrderRow] = ledger.open_orders(limit=3)
        ledger.settle_orders([(order.id, "done", "") for order in settled])


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            write(line.strip())
        os.waitpid(child, 0)
        tell("over")


if __name__ == "__main__":
    main()
