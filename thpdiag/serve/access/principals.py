"""Who may come in: principals and their scopes, the modes of access, and the addresses that are believed.

`upload` alone reads nothing, so that a token for CI or for a customer's shell shows no other customer's case; the
answer to one's own upload is part of uploading. `work` includes `read`, and `admin` includes the others.

    none     no login; on a loopback address only
    tokens   bearer tokens; a browser begins a session with one
    proxy    a header of a proxy that has done the login, from listed addresses only; bearer tokens for programs
    oidc     a browser signs in with OpenID Connect; bearer tokens for programs

The headers of a proxy are believed here and nowhere else: uvicorn must not rewrite addresses by itself.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

from thpdiag.errors import UsageError


class Scope(StrEnum):
    """One thing that a token, a session or a user behind a proxy may do."""

    UPLOAD = "upload"  # send bundles
    READ = "read"  # see what was found in them
    WORK = "work"  # read, and work on cases: ask the customer, write notes, share, analyse again
    ADMIN = "admin"  # delete and keep cases, make and end tokens


def parse_scopes(names: Iterable[str]) -> frozenset[Scope]:
    """Scopes by their names; one that does not exist is a mistake of the caller, never left out."""
    given = [name.strip() for name in names]
    if unknown := sorted(set(given) - set(Scope)):
        raise UsageError(f"no such scope: {', '.join(unknown) or 'none'}; there are {', '.join(Scope)}")
    return frozenset(map(Scope, given))


def known_scopes(names: Iterable[str]) -> frozenset[Scope]:
    """Scopes as they were kept; one that this version does not know permits nothing."""
    return frozenset(Scope(name) for name in names if name in set(Scope))


class Way(StrEnum):
    """How it is known who sent a request."""

    NOBODY = "nobody"  # it is not known
    LOCAL = "local"  # no login: whoever reaches the loopback address
    TOKEN = "token"  # a bearer token with the request
    SESSION = "session"  # a cookie of the browser, begun with a token
    PROXY = "proxy"  # a header of a proxy that is trusted by its address
    OIDC = "oidc"  # a cookie of the browser, begun with OpenID Connect
    LINK = "link"  # an address that somebody was given, for one case


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody, with what they may do."""

    name: str  # for people: the token's name, the proxy's user
    way: Way
    scopes: frozenset[Scope]
    key: str = ""  # what stays when the name changes: the token's prefix, the digest of a provider's user
    binding: str = field(default="", repr=False)  # what a CSRF token of theirs is bound to

    @property
    def ambient(self) -> bool:
        """Whether a browser says who they are by itself, on a request that another site made it send too."""
        return self.way is not Way.TOKEN

    @property
    def owner(self) -> str:
        """What an upload is marked with; a token and the session begun with it are one owner."""
        if self.way in (Way.TOKEN, Way.SESSION):
            return f"token:{self.key}"
        if self.way is Way.OIDC:
            return f"oidc:{self.key}"
        return f"{self.way}:{self.name}"

    def may(self, needed: Scope) -> bool:
        return (
            needed in self.scopes or Scope.ADMIN in self.scopes or (needed is Scope.READ and Scope.WORK in self.scopes)
        )

    def may_touch(self, owner: str) -> bool:
        """Whether an unfinished upload of that owner is theirs; to others it does not exist."""
        return self.owner == owner or self.may(Scope.ADMIN)


NOBODY = Principal(name="", way=Way.NOBODY, scopes=frozenset())
LOCAL = Principal(name="local", way=Way.LOCAL, scopes=frozenset(Scope))


Network = IPv4Network | IPv6Network
Resolve = Callable[[str], Sequence[str]]


