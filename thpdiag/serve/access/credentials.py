"""Credentials: bearer tokens, sessions of a browser that begin with one, and CSRF tokens of our pages.

    thpdiag_6f0c1b2a9d3e4f58_<64 hexadecimal digits>    token: a public prefix and 256 secret random bits
    PREFIX.NONCE.TIME.SIGNATURE                         session cookie: the prefix of the token that began it
    NONCE.TIME.SIGNATURE                                CSRF token: signed for a session or for a proxy's user

A token is shown once; the database keeps its sha256, found by the prefix. A digest without salt and stretching is
enough: 256 random bits cannot be guessed. The leading word lets scanners of repositories, and the log of this server,
recognise a token. `Bearer` checks all tokens, those of requests and of sign-ins: attempts, digest, expiry, last use.

Sessions are signed by itsdangerous and not stored. A session ends with its token, which is looked up for each request,
and after its lifetime; all sessions end with the key. Signing out deletes the cookie. The cookie is HttpOnly and
SameSite=Strict, over TLS `__Host-`: for this host alone, never in clear.

Pages contain a CSRF token. A change that is authenticated by a cookie or a proxy has to return it in the header
`X-CSRF-Token`, or as `csrf` in the query of a form's action, where it can be checked before the body of an upload is
read. Queries are not logged, and pages send no referrer to other sites.

Times are seconds since 1970 in UTC.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
import secrets
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from math import ceil
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs

from itsdangerous import BadData, TimestampSigner
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers

from thpdiag.errors import UsageError
from thpdiag.serve.access.audit import Action, Outcome, audit_event
from thpdiag.serve.access.http import RefusedError
from thpdiag.serve.access.principals import (
    ANONYMOUS,
    Access,
    AuthMethod,
    Principal,
    Scope,
    address_prefix,
    known_scopes,
)
from thpdiag.serve.storage.access import AuditEntry, LoginTable, TokenRow, TokenTable
from thpdiag.serve.storage.database import is_id

ATTEMPT_BURST: Final = 10.0  # failures at once
SECONDS_PER_ATTEMPT: Final = 6.0  # until one more failure is allowed
MAX_SOURCES: Final = 10_000  # in memory; the least recently seen one is dropped first
TOKEN_MARK: Final = "thpdiag_"
TOKEN_SHAPE: Final = re.compile(rf"{TOKEN_MARK}([0-9a-f]{{16}})_[0-9a-f]{{64}}", re.ASCII)
EMPTY_DIGEST: Final = sha256(b"").hexdigest()  # of no token; compared if no token has the prefix
LAST_USE_STEP_SECONDS: Final = 60.0  # precision of the stored last use, so that not every request writes
CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="thpdiag"'}
INVALID_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="thpdiag", error="invalid_token"'}


class Attempts:
    """A token bucket of failed attempts for each source: a client address or the prefix of a token.

    The secret cannot be guessed; the limit is on what failures write to the log and the database. A valid token is
    accepted whatever the number of failures. All calls come from the thread of the event loop.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, max_sources: int = MAX_SOURCES) -> None:
        self._clock, self._max_sources = clock, max_sources
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # source: attempts left, at which time

    def count_failure(self, *sources: str) -> float:
        """Take an attempt from each source and return 0; if one is exhausted, return the seconds to wait instead."""
        now = self._clock()
        left = {source: self._attempts_left(source, now) for source in sources}
        if (fewest := min(left.values())) < 1:
            return (1 - fewest) * SECONDS_PER_ATTEMPT
        for source in sources:
            self._buckets[source] = (left[source] - 1, now)
            self._buckets.move_to_end(source)
        while len(self._buckets) > self._max_sources:
            self._buckets.popitem(last=False)
        return 0.0

    def _attempts_left(self, source: str, now: float) -> float:
        left, updated = self._buckets.get(source, (ATTEMPT_BURST, now))
        return min(ATTEMPT_BURST, left + (now - updated) / SECONDS_PER_ATTEMPT)


def mint_token(label: str, scopes: frozenset[Scope], now: float, expires: float | None = None) -> tuple[str, TokenRow]:
    """Return the secret of a new token, to be shown once, and its row."""
    if not label.strip() or not label.isprintable():
        raise UsageError("a token needs a printable name, to identify it later")
    if not scopes:
        raise UsageError(f"a token needs a scope: {', '.join(Scope)}")
    if expires is not None and not expires > now:
        raise UsageError("a token that has already expired is useless")
    prefix = secrets.token_hex(8)
    secret = f"{TOKEN_MARK}{prefix}_{secrets.token_hex(32)}"
    return secret, TokenRow(prefix, _digest(secret), label.strip(), scopes, now, expires, None)


