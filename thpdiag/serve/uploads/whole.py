"""Uploads in one request, stored completely or not at all: a PUT with the bundle as body, and a browser's form.

    curl -T bundle.tar.xz URL/api/v1/bundles/NAME    with `?case=ID` the file is added to a case as a new version
    PUT  /api/v1/bundles/NAME?wait=1&fail-on=high    answers with the job, with `wait` the verdict
    POST /upload                                     redirects to the job; several files are one case by default
    POST /cases/ID/files                             adds files to a case
    PUT  /s/SECRET/NAME, POST /s/SECRET/files        the same by a link, without a login
    POST /api/v1/cases                               makes a case of held uploads, by their ids

A waiting request occupies a connection but no thread; waiting ends when the client disconnects.

The form of a browser without script is multipart/form-data: files and pasted text, which are streamed to the storage,
and a few small fields. Starlette's form parser would spool files to the temporary folder, which is in memory on many
hosts.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, aclosing, suppress
from itertools import groupby
from operator import itemgetter
from typing import Any, Final
from urllib.parse import urlencode

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from thpdiag.errors import StorageError
from thpdiag.report import FORMATS
from thpdiag.report.escaping import visible
from thpdiag.report.presentation import NEVER
from thpdiag.sandbox.outcome import exit_code as exit_code_of_end
from thpdiag.serve.access.audit import Action
from thpdiag.serve.access.http import RefusedError
from thpdiag.serve.access.principals import AuthMethod, Principal, Scope
from thpdiag.serve.api.responses import (
    GATES,
    JOBS_PATH,
    exit_code_of_case,
    json_response,
    read_query,
    verdict_json,
)
from thpdiag.serve.server import JobState, Server
from thpdiag.serve.storage.bundles import MAX_FILES
from thpdiag.serve.storage.database import RECEIVING, is_id
from thpdiag.serve.storage.storage import Accepted
from thpdiag.serve.storage.work import UPLOAD_LINK
from thpdiag.serve.uploads.intake import Intake, blocks, length_header, run_in_upload_thread, upload_refusal

MAX_FIELD_BYTES: Final = 64 << 10  # of all fields together
MAX_PARTS: Final = 32
MAX_VALUE_BYTES: Final = 100  # kept of the value of a field
TEXT_FIELD: Final = "text"
SEPARATE_FIELD: Final = "separate"
PASTED_NAME: Final = "pasted.txt"
CASE_FORM: Final = 'a case is made of {"uploads": [ids of uploads]}, and {"case": ID} if they come to one'
MAX_FORM_OVERHEAD: Final = 128 << 10  # bytes of a form in addition to its files


class MultipartReader:
    """Parses a form incrementally and returns the content of files and pasted text as it arrives.

    `fields` are the values of other fields, `files` the names of files; a name is empty if no file was chosen.
    """

    def __init__(self, content_type: str) -> None:
        kind, options = parse_options_header(content_type)
        if kind != b"multipart/form-data" or not options.get(b"boundary"):
            raise RefusedError(415, "the form is not multipart/form-data")
        self.files: list[str] = []
        self.fields: dict[str, bytes] = {}
        self.is_complete = False
        self._pieces: list[tuple[int, bytes]] = []
        self._header, self._value, self._disposition = bytearray(), bytearray(), b""
        self._field = ""
        self._parts = self._field_bytes = 0
        self._in_file = False
        events = ("part_begin", "part_data", "header_field", "header_value", "header_end", "headers_finished", "end")
        callbacks = {f"on_{event}": getattr(self, f"_on_{event}") for event in events}
        try:
            self._parser = MultipartParser(options[b"boundary"], callbacks)  # type: ignore[arg-type]  # names as there
        except FormParserError:
            raise RefusedError(400, "the boundary of the form cannot be used") from None

    def feed(self, piece: bytes) -> list[tuple[int, bytes]]:
        """Parse a piece of the body; return the contained file data, each with the index of its file in `files`."""
        try:
            self._parser.write(piece)
        except FormParserError:
            raise RefusedError(400, "the form is damaged") from None
        data, self._pieces = self._pieces, []
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
        self._in_file = b"filename" in options or name == TEXT_FIELD
        if b"filename" in options:
            self.files.append(options[b"filename"].decode("utf-8", "replace"))
            return
        if name in self.fields:
            raise RefusedError(400, "the form has a field twice")
        self._field, self.fields[name] = name, b""
        if self._in_file:
            self.files.append(PASTED_NAME)

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._in_file:
            self._pieces.append((len(self.files) - 1, data[start:end]))
            return
        self.fields[self._field] += data[start : min(end, start + MAX_VALUE_BYTES)]
        self._field_bytes += end - start
        if self._field_bytes > MAX_FIELD_BYTES:
            raise RefusedError(413, "the fields of the form are too long")

    def _on_end(self) -> None:
        self.is_complete = True


async def post_form(request: Request, server: Server) -> Response:
    """Accept the files of a form. The gate has checked sender and CSRF token before."""
    case, secret = request.path_params.get("id", ""), request.path_params.get("secret", "")
    if secret:
        case = await run_in_threadpool(case_of_link, request, server)
    else:
        await run_in_threadpool(check_may_add, request, server, case)
    announced = length_header(request, "content-length")
    server.intake.check_size(None if announced is None else max(0, announced - MAX_FORM_OVERHEAD))
    form = MultipartReader(request.headers.get("content-type", ""))
    async with AsyncExitStack() as undo:
        sent = await _receive_form(request, server, form, undo)
        if form.fields.get(SEPARATE_FIELD) and not case:
            jobs = [(await accept_files(request, server, [key], "form")).job for key in sent]
        else:
            jobs = [(await accept_files(request, server, sent, "form", case)).job]
    if secret:
        await run_in_upload_thread(note_answer, server, case)
        return RedirectResponse(f"/s/{secret}?sent", 303)
    job_list = f"/jobs?{urlencode([('id', job) for job in jobs])}"
    return RedirectResponse(job_list if len(jobs) > 1 else f"/jobs/{jobs[0]}", 303)


async def _receive_form(request: Request, server: Server, form: MultipartReader, undo: AsyncExitStack) -> list[str]:
    """Store the files of a form and return the ids of their uploads, which `undo` removes on failure."""
    intake, keys, offsets, received = server.intake, dict[int, str](), dict[str, int](), 0
    async for block in blocks(request, intake.send_limits):
        received += len(block)
        intake.check_size(max(0, received - MAX_FORM_OVERHEAD))
        for index, pieces in groupby(form.feed(block), key=itemgetter(0)):
            name, data = form.files[index], b"".join(piece for _, piece in pieces)
            if not name or (name == PASTED_NAME and index not in keys and not data.strip()):
                continue  # no file was chosen, or no text pasted
            if index not in keys:
                keys[index] = await intake.begin(name, None, request.state.principal.owner)
                await undo.enter_async_context(intake.discard_on_failure(keys[index]))
            key = keys[index]
            offsets[key] = await intake.append(key, offsets.get(key, 0), data)
    if not form.is_complete:
        raise RefusedError(400, "the form ends before its end")
    if any(name not in ("", PASTED_NAME) for index, name in enumerate(form.files) if index not in keys):
        raise RefusedError(400, "a file is empty")
    if not keys:
        raise RefusedError(400, "no file was chosen, and no text was pasted")
    return list(keys.values())


WATCH_HEARTBEAT_SECONDS: Final = 60.0  # after which a watcher of a job wakes up without a change
EXIT_HEADER: Final = "X-Thpdiag-Exit"


async def put_bundle(request: Request, server: Server) -> Response:
    owner, intake, name = request.state.principal.owner, server.intake, request.path_params["name"]
    query = _check_request(request)
    case = query.get("case", "")
    await run_in_threadpool(check_may_add, request, server, case)
    key = await intake.begin(name, length_header(request, "content-length"), owner)
    async with intake.discard_on_failure(key):
        await _receive_body(request, intake, key)
        accepted = await accept_files(request, server, [key], "put", case)
    answer = {**_accepted_json(accepted), "known": accepted.known}
    headers = {"Location": f"{JOBS_PATH}/{accepted.job}"}
    if query.get("wait") != "1":
        return json_response(answer, 201, headers)
    state = await _wait_for_end(request, server, accepted.job)
    if state is None or not state.has_ended:
        return json_response(answer, 202, headers)
    return await run_in_threadpool(_verdict_response, request, server, answer, headers, state)


async def _receive_body(request: Request, intake: Intake, key: str) -> int:
    """Write the body of a request to an upload and return its size."""
    offset = 0
    async for block in blocks(request, intake.send_limits):
        offset = await intake.append(key, offset, block)
    return offset


def _accepted_json(accepted: Accepted) -> dict[str, Any]:
    return {"job": accepted.job, "sha256": accepted.sha256, "size": accepted.size, "case": accepted.case}


async def put_by_link(request: Request, server: Server) -> Response:
    """Accept a file by a share link; the answer reveals nothing about the case."""
    read_query(request)
    _check_request(request)
    case = await run_in_threadpool(case_of_link, request, server)
    intake, name = server.intake, request.path_params["name"]
    key = await intake.begin(name, length_header(request, "content-length"), request.state.principal.owner)
    async with intake.discard_on_failure(key):
        size = await _receive_body(request, intake, key)
        if not size:
            raise RefusedError(400, "the file is empty")
        await accept_files(request, server, [key], "link", case)
        await run_in_upload_thread(note_answer, server, case)
    return PlainTextResponse(f"received {size:,} bytes, thank you\n", 201)


def case_of_link(request: Request, server: Server) -> str:
    """Return the case id of an upload link, and make the link the principal of the request."""
    link = server.storage.links.find(request.path_params["secret"], UPLOAD_LINK)
    if link is None:
        raise RefusedError(404, "this address is not valid, or has expired")
    request.state.principal = Principal(link.key, AuthMethod.LINK, frozenset())
    return link.case


def _check_request(request: Request) -> dict[str, str]:
    """Check query and headers before the body is read; return the query.

    A partial body would be stored as a damaged bundle, one with a content encoding as a different bundle.
    """
    query = read_query(request, "wait", "fail-on", "case")
    if query.get("wait", "0") not in ("0", "1"):
        raise RefusedError(400, "wait is 0 or 1")
    if query.get("fail-on", NEVER) not in GATES:
        raise RefusedError(400, f"fail-on is one of {', '.join(GATES)}")
    if "content-range" in request.headers:
        raise RefusedError(400, "a PUT is the whole bundle; to resume one, use the resumable upload (PATCH)")
    if request.headers.get("content-encoding", "identity") != "identity":
        raise RefusedError(415, "send the bundle as it is, without Content-Encoding")
    return query


async def accept_files(request: Request, server: Server, keys: list[str], way: str, case: str = "") -> Accepted:
    """Make a bundle of complete uploads, with the files of a case if one is given, and queue its analysis."""

    def accept() -> Accepted:
        storage, analysis = server.storage, server.analysis
        is_single = len(keys) == 1 and not case
        accepted = storage.accept(keys[0], analysis) if is_single else storage.accept_together(keys, analysis, case)
        server.record_action(request, Action.UPLOAD, accepted.sha256)
        return accepted

    accepted = await run_in_upload_thread(accept)
    server.counts.count_upload(way, accepted.size)
    server.wake()
    return accepted


def note_answer(server: Server, case: str) -> None:
    """Note files received by a link as the customer's answer."""
    stored = server.storage.cases.find(case)
    if stored is not None:
        server.storage.work.customer_answered(stored.thread)


