"""What the tests of uploads share: a folder that keeps them, requests made by hand, an application of all routes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from thpdiag.errors import StoreError, StoreFullError
from thpdiag.serve.uploads.form import form_route
from thpdiag.serve.uploads.intake import Intake
from thpdiag.serve.uploads.pace import Pace
from thpdiag.serve.uploads.put import put_route
from thpdiag.serve.uploads.sink import Arrived
from thpdiag.serve.uploads.tus import CONTENT_TYPE, VERSION, tus_routes

Piece = bytes | type[ConnectionError] | Callable[[], bytes]
T = TypeVar("T")
LIMIT = 64 << 20
GONE = ConnectionError  # in place of a piece: the sender leaves


@dataclass(frozen=True)
class Kept:
    name: str
    owner: str
    size: int | None
    offset: int
    state: str
    expires: float


@dataclass
class FolderSink:
    """Uploads as files of a folder, what is known of them beside them; a restart loses nothing."""

    folder: Path
    room: int = 1 << 40
    patience: float = 86_400.0
    clock: Callable[[], float] = lambda: 1_000_000_000.0
    broken: bool = False  # the storage cannot be used

    def begin(self, name: str, size: int | None, owner: str) -> str:
        if (size or 0) > self.room:
            raise StoreFullError("the disk has no room")
        key = secrets.token_hex(16)
        known = {"name": name, "owner": owner, "size": size, "expires": self.clock() + self.patience}
        (self.folder / f"{key}.json").write_text(json.dumps(known))
        self.file(key).touch()
        return key

    def found(self, key: str) -> Kept | None:
        beside = self.folder / f"{key}.json"
        if not beside.is_file():
            return None
        known = json.loads(beside.read_text())
        finished = (self.folder / f"{key}.whole").is_file()
        if not finished and known["expires"] <= self.clock():
            return None
        size = self.file(key).stat().st_size
        return Kept(**known, offset=size, state="finished" if finished else "receiving")

    def append(self, key: str, offset: int, block: bytes) -> int:
        if self.broken:
            raise StoreError("the database is away")
        known = self.found(key)
        if known is None or known.offset != offset:
            raise StoreError("not there")
        if offset + len(block) > self.room:
            raise StoreFullError("the disk is full")
        with self.file(key).open("ab") as out:
            out.write(block)
        return offset + len(block)

    def arrive(self, key: str) -> tuple[str, int]:
        data = self.file(key).read_bytes()
        return hashlib.sha256(data).hexdigest(), len(data)

    def finish(self, key: str) -> None:
        (self.folder / f"{key}.whole").touch()

    def abandon(self, key: str) -> bool:
        if (self.folder / f"{key}.whole").exists():
            return False
        self.file(key).unlink(missing_ok=True)
        (self.folder / f"{key}.json").unlink(missing_ok=True)
        return True

    def file(self, key: str) -> Path:
        return self.folder / f"{key}.part"

    def names(self) -> list[str]:
        return sorted(file.name for file in self.folder.iterdir())


@dataclass(frozen=True)
class Somebody:
    owner: str = "anna"

    def may_touch(self, owner: str) -> bool:
        return self.owner == owner


async def by_header(request: Request) -> Somebody:
    """Whoever the header `who` names; nobody else may send."""
    if request.headers.get("who") == "stranger":
        raise HTTPException(401, "who are you?", {"www-authenticate": "Bearer"})
    return Somebody(request.headers.get("who", "anna"))


async def by_field(request: Request, fields: Mapping[str, str]) -> Somebody:
    if fields.get("csrf") != "secret":
        raise HTTPException(403, "the form is not ours")
    return await by_header(request)


@dataclass
class Page:
    """An application of all three ways, and what arrived."""

    sink: FolderSink
    limit: int = LIMIT
    pace: Pace = field(default_factory=Pace)
    arrived: list[Arrived] = field(default_factory=list)
    failing: int = 0  # how many times making a case of what arrived fails

    def __post_init__(self) -> None:
        self.intake = Intake(self.sink, self.limit, self.pace)
        self.app = Starlette(
            routes=[
                put_route("/api/v1/bundles", self.intake, by_header, self.accept),
                form_route("/upload", self.intake, by_field, self.accept),
                *tus_routes("/files", self.intake, by_header, self.complete),
            ]
        )

    async def accept(self, _request: Request, arrived: Arrived) -> Response:
        if self.failing:
            self.failing -= 1
            raise StoreFullError("no room for a case")
        self.sink.finish(arrived.id)
        self.arrived.append(arrived)
        return JSONResponse({"sha256": arrived.sha256, "name": arrived.name, "size": arrived.size}, 201)

    async def complete(self, request: Request, arrived: Arrived) -> Mapping[str, str]:
        await self.accept(request, arrived)
        return {"thpdiag-sha256": arrived.sha256}

    def call(self, method: str, path: str, *pieces: Piece, **headers: str) -> Answer:
        return ran(called(self.app, method, path, pieces, headers))

    def tus(self, method: str, path: str, *pieces: Piece, **headers: str) -> Answer:
        """A request of tus: its version, and with bytes their type."""
        told = {"tus_resumable": VERSION} | ({"content_type": CONTENT_TYPE} if method == "PATCH" else {}) | headers
        return self.call(method, path, *pieces, **told)

    def begun(self, size: int, **headers: str) -> str:
        """The address of an upload that was begun."""
        answer = self.tus("POST", "/files", upload_length=str(size), **headers)
        assert answer.status == 201, answer
        return answer.headers["location"]


def ran(work: Coroutine[Any, Any, T]) -> T:
    """What it returns; in a thread of its own, since a browser of other tests keeps a loop running in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes
    received: int = 0  # pieces of the body that were asked for

    @property
    def text(self) -> str:
        return self.body.decode()


async def called(
    app: Callable[..., Awaitable[None]], method: str, path: str, pieces: Iterable[Piece], headers: Mapping[str, str]
) -> Answer:
    """One request by hand: the pieces of its body come one by one, `GONE` in place of one hangs up."""
    left, answer = list(pieces), Answer(0, {}, b"")
    scope: dict[str, Any] = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
        "root_path": "", "scheme": "http", "http_version": "1.1", "server": ("demo", 80),
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip

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

    await app(scope, receive, send)
    return answer
