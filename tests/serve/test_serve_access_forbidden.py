"""Access to the upload page: each thing that is forbidden is refused before the application sees it."""

from __future__ import annotations

import pytest

from serve_requests import CASE, ORIGIN, TOKENS, House, bearer, finish, prefix, request
from thpdiag.serve.access.principals import Access, AuthMethod, Mode, Principal, Scope, parse_networks

PAGE = (("origin", ORIGIN), ("sec-fetch-site", "same-origin"))
BUNDLE = "/api/v1/bundles/b.tar.xz"


def test_a_right_token_gets_through() -> None:
    """What follows would pass on a gate that is always shut."""
    house = House()

    answer = house.ask("GET", CASE, bearer(house.token("read")))

    assert (answer.status, answer.body) == (200, b"served")
    assert [(who.auth_method, who.name, who.scopes) for _, _, who, _ in house.through] == [
        (AuthMethod.TOKEN, "ci", {Scope.READ})
    ]


@pytest.mark.parametrize(
    ("method", "path"), [("GET", CASE), ("GET", "/"), ("DELETE", CASE), ("PUT", BUNDLE), ("POST", "/files")]
)
def test_no_token_is_refused(method: str, path: str) -> None:
    """Without a login there is nothing but what is for anybody."""
    house = House()

    answer = house.ask(method, path)

    assert (answer.status, answer.told["status"]) == (401, 401)
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert house.through == []


@pytest.mark.parametrize(
    ("scope", "method", "path"),
    [
        ("upload", "GET", CASE),
        ("upload", "DELETE", CASE),
        ("upload", "POST", f"{CASE}/keep"),
        ("read", "PUT", BUNDLE),
        ("read", "POST", "/files"),
        ("read", "DELETE", CASE),
    ],
)
def test_a_wrong_scope_is_refused_and_written_down(scope: str, method: str, path: str) -> None:
    """A token for uploads reads nothing, one that reads deletes nothing."""
    house = House()
    secret = house.token(scope)

    answer = house.ask(method, path, bearer(secret))

    assert answer.status == 403
    assert house.through == []
    assert [(e.action, e.outcome, e.actor, e.address) for e in house.events] == [
        ("request", "refused", f"token:{prefix(secret)}:ci", "203.0.113.7")
    ]


def test_admin_includes_the_others() -> None:
    """Whoever may delete a case may look at it."""
    house = House()
    secret = house.token("admin")

    assert [house.ask(m, p, bearer(secret)).status for m, p in (("GET", CASE), ("DELETE", CASE), ("PUT", BUNDLE))] == [
        200, 200, 200,
    ]  # fmt: skip


@pytest.mark.parametrize("scheme", ["Bearer ", "Bearer x", "Basic dTpw", "", "Bearer thpdiag_0_0", "Token {}", "{}"])
def test_what_is_no_bearer_token_is_refused(scheme: str) -> None:
    """Only one form counts, though the secret may be in it."""
    house = House()

    assert house.ask("GET", CASE, ("authorization", scheme.format(house.token("read")))).status == 401
    assert house.through == []


def test_an_expired_token_is_refused() -> None:
    """A token ends in the second that it says."""
    house = House()
    secret = house.token("read", expires=house.now + 60)

    assert house.ask("GET", CASE, bearer(secret)).status == 200
    house.now += 60
    assert house.ask("GET", CASE, bearer(secret)).status == 401


def test_a_token_that_was_ended_takes_its_sessions_with_it() -> None:
    """A cookie alone is no login."""
    house = House()
    secret = house.token("read")
    cookie = house.cookie(secret)

    assert house.ask("GET", CASE, cookie).status == 200
    del house.tokens.kept[prefix(secret)]
    assert house.ask("GET", CASE, cookie).status == 401
    assert house.ask("GET", CASE, bearer(secret)).status == 401


def test_a_wrong_token_beside_a_right_cookie_is_refused() -> None:
    """What a request says of itself counts alone."""
    house = House()
    secret = house.token("read")

    assert house.ask("GET", CASE, house.cookie(secret), bearer(secret[:-1] + "x")).status == 401


