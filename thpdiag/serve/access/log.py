"""The log of the server: one line per request, and no secret in any line, whoever writes it.

Headers and queries are never written. For what libraries write, and for the words of exceptions, a formatter looks at
each finished line and blots out what has the form of a secret.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Final, TextIO

from starlette.types import ASGIApp, Receive, Scope, Send

from thpdiag.serve.access.answered import Answered
from thpdiag.serve.access.audit import actor, plain
from thpdiag.serve.access.gate import address_of
from thpdiag.serve.access.modes import Access
from thpdiag.serve.access.principal import NOBODY

LOGGER: Final = logging.getLogger("thpdiag.serve.requests")
LINE: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"
SECRETS: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"(thpdiag(?:_|%5f)[0-9a-f]{16}(?:_|%5f))[0-9a-f]+", re.IGNORECASE), r"\1***"),
    (re.compile(r"\b(bearer|basic)\s+[^\s'\",]+", re.IGNORECASE), r"\1 ***"),
    (re.compile(r"\b(authorization|cookie|x-csrf-token)\b(['\"]?\s*[:=,]).*", re.IGNORECASE), r"\1\2 ***"),
    (re.compile(r"\b\d{1,12}\.[0-9a-f]{32}\.[0-9a-f]{64}\b", re.IGNORECASE), "***"),
    (re.compile(r"(://[^\s:/@]*):[^\s/@]*@"), r"\1:***@"),
    (re.compile(r"(?<=\S)\?[^\s'\"]+"), "?***"),
)  # fmt: skip


class Secretless(logging.Formatter):
    """Formats a record, its traceback too, and blots out secrets."""

    def format(self, record: logging.LogRecord) -> str:
        return blotted(super().format(record))


def blotted(text: str) -> str:
    """A text without tokens, cookies, passwords of addresses, and queries."""
    for pattern, instead in SECRETS:
        text = pattern.sub(instead, text)
    return text


def handler(stream: TextIO) -> logging.Handler:
    """What writes the log; the only handler of the process, on the root logger."""
    writes = logging.StreamHandler(stream)
    writes.setFormatter(Secretless(LINE))
    return writes


class Log:
    """ASGI middleware: says of each request who sent it, from where, for what, and what the answer was."""

    def __init__(self, app: ASGIApp, access: Access, write: Callable[[str], None] = LOGGER.info) -> None:
        self._app = app
        self._access = access
        self._write = write

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answered = Answered(send)
        try:
            await self._app(scope, receive, answered)
        finally:
            self._write(f"{request_line(scope, self._access)} {answered.status}")


def request_line(scope: Scope, access: Access) -> str:
    """A request in a log: address, who, method, path as it was sent, without query."""
    who = scope.get("state", {}).get("principal", NOBODY)
    path = (scope.get("raw_path") or scope["path"].encode("utf-8", "surrogatepass")).decode("ascii", "backslashreplace")
    return " ".join((plain(address_of(scope, access)) or "-", actor(who), plain(scope["method"]), plain(path)))
