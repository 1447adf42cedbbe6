"""`/api/v1/jobs` and `/api/v1/why`: a researcher's day."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import Response

from tenure.client.messages import Done, Happening, Job, Log, Queue, Submitted, Why
from tenure.service.live import acting, queueing, showing, submitting
from tenure.service.live.queueing import Wanted
from tenure.web.asking import Asker, Body, TheDesk

router = APIRouter(tags=["jobs"])

JOB_KEYS = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["account", "gpus", "command"],
                    "properties": {
                        "account": {"type": "string", "example": "language/olmo/ann"},
                        "gpus": {"type": "integer", "minimum": 1},
                        "min_runtime": {"description": "duration: 2h, 90s, or seconds; 0 = unbudgeted"},
                        "max_runtime": {"description": "duration"},
                        "resumable": {"type": "boolean"},
                        "priority": {"type": "integer"},
                        "kind": {"enum": ["batch", "debug", "session"]},
                        "clusters": {"type": "array", "items": {"type": "string"}},
                        "gpu": {"type": "string"},
                        "same_rack": {"type": "boolean"},
                        "command": {"type": "array", "items": {"type": "string"}},
                        "env": {"type": "object", "additionalProperties": {"type": "string"}},
                        "workdir": {"type": "string"},
                        "name": {"type": "string"},
                        "array": {"type": "string", "example": "0-9%2"},
                        "after": {"type": "array", "items": {"type": "string", "example": "12:ok"}},
                        "hold": {"type": "boolean"},
                    },
                }
            }
        },
    }
}
REASON = {
    "requestBody": {
        "content": {
            "application/json": {"schema": {"type": "object", "properties": {"reason": {"type": "string"}}}}
        }
    }
}


@router.post("/jobs", status_code=201, response_model=Submitted, openapi_extra=JOB_KEYS)
def submit(
    desk: TheDesk,
    who: Asker,
    body: Body,
    idempotency_key: Annotated[str, Header()] = "",
    receipt: Annotated[str, Query(pattern="^(yes|no)$")] = "yes",
) -> Response:
    """Submit a job. The same `Idempotency-Key` twice is one submission."""
    told = submitting.submit(desk, who, body, key=idempotency_key, with_receipt=receipt == "yes")
    return Response(told.model_dump_json(), 201, media_type="application/json")


@router.get("/jobs", response_model=Queue)
def queue(
    desk: TheDesk,
    who: Asker,
    *,
    state: str | None = None,
    user: str | None = None,
    account: str | None = None,
    cluster: str | None = None,
    limit: int = 1000,
    offset: int = 0,
) -> Response:
    """What waits and runs, running jobs first."""
    told = queueing.queue(desk, who, Wanted(state, user, account, cluster, limit, offset))
    return Response(told.model_dump_json(), media_type="application/json")


@router.post("/why", openapi_extra=JOB_KEYS)
def why_if(desk: TheDesk, who: Asker, body: Body) -> Why:
    """Why a job would wait if it came now: nothing is submitted."""
    return submitting.why_if(desk, who, body)


@router.get("/jobs/{job}")
def show(desk: TheDesk, who: Asker, job: str) -> Job:
    """All that may be seen of a job."""
    return showing.show(desk, who, job)


@router.get("/jobs/{job}/why")
def why(desk: TheDesk, who: Asker, job: str) -> Why:
    """Why it waits, or by which rule it runs."""
    return showing.why(desk, who, job)


@router.get("/jobs/{job}/events")
def events(desk: TheDesk, who: Asker, job: str) -> list[Happening]:
    """Its story."""
    return showing.events(desk, who, job)


@router.get("/jobs/{job}/log")
def log(
    desk: TheDesk,
    who: Asker,
    job: str,
    attempt: int | None = None,
    last_bytes: Annotated[int, Query(alias="bytes", ge=0)] = 1 << 16,
) -> Log:
    """The end of what it wrote."""
    return showing.log(desk, who, job, attempt=attempt, last_bytes=last_bytes)


@router.post("/jobs/{job}/cancel", openapi_extra=REASON)
def cancel(desk: TheDesk, who: Asker, job: str, body: Body) -> Done:
    """End it, or all jobs of an array."""
    return acting.act(desk, who, "cancel", job, body)


@router.post("/jobs/{job}/hold", openapi_extra=REASON)
def hold(desk: TheDesk, who: Asker, job: str, body: Body) -> Done:
    """Do not consider it while it waits."""
    return acting.act(desk, who, "hold", job, body)


@router.post("/jobs/{job}/release", openapi_extra=REASON)
def release(desk: TheDesk, who: Asker, job: str, body: Body) -> Done:
    """Consider it again."""
    return acting.act(desk, who, "release", job, body)


@router.post("/jobs/{job}/stop", openapi_extra=REASON)
def stop(desk: TheDesk, who: Asker, job: str, body: Body) -> Done:
    """Stop it against the contract: managers and administrators, with a reason."""
    return acting.act(desk, who, "stop", job, body)
