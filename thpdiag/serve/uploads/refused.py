"""What is answered to an upload that cannot be taken, and how a connection ends on which more bytes are coming."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from http import HTTPStatus
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send

from thpdiag.errors import StoreBusyError, StoreError, StoreFullError

Endpoint = Callable[[Request], Awaitable[Response]]
LINGER: Final = 2.0  # seconds in which a sender can read the answer although bytes of theirs are on the way
LOG: Final = logging.getLogger(__name__)
READ_AWAY: Final = 16 << 20  # and how many bytes are read meanwhile


class RefusedError(Exception):
    """Why an upload, or a part of one, is not taken: a status and one sentence for whoever sends."""

    def __init__(self, status: HTTPStatus, sentence: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.headers = status, sentence, dict(headers or {})


Told = Callable[[Request, RefusedError], Awaitable[Response]]  # how a refusal is put to whoever sends


class Parting(Response):
    """An answer before the whole body was read: the connection ends with it.

    Closed at once, the system would throw the answer away together with the bytes that nobody read. So they are read
    for a moment. Whoever waits for `100 Continue` has sent none.
    """

    def __init__(self, answer: Response) -> None:
        self._answer = answer
        self._answer.headers["connection"] = "close"
        self.background, self.status_code, self.raw_headers = None, answer.status_code, answer.raw_headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def held_open(message: Message) -> None:
            await send({**message, "more_body": True} if message["type"] == "http.response.body" else message)

        await self._answer(scope, receive, held_open)
        if not any(name == b"expect" for name, _ in scope["headers"]):
            await _read_away(receive)
        await send({"type": "http.response.body", "body": b""})


async def _read_away(receive: Receive) -> None:
    read, more = 0, True
    try:
        async with asyncio.timeout(LINGER):
            while more and read < READ_AWAY:
                message = await receive()
                read += len(message.get("body", b""))
                more = message.get("more_body", False)
    except TimeoutError:
        pass


async def said(_request: Request, refused: RefusedError) -> Response:
    """The sentence as text, as curl shows it."""
    return PlainTextResponse(f"{refused.sentence}\n", refused.status, refused.headers)


def answered(endpoint: Endpoint, told: Told = said) -> Endpoint:
    """The endpoint, with every way in which an upload fails turned into an answer."""

    @wraps(endpoint)
    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except ClientDisconnect:
            return Response(status_code=HTTPStatus.BAD_REQUEST)  # nobody reads it
        except (RefusedError, HTTPException, StoreError, StoreBusyError, StoreFullError) as error:
            return Parting(await told(request, _refusal(error)))

    return answer


def _refusal(error: Exception) -> RefusedError:
    """A failure as it is told; of a store that cannot be used the log says more, not the answer."""
    match error:
        case RefusedError():
            return error
        case HTTPException():  # of those who ask who sends
            return RefusedError(HTTPStatus(error.status_code), error.detail, error.headers)
        case StoreFullError():
            return RefusedError(HTTPStatus.INSUFFICIENT_STORAGE, str(error))
        case StoreBusyError():
            return RefusedError(HTTPStatus.LOCKED, str(error))
        case _:
            LOG.error("an upload cannot be stored: %s", error)
            return RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, "the upload cannot be stored at the moment")
