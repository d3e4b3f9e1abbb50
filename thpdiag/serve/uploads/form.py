"""The plain form of a browser without script: fields first, then one file, whole or not at all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from thpdiag.serve.uploads.body import blocks
from thpdiag.serve.uploads.intake import Accept, Intake, length
from thpdiag.serve.uploads.parts import Begins, Parts
from thpdiag.serve.uploads.refused import RefusedError, Told, answered, said
from thpdiag.serve.uploads.sink import Sender

# Who sends, by the request and the fields that came before the file (a CSRF token); an HTTPException if they may not.
AdmitForm = Callable[[Request, Mapping[str, str]], Awaitable[Sender]]
SLACK: Final = 128 << 10  # bytes of a form beside its file


def form_route(
    path: str,
    intake: Intake,
    admit: AdmitForm,
    accept: Accept,
    told: Told = said,
) -> Route:
    """The route of PATH. `told` shows a refusal to somebody in a browser."""

    async def post(request: Request) -> Response:
        announced = length(request, "content-length")
        intake.fits(None if announced is None else max(0, announced - SLACK))
        parts = Parts(request.headers.get("content-type", ""))
        async with AsyncExitStack() as undo:
            taking = _Taking(request, intake, admit, undo)
            read = 0
            async for block in blocks(request, intake.pace):
                read += len(block)
                intake.fits(max(0, read - SLACK))
                for event in parts.feed(block):
                    await taking.take(event)
            parts.end()
            return await accept(request, await intake.arrive(*taking.whole()))

    return Route(path, answered(post, told), methods=["POST"], name="form-upload")


class _Taking:
    """The file of one form on its way into the sink."""

    def __init__(self, request: Request, intake: Intake, admit: AdmitForm, undo: AsyncExitStack) -> None:
        self._request, self._intake, self._admit, self._undo = request, intake, admit, undo
        self._key, self._name, self._owner, self._offset = "", "", "", 0

    async def take(self, event: Begins | bytes) -> None:
        if isinstance(event, Begins):
            await self._begin(event)
        else:
            self._offset = await self._intake.take(self._key, self._offset, event)

    async def _begin(self, begins: Begins) -> None:
        if self._key:
            raise RefusedError(HTTPStatus.BAD_REQUEST, "one file at a time")
        if not begins.filename:
            raise RefusedError(HTTPStatus.BAD_REQUEST, "no file was chosen")
        sender = await self._admit(self._request, begins.fields)
        self._name, self._owner = begins.filename, sender.owner
        self._key = await self._intake.begin(begins.filename, None, sender.owner)
        await self._undo.enter_async_context(self._intake.whole_or_nothing(self._key))

    def whole(self) -> tuple[str, str, str]:
        """Id, name and owner of the upload of a form that has ended."""
        if not self._key:
            raise RefusedError(HTTPStatus.BAD_REQUEST, "the form has no file")
        return self._key, self._name, self._owner
