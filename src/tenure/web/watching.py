"""What was asked, how it went, how long it took: a log line and a count for each question, never a token."""

from __future__ import annotations

import time

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOG = structlog.get_logger("tenure.web")
QUIET = ("/healthz", "/metrics")


class Watch:
    """Counts of questions, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "tenure_http_requests",
            "Questions answered",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "tenure_http_request_seconds", "Time to an answer", ["method", "route"], registry=self.registry
        )

    def note(self, scope: Scope, status: int, took_s: float) -> None:
        """One question was answered."""
        method, path = str(scope["method"]), str(scope["path"])
        if method not in ("GET", "POST", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"):
            method = "other"  # a label that strangers could make up would never end
        route = getattr(scope.get("route"), "path", "none")
        self.requests.labels(method, route, str(status)).inc()
        self.seconds.labels(method, route).observe(took_s)
        if path not in QUIET:
            user = scope.get("state", {}).get("user")
            took_ms = round(took_s * 1000, 1)
            LOG.info("asked", method=method, path=path[:300], status=status, ms=took_ms, user=user)


class Watching:
    """ASGI middleware that tells a watch of every question."""

    def __init__(self, app: ASGIApp, watch: Watch) -> None:
        self.app, self.watch = app, watch

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, and note it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, noting)
        finally:
            self.watch.note(scope, status, time.perf_counter() - began)