def resolve_host(host: str) -> Sequence[str]:
    """Every address that a name stands for on this machine; none if it stands for nothing."""
    try:
        return [str(entry[4][0]) for entry in socket.getaddrinfo(host, None)]
    except (OSError, UnicodeError):
        return []


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """An address; one of IPv4 that is written as IPv6 (`::ffff:10.0.0.1`) is the one of IPv4, without its zone."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def is_loopback(host: str, resolve: Resolve = resolve_host) -> bool:
    """Whether only this machine reaches what listens at a host: all its addresses have to be loopback."""
    if address := parse_address(host):
        return address.is_loopback
    addresses = [parse_address(text) for text in resolve(host)] if host else []
    return bool(addresses) and all(address is not None and address.is_loopback for address in addresses)


def parse_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Addresses and networks of trusted proxies, as somebody wrote them; one that holds every address is refused."""
    networks: list[Network] = []
    for text in texts:
        try:
            network = ip_network(text.strip())
        except ValueError as error:
            raise UsageError(f"address of a trusted proxy: {error}") from error
        if network.prefixlen == 0:
            raise UsageError(f"{text.strip()} trusts every address: anyone could send the header of a proxy")
        networks.append(network)
    return tuple(networks)


def is_in_networks(peer: str, networks: Iterable[Network]) -> bool:
    """Whether a connection comes from one of the networks."""
    address = parse_address(peer)
    return address is not None and any(address in network for network in networks)


def client_address(peer: str, forwarded: Sequence[str], proxies: Sequence[Network]) -> str:
    """Whom a request comes from: the last entry of X-Forwarded-For that no trusted proxy wrote for another one.

    What stands further left was written by strangers. From an address that is not listed the header says nothing.
    """
    seen = peer
    for entry in reversed([part.strip() for line in forwarded for part in line.split(",")]):
        if not is_in_networks(seen, proxies) or parse_address(entry) is None:
            break
        seen = entry
    return seen


def address_prefix(address: str) -> str:
    """What failures are counted by: the address, of IPv6 its /64, since one host has all of that."""
    known = parse_address(address)
    if isinstance(known, IPv6Address):
        return str(ip_network((int(known) >> 64 << 64, 64)))
    return str(known) if known else ""


HEADER_NAME: Final = re.compile(r"[a-z0-9-]+", re.ASCII)
RESERVED_HEADERS: Final = frozenset(
    ("authorization", "cookie", "host", "origin", "referer", "user-agent", "x-forwarded-for")
)


class Mode(StrEnum):
    """How the server knows who sends a request."""

    NONE = "none"
    TOKENS = "tokens"
    PROXY = "proxy"
    OIDC = "oidc"


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


def check_access(access: Access, resolve: Resolve = resolve_host) -> Access:
    """The same, if it can be started; otherwise a UsageError that says what to name."""
    local = is_loopback(access.host, resolve)
    if access.mode is Mode.NONE and not local:
        raise UsageError(
            f"{access.host or 'every address'} can be reached from other machines, and there is no login: "
            "name a mode of access: tokens, proxy or oidc"
        )
    if access.mode is Mode.NONE and (access.origins or access.proxies):
        raise UsageError("others can reach the server by a proxy or another name, but it has no login: set --access")
    if access.mode is not Mode.NONE and not local and not access.origins:
        raise UsageError("set the address that browsers open, such as https://thpdiag.example.org")
    for origin in access.origins:
        _check_origin(origin)
    if access.mode is Mode.PROXY:
        if not access.proxies:
            raise UsageError("name the addresses of the proxy: anyone else could fake its header")
        if not HEADER_NAME.fullmatch(access.user_header) or access.user_header in RESERVED_HEADERS:
            raise UsageError(f"not a header for the name of a user, in small letters: {access.user_header}")
    return access


def _check_origin(origin: str) -> None:
    """An origin as browsers write it: scheme, host, port if it is not the usual one, nothing else, no capitals."""
    try:
        parts = urlsplit(origin)
        usual = {"http": 80, "https": 443}.get(parts.scheme, -1)
        written = f"{parts.scheme}://{parts.netloc}" if parts.port != usual else ""
    except ValueError:
        written = ""
    if origin != written.lower() or parts.scheme not in ("http", "https") or not parts.hostname or "@" in origin:
        raise UsageError(f"not an address as a browser names its origin, like https://thpdiag.example.org: {origin}")
