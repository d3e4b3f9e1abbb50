"""Resumable uploads: tus 1.0.0, core with the extensions creation, expiration and termination.

    POST   PATH      Upload-Length, Upload-Metadata: filename (base64)    201 and Location
    HEAD   PATH/ID                                                        Upload-Offset: how far it is
    PATCH  PATH/ID   Upload-Offset, the bytes from there on               204 and the new Upload-Offset
    DELETE PATH/ID                                                        204

What came before a connection broke stays, and the sender goes on from there: also curl,
`curl -X PATCH -C OFFSET -H 'Upload-Offset: OFFSET' -H 'Tus-Resumable: 1.0.0' -H 'Content-Type:
application/offset+octet-stream' -T FILE URL`. An id that is unknown, expired or somebody else's is answered alike: 410.
Only `filename` of the metadata is kept.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from thpdiag.errors import StoreError
from thpdiag.serve.uploads.body import blocks
from thpdiag.serve.uploads.intake import Admit, Intake, length
from thpdiag.serve.uploads.refused import Endpoint, RefusedError, Told, answered, said
from thpdiag.serve.uploads.sink import FINISHED, RECEIVING, Arrived, Held, Sender
from thpdiag.serve.uploads.threads import in_thread

VERSION: Final = "1.0.0"
EXTENSIONS: Final = "creation,expiration,termination"
CONTENT_TYPE: Final = "application/offset+octet-stream"
UNNAMED: Final = "bundle"
_ID: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)

# Makes a case of what is whole; called again if it failed and the sender asks again. Headers for the last answer.
Complete = Callable[[Request, Arrived], Awaitable[Mapping[str, str]]]
Became = Callable[[str], Awaitable[Mapping[str, str]]]  # headers that say what became of a finished upload, by its id


async def _untold(_key: str) -> Mapping[str, str]:
    return {}


def tus_routes(
    path: str, intake: Intake, admit: Admit, complete: Complete, became: Became = _untold, told: Told = said
) -> list[Route]:
    """The routes of PATH and PATH/ID."""
    tus = _Tus(path, intake, admit, complete, became)
    one = ["HEAD", "PATCH", "DELETE", "OPTIONS", "POST"]
    return [
        Route(path, _spoken(tus.options, told), methods=["OPTIONS"]),
        Route(path, _spoken(tus.create, told), methods=["POST"], name="begin-upload"),
        Route(f"{path}/{{key}}", _spoken(tus.one, told), methods=one),
    ]


@dataclass(frozen=True, slots=True)
class _Tus:
    path: str
    intake: Intake
    admit: Admit
    complete: Complete
    became: Became

    async def options(self, _request: Request) -> Response:
        headers = {"tus-version": VERSION, "tus-extension": EXTENSIONS, "tus-max-size": str(self.intake.limit)}
        return Response(status_code=HTTPStatus.NO_CONTENT, headers=headers)

    async def create(self, request: Request) -> Response:
        sender = await self.admit(request)
        if length(request, "content-length") or "transfer-encoding" in request.headers:
            raise RefusedError(HTTPStatus.BAD_REQUEST, "an upload is begun without bytes; send them with PATCH")
        size = length(request, "upload-length")
        if size is None:
            raise RefusedError(HTTPStatus.BAD_REQUEST, "Upload-Length is missing: how many bytes will come")
        key = await self.intake.begin(filename(request.headers.get("upload-metadata", "")), size, sender.owner)
        headers = {} if size else await self._whole(request, sender, key)
        headers |= await self._known(sender, key)
        headers["location"] = f"{request.url.path.rstrip('/')}/{key}"
        return Response(status_code=HTTPStatus.CREATED, headers=headers)

    async def one(self, request: Request) -> Response:
        """What is asked of one upload; a sender behind something that knows no PATCH names the method in a header."""
        method = request.method
        if method == "POST":
            method = request.headers.get("x-http-method-override", "").upper()
        asked = {"HEAD": self.head, "PATCH": self.patch, "DELETE": self.delete, "OPTIONS": self._options_of_one}
        if method not in asked:
            raise RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, "no such method here", {"allow": ", ".join(asked)})
        sender = await self.admit(request)
        return await asked[method](request, sender, str(request.path_params["key"]))

    async def _options_of_one(self, request: Request, _sender: Sender, _key: str) -> Response:
        return await self.options(request)

    async def head(self, request: Request, sender: Sender, key: str) -> Response:
        """Where it is. That all of it came is said once it is a case: a sender who hears so sends nothing more.

        After a crash behind the last byte this is where it becomes one.
        """
        held = await self._held(sender, key)
        if end(held) == held.size and held.state != FINISHED:
            with self.intake.writer(key):
                await self._whole(request, sender, key)
        told = b64encode(held.name.encode()).decode()
        headers = {"upload-metadata": f"filename {told}", "upload-length": str(held.size), "cache-control": "no-store"}
        return Response(headers=headers | await self._known(sender, key))

    async def patch(self, request: Request, sender: Sender, key: str) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != CONTENT_TYPE:
            raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the content type of a PATCH is {CONTENT_TYPE}")
        begins = length(request, "upload-offset")
        if begins is None:
            raise RefusedError(HTTPStatus.BAD_REQUEST, "Upload-Offset is missing: where these bytes begin")
        with self.intake.writer(key):
            held = await self._held(sender, key)
            self._goes_on(held, begins, length(request, "content-length") or 0)
            offset = await self._written(request, held, key, begins)
            headers = {}
            if offset == held.size:
                headers = await self._whole(request, sender, key)
            headers |= await self._known(sender, key)
        return Response(status_code=HTTPStatus.NO_CONTENT, headers=headers)

    async def delete(self, _request: Request, sender: Sender, key: str) -> Response:
        with self.intake.writer(key):
            await self._held(sender, key)
            if not await in_thread(self.intake.sink.abandon, key):
                raise RefusedError(HTTPStatus.CONFLICT, "the upload is finished; delete its case instead")
        return Response(status_code=HTTPStatus.NO_CONTENT)

    def _goes_on(self, held: Held, begins: int, announced: int) -> None:
        """Look before the first byte whether they can be taken."""
        at = end(held)
        if begins != at:
            raise RefusedError(HTTPStatus.CONFLICT, f"the upload is at byte {at}", {"upload-offset": str(at)})
        if begins + announced > (held.size or 0):
            raise _beyond(held)

    async def _written(self, request: Request, held: Held, key: str, begins: int) -> int:
        offset = begins
        async for block in blocks(request, self.intake.pace):
            if offset + len(block) > (held.size or 0):
                raise _beyond(held)
            try:
                offset = await self.intake.take(key, offset, block)
            except StoreError:
                if await in_thread(self.intake.sink.found, key) is None:
                    raise _gone() from None
                raise
        return offset

    async def _whole(self, request: Request, sender: Sender, key: str) -> dict[str, str]:
        held = await self._held(sender, key)
        if held.state == FINISHED:
            return {}
        return dict(await self.complete(request, await self.intake.arrive(key, held.name, held.owner)))

    async def _known(self, sender: Sender, key: str) -> dict[str, str]:
        held = await self._held(sender, key)
        headers = {"upload-offset": str(end(held))}
        if held.state == RECEIVING:
            headers["upload-expires"] = formatdate(held.expires, usegmt=True)
        return headers | dict(await self.became(key)) if held.state == FINISHED else headers

    async def _held(self, sender: Sender, key: str) -> Held:
        if not _ID.fullmatch(key):
            raise RefusedError(HTTPStatus.NOT_FOUND, "no upload has an id like this")
        held = await in_thread(self.intake.sink.found, key)
        if held is None or not sender.may_touch(held.owner):
            raise _gone()
        return held


def end(held: Held) -> int:
    """How far an upload is. The bytes of a finished one are elsewhere; all of them came."""
    return held.size if held.state == FINISHED and held.size is not None else held.offset


def filename(metadata: str) -> str:
    """The name in `filename d29ybGQ=,other b3RoZXI=`; a stand-in if there is none."""
    pairs = {}
    for pair in filter(None, metadata.split(",")):
        key, _, value = pair.strip().partition(" ")
        if key in pairs or not key:
            raise RefusedError(HTTPStatus.BAD_REQUEST, "Upload-Metadata has a key twice, or none")
        pairs[key] = value.strip()
    try:
        return b64decode(pairs.get("filename", ""), validate=True).decode() or UNNAMED
    except (NotBase64, ValueError):
        raise RefusedError(HTTPStatus.BAD_REQUEST, "the filename in Upload-Metadata is no base64 of UTF-8") from None


def _beyond(held: Held) -> RefusedError:
    return RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more bytes than the {held.size} that were announced")


def _gone() -> RefusedError:
    return RefusedError(HTTPStatus.GONE, "no such upload, or it has expired; begin a new one")


def _spoken(endpoint: Endpoint, told: Told) -> Endpoint:
    """The endpoint for those who speak this version, which every answer names."""

    async def in_version(request: Request) -> Response:
        if request.method != "OPTIONS" and request.headers.get("tus-resumable") != VERSION:
            headers = {"tus-version": VERSION}
            raise RefusedError(HTTPStatus.PRECONDITION_FAILED, f"Tus-Resumable: {VERSION} is missing", headers)
        return await endpoint(request)

    inner = answered(in_version, told)

    async def named(request: Request) -> Response:
        answer = await inner(request)
        answer.headers["tus-resumable"] = VERSION
        return answer

    return named
