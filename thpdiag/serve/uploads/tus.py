"""Resumable uploads: tus 1.0.0, core with the extensions creation, expiration and termination.

    POST   /files      Upload-Length, Upload-Metadata: filename (base64)    201 and Location
    HEAD   /files/ID                                                        Upload-Offset: the bytes received
    PATCH  /files/ID   Upload-Offset, the bytes from there on               204 and the new Upload-Offset
    DELETE /files/ID                                                        204

Bytes received before a connection broke are kept, and the client resumes from there: also curl,
`curl -X PATCH -C OFFSET -H 'Upload-Offset: OFFSET' -H 'Tus-Resumable: 1.0.0' -H 'Content-Type:
application/offset+octet-stream' -T FILE URL`. An id that is unknown, expired or of another owner is answered with 410.
Of the metadata `filename` and `hold` are used. An upload with `hold` waits until `POST /api/v1/cases` combines it with
others. For any other complete upload `Thpdiag-Job` is the address of its job.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from email.utils import formatdate
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from thpdiag.errors import StoreError
from thpdiag.serve.access.http import RefusedError
from thpdiag.serve.api.responses import JOBS_PATH
from thpdiag.serve.server import Server
from thpdiag.serve.storage.database import FINISHED, HELD, RECEIVING, is_id
from thpdiag.serve.storage.uploads import Upload
from thpdiag.serve.uploads.intake import (
    Handler,
    Refuse,
    blocks,
    handle_upload_errors,
    length_header,
    run_in_upload_thread,
)
from thpdiag.serve.uploads.whole import accept_files

TUS_VERSION: Final = "1.0.0"
TUS_EXTENSIONS: Final = "creation,expiration,termination"
TUS_CONTENT_TYPE: Final = "application/offset+octet-stream"
DEFAULT_NAME: Final = "bundle"
JOB_HEADER: Final = "thpdiag-job"


async def tus_options(_request: Request, server: Server) -> Response:
    limit = str(server.intake.limit)
    return Response(None, 204, {"tus-version": TUS_VERSION, "tus-extension": TUS_EXTENSIONS, "tus-max-size": limit})


async def create_upload(request: Request, server: Server) -> Response:
    if length_header(request, "content-length") or "transfer-encoding" in request.headers:
        raise RefusedError(400, "create an upload without content; send the content with PATCH")
    size = length_header(request, "upload-length")
    if size is None:
        raise RefusedError(400, "Upload-Length is missing: how many bytes will come")
    pairs = parse_metadata(request.headers.get("upload-metadata", ""))
    name, held = decode_filename(pairs), "hold" in pairs
    key = await server.intake.begin(name, size, request.state.principal.owner, held=held)
    if not size:
        await _finish(request, server, key)
    headers = await _progress(request, server, key)
    return Response(None, 201, headers | {"location": f"{request.url.path.rstrip('/')}/{key}"})


async def head_upload(request: Request, server: Server) -> Response:
    """Return the offset. A complete upload is accepted first, since the client does nothing further then.

    This completes an upload whose server crashed after the last byte.
    """
    key = request.path_params["id"]
    upload = await _find(request, server, key)
    if upload.offset == upload.size and upload.state != FINISHED:
        with server.intake.writer(key):
            await _finish(request, server, key)
    name = b64encode(upload.name.encode()).decode()
    headers = {"upload-metadata": f"filename {name}", "upload-length": str(upload.size), "cache-control": "no-store"}
    return Response(headers=headers | await _progress(request, server, key))


async def patch_upload(request: Request, server: Server) -> Response:
    key, intake = request.path_params["id"], server.intake
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != TUS_CONTENT_TYPE:
        raise RefusedError(415, f"the content type of a PATCH is {TUS_CONTENT_TYPE}")
    offset = length_header(request, "upload-offset")
    if offset is None:
        raise RefusedError(400, "Upload-Offset is missing")
    with intake.writer(key):
        upload = await _find(request, server, key)
        if offset != upload.offset:
            raise RefusedError(409, f"the upload is at byte {upload.offset}", {"upload-offset": str(upload.offset)})
        if await _receive(request, server, upload) == upload.size:
            await _finish(request, server, key)
        return Response(None, 204, await _progress(request, server, key))


async def _receive(request: Request, server: Server, upload: Upload) -> int:
    """Write the bytes of a PATCH and return the new offset. An announced length that is too large is refused first."""
    size, offset = upload.size or 0, upload.offset
    too_many = RefusedError(413, f"more bytes than the {upload.size} that were announced")
    if offset + (length_header(request, "content-length") or 0) > size:
        raise too_many
    async for block in blocks(request, server.intake.send_limits):
        if offset + len(block) > size:
            raise too_many
        try:
            offset = await server.intake.append(upload.id, offset, block)
        except StoreError:
            await _find(request, server, upload.id)  # 410 if retention or an administrator removed it
            raise
    return offset


async def delete_upload(request: Request, server: Server) -> Response:
    key = request.path_params["id"]
    with server.intake.writer(key):
        await _find(request, server, key)
        if not await run_in_upload_thread(server.intake.uploads.abandon, key):
            raise RefusedError(409, "the upload is finished; delete its case instead")
    return Response(status_code=204)


async def post_upload(request: Request, server: Server) -> Response:
    """Handle a method named in X-HTTP-Method-Override, for clients behind a proxy without PATCH."""
    method = request.headers.get("x-http-method-override", "").upper()
    handlers = {"HEAD": head_upload, "PATCH": patch_upload, "DELETE": delete_upload, "OPTIONS": tus_options}
    if method not in handlers:
        raise RefusedError(405, "no such method here", {"allow": ", ".join(handlers)})
    return await handlers[method](request, server)


def speak_tus(handler: Handler, refuse: Refuse) -> Handler:
    """Wrap a handler: check the protocol version of requests and add it to every answer."""

    async def check_version(request: Request) -> Response:
        if request.method != "OPTIONS" and request.headers.get("tus-resumable") != TUS_VERSION:
            raise RefusedError(412, f"Tus-Resumable: {TUS_VERSION} is missing", {"tus-version": TUS_VERSION})
        return await handler(request)

    async def name_version(request: Request) -> Response:
        answer = await handle_upload_errors(check_version, refuse)(request)
        answer.headers["tus-resumable"] = TUS_VERSION
        return answer

    return name_version


async def _find(request: Request, server: Server, key: str) -> Upload:
    if not is_id(key):
        raise RefusedError(404, "no upload has an id like this")
    upload = await run_in_upload_thread(server.intake.uploads.find, key)
    if upload is None or not request.state.principal.may_manage(upload.owner):
        raise RefusedError(410, "no such upload, or it has expired; create a new one")
    return upload


async def _finish(request: Request, server: Server, key: str) -> None:
    """Accept a complete upload, or mark it as held, unless that was done; a repeated request retries a failure."""
    upload = await _find(request, server, key)
    if upload.held and upload.state == RECEIVING:
        await run_in_upload_thread(server.intake.uploads.arrive, key, held=True)
    elif upload.state not in (FINISHED, HELD):
        await accept_files(request, server, [key], "tus")


async def _progress(request: Request, server: Server, key: str) -> dict[str, str]:
    """Return the headers with offset, expiry and job of an upload."""
    upload = await _find(request, server, key)
    headers = {"upload-offset": str(upload.offset)}
    if upload.state in (RECEIVING, HELD):
        headers["upload-expires"] = formatdate(upload.expires, usegmt=True)
    elif upload.state == FINISHED and (accepted := await run_in_upload_thread(server.storage.find_accepted, key)):
        headers[JOB_HEADER] = f"{JOBS_PATH}/{accepted.job}"
    return headers


def parse_metadata(metadata: str) -> dict[str, str]:
    """Parse Upload-Metadata: unique keys with base64 values, which may be missing."""
    pairs: dict[str, str] = {}
    for pair in filter(None, metadata.split(",")):
        key, _, value = pair.strip().partition(" ")
        if key in pairs or not key:
            raise RefusedError(400, "Upload-Metadata has a key twice, or none")
        pairs[key] = value.strip()
    return pairs


def decode_filename(pairs: dict[str, str]) -> str:
    try:
        return b64decode(pairs.get("filename", ""), validate=True).decode() or DEFAULT_NAME
    except ValueError:
        raise RefusedError(400, "the filename in Upload-Metadata is not base64 of UTF-8") from None
