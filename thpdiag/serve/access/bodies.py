"""How much a route takes that is no upload, and how long it waits for that.

Such a body is read whole before the application sees it: it is small, so that a slow sender costs neither a worker nor
memory, and nobody has to stop in the middle.
"""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from thpdiag.serve.access.answers import Refusal, answer
from thpdiag.serve.access.routes import Routes

MOST: Final = 64 << 10  # bytes
SECONDS: Final = 10.0
TOO_LARGE: Final = Refusal(413, f"more than {MOST >> 10} KiB are for uploads only")
TOO_SLOW: Final = Refusal(408, "the rest of this request did not come in time")


class Bodies:
    """ASGI middleware: reads the body of what is no upload, up to a limit."""

    def __init__(self, app: ASGIApp, routes: Routes, seconds: float = SECONDS) -> None:
        self._app = app
        self._routes = routes
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        rule = self._routes.find(scope["method"], scope["path"]) if scope["type"] == "http" else None
        if scope["type"] != "http" or (rule and rule.streams):
            await self._app(scope, receive, send)
            return
        read = await self._read(Headers(scope=scope), receive)
        if isinstance(read, Refusal):
            await answer(read, scope, receive, send)
        elif read is not None:
            await self._app(scope, replayed(read, receive), send)

    async def _read(self, headers: Headers, receive: Receive) -> bytes | Refusal | None:
        """The body; None if the client went away."""
        if announced(headers) > MOST:
            return TOO_LARGE
        body = bytearray()
        try:
            async with asyncio.timeout(self._seconds):
                while (message := await receive())["type"] == "http.request":
                    body += message.get("body", b"")
                    if len(body) > MOST:
                        return TOO_LARGE
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            return TOO_SLOW
        return None


def announced(headers: Headers) -> int:
    """The length that a request says it has; 0 if it says none. The server has refused what is no number."""
    told = headers.get("content-length", "")
    return int(told[:20]) if told.isascii() and told.isdigit() else 0


def replayed(body: bytes, receive: Receive) -> Receive:
    """Gives a body that was read already, and after it what else comes: that the client goes away."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return left.pop() if left else await receive()

    return next_message
