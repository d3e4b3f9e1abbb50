"""Where the upload page may listen, and whom it believes: modes of access, addresses, names."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from serve_requests import ORIGIN
from thpdiag.errors import UsageError
from thpdiag.serve.access.principals import (
    Access,
    Mode,
    address_prefix,
    check_access,
    client_address,
    is_in_networks,
    is_loopback,
    parse_networks,
)

NAMES = {"localhost": ["127.0.0.1", "::1"], "half": ["127.0.0.1", "192.0.2.1"], "there": ["192.0.2.1"]}
ORIGINS = frozenset((ORIGIN,))
PROXIES = parse_networks(["10.0.0.5", "fd00::/64"])


def resolve(host: str) -> Sequence[str]:
    return NAMES.get(host, [])


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "localhost", "::ffff:127.0.0.1"])
def test_without_login_it_listens_on_loopback(host: str) -> None:
    """Which only this machine reaches."""
    access = Access(host=host)

    assert check_access(access, resolve) is access


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "", "half", "there", "unknown", "::ffff:192.0.2.1"])
def test_without_login_it_listens_nowhere_else(host: str) -> None:
    """Not on every address, not by a name that stands for another one too, or for nothing."""
    with pytest.raises(UsageError, match="no login"):
        check_access(Access(host=host), resolve)


def test_without_login_there_is_nobody_in_front() -> None:
    """Whoever names a proxy or another address wants others to come in."""
    for access in (Access(origins=ORIGINS), Access(proxies=PROXIES)):
        with pytest.raises(UsageError, match="no login"):
            check_access(access, resolve)


def test_with_a_login_it_may_listen_anywhere() -> None:
    """If it is said how browsers name it, and of a proxy where it is."""
    for host in ("0.0.0.0", "127.0.0.1"):
        assert check_access(Access(Mode.TOKENS, host, ORIGINS), resolve).over_tls
        assert check_access(Access(Mode.PROXY, host, ORIGINS, PROXIES), resolve)
    assert check_access(Access(Mode.TOKENS), resolve).over_tls is False


@pytest.mark.parametrize(
    ("access", "told"),
    [
        (Access(Mode.TOKENS, "0.0.0.0"), "the address that browsers open"),
        (Access(Mode.PROXY, "0.0.0.0", ORIGINS), "name the addresses of the proxy"),
        (Access(Mode.PROXY, proxies=PROXIES, user_header="cookie"), "not a header"),
        (Access(Mode.PROXY, proxies=PROXIES, user_header="x-forwarded-for"), "not a header"),
        (Access(Mode.PROXY, proxies=PROXIES, user_header="X_User"), "not a header"),
    ],
)
def test_a_login_that_would_be_none_is_refused(access: Access, told: str) -> None:
    """What is missing is named before anything listens."""
    with pytest.raises(UsageError, match=told):
        check_access(access, resolve)


@pytest.mark.parametrize(
    "origin",
    [
        "thpdiag.example.org", f"{ORIGIN}/", f"{ORIGIN}/x", "https://THPDIAG.example.org", f"{ORIGIN}:443", "null", "*",
        "ftp://a", "https://", "https://u@a", "http://a:x", "https://[", "http://a:80", "",
    ],
)  # fmt: skip
def test_an_origin_is_written_as_browsers_write_it(origin: str) -> None:
    """Otherwise it would never be equal to theirs."""
    with pytest.raises(UsageError, match="origin"):
        check_access(Access(Mode.TOKENS, "0.0.0.0", frozenset((origin,))), resolve)


@pytest.mark.parametrize("text", ["0.0.0.0/0", "::/0", "10.0.0.5/8", "proxy", ""])
def test_an_address_of_a_proxy_is_one(text: str) -> None:
    """Not all of them, no name that somebody could point elsewhere."""
    with pytest.raises(UsageError):
        parse_networks([text])


def test_an_address_is_the_same_however_it_is_written() -> None:
    """One of IPv4 on a socket of IPv6 too, and with the name of an interface."""
    assert is_in_networks("10.0.0.5", PROXIES)
    assert is_in_networks("::ffff:10.0.0.5", PROXIES)
    assert is_in_networks("fd00::7%eth0", PROXIES)
    assert not is_in_networks("10.0.0.50", PROXIES)
    assert not is_in_networks("", PROXIES)
    assert not is_in_networks("10.0.0.5, 1.2.3.4", PROXIES)
    assert is_loopback("::1%lo", resolve)


@pytest.mark.parametrize(
    ("peer", "forwarded", "seen"),
    [
        ("10.0.0.5", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.5", ["1.1.1.1, 198.51.100.1"], "198.51.100.1"),  # what stands left is what the client said
        ("10.0.0.5", ["1.1.1.1", "198.51.100.1, fd00::1"], "198.51.100.1"),
        ("10.0.0.5", ["198.51.100.1, unknown"], "10.0.0.5"),
        ("10.0.0.5", [], "10.0.0.5"),
        ("203.0.113.7", ["198.51.100.1"], "203.0.113.7"),
        ("", ["198.51.100.1"], ""),
    ],
)
def test_who_is_behind_a_proxy(peer: str, forwarded: list[str], seen: str) -> None:
    """The last one that no trusted proxy is; of others the header says nothing."""
    assert client_address(peer, forwarded, PROXIES) == seen


def test_failures_of_one_host_count_together() -> None:
    """Of IPv6 a host has 2^64 addresses."""
    assert (
        address_prefix("2001:db8:1:2:3:4:5:6") == address_prefix("2001:db8:1:2::") != address_prefix("2001:db8:1:3::")
    )
    assert address_prefix("::ffff:192.0.2.1") == address_prefix("192.0.2.1") != address_prefix("192.0.2.2")
    assert address_prefix("nonsense") == ""
