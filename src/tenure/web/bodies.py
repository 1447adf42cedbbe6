"""How large a question may be: larger ones are read to their end, thrown away and answered with a sentence.

They are read because a client that is still writing would see a broken connection instead of the answer.
"""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tenure.settings.errors import BadInput

LARGEST = 1 << 20  #: bytes of a question
READ_ON = 64 << 20  #: bytes that are thrown away before the connection is


class BodyLimit:
    """ASGI middleware: refuses larger bodies with 413."""

    def __init__(self, app: ASGIApp, largest: int = LARGEST) -> None:
        self.app, self.largest = app, largest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the whole body before the application sees any of it."""
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self.app(scope, receive, send)
            return
        parts: list[bytes] = []
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            part = message.get("body", b"")
            size += len(part)
            more = message.get("more_body", False)
            if size <= self.largest:
                parts.append(part)
            elif size > READ_ON:
                break
        if size > self.largest:
            least = "more than " if more else ""
            text = (
                f"the question has {least}{size:,} bytes and may have {self.largest:,}:"
                " put what is large into a file that the job reads"
            )
            await JSONResponse({"error": text}, 413)(scope, receive, send)
            return
        whole: Message = {"type": "http.request", "body": b"".join(parts), "more_body": False}
        given = False

        async def receive_whole() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return whole

        await self.app(scope, receive_whole, send)


async def json_body(request: Request) -> dict[str, Any]:
    """The question's mapping. Raises BadInput for what is none."""
    raw = await request.body()
    allowed = 'a JSON object, such as {"reason": "…"}'
    if not raw.strip():
        return {}
    try:
        found = json.loads(raw, parse_constant=_no_number)
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
        raise BadInput("request", "", "no JSON, or nested too deeply", allowed) from None
    if not isinstance(found, dict):
        raise BadInput("request", "", f"a {type(found).__name__}", allowed)
    return found


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no number")
