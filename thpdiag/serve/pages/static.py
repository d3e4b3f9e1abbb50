"""Styles and scripts of our own. The address has the digest of the content in it, and is the same for ever.

/static/style.1f0c6a9d2b7e4835.css
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from thpdiag.serve.access.headers import static_headers
from thpdiag.serve.server import Server

PATH: Final = "/static/"
KINDS: Final = MappingProxyType(
    {
        "css": "text/css; charset=utf-8",
        "js": "text/javascript; charset=utf-8",
        "svg": "image/svg+xml",
    }
)


def static(name: str) -> str:
    """The address of a file of the folder `static`; KeyError if there is none."""
    return PATH + _addressed()[name]


def routes(_server: Server) -> list[BaseRoute]:
    _addressed()  # all files are read once, before the first request

    async def served(request: Request) -> Response:
        asked = request.path_params["name"]
        body = _contents().get(asked)
        if body is None:
            return PlainTextResponse("there is nothing here", 404)
        return Response(body, media_type=KINDS[asked.rpartition(".")[2]], headers=static_headers())

    return [Route(f"{PATH}{{name}}", served)]


@cache
def _files() -> Mapping[str, bytes]:
    """The content of each file by its name."""
    folder = files(__package__).joinpath("static")
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name.rpartition(".")[2] in KINDS}


@cache
def _addressed() -> Mapping[str, str]:
    """Names with the digest, by names without."""
    return {name: _with_digest(name, body) for name, body in _files().items()}


@cache
def _contents() -> Mapping[str, bytes]:
    return {_addressed()[name]: body for name, body in _files().items()}


def _with_digest(name: str, body: bytes) -> str:
    stem, _, kind = name.rpartition(".")
    return f"{stem}.{sha256(body).hexdigest()[:16]}.{kind}"
