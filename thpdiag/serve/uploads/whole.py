"""Uploads in one request, whole or not at all: a PUT whose body is the bundle, and the form of a browser.

    curl -T bundle.tar.xz URL/api/v1/bundles/NAME
    PUT  /api/v1/bundles/NAME?wait=1&fail-on=high    the job, or with `wait` the verdict
    POST /upload                                     the page of the job

Whoever waits costs no thread, only a connection; who leaves is waited for no longer.

The form of a browser without script is multipart/form-data: fields first, then one file, which goes straight into the
storage. A framework's own form would spool it into the folder for temporary files, which is memory on many hosts.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, aclosing, suppress
from typing import Any, Final

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from thpdiag.report import FORMATS
from thpdiag.report.escaping import visible
from thpdiag.report.presentation import NEVER
from thpdiag.sandbox.outcome import exit_code as exit_code_of_end
from thpdiag.serve.access.audit import Action
from thpdiag.serve.access.headers import RefusedError
from thpdiag.serve.api.responses import (
    GATES,
    JOBS_PATH,
    exit_code_of_case,
    json_response,
    query_of,
    verdict_json,
)
from thpdiag.serve.server import JobState, Server
from thpdiag.serve.storage.storage import Accepted
from thpdiag.serve.uploads.intake import blocks, length_header, run_in_upload_thread

MAX_FIELD_BYTES: Final = 64 << 10  # of all fields beside the file
MAX_PARTS: Final = 32
MAX_FORM_OVERHEAD: Final = 128 << 10  # bytes of a form beside its file


class MultipartReader:
    """Takes the body in pieces of any size; of its fields only the names are kept, and of its file nothing."""

    def __init__(self, content_type: str) -> None:
        kind, options = parse_options_header(content_type)
        if kind != b"multipart/form-data" or not options.get(b"boundary"):
            raise RefusedError(415, "the form is not multipart/form-data")
        self.filename: str | None = None  # of the file; an empty one if none was chosen
        self.whole = False  # whether the form came to its end
        self._pieces: list[bytes] = []
        self._header, self._value, self._disposition = bytearray(), bytearray(), b""
        self._fields: set[str] = set()
        self._parts = self._field_bytes = 0
        self._in_file = False
        events = ("part_begin", "part_data", "header_field", "header_value", "header_end", "headers_finished", "end")
        callbacks = {f"on_{event}": getattr(self, f"_on_{event}") for event in events}
        try:
            self._parser = MultipartParser(options[b"boundary"], callbacks)  # type: ignore[arg-type]  # names as there
        except FormParserError:
            raise RefusedError(400, "the boundary of the form cannot be used") from None

    def feed(self, piece: bytes) -> bytes:
        """What of the piece is the file's."""
        try:
            self._parser.write(piece)
        except FormParserError:
            raise RefusedError(400, "the form is damaged") from None
        data = b"".join(self._pieces)
        self._pieces = []
        return data

    def _on_part_begin(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise RefusedError(400, f"the form has more than {MAX_PARTS} parts")
        self._disposition, self._in_file = b"", False

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def _on_headers_finished(self) -> None:
        _, options = parse_options_header(self._disposition)
        name = options.get(b"name", b"").decode("utf-8", "replace")
        self._in_file = b"filename" in options
        if self._in_file:
            if self.filename is not None:
                raise RefusedError(400, "one file at a time")
            self.filename = options[b"filename"].decode("utf-8", "replace")
        elif name in self._fields:
            raise RefusedError(400, "the form has a field twice")
        else:
            self._fields.add(name)

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._in_file:
            self._pieces.append(data[start:end])
            return
        self._field_bytes += end - start
        if self._field_bytes > MAX_FIELD_BYTES:
            raise RefusedError(413, "the fields of the form are too long")

    def _on_end(self) -> None:
        self.whole = True


async def post_form(request: Request, server: Server) -> Response:
    """The file of a form; who sends it, and that the form is ours, the gate knows before the body is read."""
    intake = server.intake
    announced = length_header(request, "content-length")
    intake.check_size(None if announced is None else max(0, announced - MAX_FORM_OVERHEAD))
    form = MultipartReader(request.headers.get("content-type", ""))
    key, offset, received = "", 0, 0
    async with AsyncExitStack() as undo:
        async for block in blocks(request, intake.pace):
            received += len(block)
            intake.check_size(max(0, received - MAX_FORM_OVERHEAD))
            data = form.feed(block)
            if form.filename is not None and not key:
                if not form.filename:
                    raise RefusedError(400, "no file was chosen")
                key = await intake.begin(form.filename, None, request.state.principal.owner)
                await undo.enter_async_context(intake.whole_or_nothing(key))
            if data:
                offset = await intake.append(key, offset, data)
        if not form.whole:
            raise RefusedError(400, "the form ends before its end")
        if not key:
            raise RefusedError(400, "the form has no file")
        accepted, _ = await accept_upload(request, server, key, "form")
    return RedirectResponse(f"/jobs/{accepted.job}", 303)


POLL_PAUSE_SECONDS: Final = 60.0  # without news after which a watcher looks up
EXIT_HEADER: Final = "X-Thpdiag-Exit"


async def put_bundle(request: Request, server: Server) -> Response:
    owner, intake, name = request.state.principal.owner, server.intake, request.path_params["name"]
    query = _check_request(request)
    key = await intake.begin(name, length_header(request, "content-length"), owner)
    async with intake.whole_or_nothing(key):
        offset = 0
        async for block in blocks(request, intake.pace):
            offset = await intake.append(key, offset, block)
        accepted, known = await accept_upload(request, server, key, "put")
    answer = {
        **{"job": accepted.job, "sha256": accepted.sha256, "size": accepted.size, "case": accepted.case},
        "known": known,
    }
    headers = {"Location": f"{JOBS_PATH}/{accepted.job}"}
    if query.get("wait") != "1":
        return json_response(answer, 201, headers)
    state = await _wait_for_end(request, server, accepted.job)
    if state is None or not state.ended:
        return json_response(answer, 202, headers)
    return await run_in_threadpool(_verdict_response, request, server, answer, headers, state)


def _check_request(request: Request) -> dict[str, str]:
    """The query; what is wrong with it is said before a byte is read.

    A part stored as the whole would be a damaged bundle; one that is packed for the way, another bundle.
    """
    query = query_of(request, "wait", "fail-on")
    if query.get("wait", "0") not in ("0", "1"):
        raise RefusedError(400, "wait is 0 or 1")
    if query.get("fail-on", NEVER) not in GATES:
        raise RefusedError(400, f"fail-on is one of {', '.join(GATES)}")
    if "content-range" in request.headers:
        raise RefusedError(400, "a PUT is the whole bundle; to resume one, use the resumable upload (PATCH)")
    if request.headers.get("content-encoding", "identity") != "identity":
        raise RefusedError(415, "send the bundle as it is, without Content-Encoding")
    return query


async def accept_upload(request: Request, server: Server, key: str, way: str) -> tuple[Accepted, bool]:
    """The bundle of an upload that is whole, with its job, and whether the same content was known before."""

    def accept() -> tuple[Accepted, bool]:
        storage = server.storage
        sha256, _ = storage.uploads.arrive(key)
        known = storage.bundles.find(sha256) is not None
        accepted = storage.accept(key, server.analysis)
        server.record_action(request, Action.UPLOAD, sha256)
        return accepted, known

    accepted, known = await run_in_upload_thread(accept)
    server.counts.count_upload(way, accepted.size)
    server.wake()
    return accepted, known


async def _wait_for_end(request: Request, server: Server, job: str) -> JobState | None:
    """What a job came to; what it was when time was up or the client left; None if it is gone."""
    last: JobState | None = None
    with suppress(TimeoutError):
        async with (
            asyncio.timeout(server.max_wait) as limit,
            aclosing(server.watcher.states(job, POLL_PAUSE_SECONDS)) as states,
        ):
            leaving = asyncio.create_task(_stop_when_client_leaves(request, limit))
            try:
                async for state in states:
                    last = state or last
            finally:
                leaving.cancel()
    return last


async def _stop_when_client_leaves(request: Request, limit: asyncio.Timeout) -> None:
    """End the waiting once the client has gone; its body was read already."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    limit.reschedule(asyncio.get_running_loop().time())


def _verdict_response(
    request: Request, server: Server, answer: dict[str, Any], headers: dict[str, str], state: JobState
) -> Response:
    """The verdict as JSON, or as a terminal shows the report; its exit code stands in a header."""
    cases, plain = server.storage.cases, "text/plain" in request.headers.get("accept", "")
    case = cases.find(state.case) if state.case else None
    document = cases.document(case.id) if case else None
    if case is None or document is None:
        code, reason = exit_code_of_end(state.status), state.reason or "the case was deleted"
        text = f"The bundle could not be analyzed: {visible(reason)}\n"
        verdict = {**answer, "state": state.state, "reason": reason, "exit": code, "verdict": None}
    else:
        code = exit_code_of_case(case, document, request.query_params.get("fail-on", NEVER))
        text = FORMATS["text"](document) if plain else ""
        verdict = {**answer, "case": case.id, "state": state.state, "reason": case.reason, "exit": code}
        verdict["verdict"] = None if plain else verdict_json(case, document)
    headers = {**headers, EXIT_HEADER: str(code)}
    return Response(text, 201, headers, "text/plain") if plain else json_response(verdict, 201, headers)