def test_a_route_that_nobody_named_is_closed() -> None:
    """Even for admin, and by any method."""
    house = House()
    secret = house.token("admin")

    assert house.ask("GET", "/api/v1/new", bearer(secret)).status == 404
    assert house.ask("GET", f"{CASE}/", bearer(secret)).status == 404
    refused = house.ask("PATCH", CASE, bearer(secret))
    assert (refused.status, refused.headers["allow"]) == (405, "DELETE, GET")
    assert house.through == []


def test_an_upload_of_somebody_else_does_not_exist_for_others() -> None:
    """An upload is its owner's: the token, or the session begun with it, and admin's."""
    mine = Principal("ci", AuthMethod.TOKEN, frozenset({Scope.UPLOAD}), "aa")
    session = Principal("ci", AuthMethod.SESSION, frozenset({Scope.UPLOAD}), "aa", "nonce")
    other = Principal("ci", AuthMethod.TOKEN, frozenset({Scope.UPLOAD, Scope.READ}), "bb")
    user = Principal("aa", AuthMethod.PROXY, frozenset({Scope.UPLOAD}), binding="aa")
    admin = Principal("boss", AuthMethod.TOKEN, frozenset({Scope.ADMIN}), "cc")

    assert [who.may_manage(mine.owner) for who in (mine, session, other, user, admin)] == [
        True, True, False, False, True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "from_elsewhere",
    [
        (("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")),
        (("origin", "https://evil.example"),),
        (("origin", "https://wiki.example.org"), ("sec-fetch-site", "same-site")),
        (("origin", "null"), ("sec-fetch-site", "cross-site")),  # a sandboxed report, or a page without referrer
        (("origin", "null"),),
        (("origin", "http://thpdiag.example.org"),),  # not over TLS
        (("sec-fetch-site", "none"),),
    ],
)
def test_a_post_of_another_site_is_refused(from_elsewhere: tuple[tuple[str, str], ...]) -> None:
    """The cookie came along, and with it even a token of a page of ours."""
    house = House()
    cookie = house.cookie(house.token("admin"))
    csrf_token = house.csrf(cookie)

    assert house.ask("DELETE", CASE, cookie, csrf_token, *PAGE).status == 200
    assert house.ask("DELETE", CASE, cookie, csrf_token, *from_elsewhere).status == 403
    assert house.ask("POST", "/sign-in", *from_elsewhere).status == 403  # somebody else's session is not begun for us
    assert len(house.through) == 1


def test_a_change_by_cookie_needs_the_token_of_a_page() -> None:
    """None, a wrong one and that of another session are refused; in the query it counts as in the header."""
    house = House()
    secret = house.token("admin")
    cookie, other = house.cookie(secret), house.cookie(secret)
    right = house.csrf(cookie)

    assert house.ask("DELETE", CASE, cookie, *PAGE).status == 403
    assert house.ask("DELETE", CASE, cookie, *PAGE, ("x-csrf-token", right[1].swapcase())).status == 403
    assert house.ask("DELETE", CASE, cookie, *PAGE, house.csrf(other)).status == 403
    assert house.ask("DELETE", f"{CASE}?csrf={right[1]}&csrf={right[1]}", cookie, *PAGE).status == 403
    assert house.through == []
    assert house.ask("DELETE", f"{CASE}?csrf={right[1]}", cookie, *PAGE).status == 200
    assert house.ask("DELETE", CASE, cookie, *PAGE, right).status == 200


def test_a_page_of_ours_is_known_without_its_origin_too() -> None:
    """A browser that hides it still says that the page was one of ours, if it says such things at all."""
    house = House()
    cookie = house.cookie(house.token("admin"))
    hidden = ("origin", "null"), ("sec-fetch-site", "same-origin")

    assert house.ask("DELETE", CASE, cookie, house.csrf(cookie), *hidden).status == 200
    assert house.ask("DELETE", CASE, cookie, house.csrf(cookie), ("origin", ORIGIN)).status == 200


def test_a_program_with_a_token_needs_no_page() -> None:
    """What no browser sends by itself no other site can use, and it may name the server as it likes."""
    house = House()

    assert house.ask("DELETE", CASE, bearer(house.token("admin")), ("host", "10.1.2.3:8080")).status == 200


