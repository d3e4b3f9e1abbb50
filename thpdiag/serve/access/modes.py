"""The modes of access, and the refusal to listen where anybody could come in.

    none     no login; on a loopback address only
    tokens   bearer tokens; a browser begins a session with one
    proxy    a header of a proxy that has done the login, from listed addresses only; bearer tokens for programs

The headers of a proxy are believed here and nowhere else: the server below must not rewrite addresses by itself
(`thpdiag.serve.access.server`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

from thpdiag.errors import UsageError
from thpdiag.serve.access.addresses import Network, Resolve, is_loopback, resolved
from thpdiag.serve.access.scopes import Scope

HEADER_NAME: Final = re.compile(r"[a-z0-9-]+", re.ASCII)
TAKEN: Final = frozenset(("authorization", "cookie", "host", "origin", "referer", "user-agent", "x-forwarded-for"))


class Mode(StrEnum):
    """How the server knows who sends a request."""

    NONE = "none"
    TOKENS = "tokens"
    PROXY = "proxy"


@dataclass(frozen=True, slots=True)
class Access:
    """Who may come in, as whoever runs the server has said it."""

    mode: Mode = Mode.NONE
    host: str = "127.0.0.1"  # where the server listens
    origins: frozenset[str] = frozenset()  # how browsers name it: `https://thpdiag.example.org`; none: loopback names
    proxies: tuple[Network, ...] = ()  # whose X-Forwarded-For counts and, in mode proxy, whose header of the user
    user_header: str = "x-forwarded-user"
    user_scopes: frozenset[Scope] = frozenset((Scope.UPLOAD, Scope.READ))  # of everybody whom the proxy lets in
    admins: frozenset[str] = frozenset()  # users of the proxy who may do everything
    sign_in: str = ""  # path of the page where a browser without a session is sent to

    @property
    def over_tls(self) -> bool:
        """Whether browsers come over TLS only, so that a cookie may demand it."""
        return bool(self.origins) and all(origin.startswith("https://") for origin in self.origins)


def check(access: Access, resolve: Resolve = resolved) -> Access:
    """The same, if it can be started; otherwise a UsageError that says what to name."""
    local = is_loopback(access.host, resolve)
    if access.mode is Mode.NONE and not local:
        raise UsageError(
            f"{access.host or 'every address'} can be reached from other machines, and there is no login: "
            "name a mode of access, tokens or proxy"
        )
    if access.mode is Mode.NONE and (access.origins or access.proxies):
        raise UsageError("others come in by a proxy or another name, and there is no login: name a mode of access")
    if access.mode is not Mode.NONE and not local and not access.origins:
        raise UsageError("say which address browsers open, such as https://thpdiag.example.org")
    for origin in access.origins:
        check_origin(origin)
    if access.mode is Mode.PROXY:
        check_proxy(access)
    return access


def check_origin(origin: str) -> None:
    """An origin as browsers write it: scheme, host, port if it is not the usual one, nothing else, no capitals."""
    try:
        parts = urlsplit(origin)
        usual = {"http": 80, "https": 443}.get(parts.scheme, -1)
        written = f"{parts.scheme}://{parts.netloc}" if parts.port != usual else ""
    except ValueError:
        written = ""
    if origin != written.lower() or parts.scheme not in ("http", "https") or not parts.hostname or "@" in origin:
        raise UsageError(f"not an address as a browser names its origin, like https://thpdiag.example.org: {origin}")


def check_proxy(access: Access) -> None:
    """A proxy is trusted by its address, and its header is one that means nothing else."""
    if not access.proxies:
        raise UsageError("name the addresses of the proxy: from any other its header would be anybody's claim")
    if not HEADER_NAME.fullmatch(access.user_header) or access.user_header in TAKEN:
        raise UsageError(f"not a header for the name of a user, in small letters: {access.user_header}")
