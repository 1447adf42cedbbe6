"""`/api/v1/tokens`: who may ask."""

from __future__ import annotations

from fastapi import APIRouter

from tenure.client.messages import Done, NewToken, Token
from tenure.service.live import tokens
from tenure.web.asking import Asker, Body, TheDesk

router = APIRouter(tags=["tokens"])


@router.post("/tokens", status_code=201)
def create(desk: TheDesk, who: Asker, body: Body) -> NewToken:
    """A new token, shown once: `user`, `admin`, `expires` (a duration), `note`."""
    return tokens.create(desk, who, body)


@router.get("/tokens")
def listed(desk: TheDesk, who: Asker) -> list[Token]:
    """All of them for an administrator, else one's own."""
    return tokens.listed(desk, who)


@router.post("/tokens/{id}/revoke")
def revoke(desk: TheDesk, who: Asker, id: str) -> Done:
    """It opens nothing any more."""
    return tokens.revoke(desk, who, id)
