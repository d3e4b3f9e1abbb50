"""The audit log (who did what, and what was refused) and the log of the server, one line per request.

The log of the server says that it runs; the audit log says what became of a customer's data, and outlives the other.
Wrong tokens are noted until an address has used up its attempts, so that nobody can fill the disk with them.

No secret is in any line, whoever writes it. Headers and queries are never written. For what libraries write, and for
the words of exceptions, a formatter looks at each finished line and blots out what has the form of a secret.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from enum import StrEnum
from typing import Final, TextIO

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from thpdiag.serve.access.principals import NOBODY, Access, Principal, client_address
from thpdiag.serve.storage.access import AuditEntry

MAX_AUDIT_CHARS: Final = 200  # of a text that came from outside


class Action(StrEnum):
    """What somebody did, or wanted to do."""

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


def audit_event(at: float, action: Action, outcome: Outcome, who: Principal, address: str, subject: str) -> AuditEntry:
    """An entry with texts of a length and kind that every log can take."""
    return AuditEntry(at, action, outcome, format_actor(who), escape_line(address), escape_line(subject))


def format_actor(who: Principal) -> str:
    """Somebody in a line of a log: how they are known, what stays of them, their name; never a token."""
    return escape_line(":".join(part for part in (who.way, who.key, who.name) if part))


def escape_line(text: str) -> str:
    """A text from outside on one line: what cannot be printed is escaped, what is long is cut."""
    shown = "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text[:MAX_AUDIT_CHARS]
    )
    return shown if len(text) <= MAX_AUDIT_CHARS else f"{shown}..."


REQUEST_LOGGER: Final = logging.getLogger("thpdiag.serve.requests")
LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"
CLIENT_CLOSED_REQUEST: Final = 499  # what is noted where no answer was sent: the client went away, or a mistake of ours
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
    (re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]*"), "***"),  # of tokens of OpenID Connect
    (re.compile(r"\b[0-9a-f]{32}\.[\w-]{4,8}\.[\w-]{43}(?![\w-])", re.IGNORECASE), "***"),  # of sessions, against CSRF
    (re.compile(r"(/s/)[\w-]{43}(?![\w-])", re.ASCII), r"\1***"),  # of links to a case
    (re.compile(r"(://[^\s:/@]*):[^\s/@]*@"), r"\1:***@"),
    (re.compile(r"(?<=\S)\?[^\s'\"]+"), "?***"),
)


def mask_secrets(text: str) -> str:
    """A text without tokens, cookies, passwords of addresses, and queries."""
    for pattern, instead in SECRETS:
        text = pattern.sub(instead, text)
    return text


class MaskingFormatter(logging.Formatter):
    """Formats a record, its traceback too, and blots out secrets."""

    def format(self, record: logging.LogRecord) -> str:
        return mask_secrets(super().format(record))


def log_handler(stream: TextIO) -> logging.Handler:
    """What writes the log; the only handler of the process, on the root logger."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(MaskingFormatter(LOG_FORMAT))
    return handler


class StatusRecorder:
    """Passes an answer on; `status` is that of the answer as far as it came."""

    def __init__(self, send: Send) -> None:
        self.status = CLIENT_CLOSED_REQUEST
        self._send = send

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)


class RequestLog:
    """ASGI middleware: says of each request who sent it, from where, for what, and what the answer was."""

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
            who = scope.get("state", {}).get("principal", NOBODY)
            path = scope.get("raw_path") or scope["path"].encode(
                "utf-8", "surrogatepass"
            )  # as it was sent, without query
            address = escape_line(address_of(scope, self._access)) or "-"
            target = f"{escape_line(scope['method'])} {escape_line(path.decode('ascii', 'backslashreplace'))}"
            self._write(f"{address} {format_actor(who)} {target} {answer.status}")


def peer_of(scope: Scope) -> str:
    """The address of the other end of the connection; empty on a Unix socket, which no list of addresses holds."""
    return str(scope["client"][0]) if scope.get("client") else ""


def address_of(scope: Scope, access: Access) -> str:
    """Whom a request comes from, behind trusted proxies too."""
    return client_address(peer_of(scope), Headers(scope=scope).getlist("x-forwarded-for"), access.proxies)
