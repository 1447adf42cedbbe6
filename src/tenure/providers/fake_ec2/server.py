"""The cloud on a loopback port, for a real client with `endpoint_url`; and a client without the wire.

`Server(world)` speaks HTTP. `Direct(world)` has the methods of boto3's client that `providers/aws.py` calls
and raises what it would raise: for histories by the thousand.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import botocore.exceptions
from botocore import xform_name

from tenure.providers.fake_ec2 import wire
from tenure.providers.fake_ec2.actions import ACTIONS, call
from tenure.providers.fake_ec2.faults import Ec2Error, NoAnswer
from tenure.providers.fake_ec2.world import World

HANG_S = 60.0  #: longest that a connection is held without an answer


class Server:
    """A running server; `close` ends it. `url` is the endpoint."""

    def __init__(self, world: World, port: int = 0, *, hang_s: float = HANG_S) -> None:
        self._closing = threading.Event()
        handler = type("Handler", (_Handler,), {"closing": self._closing, "hang_s": hang_s})
        self._http = _Http(("127.0.0.1", port), handler)
        self._http.world = world
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def world(self) -> World:
        """The cloud behind it; another may be put in its place."""
        return self._http.world

    @world.setter
    def world(self, world: World) -> None:
        self._http.world = world

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def close(self) -> None:
        """Stop listening; what hangs is let go."""
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(5)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Http(ThreadingHTTPServer):
    world: World
    daemon_threads = True
    allow_reuse_address = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = HANG_S
    server: _Http
    closing: threading.Event
    hang_s: float

    def do_POST(self) -> None:
        """One call."""
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size).decode("utf-8", "replace")
        try:
            action, asked = wire.parse(body)
            status, text = 200, wire.answer(action, call(self.server.world, action, asked))
        except Ec2Error as no:
            status, text = no.status, wire.refusal(no)
        except NoAnswer as silent:
            self.close_connection = True
            if silent.hangs:
                self.closing.wait(self.hang_s)
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        except (KeyError, ValueError, TypeError) as wrong:
            status = 400
            text = wire.refusal(Ec2Error("MissingParameter", f"The request is not complete: {wrong}"))
        self.send_response(status)
        self.send_header("Content-Type", "text/xml;charset=UTF-8")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is written."""


class Direct:
    """A client without a wire: `Direct(world).describe_instances(…)` as boto3's, errors too."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._actions = {xform_name(action): action for action in ACTIONS}

    def __getattr__(self, name: str) -> Any:
        action = self.__dict__.get("_actions", {}).get(name)
        if action is None:
            raise AttributeError(name)
        return lambda **asked: self._ask(action, asked)

    def _ask(self, action: str, asked: dict[str, Any]) -> dict[str, Any]:
        try:
            return call(self._world, action, asked)
        except Ec2Error as no:
            told = {
                "Error": {"Code": no.code, "Message": no.message},
                "ResponseMetadata": {"HTTPStatusCode": no.status},
            }
            raise botocore.exceptions.ClientError(told, action) from None
        except NoAnswer as silent:
            kind = (
                botocore.exceptions.ReadTimeoutError
                if silent.hangs
                else botocore.exceptions.ConnectionClosedError
            )
            raise kind(endpoint_url="direct") from None

    def close(self) -> None:
        """Nothing to let go."""

    def get_paginator(self, name: str) -> Any:
        """As boto3's: `paginate(**asked)` gives the pages."""
        return _Pages(getattr(self, name))


class _Pages:
    def __init__(self, ask: Any) -> None:
        self._ask = ask

    def paginate(self, **asked: Any) -> Iterator[dict[str, Any]]:
        """Page by page."""
        sizes = asked.pop("PaginationConfig", {})
        if "PageSize" in sizes:
            asked["MaxResults"] = sizes["PageSize"]
        while True:
            told = self._ask(**asked)
            yield told
            if not told.get("NextToken"):
                return
            asked["NextToken"] = told["NextToken"]
