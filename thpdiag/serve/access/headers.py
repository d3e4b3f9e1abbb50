"""What a browser may do with an answer: the headers of security, by the kind of the answer.

    page      of this server: scripts and styles from this server only, in no frame
    report    made of what a customer sent: an origin of its own, its own script by digest, in a frame of ours only
    download  saved, never shown
    other     data, refusals, and whatever forgot to say what it is: shows nothing, runs nothing

A page tells its address to pages of this server alone: with `no-referrer` a form without script would send its origin
as `null`, which nobody could tell from a stranger's where the server has no TLS.
"""

from __future__ import annotations

import unicodedata
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ALWAYS: Final = MappingProxyType(
    {
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "X-Permitted-Cross-Domain-Policies": "none",
    }
)
UNLESS_SAID: Final = MappingProxyType(
    {
        "Content-Security-Policy": (
            "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox"
        ),
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }
)
PAGE: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
NAME_MOST: Final = 120  # characters of a file name


class SecurityHeaders:
    """ASGI middleware: no answer leaves without them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=list(message.get("headers", ())))
                for name, value in ALWAYS.items():
                    headers[name] = value
                for name, value in UNLESS_SAID.items():
                    headers.setdefault(name, value)
                message = {**message, "headers": headers.raw}
            await send(message)

        await self._app(scope, receive, sent if scope["type"] == "http" else send)


def page_headers() -> dict[str, str]:
    """Of a page of this server."""
    return {"Content-Security-Policy": PAGE, "Referrer-Policy": "same-origin"}


def static_headers() -> dict[str, str]:
    """Of a script or style of ours, whose address has its digest in it: the same for ever."""
    return {"Cache-Control": "public, max-age=31536000, immutable"}


def report_headers(policy: str) -> dict[str, str]:
    """Of a report, with the policy that stands in its own page: digests of its script and its style."""
    parts = [part.split() for part in policy.split(";")]
    loose = [word for part in parts for word in part[1:] if not (word == "'none'" or word.startswith("'sha256-"))]
    if loose or ["default-src", "'none'"] not in parts or not policy.isascii() or not policy.isprintable():
        raise ValueError(f"a report is served with its script and style by digest only, not with {policy}")
    return {"Content-Security-Policy": f"sandbox allow-scripts; {policy}; frame-ancestors 'self'"}


def download_headers(name: str) -> dict[str, str]:
    """Of a file that is saved under a name which somebody else chose; its bytes are never shown as a page."""
    return {"Content-Disposition": disposition(name), "Content-Type": "application/octet-stream"}


def disposition(name: str) -> str:
    """`attachment` with a file name, by RFC 6266 in ASCII and by RFC 8187 whole, without folders and what hides."""
    last = name.replace("\\", "/").rpartition("/")[2]
    shown = "".join("_" if unicodedata.category(c).startswith(("C", "Z")) else c for c in last).lstrip(".")
    shown = shown[:NAME_MOST] or "download"
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in shown)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(shown, safe='')}"
