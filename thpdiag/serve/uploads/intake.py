"""One upload on its way into the sink: what is looked at before a byte is taken, and after each block."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from thpdiag.serve.uploads.names import plain
from thpdiag.serve.uploads.pace import Pace
from thpdiag.serve.uploads.refused import RefusedError
from thpdiag.serve.uploads.sink import Arrived, Sender, Sink
from thpdiag.serve.uploads.threads import in_thread

Admit = Callable[[Request], Awaitable[Sender]]  # who sends; an HTTPException if they may not
Accept = Callable[[Request, Arrived], Awaitable[Response]]  # makes a case of what is whole, and the answer
DIGITS: Final = 18  # of a length that is believed: below 2**63


@dataclass(frozen=True, slots=True)
class Intake:
    """Where uploads go, how large one may be (bytes), how slow, and which are being written by a request."""

    sink: Sink
    limit: int
    pace: Pace = field(default_factory=Pace)
    written: set[str] = field(default_factory=set)

    def fits(self, size: int | None) -> None:
        if size is not None and size > self.limit:
            raise RefusedError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the upload has {size:,} bytes; at most {self.limit:,} are taken"
            )

    async def begin(self, name: str, size: int | None, owner: str) -> str:
        self.fits(size)
        return await in_thread(self.sink.begin, plain(name), size, owner)

    async def take(self, key: str, offset: int, block: bytes) -> int:
        """Write a block; the new end."""
        self.fits(offset + len(block))
        return await in_thread(self.sink.append, key, offset, block)

    async def arrive(self, key: str, name: str, owner: str) -> Arrived:
        sha256, size = await in_thread(self.sink.arrive, key)
        return Arrived(key, name, owner, sha256, size)

    @contextmanager
    def writer(self, key: str) -> Iterator[None]:
        """One request at a time changes an upload; another is refused, and its sender asks again where it is."""
        if key in self.written:
            raise RefusedError(HTTPStatus.LOCKED, "another request is writing to this upload")
        self.written.add(key)
        try:
            yield
        finally:
            self.written.discard(key)

    @asynccontextmanager
    async def whole_or_nothing(self, key: str) -> AsyncIterator[None]:
        """What came is removed unless all of it did: of an upload that nobody can take up again."""
        whole = False
        try:
            yield
            whole = True
        finally:
            if not whole:
                await in_thread(self.sink.abandon, key)


def length(request: Request, header: str) -> int | None:
    """A number of bytes that the sender announces; None if they do not."""
    text = request.headers.get(header)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > DIGITS:
        raise RefusedError(HTTPStatus.BAD_REQUEST, f"{header} is no number of bytes")
    return int(text)
