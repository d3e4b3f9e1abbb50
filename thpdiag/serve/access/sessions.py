"""Sessions of a browser and CSRF tokens: texts that only this server can have written, signed by itsdangerous.

    session   PREFIX.NONCE.TIME.SIGNATURE   a cookie that says by which token it was begun
    CSRF      NONCE.TIME.SIGNATURE          signed for the session, or for the user of a proxy

Nothing is kept here. A session ends with its token, which is looked up for each request, with its lifetime, and all of
them with the key; who signs out makes the browser forget it. The cookie is HttpOnly and SameSite=Strict, over TLS
`__Host-`: for this host alone, never in clear.

Pages of ours carry a CSRF token; a change on behalf of a cookie or of a proxy's login has to give it back: in the
header `X-CSRF-Token`, or as `csrf` in the query of a form's action, where it is known before a byte of the body is
read, which of an upload is long. Queries are not logged and our pages send no referrer to others.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs

from itsdangerous import BadData, TimestampSigner
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers

from thpdiag.errors import UsageError
from thpdiag.serve.access.audit import Action, Outcome, audit_event
from thpdiag.serve.access.principals import Access, Principal
from thpdiag.serve.access.tokens import Bearer

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 16
SESSION_SECONDS: Final = 12 * 3600
CSRF_SECONDS: Final = 12 * 3600
CSRF_HEADER: Final = "x-csrf-token"
CSRF_FIELD: Final = "csrf"
MAX_QUERY_FIELDS: Final = 32


def load_key(file: Path) -> bytes:
    """The key in a file that only its owner can read; made if there is none, by whoever is first.

    It lies in the data folder, so that sessions outlive a restart; without it all of them end.
    """
    with suppress(FileExistsError), tempfile.NamedTemporaryFile(dir=file.parent, prefix=".key-") as made:
        made.write(secrets.token_bytes(KEY_BYTES))  # mode 600 from the beginning
        made.flush()
        os.fsync(made.fileno())
        os.link(made.name, file)
    key = file.read_bytes()
    if len(key) < KEY_BYTES or file.stat().st_mode & 0o077:
        raise UsageError(f"{file} must be a key that only its owner can read; delete it to create a new one")
    return key


class _Signer(TimestampSigner):
    """Signs for one purpose at one moment, in seconds since 1970."""

    def __init__(self, key: bytes, now: float, *purpose: str) -> None:
        salt = json.dumps(purpose)  # the borders between the words count too
        super().__init__(key, salt=salt, key_derivation="hmac", digest_method=hashlib.sha256)
        self._now = int(now)

    def get_timestamp(self) -> int:
        return self._now

    def verify(self, signed: str, seconds: int) -> str | None:
        """What was signed here, not in the future and less than so many seconds ago."""
        try:
            return self.unsign(signed, max_age=seconds - 1).decode()
        except (BadData, ValueError):
            return None


def issue_csrf_token(key: bytes, principal: Principal, now: float) -> str:
    """A token for the pages of somebody, another one each time."""
    signer = _Signer(key, now, "csrf", principal.way, principal.binding)
    return signer.sign(secrets.token_hex(NONCE_BYTES)).decode()


def is_csrf_token_of(key: bytes, principal: Principal, presented: str, now: float) -> bool:
    """Whether a token was issued for this session or user, and not too long ago."""
    return _Signer(key, now, "csrf", principal.way, principal.binding).verify(presented, CSRF_SECONDS) is not None


def presented_csrf_token(headers: Headers, query: bytes) -> str:
    """The token that a request carries; empty if there is none, or more than one."""
    if CSRF_HEADER in headers:
        presented = headers.getlist(CSRF_HEADER)
    else:
        try:
            presented = parse_qs(query.decode("latin-1"), max_num_fields=MAX_QUERY_FIELDS).get(CSRF_FIELD, [])
        except ValueError:
            presented = []
    return presented[0] if len(presented) == 1 else ""


@dataclass(frozen=True, slots=True)
class Session:
    """What a cookie says."""

    prefix: str  # of the token
    nonce: str  # tells this session from others of the same token


def begin_session(key: bytes, prefix: str, now: float) -> str:
    """The value of the cookie of a new session."""
    return _Signer(key, now, "session").sign(f"{prefix}.{secrets.token_hex(NONCE_BYTES)}").decode()


def read_session(key: bytes, value: str, now: float) -> Session | None:
    """The session of a cookie, if this server began it and its time is not over."""
    signed = _Signer(key, now, "session").verify(value, SESSION_SECONDS)
    return None if signed is None else Session(*signed.split("."))


def cookie_name(*, over_tls: bool) -> str:
    return "__Host-thpdiag" if over_tls else "thpdiag"


def set_cookie_header(value: str, *, over_tls: bool) -> str:
    """The Set-Cookie header that begins a session; an empty value ends it."""
    lasts = SESSION_SECONDS if value else 0
    secure = "; Secure" if over_tls else ""
    return f"{cookie_name(over_tls=over_tls)}={value}; Path=/; Max-Age={lasts}; HttpOnly; SameSite=Strict{secure}"


def session_cookie(headers: Headers, *, over_tls: bool) -> str:
    """The value of our cookie. Two of that name are none: a neighbour of this host may have set one of them."""
    return _cookie(headers, cookie_name(over_tls=over_tls))


def _cookie(headers: Headers, name: str) -> str:
    pairs = [pair.strip().partition("=") for line in headers.getlist("cookie") for pair in line.split(";")]
    values = [value for key, _, value in pairs if key == name]
    return values[0] if len(values) == 1 else ""


def seal_flow(key: bytes, told: str, now: float) -> str:
    """A text that a browser keeps while somebody signs in elsewhere, signed."""
    return _Signer(key, now, "flow").sign(base64.urlsafe_b64encode(told.encode()).decode()).decode()


def open_flow(key: bytes, value: str, now: float, seconds: int) -> str | None:
    """The text, if it was sealed here and not too long ago."""
    signed = _Signer(key, now, "flow").verify(value, seconds)
    return None if signed is None else base64.urlsafe_b64decode(signed).decode()


def flow_cookie_header(value: str, seconds: int, *, over_tls: bool) -> str:
    """The Set-Cookie header; SameSite=Lax, since the browser comes back from another site. Empty: forget it."""
    secure = "; Secure" if over_tls else ""
    lasts = seconds if value else 0
    return f"{_flow_name(over_tls=over_tls)}={value}; Path=/; Max-Age={lasts}; HttpOnly; SameSite=Lax{secure}"


def flow_cookie(headers: Headers, *, over_tls: bool) -> str:
    return _cookie(headers, _flow_name(over_tls=over_tls))


def _flow_name(*, over_tls: bool) -> str:
    return f"{cookie_name(over_tls=over_tls)}-flow"


async def sign_in(presented: str, address: str, bearer: Bearer, access: Access, key: bytes) -> str:
    """The Set-Cookie header of a session for this token; the same attempts count as for tokens of requests."""
    who = await bearer.principal(presented.strip(), address)
    now = bearer.clock()
    await run_in_threadpool(bearer.record, audit_event(now, Action.SIGN_IN, Outcome.DONE, who, address, who.key))
    return set_cookie_header(begin_session(key, who.key, now), over_tls=access.over_tls)
