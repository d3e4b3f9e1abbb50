"""Requests that no honest client sends, refused by their form alone.

The server has decoded the path already: `%2F` is a slash by then and `%2E%2E` two dots. So it is the path as it was
sent that is looked at. Headers that mean one thing may come once: of two, the gate and what stands behind it could
each believe another.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from thpdiag.serve.access.answers import Refusal, answer

HEADERS_MOST: Final = 100
HEAD_BYTES: Final = 16 << 10  # names and values together
ADDRESS_BYTES: Final = 8 << 10  # path and query
ONCE: Final = (
    "host", "authorization", "content-length", "content-type", "cookie", "origin", "sec-fetch-site", "x-csrf-token",
    "upload-offset", "upload-length",
)  # fmt: skip
OVERRIDES: Final = ("x-http-method", "x-method-override", "x-original-url", "x-rewrite-url")
HIDDEN: Final = re.compile(rb"%(?:2f|5c|[01][0-9a-f]|7f)|[\\\x00-\x20\x7f]", re.IGNORECASE)


class Shapes:
    """ASGI middleware: refuses what `fault` finds."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (found := fault(scope)):
            await answer(found, scope, receive, send)
        else:
            await self._app(scope, receive, send)


def fault(scope: Scope) -> Refusal | None:
    """What is wrong with the form of a request, if anything is."""
    raw: list[tuple[bytes, bytes]] = scope["headers"]
    if len(raw) > HEADERS_MOST or sum(len(name) + len(value) for name, value in raw) > HEAD_BYTES:
        return Refusal(431, "the headers of this request are too large")
    path = scope.get("raw_path") or scope["path"].encode()
    if len(path) + len(scope["query_string"]) > ADDRESS_BYTES:
        return Refusal(414, "this address is too long")
    if is_trick(path):
        return Refusal(400, "this path is not written plainly")
    headers = Headers(scope=scope)
    if "host" not in headers or any(len(headers.getlist(name)) > 1 for name in ONCE):
        return Refusal(400, "a header is missing or comes twice")
    if any(name in headers for name in OVERRIDES):
        return Refusal(400, "the method and the address of a request are those of its first line")
    return None


def is_trick(path: bytes) -> bool:
    """Whether a path, as it was sent, hides a separator or a control character, or climbs."""
    segments = [unquote_to_bytes(segment) for segment in path.split(b"/")]
    climbs = any(segment in (b".", b"..") for segment in segments)
    return not path.startswith(b"/") or b"" in segments[1:-1] or climbs or HIDDEN.search(path) is not None
