"""What no request to the upload page may be: its form, the size of its headers, and of a body that is no upload."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message

from serve_requests import CASE, ROUTES, Answer, House, ask, bearer, finish, request
from thpdiag.serve.access.gate import MAX_BODY_BYTES, BodyLimit, check_shape, is_deceptive_path

HOST = ("host", "thpdiag.example.org")


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/bundles/../../etc/passwd", "/api/v1/bundles/..%2f..%2fetc%2fpasswd", "/api/v1/bundles/%2e%2e",
        "/files/%2E%2E/%2e%2e/x", "/files/.", "/files/%2e", "/files//x", "//evil.example/x", "/files/a%5cb",
        "/files/a\\b", "/files/a%00.tar", "/files/a%0d%0aSet-Cookie:x", "/files/a%7f", "/files/a%1b[2J", "files/x", "",
        "*", "http://evil.example/", "/files/%2F",
    ],
)  # fmt: skip
def test_a_trick_in_a_path_is_refused(path: str) -> None:
    """In the name of a bundle, in an id of tus, anywhere; before a token is looked at."""
    house = House()

    assert house.ask("PUT", path, bearer(house.token("admin"))).status == 400
    assert (house.tokens.looked_up, house.through) == (0, [])


@pytest.mark.parametrize(
    "path",
    ["/", CASE, "/api/v1/bundles/Fall%20%C3%A4%204711.tar.xz", "/api/v1/bundles/a..b", "/x/...", "/a/", "/a%25b"],
)
def test_an_odd_name_is_no_trick(path: str) -> None:
    """Spaces, letters of any language, dots within a name."""
    assert not is_deceptive_path(path.encode())


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([("x", "y" * 20_000)], 431),
        ([("x" * 20_000, "y")], 431),
        ([(f"x{n}", "") for n in range(101)], 431),
        ([("host", "evil.example")], 400),
        ([("authorization", "Bearer a"), ("authorization", "Bearer b")], 400),
        ([("cookie", "a=b"), ("cookie", "a=c")], 400),
        ([("origin", "null"), ("origin", "null")], 400),
        ([("x-http-method-override", "DELETE")], 400),
        ([("x-original-url", "/healthz")], 400),
    ],
)
def test_headers_that_no_honest_client_sends_are_refused(headers: list[tuple[str, str]], status: int) -> None:
    """Too many, too large, twice what counts once, and what would make the request another one."""
    check_shape(request("GET", CASE, [HOST]))
    assert House().ask("GET", CASE, HOST, *headers).status == status


def test_a_request_without_host_is_refused() -> None:
    """Nothing would say that it is meant for us."""
    assert ask(House().app, "GET", "/healthz").status == 400
    assert ask(House().app, "GET", "/healthz", [HOST]).status == 200


def test_a_long_address_is_refused() -> None:
    """Path and query together."""
    house = House()

    assert house.ask("GET", f"{CASE}?{'q' * 8_192}").status == 414
    assert house.ask("GET", f"/healthz?{'q' * 4_096}").status == 200


def bodied(*parts: bytes, announced: str = "", path: str = "/sign-in", method: str = "POST") -> tuple[House, Answer]:
    house = House()
    more = [("content-length", announced)] if announced else []
    login = [bearer(house.token("upload"))] if path != "/sign-in" else []
    return house, house.ask(method, path, *more, *login, body=parts)


def test_a_small_body_is_handed_on_whole() -> None:
    """In however many parts it came."""
    house, answer = bodied(b"tok", b"", b"en=x" * 100)

    assert answer.status == 200
    assert house.through[0][3] == b"tok" + b"en=x" * 100


def test_a_large_body_is_refused_where_it_is_no_upload() -> None:
    """At the limit it is taken; one byte more is not, announced or not; of an announced one nothing is read."""
    assert bodied(bytes(MAX_BODY_BYTES), announced=str(MAX_BODY_BYTES))[1].status == 200
    for house, answer in (
        bodied(bytes(MAX_BODY_BYTES), b"x"),
        bodied(b"", announced=str(MAX_BODY_BYTES + 1)),
        bodied(b"", announced="9" * 99),
    ):
        assert (answer.status, answer.headers["connection"], house.through) == (413, "close", [])


def test_an_upload_is_handed_on_as_it_comes() -> None:
    """Its own limits are elsewhere."""
    house, answer = bodied(bytes(MAX_BODY_BYTES), b"x", path="/api/v1/bundles/b.tar", method="PUT")

    assert answer.status == 200
    assert len(house.through[0][3]) == MAX_BODY_BYTES + 1


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    """And one whose sender went away is nobody's request."""
    sent: list[Message] = []

    async def never(*_: object) -> None:
        raise AssertionError("the application was called")

    async def silent() -> Message:
        return await asyncio.get_running_loop().create_future()

    async def gone() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    finish(BodyLimit(never, ROUTES, seconds=0)(request("POST", "/sign-in"), silent, send))
    finish(BodyLimit(never, ROUTES)(request("POST", "/sign-in"), gone, send))

    assert [message.get("status") for message in sent] == [408, None]