def check_may_add(request: Request, server: Server, case: str) -> None:
    """RefusedError unless the sender may add files to a case: needs the scope read or an upload of the case."""
    principal: Principal = request.state.principal
    cases = server.storage.cases
    exists = cases.find(case) is not None if principal.may(Scope.READ) else cases.is_sent_by(case, principal.owner)
    if case and not exists:
        raise RefusedError(404, "there is no such case")


async def create_case(request: Request, server: Server) -> Response:
    """Make a case of complete uploads; with `case` they are added to its files."""
    read_query(request)
    try:
        body = json.loads(await request.body())
        keys, case = body["uploads"], body.get("case", "")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise RefusedError(400, CASE_FORM) from None
    is_valid = isinstance(keys, list) and 0 < len(keys) <= MAX_FILES and set(body) <= {"uploads", "case"}
    if not is_valid or not isinstance(case, str) or not all(isinstance(key, str) and is_id(key) for key in keys):
        raise RefusedError(400, CASE_FORM)
    await run_in_threadpool(_check_sent, request, server, keys, case)
    try:
        accepted = await accept_files(request, server, keys, "tus", case)
    except StorageError as error:
        raise upload_refusal(error) from error
    return json_response(_accepted_json(accepted), 201, {"Location": f"{JOBS_PATH}/{accepted.job}"})


