"""The body of a request in blocks that are worth writing: flat memory, whatever the size of the upload."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from starlette.requests import ClientDisconnect, Request

from thpdiag.serve.uploads.pace import Pace, Waiting
from thpdiag.serve.uploads.refused import RefusedError

BLOCK: Final = 1 << 20


async def blocks(request: Request, pace: Pace) -> AsyncIterator[bytes]:
    """Blocks of about 1 MiB. What came before the sender left or became too slow is given out before the error."""
    waiting, held, size = Waiting(request.receive, pace), list[bytes](), 0
    more = True
    while more:
        failed: Exception | None = None
        try:
            piece, more = await _piece(waiting)
        except (ClientDisconnect, RefusedError) as error:
            piece, failed = b"", error
        held.append(piece)
        size += len(piece)
        if size >= BLOCK or (size and (failed or not more)):
            block = b"".join(held)
            held, size = [], 0
            yield block
        if failed:
            raise failed


async def _piece(waiting: Waiting) -> tuple[bytes, bool]:
    message = await waiting.message()
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    return message.get("body", b""), message.get("more_body", False)
