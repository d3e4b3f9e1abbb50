"""Principals and their scopes, modes of access, and trusted addresses.

`upload` alone permits no reading, so that a token for CI or for a customer's shell shows no other customer's case; the
answer to one's own upload is part of uploading. `work` includes `read`, and `admin` includes the others.

    none     no login; on a loopback address only
    tokens   bearer tokens; a browser begins a session with one
    proxy    a user header set by a proxy, from listed addresses only; bearer tokens for programs
    oidc     a browser signs in with OpenID Connect; bearer tokens for programs

Headers of a proxy are evaluated only here: uvicorn must not rewrite client addresses.
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
    """A permission of a token, a session or a user."""

    UPLOAD = "upload"  # send bundles
    READ = "read"  # see cases
    WORK = "work"  # read, and work on cases: ask the customer, write notes, share, analyse again
    ADMIN = "admin"  # delete and keep cases, make and end tokens


def parse_scopes(names: Iterable[str]) -> frozenset[Scope]:
    """Parse names of scopes; UsageError for an unknown one."""
    given = [name.strip() for name in names]
    if unknown := sorted(set(given) - set(Scope)):
        raise UsageError(f"no such scope: {', '.join(unknown) or 'none'}; there are {', '.join(Scope)}")
    return frozenset(map(Scope, given))


def known_scopes(names: Iterable[str]) -> frozenset[Scope]:
    """Parse stored names of scopes; a name that this version does not know is ignored."""
    return frozenset(Scope(name) for name in names if name in set(Scope))


class AuthMethod(StrEnum):
    """How the sender of a request was authenticated."""

    ANONYMOUS = "nobody"  # not authenticated
    LOCAL = "local"  # no login: every client of the loopback address
    TOKEN = "token"  # a bearer token in the request
    SESSION = "session"  # a session cookie, begun with a token
    PROXY = "proxy"  # a header of a proxy with a trusted address
    OIDC = "oidc"  # a session cookie, begun with OpenID Connect
    LINK = "link"  # a secret address for one case


@dataclass(frozen=True, slots=True)
class Principal:
    """The sender of a request and their scopes."""

    name: str  # for display: the token's label, the proxy's user
    auth_method: AuthMethod
    scopes: frozenset[Scope]
    key: str = ""  # permanent, unlike the name: the token's prefix, the digest of a provider's user
    binding: str = field(default="", repr=False)  # the session or user to which CSRF tokens are bound

    @property
    def ambient(self) -> bool:
        """Whether a browser sends the credentials by itself, also with a request that another site triggered."""
        return self.auth_method is not AuthMethod.TOKEN

    @property
    def owner(self) -> str:
        """The owner of uploads; a token and the sessions begun with it are one owner."""
        if self.auth_method in (AuthMethod.TOKEN, AuthMethod.SESSION):
            return f"token:{self.key}"
        if self.auth_method is AuthMethod.OIDC:
            return f"oidc:{self.key}"
        return f"{self.auth_method}:{self.name}"

    def may(self, needed: Scope) -> bool:
        return (
            needed in self.scopes or Scope.ADMIN in self.scopes or (needed is Scope.READ and Scope.WORK in self.scopes)
        )

    def may_manage(self, owner: str) -> bool:
        """Whether the principal has access to an unfinished upload of `owner`; to others it does not exist."""
        return self.owner == owner or self.may(Scope.ADMIN)


ANONYMOUS = Principal(name="", auth_method=AuthMethod.ANONYMOUS, scopes=frozenset())
LOCAL = Principal(name="local", auth_method=AuthMethod.LOCAL, scopes=frozenset(Scope))


Network = IPv4Network | IPv6Network
Resolve = Callable[[str], Sequence[str]]


def resolve_host(host: str) -> Sequence[str]:
    """Resolve a host name to all its addresses; an unknown name has none."""
    try:
        return [str(entry[4][0]) for entry in socket.getaddrinfo(host, None)]
    except (OSError, UnicodeError):
        return []


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """Parse an address without its zone; an IPv4-mapped one (`::ffff:10.0.0.1`) becomes IPv4. None if invalid."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def is_loopback(host: str, resolve: Resolve = resolve_host) -> bool:
    """Whether all addresses of a host are loopback addresses, which only this machine reaches."""
    if address := parse_address(host):
        return address.is_loopback
    addresses = [parse_address(text) for text in resolve(host)] if host else []
    return bool(addresses) and all(address is not None and address.is_loopback for address in addresses)


def parse_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Parse addresses and networks of trusted proxies; UsageError for a network that contains every address."""
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
    """Whether the address of a peer is in one of the networks."""
    address = parse_address(peer)
    return address is not None and any(address in network for network in networks)


def client_address(peer: str, forwarded: Sequence[str], proxies: Sequence[Network]) -> str:
    """Return the client address: the rightmost entry of X-Forwarded-For that is not a trusted proxy.

    Entries further left may be forged. Without a trusted peer the header is ignored.
    """
    client = peer
    for entry in reversed([part.strip() for line in forwarded for part in line.split(",")]):
        if not is_in_networks(client, proxies) or parse_address(entry) is None:
            break
        client = entry
    return client


def address_prefix(address: str) -> str:
    """Return the key by which failures are counted: an IPv4 address, or the /64 of an IPv6 one, which one host owns."""
    parsed = parse_address(address)
    if isinstance(parsed, IPv6Address):
        return str(ip_network((int(parsed) >> 64 << 64, 64)))
    return str(parsed) if parsed else ""


HEADER_NAME: Final = re.compile(r"[a-z0-9-]+", re.ASCII)
RESERVED_HEADERS: Final = frozenset(
    ("authorization", "cookie", "host", "origin", "referer", "user-agent", "x-forwarded-for")
)


class Mode(StrEnum):
    """How clients authenticate."""

    NONE = "none"
    TOKENS = "tokens"
    PROXY = "proxy"
    OIDC = "oidc"


@dataclass(frozen=True, slots=True)
class Access:
    """The access configuration."""

    mode: Mode = Mode.NONE
    host: str = "127.0.0.1"  # where the server listens
    origins: frozenset[str] = frozenset()  # of the server, such as `https://thpdiag.example.org`; none: loopback names
    proxies: tuple[Network, ...] = ()  # whose X-Forwarded-For and, in mode proxy, user header are trusted
    user_header: str = "x-forwarded-user"
    user_scopes: frozenset[Scope] = frozenset((Scope.UPLOAD, Scope.READ))  # of every user of the proxy
    admins: frozenset[str] = frozenset()  # users of the proxy with all scopes
    sign_in: str = ""  # path of the page to which a browser without a session is redirected

    @property
    def over_tls(self) -> bool:
        """Whether all origins use TLS, so that cookies may require it."""
        return bool(self.origins) and all(origin.startswith("https://") for origin in self.origins)


def check_access(access: Access, resolve: Resolve = resolve_host) -> Access:
    """Return the configuration if it is safe; otherwise a UsageError names the missing setting."""
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
    """UsageError unless an origin is written as by browsers: lower-case scheme and host, port if not the default."""
    try:
        parts = urlsplit(origin)
        default_port = {"http": 80, "https": 443}.get(parts.scheme, -1)
        normalized = f"{parts.scheme}://{parts.netloc}" if parts.port != default_port else ""
    except ValueError:
        normalized = ""
    if origin != normalized.lower() or parts.scheme not in ("http", "https") or not parts.hostname or "@" in origin:
        raise UsageError(f"not an address as a browser names its origin, like https://thpdiag.example.org: {origin}")
