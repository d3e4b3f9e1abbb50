"""`curl -T bundle.tar.xz URL/NAME`: the body is the bundle, of announced length or not, whole or not at all."""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from thpdiag.serve.uploads.body import blocks
from thpdiag.serve.uploads.intake import Accept, Admit, Intake, length
from thpdiag.serve.uploads.refused import RefusedError, Told, answered, said


def put_route(path: str, intake: Intake, admit: Admit, accept: Accept, told: Told = said) -> Route:
    """The route of PATH/NAME. A name with folders in it reaches it too, and is refused as such."""

    async def put(request: Request) -> Response:
        sender = await admit(request)
        _one_whole(request)
        name, size = str(request.path_params["name"]), length(request, "content-length")
        key = await intake.begin(name, size, sender.owner)
        async with intake.whole_or_nothing(key):
            offset = 0
            async for block in blocks(request, intake.pace):
                offset = await intake.take(key, offset, block)
            return await accept(request, await intake.arrive(key, name, sender.owner))

    return Route(f"{path}/{{name:path}}", answered(put, told), methods=["PUT"], name="put-upload")


def _one_whole(request: Request) -> None:
    """A part stored as the whole would be a damaged bundle; one that is packed for the way, another bundle."""
    if "content-range" in request.headers:
        raise RefusedError(
            HTTPStatus.BAD_REQUEST, "a PUT is the whole bundle; to resume one, use the resumable upload (PATCH)"
        )
    if request.headers.get("content-encoding", "identity") != "identity":
        raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send the bundle as it is, without Content-Encoding")
