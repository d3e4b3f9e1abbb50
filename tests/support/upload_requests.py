"""Uploads request by request, asked of the whole server in memory: bodies come in pieces, and may break off.

with sending(tmp_path) as page:
    answer = page.call("PUT", "/api/v1/bundles/x", b"first", b"second", content_length="11")
    where = page.begin(3)
    page.tus("PATCH", where, b"abc", upload_offset="0")
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from serve_application import LIMIT, Whole, served
from serve_requests import request
from thpdiag.serve.storage.cases import CaseFilter
from thpdiag.serve.storage.storage import Storage
from thpdiag.serve.uploads.tus import TUS_CONTENT_TYPE, TUS_VERSION

Piece = bytes | type[ConnectionError] | Callable[[], bytes]
T = TypeVar("T")
GONE = ConnectionError  # in place of a piece: the sender leaves


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes
    received: int = 0  # pieces of the body that were asked for

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass
class Sending:
    """A server without login that accepts uploads."""

    whole: Whole

    @property
    def storage(self) -> Storage:
        return self.whole.storage

    def call(self, method: str, path: str, *pieces: Piece, **headers: str) -> Answer:
        return ran(called(self.whole.app, method, path, pieces, headers))

    def tus(self, method: str, path: str, *pieces: Piece, **headers: str) -> Answer:
        """Send a tus request with its version, and with bytes their type."""
        kind = {"content_type": TUS_CONTENT_TYPE} if method == "PATCH" else {}
        return self.call(method, path, *pieces, **{"tus_resumable": TUS_VERSION, **kind, **headers})

    def begin(self, size: int, **headers: str) -> str:
        """Return the address of a new upload."""
        answer = self.tus("POST", "/files", upload_length=str(size), **headers)
        assert answer.status == 201, answer
        return answer.headers["location"]

    def unfinished(self) -> list[str]:
        """Return the files of unfinished uploads."""
        return sorted(file.name for file in (self.storage.folder / "uploads").iterdir())

    def bundles(self) -> list[str]:
        """Return the digests of the stored bundles, each with its job."""
        found = sorted(digest for digest, _ in self.storage.content.files())
        assert sum(self.storage.jobs.counts().values()) == len(found)
        assert self.storage.cases.count(CaseFilter()) == 0
        return found


@contextmanager
def sending(folder: Path, **options: Any) -> Iterator[Sending]:
    """`limit` of one bundle, `quota` of all, `pace` of senders."""
    with served(folder, **{"limit": LIMIT, **options}) as whole:
        yield Sending(whole)


def ran(work: Coroutine[Any, Any, T]) -> T:
    """Run in a thread, since a browser of other tests runs a loop in this one; return the result."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


async def called(
    app: Callable[..., Awaitable[None]], method: str, path: str, pieces: Iterable[Piece], headers: Mapping[str, str]
) -> Answer:
    """One request by hand: the pieces of its body come one by one, `GONE` in place of one hangs up."""
    left, answer = list(pieces), Answer(0, {}, b"")
    named = [("host", "localhost"), *((name.replace("_", "-"), value) for name, value in headers.items())]

    async def receive() -> dict[str, Any]:
        answer.received += 1
        piece = left.pop(0) if left else (b"" if answer.received == 1 else GONE)
        if piece is GONE:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": piece() if callable(piece) else piece, "more_body": bool(left)}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {k.decode(): v.decode() for k, v in message["headers"]}
        else:
            answer.body += message.get("body", b"")

    await app(request(method, path, named, "127.0.0.1"), receive, send)
    return answer
