"""Addresses: which are loopback, which are those of a proxy, who is behind it, and whose failures count together."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from thpdiag.errors import UsageError

Network = IPv4Network | IPv6Network
Resolve = Callable[[str], Sequence[str]]


def resolved(host: str) -> Sequence[str]:
    """Every address that a name stands for on this machine; none if it stands for nothing."""
    try:
        return [str(found[4][0]) for found in socket.getaddrinfo(host, None)]
    except (OSError, UnicodeError):
        return []


def parsed(text: str) -> IPv4Address | IPv6Address | None:
    """An address; one of IPv4 that is written as IPv6 (`::ffff:10.0.0.1`) is the one of IPv4, without its zone."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def is_loopback(host: str, resolve: Resolve = resolved) -> bool:
    """Whether only this machine reaches what listens at a host: all its addresses have to be loopback."""
    if address := parsed(host):
        return address.is_loopback
    found = [parsed(text) for text in resolve(host)] if host else []
    return bool(found) and all(address is not None and address.is_loopback for address in found)


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Addresses and networks of trusted proxies, as somebody wrote them; one that holds every address is refused."""
    found: list[Network] = []
    for text in texts:
        try:
            network = ip_network(text.strip())
        except ValueError as error:
            raise UsageError(f"address of a trusted proxy: {error}") from error
        if network.prefixlen == 0:
            raise UsageError(f"{text.strip()} trusts every address: anybody could send the header of a proxy")
        found.append(network)
    return tuple(found)


def is_listed(peer: str, listed: Iterable[Network]) -> bool:
    """Whether a connection comes from one of the networks."""
    address = parsed(peer)
    return address is not None and any(address in network for network in listed)


def client(peer: str, forwarded: Sequence[str], proxies: Sequence[Network]) -> str:
    """Whom a request comes from: the last entry of X-Forwarded-For that no trusted proxy wrote for another one.

    What stands further left was written by strangers. From an address that is not listed the header says nothing.
    """
    seen = peer
    for entry in reversed([part.strip() for line in forwarded for part in line.split(",")]):
        if not is_listed(seen, proxies) or parsed(entry) is None:
            break
        seen = entry
    return seen


def neighbourhood(address: str) -> str:
    """What failures are counted by: the address, of IPv6 its /64, since one host has all of that."""
    known = parsed(address)
    if isinstance(known, IPv6Address):
        return str(ip_network((int(known) >> 64 << 64, 64)))
    return str(known) if known else ""
