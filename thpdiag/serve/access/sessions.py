"""Sessions of a browser: a cookie that says by which token they were begun, sealed by the server.

    PREFIX.BEGUN.NONCE.SEAL    begun in whole seconds since 1970

Nothing is kept here. A session ends with its token, which is looked up for each request, with its lifetime, and all of
them with the key; who signs out makes the browser forget it. The cookie is HttpOnly and SameSite=Strict, over TLS
`__Host-`: for this host alone, never in clear.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import Headers

from thpdiag.serve.access.sealed import holds, nonce, seal

LIFETIME: Final = 12 * 3600.0  # seconds
SHAPE: Final = re.compile(r"([0-9a-f]{16})\.(\d{1,12})\.([0-9a-f]{32})\.([0-9a-f]{64})", re.ASCII)
PURPOSE: Final = "session"


@dataclass(frozen=True, slots=True)
class Session:
    """What a cookie says."""

    prefix: str  # of the token
    nonce: str  # tells this session from others of the same token


def begin(key: bytes, prefix: str, now: float) -> str:
    """The value of the cookie of a new session."""
    parts = (prefix, str(int(now)), nonce())
    return ".".join((*parts, seal(key, PURPOSE, *parts)))


def read(key: bytes, value: str, now: float) -> Session | None:
    """The session of a cookie, if this server began it and its time is not over."""
    shaped = SHAPE.fullmatch(value)
    if shaped is None:
        return None
    prefix, begun, mark, presented = shaped.groups()
    if not holds(key, presented, PURPOSE, prefix, begun, mark):
        return None
    return Session(prefix, mark) if int(begun) <= now < int(begun) + LIFETIME else None


def cookie_name(*, over_tls: bool) -> str:
    return "__Host-thpdiag" if over_tls else "thpdiag"


def set_cookie(value: str, *, over_tls: bool) -> str:
    """The Set-Cookie header that begins a session; an empty value ends it."""
    lasts = int(LIFETIME) if value else 0
    secure = "; Secure" if over_tls else ""
    return f"{cookie_name(over_tls=over_tls)}={value}; Path=/; Max-Age={lasts}; HttpOnly; SameSite=Strict{secure}"


def cookie(headers: Headers, *, over_tls: bool) -> str:
    """The value of our cookie. Two of that name are none: a neighbour of this host may have set one of them."""
    name = cookie_name(over_tls=over_tls)
    pairs = [pair.strip().partition("=") for line in headers.getlist("cookie") for pair in line.split(";")]
    found = [value for key, _, value in pairs if key == name]
    return found[0] if len(found) == 1 else ""
