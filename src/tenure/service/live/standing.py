"""A server made ready and let go again: its folder, record, engine, scheduler, and its first token."""

from __future__ import annotations

import fcntl
import gc
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import structlog

from tenure.daemon.run import Daemon
from tenure.engines.clock import RealClock
from tenure.ledger.holders import name_in
from tenure.ledger.ledger import Ledger, open_ledger
from tenure.ledger.records import LedgerError
from tenure.service.live.desk import Desk, called
from tenure.service.live.engines import open_engine
from tenure.service.live.errors import LiveError, NotReady
from tenure.service.live.heap import give_back
from tenure.service.live.replays import RECORD_FILE, CannotServe, lab_file
from tenure.service.live.warming import compile_aside, is_compiled
from tenure.settings.errors import BadInput
from tenure.settings.lab import read_lab
from tenure.settings.live_job import submission

ADMIN = "admin"
TOKEN_FILE = "admin.token"
LOCK_FILE = "serve.lock"
STOP_WITHIN_S = 10.0
LOOK_EVERY_S = 0.1

Say = Callable[[str], None]


class Options(NamedTuple):
    """What `tenure serve` is told."""

    lab: Path
    engine: str = "local"
    db: str | None = None
    data: Path = Path(".tenure")
    host: str = "127.0.0.1"
    port: int = 8400
    shadow: bool = False


@contextmanager
def standing(options: Options, say: Say) -> Iterator[tuple[Desk, socket.socket]]:
    """A desk over a running scheduler, and the socket it is to be asked at; all let go of at the end.

    `say`: told what is going on, a sentence each. Raises BadInput, CannotServe.
    """
    lab = read_lab(options.lab)
    with ExitStack() as stack:
        _make_folder(options.data)
        stack.enter_context(_alone(options.data))
        address = stack.enter_context(_listening(options.host, options.port))
        try:
            record = options.db if options.db is not None else options.data / RECORD_FILE
            ledger = open_ledger(record)
            stack.callback(ledger.close)
            begun = ledger.identity()
            if begun is not None:  # nothing is written into the record of another lab
                ledger.begin(lab.name, begun.start)
            _admin_token(options.data, ledger)
        except LedgerError as problem:
            raise CannotServe(f"the record cannot be opened: {problem}") from problem
        clock = RealClock()
        engine = open_engine(options.engine, lab, options.data, clock, shadow=options.shadow)
        stack.callback(engine.close)
        # a name of the folder, which is locked: who comes back after a crash leads again at once
        daemon = Daemon(
            lab,
            ledger,
            engine,
            clock,
            name=name_in(options.data),
            shadow=options.shadow,
            lab_file=lab_file(options.lab),
            log=structlog.get_logger("tenure.daemon"),
        )
        desk = Desk(lab, ledger, daemon, engine, now=clock.now, shadow=options.shadow, data=options.data)
        desk.ready = False
        before = None
        if not is_compiled():
            say("compiling the scheduler for this machine (once; about a minute) …")
            before = partial(compile_aside, options.lab)
        daemon.start(before)
        stack.callback(daemon.stop, STOP_WITHIN_S)
        yield desk, address


def when_ready(desk: Desk, ready: Callable[[], None], over: threading.Event) -> threading.Thread:
    """Call `ready` once the scheduler answers and no question needs compiling; not where it is over."""

    def look() -> None:
        while not _answers(desk):
            if over.wait(LOOK_EVERY_S):
                return
        _warm_up(desk)
        # what is here now stays: the collector need not go through it again, in the middle of a turn
        give_back()
        gc.freeze()
        desk.ready = True
        if not over.is_set():
            ready()

    thread = threading.Thread(target=look, name="tenure-ready", daemon=True)
    thread.start()
    return thread


def _answers(desk: Desk) -> bool:
    """Whether there is a turn to speak of: of its own, or of another server that leads."""
    try:
        return desk.view().turn > 0
    except (NotReady, LedgerError):
        return False


def _warm_up(desk: Desk) -> None:
    """Ask one question, so that the first one asked by a person is not the one that compiles."""
    account = next((path for path in desk.lab.rows() if path), None)
    if account is None:
        return
    job = submission({"account": account, "gpus": 1, "min_runtime": 60, "command": ["true"]})
    with suppress(BadInput, LiveError, LedgerError):  # where it cannot be asked now, nothing is lost
        view = desk.view()
        desk.foresight.ask(view, job, called(view), now_s=max(view.t, desk.t()))


def _make_folder(folder: Path) -> None:
    """The server's folder, for its user only."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise BadInput(
            "--data", "", f"{folder}: {problem.strerror}", "a folder that can be written"
        ) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadInput("--data", "", f"{folder}: no permission", "a folder that can be written")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One server a folder: the kernel lets go of the lock when the process dies, however it dies."""
    path = folder / LOCK_FILE
    with path.open("a+", encoding="ascii") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held.seek(0)
            who = held.read().strip() or "another process"
            raise CannotServe(
                f"{folder} is served already, by {who}: stop it, or give this server its own --data (and one"
                " --db for both, to have a standby)"
            ) from None
        held.truncate(0)
        held.write(f"process {os.getpid()} since {time.strftime('%Y-%m-%d %H:%M:%S')}\n")
        held.flush()
        yield


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    """The socket, bound before anything else is begun."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((host, port))
        except (OSError, OverflowError) as problem:
            said = getattr(problem, "strerror", None) or str(problem)
            raise CannotServe(f"cannot listen at {host}:{port}: {said}; --port takes another") from None
        bound.listen(2048)
        bound.set_inheritable(False)
        yield bound


def _admin_token(folder: Path, ledger: Ledger) -> None:
    """The administrator's token, made on the first start, or where the one that is there opens nothing."""
    path = folder / TOKEN_FILE
    now = time.time()
    try:
        found = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        found = ""
    if found and ledger.who(found, now) is not None:
        return
    token = ledger.create_token(ADMIN, True, None, f"first start in {folder.name}")
    draft = path.with_name(f".{TOKEN_FILE}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        out.write(f"{token}\n")
    draft.replace(path)
