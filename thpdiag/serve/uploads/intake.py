"""One upload on its way into the storage: what is looked at before a byte is taken, and after each block.

The body of a request comes in blocks that are worth writing: flat memory, whatever the size of the upload. How slowly a
sender may send is limited, by how long nothing may come and how few bytes a second. Only the time spent waiting for the
sender counts, so that a slow disk of ours is not held against them; the rate is that of each stretch of waiting on its
own: what came fast before does not pay for what trickles now.
"""

from __future__ import annotations

import asyncio
import logging
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Final, ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from thpdiag.errors import StorageError, StoreBusyError, StoreFullError
from thpdiag.serve.access.http import RefusedError
from thpdiag.serve.storage.uploads import FilesGoneError, GoneError, Uploads

LOG: Final = logging.getLogger(__name__)
LINGER_SECONDS: Final = 2.0  # in which a sender can read the answer although bytes of theirs are on the way
MAX_DRAINED_BYTES: Final = 16 << 20  # and how many bytes are read meanwhile
MAX_UPLOAD_THREADS: Final = 12  # a disk is not faster with more of them, and each may have a connection to the database
MAX_NAME_BYTES: Final = 255  # as in file systems
MAX_LENGTH_DIGITS: Final = 18  # of a length that is believed: below 2**63
BLOCK_BYTES: Final = 1 << 20
BIDI_CONTROLS: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_HIDDEN_CATEGORIES: Final = {"Cc", "Cs", "Zl", "Zp"}  # control characters, half characters, separators of lines
_LIMITER: Final = RunVar[CapacityLimiter]("uploads")  # one per event loop

Handler = Callable[[Request], Awaitable[Response]]
Refuse = Callable[[Request, RefusedError], Awaitable[Response]]  # how a refusal is put to whoever sends
P = ParamSpec("P")
T = TypeVar("T")


async def run_in_upload_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call what waits for a disk, in a thread for uploads: many at once keep no other request waiting for one."""
    try:
        limiter = _LIMITER.get()
    except LookupError:
        limiter = CapacityLimiter(MAX_UPLOAD_THREADS)
        _LIMITER.set(limiter)
    return await to_thread.run_sync(partial(function, *args, **kwargs), limiter=limiter)


def upload_refusal(error: Exception) -> RefusedError:
    """How the failure of an upload is told; of a store that cannot be used the log says more, not the answer."""
    match error:
        case RefusedError():
            return error
        case StoreFullError():
            return RefusedError(507, str(error))
        case StoreBusyError():
            return RefusedError(423, str(error))
        case FilesGoneError():
            return RefusedError(409, f"{error}; send them again, as a case of their own")
        case GoneError():
            return RefusedError(410, "this upload has ended: it expired, or an administrator ended it")
        case _:
            LOG.error("an upload cannot be stored: %s", error)
            return RefusedError(503, "the upload cannot be stored at the moment")


class ClosingResponse(Response):
    """An answer before the whole body was read: the connection ends with it.

    Closed at once, the system would throw the answer away together with the bytes that nobody read. So they are read
    for a moment. Whoever waits for `100 Continue` has sent none.
    """

    def __init__(self, answer: Response) -> None:
        self._answer = answer
        self._answer.headers["connection"] = "close"
        self.background, self.status_code, self.raw_headers = None, answer.status_code, answer.raw_headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_and_hold(message: Message) -> None:
            await send({**message, "more_body": True} if message["type"] == "http.response.body" else message)

        await self._answer(scope, receive, send_and_hold)
        if not any(name == b"expect" for name, _ in scope["headers"]):
            await _drain(receive)
        await send({"type": "http.response.body", "body": b""})


async def _drain(receive: Receive) -> None:
    drained, more = 0, True
    try:
        async with asyncio.timeout(LINGER_SECONDS):
            while more and drained < MAX_DRAINED_BYTES:
                message = await receive()
                drained += len(message.get("body", b""))
                more = message.get("more_body", False)
    except TimeoutError:
        pass


def check_file_name(name: str) -> str:
    """The name as it was given; RefusedError if it is no plain name of a file.

    It is shown to people and kept in a column, never a part of a path. What looks like a path, or would show as
    something else than it is, is refused rather than mended: no sender who means well has such a name.
    """
    if not name.strip() or name in {".", ".."}:
        raise RefusedError(400, "an upload needs the name of a file")
    if "/" in name or "\\" in name:
        raise RefusedError(400, "the name of an upload is that of a file, without folders")
    if any(c in BIDI_CONTROLS or unicodedata.category(c) in _HIDDEN_CATEGORIES for c in name):
        raise RefusedError(400, "the name of the upload has control characters")
    if len(name.encode()) > MAX_NAME_BYTES:
        raise RefusedError(400, f"the name of the upload is longer than {MAX_NAME_BYTES} bytes")
    return name


def length_header(request: Request, header: str) -> int | None:
    """A number of bytes that the sender announces; None if they do not."""
    text = request.headers.get(header)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > MAX_LENGTH_DIGITS:
        raise RefusedError(400, f"{header} is not a number of bytes")
    return int(text)


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds without a byte, bytes per second, and seconds of waiting after which the rate is looked at."""

    idle: float = 30.0
    rate: float = 1024.0
    stretch: float = 10.0
    clock: Callable[[], float] = monotonic


