"""`/api/v1/nodes`, `accounts`, `audit`, `turns`, `doctor`, `server`: the lab as a whole."""

from __future__ import annotations

from itertools import chain
from typing import Any

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from tenure.client.messages import Accounts, Done, Finding, Node, Reservation, Server
from tenure.service.live import acting, audits, record, shadows, standings
from tenure.service.live import reservations as windows
from tenure.web.asking import Asker, Body, TheDesk

router = APIRouter(tags=["lab"])


@router.get("/server")
def server(desk: TheDesk, who: Asker) -> Server:
    """Which server this is, and who asks."""
    return record.server(desk, who)


@router.get("/nodes")
def nodes(desk: TheDesk, who: Asker) -> list[Node]:
    """All nodes and what runs on them."""
    return acting.nodes(desk, who)


@router.post("/nodes/{node}")
def set_node(desk: TheDesk, who: Asker, node: str, body: Body) -> Done:
    """`state`: drain, down, up, repair or test, with a reason. Administrators."""
    return acting.set_node(desk, who, node, body)


@router.get("/reservations")
def reservations(desk: TheDesk, who: Asker) -> list[Reservation]:
    """Windows in which nodes are out of service: open, or to come."""
    return windows.reservations(desk, who)


@router.post("/reservations")
def reserve(desk: TheDesk, who: Asker, body: Body) -> Reservation:
    """`nodes` (names or patterns), `from`, `for`, `reason`. Administrators."""
    return windows.reserve(desk, who, body)


@router.post("/reservations/{reservation}/cancel")
def unreserve(desk: TheDesk, who: Asker, reservation: str) -> Done:
    """Take it back. Administrators."""
    return windows.unreserve(desk, who, reservation)


@router.get("/accounts")
def accounts(desk: TheDesk, who: Asker) -> Accounts:
    """How each account stands."""
    return standings.accounts(desk, who)


@router.get("/audit")
def audit(desk: TheDesk, who: Asker, since: str | None = None) -> dict[str, Any]:
    """The measures of the record."""
    return audits.measured(desk, who, since)


@router.get("/audit/shadow")
def audit_shadow(desk: TheDesk, who: Asker, since: str | None = None) -> dict[str, Any]:
    """What the real scheduler did beside what Tenure would have done. In shadow mode only."""
    return shadows.compared(desk, who, since)


@router.get("/story", response_class=StreamingResponse)
def story(desk: TheDesk, who: Asker, since: str | None = None) -> StreamingResponse:
    """The whole story, a JSON object a line: anybody can measure it. `since`: measures are of its end."""
    first, lines = record.story_lines(desk, who, since)
    return StreamingResponse(chain([first], lines), media_type="application/x-ndjson")


@router.get("/turns/{turn}")
def turn(desk: TheDesk, who: Asker, turn: int) -> dict[str, Any]:
    """A recorded turn. Administrators."""
    return dict(record.turn(desk, who, turn))


@router.get("/doctor")
def doctor(desk: TheDesk, who: Asker) -> list[Finding]:
    """What a site must still configure. Administrators."""
    return record.doctor(desk, who)
