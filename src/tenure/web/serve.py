"""`tenure serve`: the scheduler and its doors in one process, until it is told to end."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import structlog
import uvicorn

from tenure.service.live.aides import Aides
from tenure.service.live.desk import Desk
from tenure.service.live.heap import Sweeper, keep_small
from tenure.service.live.standing import Options, standing, when_ready
from tenure.web.app import create_app

GRACEFUL_S = 5
Say = Callable[[str], None]


class Server(uvicorn.Server):
    """A server that ends when it is told to, without passing the signal on: it was obeyed."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """SIGINT and SIGTERM end it gracefully."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {one: signal.signal(one, self.told) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def told(self, number: int, frame: FrameType | None) -> None:
        """The first time: let answers be finished. The second time: at once."""
        self.handle_exit(number, frame)


def serve(options: Options, say: Say, *, verbose: bool = False) -> None:
    """Run until SIGTERM or Ctrl-C. `say`: told what is going on. Raises BadInput, CannotServe."""
    set_up_logs(verbose)
    keep_small()
    over = threading.Event()
    with standing(options, say) as (desk, address):
        url = f"http://{_host(options.host)}:{address.getsockname()[1]}"
        aides = Aides(desk)
        aides.start()
        aides.repeat("heap", Sweeper().look)
        waiting = when_ready(desk, lambda: say(_up(desk, options, url)), over)
        server = Server(
            uvicorn.Config(
                create_app(desk, aides),
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=GRACEFUL_S,
                timeout_keep_alive=30,
                h11_max_incomplete_event_size=64 * 1024,
                backlog=2048,
            )
        )
        try:
            server.run(sockets=[address])
        finally:
            over.set()
            aides.close()
            waiting.join(GRACEFUL_S)
            say("stopping: running jobs go on, and are found again at the next start")


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _up(desk: Desk, options: Options, url: str) -> str:
    """What is up, and how to submit."""
    gpus = sum(node.gpus for node in desk.lab.nodes)
    what = f"{desk.lab.name}: {len(desk.lab.nodes)} nodes, {gpus} GPUs, engine {desk.engine.name}"
    shadow = "; shadow mode: nothing is started or stopped" if options.shadow else ""
    account = next((path for path in desk.lab.rows() if path), "ACCOUNT")
    token = "" if options.data.name == ".tenure" else f"TENURE_TOKEN=$(cat {options.data}/admin.token) "
    place = "" if url.endswith(":8400") and "127.0.0.1" in url else f"TENURE_URL={url} "
    how = f"{place}{token}tenure submit --account {account} --gpus 1 --min-runtime 15m -- sleep 60"
    loopback = options.host in ("127.0.0.1", "::1", "localhost")
    reach = (
        "; only this machine reaches it (--host 0.0.0.0 behind a proxy that speaks TLS opens it)"
        if loopback
        else ""
    )
    return f"up at {url}{shadow} · {what}{reach}\nsubmit with: {how}"


def set_up_logs(verbose: bool) -> None:
    """Structured lines on stderr: for people on a terminal (warnings only), else JSON with everything."""
    terminal = sys.stderr.isatty()
    level = 20 if verbose or not terminal else 30
    render: Any = structlog.processors.JSONRenderer()
    if terminal:
        render = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    no_locals = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)  # a token may be one
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([] if terminal else [structlog.processors.ExceptionRenderer(no_locals)]),
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
