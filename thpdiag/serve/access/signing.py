"""Signing in: a token is shown once by a form, and the browser gets a cookie for it."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool

from thpdiag.serve.access import sessions
from thpdiag.serve.access.answers import Refusal
from thpdiag.serve.access.audit import Action, Outcome, event
from thpdiag.serve.access.bearer import Bearer
from thpdiag.serve.access.modes import Access


async def signed_in(presented: str, address: str, bearer: Bearer, access: Access, key: bytes) -> str | Refusal:
    """The Set-Cookie header of a session for this token; the same attempts count as for tokens of requests."""
    who = await bearer.principal(presented.strip(), address)
    if isinstance(who, Refusal):
        return who
    now = bearer.clock()
    await run_in_threadpool(bearer.record, event(now, Action.SIGN_IN, Outcome.DONE, who, address, who.key))
    return sessions.set_cookie(sessions.begin(key, who.key, now), over_tls=access.over_tls)
