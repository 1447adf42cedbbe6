"""Between a client and its S3: passes all on, and kills the client at a chosen request that changes."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CHANGES = ("PUT", "POST", "DELETE")


class Proxy:
    """`at`: which of the requests that change something is its last; 0: none. `after`: it was done."""

    def __init__(self, upstream: str) -> None:
        self.host, self.port = upstream.removeprefix("http://").split(":")
        self._lock = threading.Condition()
        self._at, self._after, self._client = 0, False, 0
        self._seen, self._dead, self._open = 0, False, 0

    def expect(self, at: int, *, after: bool) -> None:
        """A new client is about to begin."""
        with self._lock:
            self._at, self._after, self._client = at, after, 0
            self._seen, self._dead, self._open = 0, False, 0

    def client_is(self, process: int) -> None:
        """Its process."""
        with self._lock:
            self._client = process
            self._lock.notify_all()

    def seen(self) -> int:
        """How many of its requests would have changed something, once all that was sent is done."""
        with self._lock:
            assert self._lock.wait_for(lambda: not self._open, 30)
            return self._seen

    def _kill(self) -> None:
        with self._lock:
            assert self._lock.wait_for(lambda: self._client, 30)
            self._dead = True
            os.kill(self._client, signal.SIGKILL)

    def _begin(self, method: str) -> str:
        with self._lock:
            if self._dead:
                return "dead"  # it was in the wire as the client died, and nobody read it any more
            self._open += 1
            if method not in CHANGES:
                return "pass"
            self._seen += 1
            return "pass" if self._seen != self._at else "after" if self._after else "before"

    def _end(self) -> None:
        with self._lock:
            self._open -= 1
            self._lock.notify_all()

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        """One request."""
        body = _body(handler)
        fate = self._begin(handler.command)
        if fate == "dead":
            handler.close_connection = True
            return
        try:
            if fate == "before":
                self._kill()
                handler.close_connection = True
                return
            status, headers, answer = self._passed_on(handler, body)
            if fate == "after":
                self._kill()
                handler.close_connection = True
                return
        finally:
            self._end()
        handler.send_response_only(status)
        for key, value in headers:
            if key.lower() not in ("connection", "transfer-encoding", "content-length"):
                handler.send_header(key, value)
        known = next((value for key, value in headers if key.lower() == "content-length"), str(len(answer)))
        handler.send_header("Content-Length", known if handler.command == "HEAD" else str(len(answer)))
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(answer)

    def _passed_on(self, handler: BaseHTTPRequestHandler, body: bytes) -> tuple[int, list[Any], bytes]:
        skipped = ("expect", "connection", "transfer-encoding", "content-length")
        there = http.client.HTTPConnection(self.host, int(self.port), timeout=60)
        try:
            there.putrequest(handler.command, handler.path, skip_host=True, skip_accept_encoding=True)
            for key, value in handler.headers.items():
                if key.lower() not in skipped:
                    there.putheader(key, value)
            if body or handler.command in CHANGES:
                there.putheader("Content-Length", str(len(body)))
            there.endheaders(body or None)
            answer = there.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            there.close()


def _body(handler: BaseHTTPRequestHandler) -> bytes:
    if handler.headers.get("Transfer-Encoding", "").lower() != "chunked":
        return handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
    pieces = []
    while size := int(handler.rfile.readline().split(b";")[0], 16):
        pieces.append(handler.rfile.read(size))
        handler.rfile.readline()
    while handler.rfile.readline().strip():
        pass
    return b"".join(pieces)


@contextlib.contextmanager
def proxied(upstream: str) -> Iterator[tuple[Proxy, str]]:
    """The proxy and its URL."""
    proxy = Proxy(upstream)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def handle_one_request(self) -> None:
            with contextlib.suppress(ConnectionError):
                super().handle_one_request()
                return
            self.close_connection = True

        def __getattr__(self, name: str) -> Any:
            if name.startswith("do_"):
                return lambda: proxy.serve(self)
            raise AttributeError(name)

    class Server(ThreadingHTTPServer):
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield proxy, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