def _check_sent(request: Request, server: Server, keys: list[str], case: str) -> None:
    check_may_add(request, server, case)
    for key in keys:
        upload = server.storage.uploads.find(key)
        if upload is None or not request.state.principal.may_manage(upload.owner):
            raise RefusedError(410, "no such upload, or it has expired; begin a new one")
        if upload.state == RECEIVING and upload.offset != upload.size:
            raise RefusedError(409, f"an upload is at byte {upload.offset} of {upload.size}")


async def _wait_for_end(request: Request, server: Server, job: str) -> JobState | None:
    """Return the final state of a job, or the current one on a timeout or disconnect; None if it was deleted."""
    last: JobState | None = None
    with suppress(TimeoutError):
        async with (
            asyncio.timeout(server.max_wait) as limit,
            aclosing(server.watcher.states(job, WATCH_HEARTBEAT_SECONDS)) as states,
        ):
            leaving = asyncio.create_task(_stop_when_client_leaves(request, limit))
            try:
                async for state in states:
                    last = state or last
            finally:
                leaving.cancel()
    return last


async def _stop_when_client_leaves(request: Request, limit: asyncio.Timeout) -> None:
    """End the waiting when the client disconnects; its body was read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    limit.reschedule(asyncio.get_running_loop().time())


def _verdict_response(
    request: Request, server: Server, answer: dict[str, Any], headers: dict[str, str], state: JobState
) -> Response:
    """Return the verdict as JSON, or the report as text; the exit code is in a header."""
    cases, is_text = server.storage.cases, "text/plain" in request.headers.get("accept", "")
    case = cases.find(state.case) if state.case else None
    document = cases.document(case.id) if case else None
    if case is None or document is None:
        code, reason = exit_code_of_end(state.status), state.reason or "the case was deleted"
        text = f"The bundle could not be analyzed: {visible(reason)}\n"
        verdict = {**answer, "state": state.state, "reason": reason, "exit": code, "verdict": None}
    else:
        code = exit_code_of_case(case, document, request.query_params.get("fail-on", NEVER))
        text = FORMATS["text"](document) if is_text else ""
        verdict = {**answer, "case": case.id, "state": state.state, "reason": case.reason, "exit": code}
        verdict["verdict"] = None if is_text else verdict_json(case, document)
    headers = {**headers, EXIT_HEADER: str(code)}
    return Response(text, 201, headers, "text/plain") if is_text else json_response(verdict, 201, headers)
