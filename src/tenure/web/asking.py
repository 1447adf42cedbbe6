"""What every route needs: the desk, and who asks.

Both are told without leaving the thread that serves all where they can be: a step into another costs as much
as the rest of a small question.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from tenure.service.live import tokens
from tenure.service.live.desk import Desk
from tenure.service.live.errors import NoToken, TooOften
from tenure.service.live.people import Who
from tenure.web.bodies import json_body
from tenure.web.throttle import Throttle

bearer = HTTPBearer(auto_error=False, description="A token of `tenure token create`.")


async def desk_of(request: Request) -> Desk:
    """The desk of this application."""
    desk: Desk = request.app.state.desk
    return desk


async def who_asks(
    request: Request,
    desk: Annotated[Desk, Depends(desk_of)],
    found: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
) -> Who:
    """The bearer of the token. Raises NoToken, and TooOften where many that are nobody's came from there."""
    if found is None:
        return tokens.who_is(desk, None)
    who = tokens.who_was(desk, found.credentials)
    if who is None:
        who = await run_in_threadpool(_looked_up, request, desk, found.credentials)
    request.state.user = who.user
    return who


def _looked_up(request: Request, desk: Desk, token: str) -> Who:
    """As the record has it."""
    throttle: Throttle = request.app.state.throttle
    address = "" if request.client is None else request.client.host
    wait_s = throttle.wait_s(address, token)
    if wait_s > 0:
        raise TooOften(
            f"too many tokens that open nothing came from {address}: try again in {wait_s:.0f} s", wait_s
        )
    try:
        who = tokens.who_is(desk, token)
    except NoToken:
        throttle.failed(address)
        raise
    throttle.passed(token)
    return who


TheDesk = Annotated[Desk, Depends(desk_of)]
Asker = Annotated[Who, Depends(who_asks)]
Body = Annotated[dict[str, Any], Depends(json_body)]
