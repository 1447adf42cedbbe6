"""The server's application: its routes, and every refusal as one sentence with a status."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import structlog
from anyio import to_thread
from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from prometheus_client import generate_latest
from starlette.exceptions import HTTPException

from tenure import __version__
from tenure.ledger.records import LedgerError
from tenure.service.live import record
from tenure.service.live.aides import Aides
from tenure.service.live.desk import Desk
from tenure.service.live.errors import (
    Forbidden,
    LiveError,
    NotKnown,
    NotNow,
    NoToken,
    NotReady,
    TooOften,
    Wrong,
)
from tenure.settings.errors import BadInput
from tenure.web import jobs, lab, tokens
from tenure.web.bodies import LARGEST, BodyLimit
from tenure.web.metrics import CONTENT_TYPE, Metrics
from tenure.web.throttle import Throttle
from tenure.web.watching import Watch, Watching

THREADS = 256  #: questions answered at once
ROUTERS: Sequence[APIRouter] = (jobs.router, lab.router, tokens.router)
STATUS: dict[type[Exception], int] = {
    NoToken: 401,
    Forbidden: 403,
    NotKnown: 404,
    NotNow: 409,
    TooOften: 429,
    NotReady: 503,
    Wrong: 422,
}


def create_app(
    desk: Desk,
    aides: Aides | None = None,
    *,
    largest_body: int = LARGEST,
    more: Sequence[APIRouter] = (),
) -> FastAPI:
    """The application over a desk. `more`: routers of other rooms, below `/api/v1`."""
    app = FastAPI(
        title="Tenure",
        version=__version__,
        docs_url="/api/docs",
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=many_threads,
    )
    app.state.desk = desk
    app.state.watch = Watch()
    app.state.throttle = Throttle()
    for router in (*ROUTERS, *more):
        app.include_router(router, prefix="/api/v1")
    app.add_api_route("/healthz", healthz, methods=["GET"], tags=["health"])
    app.state.metrics = Metrics(desk, aides or Aides(desk))
    app.add_api_route("/metrics", metrics, methods=["GET"], tags=["health"])
    app.add_exception_handler(LiveError, refused)
    app.add_exception_handler(BadInput, refused)
    app.add_exception_handler(LedgerError, refused)
    app.add_exception_handler(RequestValidationError, malformed)
    app.add_exception_handler(HTTPException, no_such_page)
    app.add_exception_handler(Exception, unforeseen)
    app.add_middleware(BodyLimit, largest=largest_body)
    app.add_middleware(Watching, watch=app.state.watch)
    return app


@asynccontextmanager
async def many_threads(app: FastAPI) -> AsyncIterator[None]:
    """A question may wait for a turn: many wait at once, each in a thread."""
    to_thread.current_default_thread_limiter().total_tokens = THREADS
    yield


def healthz(request: Request) -> JSONResponse:
    """Whether the server can be relied on; 503 where not."""
    told = record.health(request.app.state.desk)
    return JSONResponse(told.model_dump(), 200 if told.ok else 503)


def metrics(request: Request) -> Response:
    """The scheduler and its doors in Prometheus' words."""
    state = request.app.state
    page = state.metrics.page() + generate_latest(state.watch.registry)
    return Response(page, media_type=CONTENT_TYPE)


def refused(request: Request, problem: Exception) -> JSONResponse:
    """A question that was understood, and is not answered: why."""
    status = 422 if isinstance(problem, BadInput) else 503
    for kind, code in STATUS.items():
        if isinstance(problem, kind):
            status = code
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if isinstance(problem, TooOften):
        headers["Retry-After"] = str(max(1, math.ceil(problem.wait_s)))
    if status == 503:
        headers["Retry-After"] = "1"
    return JSONResponse({"error": _holdable(str(problem))}, status, headers)


def malformed(request: Request, problem: Exception) -> JSONResponse:
    """A parameter of the address that is none."""
    assert isinstance(problem, RequestValidationError)
    first = problem.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return JSONResponse({"error": _holdable(f"{where}: {first['msg']}")}, 422)


def no_such_page(request: Request, problem: Exception) -> JSONResponse:
    """An address that leads nowhere."""
    assert isinstance(problem, HTTPException)
    text = f"{request.method} {request.url.path}: {problem.detail}; /api/docs lists what there is"
    return JSONResponse({"error": _holdable(text)}, problem.status_code)


def unforeseen(request: Request, problem: Exception) -> JSONResponse:
    """A mistake of ours: logged whole, told in one sentence."""
    structlog.get_logger("tenure.web").error("unforeseen", path=request.url.path, exc_info=problem)
    return JSONResponse({"error": f"{type(problem).__name__}: this should not happen; the log has more"}, 500)


def _holdable(text: str) -> str:
    """Text that JSON can carry: no half of a pair."""
    return text.encode("utf-8", "replace").decode("utf-8")
