"""The one way a token is looked at, with a request or when somebody signs in: attempts, digest, expiry, last use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from starlette.concurrency import run_in_threadpool

from thpdiag.serve.access.addresses import neighbourhood
from thpdiag.serve.access.answers import Refusal
from thpdiag.serve.access.attempts import Attempts
from thpdiag.serve.access.audit import Action, Event, Outcome, Record, event
from thpdiag.serve.access.principal import NOBODY, Principal, Way
from thpdiag.serve.access.scopes import known
from thpdiag.serve.access.tokens import SHAPE, KeptToken, Tokens, alive, identify, note_use

CHALLENGE = {"WWW-Authenticate": 'Bearer realm="thpdiag"'}
WRONG = Refusal(401, "this token is not valid", {"WWW-Authenticate": 'Bearer realm="thpdiag", error="invalid_token"'})


@dataclass(frozen=True, slots=True)
class Bearer:
    """Tokens with what limits and records their use; the clock gives seconds since 1970 in UTC."""

    tokens: Tokens
    attempts: Attempts
    record: Record
    clock: Callable[[], float]

    async def principal(self, presented: str, address: str) -> Principal | Refusal:
        """Who presents a token. An address that has used up its attempts is refused unseen, whatever it presents."""
        near = neighbourhood(address)
        if wait := self.attempts.wait(near):
            return Refusal(429, "too many wrong tokens from this address", {"Retry-After": str(ceil(wait))})
        now = self.clock()
        token = await run_in_threadpool(self._identified, presented, now)
        if token is None:
            self.attempts.failed(near)
            await run_in_threadpool(self.record, self._failure(presented, address, now))
            return WRONG
        return of_token(token, Way.TOKEN)

    async def session(self, prefix: str, nonce: str) -> Principal | None:
        """Who began a session, as long as the token that it was begun with is valid."""
        now = self.clock()
        token = await run_in_threadpool(self.tokens.find, prefix)
        if token is None or not alive(token, now):
            return None
        await run_in_threadpool(note_use, token, self.tokens, now)
        return of_token(token, Way.SESSION, nonce)

    def _identified(self, presented: str, now: float) -> KeptToken | None:
        token = identify(presented, self.tokens, now)
        if token is not None:
            note_use(token, self.tokens, now)
        return token

    def _failure(self, presented: str, address: str, now: float) -> Event:
        shaped = SHAPE.fullmatch(presented)
        subject = shaped[1] if shaped else "not a token of this server"
        return event(now, Action.AUTHENTICATE, Outcome.REFUSED, NOBODY, address, subject)


def of_token(token: KeptToken, way: Way, nonce: str = "") -> Principal:
    return Principal(token.label, way, known(token.scopes), token.prefix, nonce)
