"""The upload page's server on a real socket: heads that grow for ever, that never end, and trailers."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import pytest

from serve_requests import House, serving
from thpdiag.serve.access.http import LimitedHttpProtocol
from thpdiag.serve.access.principals import Access

PATIENCE = 30.0  # seconds, after which a test that would wait for ever fails
GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /sign-in HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
Connect = Callable[[], socket.socket]


class Hasty(LimitedHttpProtocol):
    """Waits hardly at all."""

    max_head_seconds = 0.05


@pytest.fixture(params=[LimitedHttpProtocol])
def house(request: pytest.FixtureRequest) -> Iterator[tuple[House, Connect]]:
    """A server on a free port of loopback, in a thread, and what connects to it."""
    inside = House(Access())
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        address = listening.getsockname()
        with serving(inside.app, listening, request.param):
            yield inside, lambda: socket.create_connection(address, timeout=PATIENCE)


class Few(LimitedHttpProtocol):
    """Room for two connections of an address."""

    max_connections = 2


hasty = pytest.mark.parametrize("house", [Hasty], indirect=True)


def rest(connection: socket.socket) -> bytes:
    """What still comes until the server closes; that it closes hard is no difference."""
    received = b""
    try:
        while data := connection.recv(65_536):
            received += data
    except ConnectionError:
        pass
    return received


def flood(connection: socket.socket, piece: bytes, most: int) -> bool:
    """Sends a piece again and again: whether the server stopped that before so many bytes."""
    sent = 0
    try:
        while sent < most:
            sent += connection.send(piece)
    except ConnectionError:
        return True
    return False


def test_an_honest_request_is_answered(house: tuple[House, Connect]) -> None:
    """Two of them on one connection, with headers in pieces, and nothing says what serves them."""
    _, connect = house
    with connect() as connection:
        for piece in (GET, b"X-A: ", b"b" * 1000, b"\r\n\r\n", GET, b"Connection: close\r\n\r\n"):
            connection.sendall(piece)
        answer = rest(connection)

    assert answer.count(b"HTTP/1.1 200 OK") == 2
    assert answer.count(b"served") == 2
    assert b"uvicorn" not in answer


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        pytest.param(GET, b"X-A: " + b"b" * 8_000 + b"\r\n", id="headers"),
        pytest.param(GET + b"X-A: ", b"b" * 8_000, id="value"),
        pytest.param(GET, b"b" * 8_000, id="name"),
        pytest.param(b"GET /", b"b" * 8_000, id="address"),
        pytest.param(POST + b"0\r\n", b"X-A: " + b"b" * 8_000 + b"\r\n", id="trailers"),
        pytest.param(POST + b"0\r\nX-A: ", b"b" * 8_000, id="trailer"),
        pytest.param(POST + b"1;", b"b" * 8_000, id="extension"),
    ],
)
def test_a_head_that_grows_for_ever_is_stopped(house: tuple[House, Connect], begin: bytes, piece: bytes) -> None:
    """Long before it fills the memory, wherever in a request it grows."""
    inside, connect = house
    with connect() as connection:
        connection.sendall(begin)

        assert flood(connection, piece, 64 << 20)
    assert inside.through == []


def test_a_large_head_is_told_what_it_is(house: tuple[House, Connect]) -> None:
    """Where it was read to its end."""
    _, connect = house
    with connect() as connection:
        connection.sendall(GET + b"X-A: " + b"b" * 20_000 + b"\r\nConnection: close\r\n\r\n")

        assert rest(connection).startswith(b"HTTP/1.1 431 ")


@hasty
@pytest.mark.parametrize("begin", [b"", b"GET", GET, GET + b"X-A: b", b"\r\n"])
def test_a_head_that_does_not_come_is_not_waited_for(house: tuple[House, Connect], begin: bytes) -> None:
    """Not the first byte of a connection, not the last one of its headers; others are served meanwhile."""
    inside, connect = house
    with connect() as slow, connect() as quick:
        slow.sendall(begin)
        quick.sendall(GET + b"Connection: close\r\n\r\n")

        assert b"served" in rest(quick)
        assert rest(slow) == (b"" if not begin.strip() else rest_of_408())
    assert len(inside.through) == 1


def rest_of_408() -> bytes:
    return b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def test_trailers_are_no_headers(house: tuple[House, Connect]) -> None:
    """What comes after the body changes nothing of a request that was let in; the body is whole."""
    inside, connect = house
    with connect() as connection:
        connection.sendall(POST + b"3\r\nabc\r\n0\r\nX-Forwarded-User: root\r\n\r\n")
        connection.sendall(GET + b"Connection: close\r\n\r\n")
        answer = rest(connection)

    assert answer.count(b"HTTP/1.1 200 OK") == 2
    assert [body for _, path, _, body in inside.through if path == "/sign-in"] == [b"abc"]
    assert [name for names in inside.headers for name in names if name.startswith("x-")] == []


@pytest.mark.parametrize("framing", [b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", b"Content-Length: x\r\n"])
def test_a_body_of_two_lengths_is_refused(house: tuple[House, Connect], framing: bytes) -> None:
    """A proxy in front could believe the other one."""
    inside, connect = house
    with connect() as connection:
        connection.sendall(b"POST /sign-in HTTP/1.1\r\nHost: localhost\r\n" + framing + b"\r\n0\r\n\r\n")

        assert rest(connection).startswith(b"HTTP/1.1 400 ")
    assert inside.through == []


@pytest.mark.parametrize("house", [Few], indirect=True)
def test_one_address_has_so_many_connections(house: tuple[House, Connect]) -> None:
    """One more is closed at once; those that were there are served, and room is made when one goes."""
    _, connect = house
    with connect() as first:
        with connect() as second:
            for connection in (first, second):  # answered: the server knows them
                connection.sendall(GET + b"\r\n")
                assert connection.recv(65_536).startswith(b"HTTP/1.1 200 OK")
            with connect() as third:
                with suppress(ConnectionError):  # closed already
                    third.sendall(GET + b"Connection: close\r\n\r\n")
                assert rest(third) == b""
            second.sendall(GET + b"Connection: close\r\n\r\n")
            assert b"served" in rest(second)
        with connect() as fourth:
            fourth.sendall(GET + b"Connection: close\r\n\r\n")
            assert b"served" in rest(fourth)