def find_token(presented: str, tokens: TokenTable, now: float) -> TokenRow | None:
    """Return the row of a valid token, or None. Digests are always compared, in constant time."""
    match = TOKEN_SHAPE.fullmatch(presented)
    token = tokens.find(match[1]) if match else None
    same = hmac.compare_digest(_digest(presented), token.sha256 if token else EMPTY_DIGEST)
    return token if token and same and is_alive(token, now) else None


def _digest(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def is_alive(token: TokenRow, now: float) -> bool:
    """Whether a token has not expired."""
    return token.expires is None or now < token.expires


def note_use(token: TokenRow, tokens: TokenTable, now: float) -> None:
    """Store the time of the last use, at most once a minute."""
    if token.used is None or now - token.used >= LAST_USE_STEP_SECONDS:
        tokens.touch(token.prefix, now)


@dataclass(frozen=True, slots=True)
class Bearer:
    """Authenticates tokens and sessions, and records failures; `record` may wait for a disk."""

    tokens: TokenTable
    attempts: Attempts
    record: Callable[[AuditEntry], None]
    clock: Callable[[], float]
    logins: LoginTable | None = None

    async def principal(self, presented: str, address: str) -> Principal:
        """Return the owner of a token; RefusedError if it is not valid.

        The token is checked before the attempts, so that failures from the same address do not lock out a valid one.
        """
        now, match = self.clock(), TOKEN_SHAPE.fullmatch(presented)
        token = await run_in_threadpool(self._identify, presented, now) if match else None
        if token is None:
            sources = (address_prefix(address), *((f"token {match[1]}",) if match else ()))
            if wait := self.attempts.count_failure(*sources):
                words = "this token is not valid, and too many wrong ones came from this address or with its prefix"
                raise RefusedError(429, words, {"Retry-After": str(ceil(wait))})
            subject = match[1] if match else "not a token of this server"
            failure = audit_event(now, Action.AUTHENTICATE, Outcome.REFUSED, ANONYMOUS, address, subject)
            await run_in_threadpool(self.record, failure)
            raise RefusedError(401, "this token is not valid", INVALID_CHALLENGE)
        return Principal(token.label, AuthMethod.TOKEN, known_scopes(token.scopes), token.prefix)

    async def session(self, prefix: str, nonce: str) -> Principal | None:
        """Return the owner of a session, as long as the token that began it is valid."""
        now = self.clock()
        token = await run_in_threadpool(self.tokens.find, prefix)
        if token is None or not is_alive(token, now):
            return None
        await run_in_threadpool(note_use, token, self.tokens, now)
        return Principal(token.label, AuthMethod.SESSION, known_scopes(token.scopes), token.prefix, nonce)

    async def login_session(self, key: str, nonce: str) -> Principal | None:
        """Return the owner of a session begun with OpenID Connect, until it expires."""
        if self.logins is None or not is_id(key):
            return None
        login = await run_in_threadpool(self.logins.find, key, self.clock())
        if login is None:
            return None
        return Principal(login.name, AuthMethod.OIDC, known_scopes(login.scopes), login.subject, f"{key}.{nonce}")

    def _identify(self, presented: str, now: float) -> TokenRow | None:
        token = find_token(presented, self.tokens, now)
        if token is not None:
            note_use(token, self.tokens, now)
        return token


KEY_BYTES: Final = 32
NONCE_BYTES: Final = 16
SESSION_SECONDS: Final = 12 * 3600
CSRF_SECONDS: Final = 12 * 3600
CSRF_HEADER: Final = "x-csrf-token"
CSRF_FIELD: Final = "csrf"
MAX_QUERY_FIELDS: Final = 32


def load_key(file: Path) -> bytes:
    """Read the signing key; create it atomically if the file is missing. UsageError if others can read it.

    It is in the data folder, so that sessions outlive a restart; without it all of them end.
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
    """Signs for one purpose at a given time, in seconds since 1970."""

    def __init__(self, key: bytes, now: float, *purpose: str) -> None:
        salt = json.dumps(purpose)  # unambiguous, unlike a concatenation
        super().__init__(key, salt=salt, key_derivation="hmac", digest_method=hashlib.sha256)
        self._now = int(now)

    def get_timestamp(self) -> int:
        return self._now

    def verify(self, signed: str, seconds: int) -> str | None:
        """Return a text that was signed less than `seconds` ago and not in the future; otherwise None."""
        try:
            return self.unsign(signed, max_age=seconds - 1).decode()
        except (BadData, ValueError):
            return None


def issue_csrf_token(key: bytes, principal: Principal, now: float) -> str:
    """Return a new token for a page of a principal."""
    signer = _Signer(key, now, "csrf", principal.auth_method, principal.binding)
    return signer.sign(secrets.token_hex(NONCE_BYTES)).decode()


def is_csrf_token_of(key: bytes, principal: Principal, presented: str, now: float) -> bool:
    """Whether a token was issued to this session or user and has not expired."""
    signer = _Signer(key, now, "csrf", principal.auth_method, principal.binding)
    return signer.verify(presented, CSRF_SECONDS) is not None


def presented_csrf_token(headers: Headers, query: bytes) -> str:
    """Return the CSRF token of a request; empty if there is none, or more than one."""
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
    """The content of a session cookie."""

    prefix: str  # of the token, or the id of a login
    nonce: str  # distinguishes sessions of the same token


def begin_session(key: bytes, prefix: str, now: float) -> str:
    """Return the cookie value of a new session."""
    return _Signer(key, now, "session").sign(f"{prefix}.{secrets.token_hex(NONCE_BYTES)}").decode()


def read_session(key: bytes, value: str, now: float) -> Session | None:
    """Return the session of a cookie value that this server signed and that has not expired; otherwise None."""
    signed = _Signer(key, now, "session").verify(value, SESSION_SECONDS)
    return None if signed is None else Session(*signed.split("."))


def cookie_name(*, over_tls: bool) -> str:
    return "__Host-thpdiag" if over_tls else "thpdiag"


def set_cookie_header(value: str, *, over_tls: bool) -> str:
    """Return the Set-Cookie header of a session; an empty value deletes the cookie."""
    lifetime = SESSION_SECONDS if value else 0
    return _set_cookie(cookie_name(over_tls=over_tls), value, lifetime, "Strict", over_tls=over_tls)


def _set_cookie(name: str, value: str, seconds: int, same_site: str, *, over_tls: bool) -> str:
    secure = "; Secure" if over_tls else ""
    return f"{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite={same_site}{secure}"


def session_cookie(headers: Headers, *, over_tls: bool) -> str:
    return _cookie(headers, cookie_name(over_tls=over_tls))


def _cookie(headers: Headers, name: str) -> str:
    """Return the value of a cookie; empty if there are two, since another host of the domain may have set one."""
    pairs = [pair.strip().partition("=") for line in headers.getlist("cookie") for pair in line.split(";")]
    values = [value for key, _, value in pairs if key == name]
    return values[0] if len(values) == 1 else ""


def seal_flow(key: bytes, text: str, now: float) -> str:
    """Sign a text that a browser keeps during a sign-in at a provider."""
    return _Signer(key, now, "flow").sign(base64.urlsafe_b64encode(text.encode()).decode()).decode()


def open_flow(key: bytes, value: str, now: float, seconds: int) -> str | None:
    """Return the text of `seal_flow` if the signature is valid and not older than `seconds`; otherwise None."""
    signed = _Signer(key, now, "flow").verify(value, seconds)
    return None if signed is None else base64.urlsafe_b64decode(signed).decode()


def flow_cookie_header(value: str, seconds: int, *, over_tls: bool) -> str:
    """Return the Set-Cookie header; SameSite=Lax, since the browser comes back from another site. Empty: delete it."""
    return _set_cookie(_flow_name(over_tls=over_tls), value, seconds if value else 0, "Lax", over_tls=over_tls)


def flow_cookie(headers: Headers, *, over_tls: bool) -> str:
    return _cookie(headers, _flow_name(over_tls=over_tls))


def _flow_name(*, over_tls: bool) -> str:
    return f"{cookie_name(over_tls=over_tls)}-flow"


async def sign_in(presented: str, address: str, bearer: Bearer, access: Access, key: bytes) -> str:
    """Return the Set-Cookie header of a session for a token; failures count as for tokens of requests."""
    principal = await bearer.principal(presented.strip(), address)
    now = bearer.clock()
    event = audit_event(now, Action.SIGN_IN, Outcome.DONE, principal, address, principal.key)
    await run_in_threadpool(bearer.record, event)
    return set_cookie_header(begin_session(key, principal.key, now), over_tls=access.over_tls)
