"""Receiving an upload: checks before the first byte and after each block.

Bodies are read in blocks, so that memory use does not depend on the size of the upload. Slow senders are limited by an
idle timeout and a minimum rate. Only time spent waiting for the sender counts, not that of a slow disk here. The rate
is measured per interval, so that a fast start does not compensate for a slow rest.
"""

from __future__ import annotations

import asyncio
import logging
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
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
LINGER_SECONDS: Final = 2.0  # for which a refused body is read on, so that the sender receives the answer
MAX_DRAINED_BYTES: Final = 16 << 20  # read meanwhile
MAX_UPLOAD_THREADS: Final = 12  # more do not make a disk faster, and each may use a database connection
MAX_NAME_BYTES: Final = 255  # as in file systems
MAX_LENGTH_DIGITS: Final = 18  # of an announced length: below 2**63
BLOCK_BYTES: Final = 1 << 20
BIDI_CONTROLS: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_HIDDEN_CATEGORIES: Final = {"Cc", "Cs", "Zl", "Zp"}  # controls, surrogates, line and paragraph separators
_LIMITER: Final = RunVar[CapacityLimiter]("uploads")  # one per event loop

Handler = Callable[[Request], Awaitable[Response]]
Refuse = Callable[[Request, RefusedError], Awaitable[Response]]  # makes the answer of a refusal
P = ParamSpec("P")
T = TypeVar("T")


async def run_in_upload_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a blocking function in a thread pool for uploads, so that many uploads do not block other requests."""
    try:
        limiter = _LIMITER.get()
    except LookupError:
        limiter = CapacityLimiter(MAX_UPLOAD_THREADS)
        _LIMITER.set(limiter)
    return await to_thread.run_sync(partial(function, *args, **kwargs), limiter=limiter)


def upload_refusal(error: Exception) -> RefusedError:
    """Return the refusal for a failed upload. Errors of the store are logged and not shown to the client."""
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
    """An answer before the complete body was read, which closes the connection.

    If the connection were closed with unread bytes, the kernel would discard the answer (TCP reset). So the body is
    read on for a short time. A client that waits for `100 Continue` has sent none.
    """

    def __init__(self, answer: Response) -> None:
        self._answer = answer
        self._answer.headers["connection"] = "close"
        self.background, self.status_code, self.raw_headers = None, answer.status_code, answer.raw_headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_without_end(message: Message) -> None:
            await send({**message, "more_body": True} if message["type"] == "http.response.body" else message)

        await self._answer(scope, receive, send_without_end)
        if not any(name == b"expect" for name, _ in scope["headers"]):
            await _drain(receive)
        await send({"type": "http.response.body", "body": b""})


async def _drain(receive: Receive) -> None:
    drained, more = 0, True
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            while more and drained < MAX_DRAINED_BYTES:
                message = await receive()
                drained += len(message.get("body", b""))
                more = message.get("more_body", False)


def check_file_name(name: str) -> str:
    """Return the name unchanged; RefusedError if it is not a plain file name.

    It is displayed and stored in a column, never used as a path. Paths and names with invisible characters are refused
    instead of corrected, since regular clients do not send them.
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
    """Return an announced number of bytes; None without the header."""
    text = request.headers.get(header)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > MAX_LENGTH_DIGITS:
        raise RefusedError(400, f"{header} is not a number of bytes")
    return int(text)


@dataclass(frozen=True, slots=True)
class SendLimits:
    """How slowly a client may send."""

    idle: float = 30.0  # seconds without a byte
    rate: float = 1024.0  # minimum bytes per second
    interval: float = 10.0  # seconds of waiting over which the rate is measured
    clock: Callable[[], float] = monotonic


class LimitedReceiver:
    """Receives the messages of one request and enforces SendLimits."""

    def __init__(self, receive: Receive, limits: SendLimits) -> None:
        self._receive, self._limits = receive, limits
        self._waited, self._received = 0.0, 0

    async def message(self) -> Message:
        """Return the next message; RefusedError on a timeout or if the previous interval was too slow."""
        limits = self._limits
        if self._waited >= limits.interval:
            if self._received < limits.rate * self._waited:
                raise RefusedError(408, f"fewer than {limits.rate:g} bytes per second arrived")
            self._waited, self._received = 0.0, 0
        began = limits.clock()
        try:
            async with asyncio.timeout(limits.idle):
                message = await self._receive()
        except TimeoutError:
            raise RefusedError(408, f"no data arrived for {limits.idle:g} seconds") from None
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        self._waited += limits.clock() - began
        self._received += len(message.get("body", b""))
        return message


async def blocks(request: Request, limits: SendLimits) -> AsyncIterator[bytes]:
    """Yield blocks of about 1 MiB. Bytes received before a disconnect or timeout are yielded before the error."""
    receiver, held, size = LimitedReceiver(request.receive, limits), list[bytes](), 0
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
    """Receives uploads. `limit` is the maximum size in bytes, `writing` the ids that a request is writing to."""

    uploads: Uploads
    limit: int
    send_limits: SendLimits = field(default_factory=SendLimits)
    writing: set[str] = field(default_factory=set)

    def check_size(self, size: int | None) -> None:
        if size is not None and size > self.limit:
            raise RefusedError(413, f"the upload has {size:,} bytes; at most {self.limit:,} are taken")

    async def begin(self, name: str, size: int | None, owner: str, *, held: bool = False) -> str:
        self.check_size(size)
        return await run_in_upload_thread(self.uploads.begin, check_file_name(name), size, owner, held=held)

    async def append(self, key: str, offset: int, block: bytes) -> int:
        """Write a block and return the new offset."""
        self.check_size(offset + len(block))
        return await run_in_upload_thread(self.uploads.append, key, offset, block)

    @contextmanager
    def writer(self, key: str) -> Iterator[None]:
        """Lock an upload for one request; RefusedError for a concurrent one, which may ask for the offset again."""
        if key in self.writing:
            raise RefusedError(423, "another request is writing to this upload")
        self.writing.add(key)
        try:
            yield
        finally:
            self.writing.discard(key)

    @asynccontextmanager
    async def discard_on_failure(self, key: str) -> AsyncIterator[None]:
        """Remove an upload that cannot be resumed if the block fails."""
        async with AsyncExitStack() as undo:
            undo.push_async_callback(run_in_upload_thread, self.uploads.abandon, key)
            yield
            undo.pop_all()


def handle_upload_errors(handler: Handler, refuse: Refuse) -> Handler:
    """Wrap a handler: turn errors of uploads into answers."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except ClientDisconnect:
            return Response(status_code=400)  # not received by anyone
        except (RefusedError, StorageError) as error:
            return ClosingResponse(await refuse(request, upload_refusal(error)))

    return answer
