"""The three ways in which a bundle comes in, and what each is answered.

    PUT  /api/v1/bundles/NAME?wait=1&fail-on=high    the job, or with `wait` the verdict
    tus  /files                                      `Thpdiag-Job`: the address of the job
    POST /upload                                     the page of the job

Whoever waits costs no thread, only a connection; who leaves is waited for no longer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute

from thpdiag.guard.outcome import exit_code as ended_with
from thpdiag.reports.severities import NEVER
from thpdiag.reports.visible import visible
from thpdiag.serve.access.answers import wants_page
from thpdiag.serve.access.audit import Action
from thpdiag.serve.access.principal import Principal
from thpdiag.serve.api.counting import Counts
from thpdiag.serve.api.ended import GATES, left_with, text_told, verdict_told
from thpdiag.serve.api.endpoint import ProblemError, asked, data, note, problem
from thpdiag.serve.api.forms import JOBS
from thpdiag.serve.api.watching import Seen, Watching
from thpdiag.serve.pages.answering import failed
from thpdiag.serve.server import Server
from thpdiag.serve.storage.storage import Accepted
from thpdiag.serve.uploads.form import form_route
from thpdiag.serve.uploads.put import put_route
from thpdiag.serve.uploads.refused import RefusedError
from thpdiag.serve.uploads.sink import Arrived
from thpdiag.serve.uploads.threads import in_thread
from thpdiag.serve.uploads.tus import tus_routes

WAIT: Final = 600.0  # seconds
PAUSE: Final = 60.0  # seconds without news after which a watcher looks up
TEXT: Final = "text/plain"
EXIT: Final = "X-Thpdiag-Exit"
JOB: Final = "Thpdiag-Job"


def upload_routes(server: Server, watching: Watching, counts: Counts, wait: float = WAIT) -> list[BaseRoute]:
    """`wait` is how many seconds somebody is kept waiting for a verdict."""
    sending = _Sending(server, watching, counts, wait)
    return [
        put_route("/api/v1/bundles", server.intake, sending.admit_put, sending.put, told),
        form_route("/upload", server.intake, sending.admit_form, sending.form, sending.form_refused),
        *tus_routes("/files", server.intake, sending.admit, sending.complete, sending.became, told),
    ]


async def told(_request: Request, refused: RefusedError) -> Response:
    return problem(refused.status, refused.sentence, refused.headers)


@dataclass(frozen=True, slots=True)
class _Sending:
    server: Server
    watching: Watching
    counts: Counts
    wait: float

    async def admit(self, request: Request) -> Principal:
        """The gate has let them in."""
        sender: Principal = request.state.principal
        return sender

    async def admit_form(self, request: Request, _fields: Mapping[str, str]) -> Principal:
        return await self.admit(request)

    async def admit_put(self, request: Request) -> Principal:
        """What is wrong with the query is said before a byte is read."""
        try:
            query = asked(request, "wait", "fail-on")
        except ProblemError as error:
            raise RefusedError(HTTPStatus(error.status), error.words) from None
        if query.get("wait", "0") not in ("0", "1"):
            raise RefusedError(HTTPStatus.BAD_REQUEST, "wait is 0 or 1")
        if query.get("fail-on", NEVER) not in GATES:
            raise RefusedError(HTTPStatus.BAD_REQUEST, f"fail-on is one of {', '.join(GATES)}")
        return await self.admit(request)

    async def put(self, request: Request, arrived: Arrived) -> Response:
        accepted, known = await self._accepted(request, arrived, "put")
        answer = {
            "job": accepted.job, "sha256": accepted.sha256, "size": accepted.size, "case": accepted.case,
            "known": known,
        }  # fmt: skip
        headers = {"Location": f"{JOBS}/{accepted.job}"}
        if request.query_params.get("wait") != "1":
            return data(answer, 201, headers)
        seen = await self._ended(request, accepted.job)
        if seen is None or not seen.ended:
            return data(answer, 202, headers)
        return await run_in_threadpool(self._verdict, request, answer, headers, seen)

    async def complete(self, request: Request, arrived: Arrived) -> Mapping[str, str]:
        await self._accepted(request, arrived, "tus")
        return {}  # `became` tells it, now and whenever somebody asks again

    async def became(self, key: str) -> Mapping[str, str]:
        accepted = await in_thread(self.server.storage.accepted, key)
        return {JOB: f"{JOBS}/{accepted.job}"} if accepted else {}

    async def form(self, request: Request, arrived: Arrived) -> Response:
        accepted, _ = await self._accepted(request, arrived, "form")
        return RedirectResponse(f"/jobs/{accepted.job}", 303)

    async def form_refused(self, request: Request, refused: RefusedError) -> Response:
        """Our page for a browser, problem JSON for whatever else sends a form."""
        if not wants_page(request.headers):
            return await told(request, refused)
        words = f"{refused.sentence[:1].upper()}{refused.sentence[1:]}."
        page = partial(failed, title="The upload was refused", onward=("/", "Upload again"))
        answer = await run_in_threadpool(page, request, self.server, refused.status, words)
        answer.headers.update(refused.headers)
        return answer

    async def _accepted(self, request: Request, arrived: Arrived, way: str) -> tuple[Accepted, bool]:
        """The bundle in the storage with its job, and whether the same content was known before."""
        accepted, known = await in_thread(self._accept, request, arrived)
        self.counts.upload(way, accepted.size)
        self.server.wake()
        return accepted, known

    def _accept(self, request: Request, arrived: Arrived) -> tuple[Accepted, bool]:
        storage = self.server.storage
        known = storage.bundles.found(arrived.sha256) is not None
        accepted = storage.accept(arrived.id, self.server.analysis)
        note(request, self.server, Action.UPLOAD, accepted.sha256)
        return accepted, known

    async def _ended(self, request: Request, job: str) -> Seen | None:
        """What a job came to; what it was when time was up or the client left; None if it is gone."""
        last: Seen | None = None
        with suppress(TimeoutError):
            async with asyncio.timeout(self.wait) as limit, aclosing(self.watching.states(job, PAUSE)) as states:
                leaves = asyncio.create_task(_left(request, limit))
                try:
                    async for seen in states:
                        last = seen or last
                finally:
                    leaves.cancel()
        return last

    def _verdict(self, request: Request, answer: dict[str, Any], headers: dict[str, str], seen: Seen) -> Response:
        cases, plain = self.server.storage.cases, TEXT in request.headers.get("accept", "")
        case = cases.found(seen.case) if seen.case else None
        document = cases.document(case.id) if case else None
        if case is None or document is None:
            code, words = ended_with(seen.status), seen.reason or "the case was deleted"
            told = {**answer, "state": seen.state, "reason": words, "exit": code, "verdict": None}
            text = f"The bundle could not be analysed: {visible(words)}\n"
        else:
            code = left_with(case, document, request.query_params.get("fail-on", NEVER))
            told = {**answer, "case": case.id, "state": seen.state, "reason": case.reason, "exit": code}
            told["verdict"] = None if plain else verdict_told(case, document)
            text = text_told(document) if plain else ""
        headers = {**headers, EXIT: str(code)}
        return Response(text, 201, headers, "text/plain") if plain else data(told, 201, headers)


async def _left(request: Request, limit: asyncio.Timeout) -> None:
    """End the waiting once the client has gone; its body was read already."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    limit.reschedule(asyncio.get_running_loop().time())