def test_a_part_of_another_page_gets_nothing() -> None:
    """An image, a script or a frame of another site is no visit; a link is."""
    house = House()
    cookie = house.cookie(house.token("read"))
    site = ("sec-fetch-site", "cross-site")

    assert house.ask("GET", CASE, cookie, site, ("sec-fetch-mode", "no-cors")).status == 403
    frame = (("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe"))
    assert house.ask("GET", CASE, cookie, site, *frame).status == 403
    link = (("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document"))
    assert house.ask("GET", CASE, cookie, site, *link).status == 200


PROXIED = Access(Mode.PROXY, "0.0.0.0", frozenset((ORIGIN,)), parse_networks(["10.1.2.3"]), "x-forwarded-user")


@pytest.mark.parametrize("access", [TOKENS, PROXIED])
def test_a_thousand_wrong_tokens_keep_no_right_one_out(access: Access) -> None:
    """Of the same address, behind a proxy that is named or not; ten of them are written down, of any shape."""
    house = House(access)
    right, known = house.token("read"), house.token("read")
    for number in range(500):
        assert house.ask("GET", CASE, bearer(f"thpdiag_{number:016x}_{'0' * 64}")).status in (401, 429)
        assert house.ask("GET", CASE, bearer(f"{known[:-64]}{number:064x}")).status in (401, 429)

    assert [house.ask("GET", CASE, bearer(secret)).status for secret in (right, known)] == [200, 200]
    assert len([e for e in house.events if e.action == "authenticate"]) == 10


def test_wrong_secrets_of_one_prefix_are_slowed_down_from_everywhere() -> None:
    """Each address has tries left; the token itself goes on."""
    house = House()
    right = house.token("read")

    found = [house.ask("GET", CASE, bearer(f"{right[:-64]}{n:064x}"), peer=f"203.0.113.{n}").status for n in range(12)]

    assert found == [401] * 10 + [429] * 2
    assert house.ask("GET", CASE, bearer(right)).status == 200


def test_wrong_tokens_are_slowed_down_and_right_ones_are_not() -> None:
    """Ten failures are told and written down, then one in six seconds; another address is not concerned."""
    house = House()
    right, wrong = bearer(house.token("read")), bearer(f"thpdiag_{'0' * 16}_{'0' * 64}")

    assert {house.ask("GET", CASE, right).status for _ in range(30)} == {200}
    assert [house.ask("GET", CASE, wrong).status for _ in range(12)] == [401] * 10 + [429] * 2
    blocked = house.ask("GET", CASE, wrong)
    assert (blocked.status, blocked.headers["retry-after"]) == (429, "6")
    assert house.ask("GET", CASE, right).status == 200
    assert house.ask("GET", CASE, bearer("thpdiag_x"), peer="203.0.113.8").status == 401
    assert len([e for e in house.events if e.action == "authenticate"]) == 11
    house.now += 6
    assert [house.ask("GET", CASE, wrong).status for _ in range(2)] == [401, 429]


def test_what_is_refused_is_written_down_without_names() -> None:
    """The audit log outlives a case that is deleted: it has ids, and nothing that a customer called something."""
    house = House()
    secret = house.token("read")

    for method, path in (("DELETE", CASE), ("PUT", "/api/v1/bundles/canary.tar.xz")):
        assert house.ask(method, path, bearer(secret)).status == 403
    assert [event.subject for event in house.events] == [
        f"DELETE {CASE}: this needs the scope admin",
        "PUT /api/v1/bundles/{name}: this needs the scope upload",
    ]


def test_a_header_makes_no_request_another_one() -> None:
    """The method that tus lets a header name is one of an upload, which needs the same scope."""
    house = House()
    login, override = bearer(house.token("admin")), ("x-http-method-override", "DELETE")

    assert house.ask("POST", f"{CASE}/keep", login, override).status == 400
    assert house.ask("GET", CASE, login, override).status == 400
    assert house.ask("PUT", BUNDLE, login, override).status == 400
    assert house.through == []
    assert house.ask("POST", "/files/x", login, override).status == 200


def test_a_web_socket_is_refused() -> None:
    """There are none, so there is no way around the gate by them."""
    house, sent = House(), []

    async def send(message: object) -> None:
        sent.append(message)

    async def receive() -> dict[str, str]:
        return {"type": "websocket.connect"}

    finish(house.app({**request("GET", CASE), "type": "websocket"}, receive, send))

    assert sent == [{"type": "websocket.close", "code": 1008}]
    assert house.through == []
