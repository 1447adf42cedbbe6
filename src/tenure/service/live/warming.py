"""Compile what a server runs, in a process of its own: the compiler needs more memory than the server does.

What was compiled lies in the cache then, and the server reads it from there. A file beside it says that it is
all there: what a simulation left in the cache is a part of it only.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tenure.core.board import as_kernels_want
from tenure.core.kernel import COMPILED, cache_root
from tenure.core.live import News
from tenure.core.live import take_stock_entry as take_stock
from tenure.core.words import NodeState
from tenure.daemon.book import JobCard, new_book
from tenure.daemon.gather import Gathered
from tenure.daemon.state import book_of, state_of
from tenure.daemon.turn import apply_news, next_turn
from tenure.daemon.view import EngineState, view_of
from tenure.service.live.desk import called
from tenure.service.live.foresight import decided
from tenure.service.live.queueing import reasons_of
from tenure.service.readiness import clear_away
from tenure.settings.lab import Lab, read_lab
from tenure.settings.live_job import submission

LOOK_EVERY_S = 0.1
ALL_THERE = "serves"  #: the file in a folder of compiled code that lies there once a server finds all it runs


def is_compiled() -> bool:
    """Whether a server finds all it runs compiled from these very sources; if not, room is made for it."""
    if not COMPILED or _all_there().is_file():
        return True
    clear_away(cache_root())
    return False


def _all_there() -> Path:
    return Path(os.environ["NUMBA_CACHE_DIR"]) / ALL_THERE


def compile_aside(lab: Path, over: Callable[[], bool]) -> None:
    """Compile for this lab in a child, ended once `over` says so. Where it fails, the server compiles."""
    words = [sys.executable, "-m", __name__, str(lab)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(words, stdin=quiet, stdout=quiet, stderr=quiet) as child:
        while child.poll() is None:
            try:
                child.wait(LOOK_EVERY_S)
            except subprocess.TimeoutExpired:
                if over():
                    child.kill()


def compile_all(lab: Lab) -> None:
    """Compile what a server runs, and say so beside it."""
    if ask_all(lab) and COMPILED:
        _all_there().touch()


def ask_all(lab: Lab) -> bool:
    """One of everything that a turn and a question run, on a lab in memory; False where it has no account."""
    policy = lab.knobs()
    book = new_book(lab, policy, 0.0)
    account = next((path for path in lab.rows() if path), None)
    if account is None:
        return False
    job = submission({"account": account, "gpus": 1, "min_runtime": 60, "command": ["true"]})
    view = view_of(book, 0.0, EngineState("", False), (), 0)
    decided(view, job, called(view), 0)
    card = JobCard("1", account, "", {}, 0)
    row = book.add(card, book.door.columns(job))
    news = Gathered()
    for node in range(len(lab.nodes)):
        news.add(0, News.NODE, node, value=int(NodeState.DOWN))
    news.add(0, News.SUBMIT, row)
    apply_news(book, news.table(), len(news), 0, deciding=True)
    next_turn(book)
    take_stock(as_kernels_want(book.core), as_kernels_want(book.board), policy, 0)
    book = book_of(state_of(book), lab, policy, 0.0)
    view = view_of(book, 0.0, EngineState("", False), (), 0)
    reasons_of(view, [row])  # and how accounts stand
    decided(view, job, called(view), 0)
    return True


if __name__ == "__main__":
    compile_all(read_lab(Path(sys.argv[1])))