class PacedReceiver:
    """One request's waiting for its sender."""

    def __init__(self, receive: Receive, pace: Pace) -> None:
        self._receive, self._pace = receive, pace
        self._waited, self._came = 0.0, 0

    async def message(self) -> Message:
        """The next message; RefusedError if it takes too long, or if those before it brought too little."""
        if self._waited >= self._pace.stretch:
            if self._came < self._pace.rate * self._waited:
                raise RefusedError(408, f"fewer than {self._pace.rate:g} bytes per second arrived")
            self._waited, self._came = 0.0, 0
        began = self._pace.clock()
        try:
            async with asyncio.timeout(self._pace.idle):
                message = await self._receive()
        except TimeoutError:
            raise RefusedError(408, f"no data arrived for {self._pace.idle:g} seconds") from None
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        self._waited += self._pace.clock() - began
        self._came += len(message.get("body", b""))
        return message


async def blocks(request: Request, pace: Pace) -> AsyncIterator[bytes]:
    """Blocks of about 1 MiB. What came before the sender left or became too slow is given out before the error."""
    receiver, held, size = PacedReceiver(request.receive, pace), list[bytes](), 0
    more = True
    while more:
        failure: Exception | None = None
        try:
            message = await receiver.message()
        except (ClientDisconnect, RefusedError) as error:
            failure = error
        else:
            held.append(message.get("body", b""))
            size += len(held[-1])
            more = message.get("more_body", False)
        if size >= BLOCK_BYTES or (size and (failure or not more)):
            block = b"".join(held)
            held, size = [], 0
            yield block
        if failure:
            raise failure


@dataclass(frozen=True, slots=True)
class Intake:
    """Where uploads go, how large one may be (bytes), how slow, and which are being written by a request."""

    uploads: Uploads
    limit: int
    pace: Pace = field(default_factory=Pace)
    writing: set[str] = field(default_factory=set)

    def check_size(self, size: int | None) -> None:
        if size is not None and size > self.limit:
            raise RefusedError(413, f"the upload has {size:,} bytes; at most {self.limit:,} are taken")

    async def begin(self, name: str, size: int | None, owner: str, *, held: bool = False) -> str:
        self.check_size(size)
        return await run_in_upload_thread(self.uploads.begin, check_file_name(name), size, owner, held=held)

    async def append(self, key: str, offset: int, block: bytes) -> int:
        """Write a block; the new end."""
        self.check_size(offset + len(block))
        return await run_in_upload_thread(self.uploads.append, key, offset, block)

    @contextmanager
    def writer(self, key: str) -> Iterator[None]:
        """One request at a time changes an upload; another is refused, and its sender asks again where it is."""
        if key in self.writing:
            raise RefusedError(423, "another request is writing to this upload")
        self.writing.add(key)
        try:
            yield
        finally:
            self.writing.discard(key)

    @asynccontextmanager
    async def whole_or_nothing(self, key: str) -> AsyncIterator[None]:
        """What came is removed unless all of it did: of an upload that nobody can take up again."""
        whole = False
        try:
            yield
            whole = True
        finally:
            if not whole:
                await run_in_upload_thread(self.uploads.abandon, key)


def handle_upload_errors(handler: Handler, refuse: Refuse) -> Handler:
    """The handler, with every way in which an upload fails turned into an answer."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        except (RefusedError, StorageError) as error:
            return ClosingResponse(await refuse(request, upload_refusal(error)))

    return answer
