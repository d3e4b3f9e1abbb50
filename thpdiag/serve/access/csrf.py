"""CSRF tokens: pages of ours carry one; a change on behalf of a cookie or of a proxy's login has to give it back.

    ISSUED.NONCE.SEAL    issued in whole seconds since 1970

It is bound to the session, or to the user of the proxy, and comes back in the header `X-CSRF-Token`, or as `csrf` in
the query of a form's action: there it is known before a byte of the body is read, which of an upload is long. Queries
are not logged and our pages send no referrer to others.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qs

from starlette.datastructures import Headers

from thpdiag.serve.access.principal import Principal
from thpdiag.serve.access.sealed import holds, nonce, seal

LIFETIME: Final = 12 * 3600.0  # seconds
HEADER: Final = "x-csrf-token"
FIELD: Final = "csrf"
SHAPE: Final = re.compile(r"(\d{1,12})\.([0-9a-f]{32})\.([0-9a-f]{64})", re.ASCII)
PURPOSE: Final = "csrf"
MOST_FIELDS: Final = 32


def issue(key: bytes, principal: Principal, now: float) -> str:
    """A token for the pages of somebody, another one each time."""
    issued, mark = str(int(now)), nonce()
    return f"{issued}.{mark}.{seal(key, PURPOSE, principal.way, principal.binding, issued, mark)}"


def is_right(key: bytes, principal: Principal, presented: str, now: float) -> bool:
    """Whether a token was issued for this session or user, and not too long ago."""
    shaped = SHAPE.fullmatch(presented)
    if shaped is None:
        return False
    issued, mark, sealed = shaped.groups()
    in_time = int(issued) <= now < int(issued) + LIFETIME
    return holds(key, sealed, PURPOSE, principal.way, principal.binding, issued, mark) and in_time


def presented(headers: Headers, query: bytes) -> str:
    """The token that a request carries; empty if there is none, or more than one."""
    if HEADER in headers:
        found = headers.getlist(HEADER)
    else:
        try:
            found = parse_qs(query.decode("latin-1"), max_num_fields=MOST_FIELDS).get(FIELD, [])
        except ValueError:
            found = []
    return found[0] if len(found) == 1 else ""
