"""How fast the record is written and read: `python bench/record.py [URL]`; without one, a new file of SQLite.

Numbers of rows are asserted, seconds are printed; docs/decisions/0008-the-record.md quotes them.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from tenure.ledger.events import STORY_HEAD
from tenure.ledger.ledger import Ledger, open_ledger
from tenure.ledger.records import Answer, Asked, Lease
from turn_rows import attempt_row, event, job_row, order_row, turn_row

THREADS, ASKS, TURNS = 8, 500, 500
PATCH = {"stays": {"phase": [[n, n % 4] for n in range(200)]}}


def asking(ledger: Ledger, threads: int, each: int) -> float:
    """Commands a second, each asked alone by one of the threads."""

    def ask(thread: int) -> None:
        for _ in range(each):
            ledger.ask([Asked("ann", "submit", "", {"gpus": 8, "command": ["python", "x.py"]}, 1.0)])

    running = [threading.Thread(target=ask, args=(thread,)) for thread in range(threads)]
    began = time.perf_counter()
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return threads * each / (time.perf_counter() - began)


def turns(ledger: Ledger, lease: Lease, n: int, *, events: int, answers: int) -> list[float]:
    """Milliseconds of each of n turns, shortest first."""
    took = []
    for _ in range(n):
        number = ledger.last_turn() + 1
        row = turn_row(
            number,
            patch=PATCH,
            keyframe=b"k" * 200_000 if number % 100 == 0 else None,
            events=[event(number, f"j{nth}") for nth in range(events)],
            jobs=[job_row(f"j{number}-{nth}") for nth in range(events // 2)],
            attempts=[attempt_row(f"j{number}-{nth}", 1) for nth in range(events // 4)],
            orders=[order_row(f"{number}-{nth}", number) for nth in range(events // 4)],
            answers=[Answer(c.number, True, {"job": "j"}) for c in ledger.unanswered(answers)],
        )
        took.append(seconds(lambda row=row: ledger.record(row, lease)) * 1000)
        ledger.settle_orders([(order.id, "done", "") for order in row.orders])
    return sorted(took)


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def told(name: str, took: list[float]) -> None:
    print(f"{name:<58} median {took[len(took) // 2]:6.1f} ms, p99 {took[int(len(took) * 0.99)]:6.1f} ms")


def main(url: str) -> None:
    ledger = open_ledger(url)
    lease = ledger.lead("bench", 0.0, 1e9)
    assert lease is not None
    print(f"{'commands asked alone, 1 thread':<58} {asking(ledger, 1, ASKS):6.0f} /s")
    print(f"{f'commands asked alone, {THREADS} threads':<58} {asking(ledger, THREADS, ASKS):6.0f} /s")
    over = threading.Event()

    def busy() -> None:
        while not over.is_set():
            turns(ledger, lease, 1, events=20, answers=200)

    beside = threading.Thread(target=busy)
    beside.start()
    print(f"{f'… beside turns of 20 events, {THREADS} threads':<58} {asking(ledger, THREADS, ASKS):6.0f} /s")
    over.set()
    beside.join()
    while left := ledger.unanswered(200):
        turns(ledger, lease, 1, events=0, answers=len(left))
    told("a turn of 20 events", turns(ledger, lease, TURNS, events=20, answers=0))
    told("a turn of 200 events", turns(ledger, lease, TURNS // 5, events=200, answers=0))
    keyframe = ledger.newest_keyframe()
    assert keyframe is not None
    last = ledger.last_turn()
    read = [0]

    def recover() -> None:
        read[0] = sum(1 for _ in ledger.patches_after(last - 400))

    took_s = seconds(recover)
    assert read[0] == 400
    print(f"{'400 patches read in a recovery':<58} {took_s * 1000:6.0f} ms")
    ledger.set_meta(STORY_HEAD, {"event": "began"})
    lines = [0]

    def story() -> None:
        lines[0] = sum(1 for _ in ledger.story_lines())

    took_s = seconds(story)
    print(f"{'lines of the story':<58} {lines[0] / took_s:6.0f} /s")
    ledger.close()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory(dir=".") as folder:
            main(str(Path(folder) / "record.db"))
