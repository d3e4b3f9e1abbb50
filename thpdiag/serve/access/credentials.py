"""Credentials: bearer tokens, sessions of a browser that begin with one, and CSRF tokens of our pages.

    thpdiag_6f0c1b2a9d3e4f58_<64 hexadecimal digits>    a token: its prefix is no secret, 256 random bits are
    PREFIX.NONCE.TIME.SIGNATURE                         a cookie that says by which token a session was begun
    NONCE.TIME.SIGNATURE                                CSRF: signed for the session, or for the user of a proxy

A token is shown once; what is kept is its sha256, found by the prefix. A digest without salt and stretching is enough
here: nobody guesses 256 random bits, and a list of digests gives none away. The word in front lets scanners of
repositories, and the log of this server, recognise a token. `Bearer` is the one way in which a token is looked at, with
a request or when somebody signs in: attempts, digest, expiry, last use.

Sessions are texts that only this server can have written, signed by itsdangerous; nothing is kept of them. A session
ends with its token, which is looked up for each request, with its lifetime, and all of them with the key; who signs out
makes the browser forget it. The cookie is HttpOnly and SameSite=Strict, over TLS `__Host-`: for this host alone, never
in clear.

Pages of ours carry a CSRF token; a change on behalf of a cookie or of a proxy's login has to give it back: in the
header `X-CSRF-Token`, or as `csrf` in the query of a form's action, where it is known before a byte of the body is
read, which of an upload is long. Queries are not logged and our pages send no referrer to others.

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
from thpdiag.serve.access.principals import NOBODY, Access, Principal, Scope, Way, address_prefix, known_scopes
from thpdiag.serve.storage.access import AuditEntry, LoginTable, TokenRow, TokenTable
from thpdiag.serve.storage.database import is_id

ATTEMPT_BURST: Final = 10.0  # failures at once
SECONDS_PER_ATTEMPT: Final = 6.0  # until one more is answered as such
MAX_SOURCES: Final = 10_000  # kept at a time: memory is bounded whoever comes; the longest unseen goes first
TOKEN_MARK: Final = "thpdiag_"
TOKEN_SHAPE: Final = re.compile(rf"{TOKEN_MARK}([0-9a-f]{{16}})_[0-9a-f]{{64}}", re.ASCII)
EMPTY_DIGEST: Final = sha256(b"").hexdigest()  # compared with where no token has the prefix; no token is empty
USE_NOTED_SECONDS: Final = 60.0  # how exact the last use is: not every request shall write
CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="thpdiag"'}
INVALID_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="thpdiag", error="invalid_token"'}


class Attempts:
    """Wrong tokens that are still written down of a source, an address or the prefix of a token: a bucket that fills up
    again with time.

    The secret cannot be guessed; what is limited is what those who try write to the log and the database. Only failures
    count: who presents a token that is right is not asked how many others failed. All is called on the one thread of
    the event loop.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, most_sources: int = MAX_SOURCES) -> None:
        self._clock, self._most = clock, most_sources
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # source: attempts, and when it was so

    def count_failure(self, *sources: str) -> float:
        """0 if it counts with each of them; else it does with none, and these are the seconds until it would."""
        now = self._clock()
        left = {source: self._attempts_left(source, now) for source in sources}
        if (least := min(left.values())) < 1:
            return (1 - least) * SECONDS_PER_ATTEMPT
        for source in sources:
            self._left[source] = (left[source] - 1, now)
            self._left.move_to_end(source)
        while len(self._left) > self._most:
            self._left.popitem(last=False)
        return 0.0

    def _attempts_left(self, source: str, now: float) -> float:
        left, then = self._left.get(source, (ATTEMPT_BURST, now))
        return min(ATTEMPT_BURST, left + (now - then) / SECONDS_PER_ATTEMPT)


def mint_token(label: str, scopes: frozenset[Scope], now: float, expires: float | None = None) -> tuple[str, TokenRow]:
    """A new token as its owner gets to see it, this once, and as it is kept."""
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
    """The token that this text is, if there is one and it has not expired.

    The digests are compared whatever was found, and in a time that tells nothing of where they differ.
    """
    shaped = TOKEN_SHAPE.fullmatch(presented)
    known = tokens.find(shaped[1]) if shaped else None
    same = hmac.compare_digest(_digest(presented), known.sha256 if known else EMPTY_DIGEST)
    return known if known and same and is_alive(known, now) else None


def _digest(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def is_alive(token: TokenRow, now: float) -> bool:
    """Whether a token has not expired."""
    return token.expires is None or now < token.expires


def note_use(token: TokenRow, tokens: TokenTable, now: float) -> None:
    """Writes the last use down, at most once a minute."""
    if token.used is None or now - token.used >= USE_NOTED_SECONDS:
        tokens.touch(token.prefix, now)


@dataclass(frozen=True, slots=True)
class Bearer:
    """Tokens with what limits and records their use; `record` may wait for a disk."""

    tokens: TokenTable
    attempts: Attempts
    record: Callable[[AuditEntry], None]
    clock: Callable[[], float]
    logins: LoginTable | None = None

    async def principal(self, presented: str, address: str) -> Principal:
        """Who presents a token. It is looked at first: wrong ones of the same address keep no right one out."""
        now, shaped = self.clock(), TOKEN_SHAPE.fullmatch(presented)
        token = await run_in_threadpool(self._identify, presented, now) if shaped else None
        if token is None:
            sources = (address_prefix(address), *((f"token {shaped[1]}",) if shaped else ()))
            if wait := self.attempts.count_failure(*sources):
                words = "this token is not valid, and too many wrong ones came from this address or with its prefix"
                raise RefusedError(429, words, {"Retry-After": str(ceil(wait))})
            subject = shaped[1] if shaped else "not a token of this server"
            failure = audit_event(now, Action.AUTHENTICATE, Outcome.REFUSED, NOBODY, address, subject)
            await run_in_threadpool(self.record, failure)
            raise RefusedError(401, "this token is not valid", INVALID_CHALLENGE)
        return Principal(token.label, Way.TOKEN, known_scopes(token.scopes), token.prefix)

    async def session(self, prefix: str, nonce: str) -> Principal | None:
        """Who began a session, as long as the token that it was begun with is valid."""
        now = self.clock()
        token = await run_in_threadpool(self.tokens.find, prefix)
        if token is None or not is_alive(token, now):
            return None
        await run_in_threadpool(note_use, token, self.tokens, now)
        return Principal(token.label, Way.SESSION, known_scopes(token.scopes), token.prefix, nonce)

    async def login_session(self, key: str, nonce: str) -> Principal | None:
        """Who began a session with OpenID Connect, as long as it lasts."""
        if self.logins is None or not is_id(key):
            return None
        login = await run_in_threadpool(self.logins.find, key, self.clock())
        if login is None:
            return None
        return Principal(login.name, Way.OIDC, known_scopes(login.scopes), login.subject, f"{key}.{nonce}")

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
