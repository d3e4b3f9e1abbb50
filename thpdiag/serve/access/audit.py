"""The audit log (who did what, and what was refused) and the server log with one line per request.

The audit log records what happened to a customer's data and is kept longer than the server log. Wrong tokens are
recorded until an address has used up its attempts, so that a client cannot fill the disk with them.

No line contains a secret. Headers and queries are never written. A formatter masks everything that has the form of a
secret in each finished line, which covers lines of libraries and texts of exceptions.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from enum import StrEnum
from typing import Final, TextIO

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from thpdiag.serve.access.principals import ANONYMOUS, Access, Principal, client_address
from thpdiag.serve.storage.access import AuditEntry

MAX_AUDIT_CHARS: Final = 200  # of a text from a client, in a log line


class Action(StrEnum):
    """What a principal did or tried to do."""

    SIGN_IN = "sign-in"
    SIGN_OUT = "sign-out"
    END_SESSION = "end-session"
    AUTHENTICATE = "authenticate"
    REQUEST = "request"
    UPLOAD = "upload"
    END_UPLOAD = "end-upload"
    DOWNLOAD = "download"
    DELETE = "delete"
    KEEP = "keep"
    RELEASE = "release"
    PRUNE = "prune"
    CREATE_TOKEN = "create-token"
    REVOKE_TOKEN = "revoke-token"
    SHARE = "share"
    END_SHARE = "end-share"
    NOTE = "note"
    DELETE_NOTE = "delete-note"
    WORK = "work"
    ANALYSE = "analyse"


class Outcome(StrEnum):
    DONE = "done"
    REFUSED = "refused"


def audit_event(
    time: float, action: Action, outcome: Outcome, principal: Principal, address: str, subject: str
) -> AuditEntry:
    """Return an entry whose texts are printable and of limited length."""
    return AuditEntry(time, action, outcome, format_actor(principal), escape_line(address), escape_line(subject))


def format_actor(principal: Principal) -> str:
    """Format a principal for a log line: authentication method, permanent key and name; never a token."""
    return escape_line(":".join(filter(None, (principal.auth_method, principal.key, principal.name))))


def escape_line(text: str) -> str:
    """Escape unprintable characters of a text and cut it to MAX_AUDIT_CHARS."""
    shown = "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text[:MAX_AUDIT_CHARS]
    )
    return shown if len(text) <= MAX_AUDIT_CHARS else f"{shown}..."


REQUEST_LOGGER: Final = logging.getLogger("thpdiag.serve.requests")
LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"
CLIENT_CLOSED_REQUEST: Final = 499  # logged if no answer was sent: the client left, or the handler failed
SECRETS: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"(thpdiag(?:_|%5f)[0-9a-f]{16}(?:_|%5f))[0-9a-f]+", re.IGNORECASE), r"\1***"),
    (re.compile(r"\b(bearer|basic)\s+[^\s'\",]+", re.IGNORECASE), r"\1 ***"),
    (re.compile(r"\b(authorization|cookie|x-csrf-token)\b(['\"]?\s*[:=,]).*", re.IGNORECASE), r"\1\2 ***"),
    (
        re.compile(
            r"\b((?:id_token|access_token|refresh_token|client_secret|code|code_verifier|state)\b['\"]?\s*[:=]\s*['\"]?)[\w.~+/-]{8,}"
        ),
        r"\1***",
    ),
    (re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]*"), "***"),  # JSON Web Tokens of OpenID Connect
    (re.compile(r"\b[0-9a-f]{32}\.[\w-]{4,8}\.[\w-]{43}(?![\w-])", re.IGNORECASE), "***"),  # session and CSRF tokens
    (re.compile(r"(/s/)[\w-]{43}(?![\w-])", re.ASCII), r"\1***"),  # share links to a case
    (re.compile(r"(://[^\s:/@]*):[^\s/@]*@"), r"\1:***@"),
    (re.compile(r"(?<=\S)\?[^\s'\"]+"), "?***"),
)


def mask_secrets(text: str) -> str:
    """Mask tokens, cookies, passwords in URLs, and queries."""
    for pattern, replacement in SECRETS:
        text = pattern.sub(replacement, text)
    return text


class MaskingFormatter(logging.Formatter):
    """Formats a record with its traceback and masks secrets."""

    def format(self, record: logging.LogRecord) -> str:
        return mask_secrets(super().format(record))


def log_handler(stream: TextIO) -> logging.Handler:
    """Return the handler of the root logger, which is the only one of the process."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(MaskingFormatter(LOG_FORMAT))
    return handler


class StatusRecorder:
    """Forwards the messages of an answer and records its status code."""

    def __init__(self, send: Send) -> None:
        self.status = CLIENT_CLOSED_REQUEST
        self._send = send

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)


class RequestLog:
    """ASGI middleware: logs address, principal, method, path and status of each request."""

    def __init__(self, app: ASGIApp, access: Access, write: Callable[[str], None] = REQUEST_LOGGER.info) -> None:
        self._app, self._access, self._write = app, access, write

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = StatusRecorder(send)
        try:
            await self._app(scope, receive, answer)
        finally:
            principal = scope.get("state", {}).get("principal", ANONYMOUS)
            raw_path = scope.get("raw_path") or scope["path"].encode("utf-8", "surrogatepass")  # without the query
            address = escape_line(request_address(scope, self._access)) or "-"
            target = f"{escape_line(scope['method'])} {escape_line(raw_path.decode('ascii', 'backslashreplace'))}"
            self._write(f"{address} {format_actor(principal)} {target} {answer.status}")


def peer_address(scope: Scope) -> str:
    """Return the address of the peer; empty on a Unix socket, which is in no list of trusted addresses."""
    return str(scope["client"][0]) if scope.get("client") else ""


def request_address(scope: Scope, access: Access) -> str:
    """Return the address of the client, looking through trusted proxies."""
    return client_address(peer_address(scope), Headers(scope=scope).getlist("x-forwarded-for"), access.proxies)
