"""Bearer tokens: 256 random bits, shown once; what is kept is their sha256, found by a prefix that is no secret.

    thpdiag_6f0c1b2a9d3e4f58_<64 hexadecimal digits>
            prefix           secret

A digest without salt and stretching is enough here: nobody guesses 256 random bits, and a list of digests gives none
away. The word in front lets scanners of repositories, and the log of this server, recognise a token. `Bearer` is the
one way in which a token is looked at, with a request or when somebody signs in: attempts, digest, expiry, last use.

Times are seconds since 1970 in UTC.
"""

from __future__ import annotations

import hmac
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from math import ceil
from typing import Final

from starlette.concurrency import run_in_threadpool

from thpdiag.errors import UsageError
from thpdiag.serve.access.audit import Action, Outcome, audit_event
from thpdiag.serve.access.headers import RefusedError
from thpdiag.serve.access.principals import NOBODY, Principal, Scope, Way, address_prefix, known_scopes
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
        left = {source: self._refilled(source, now) for source in sources}
        if (least := min(left.values())) < 1:
            return (1 - least) * SECONDS_PER_ATTEMPT
        for source in sources:
            self._left[source] = (left[source] - 1, now)
            self._left.move_to_end(source)
        while len(self._left) > self._most:
            self._left.popitem(last=False)
        return 0.0

    def _refilled(self, source: str, now: float) -> float:
        left, then = self._left.get(source, (ATTEMPT_BURST, now))
        return min(ATTEMPT_BURST, left + (now - then) / SECONDS_PER_ATTEMPT)


def mint_token(label: str, scopes: frozenset[Scope], now: float, expires: float | None = None) -> tuple[str, TokenRow]:
    """A new token as its owner gets to see it, this once, and as it is kept."""
    if not label.strip() or not label.isprintable():
        raise UsageError("a token needs a printable name, to identify it later")
    if not scopes:
        raise UsageError(f"a token needs a scope: {', '.join(Scope)}")
    if expires is not None and not expires > now:
        raise UsageError("a token that has expired already would be of no use")
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
