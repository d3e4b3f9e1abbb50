"""Access to the upload page without a token in each request: no login, sessions, a proxy."""

from __future__ import annotations

from dataclasses import replace

from serve_requests import CASE, KEY, ORIGIN, ROUTES, TOKENS, House, bearer, finish, prefix
from thpdiag.serve.access import credentials
from thpdiag.serve.access.credentials import sign_in
from thpdiag.serve.access.gate import protect
from thpdiag.serve.access.http import RefusedError
from thpdiag.serve.access.principals import Access, AuthMethod, Mode, Principal, parse_networks

PROXY = replace(TOKENS, mode=Mode.PROXY, proxies=parse_networks(["10.0.0.5"]), admins=frozenset({"root@example.org"}))
USER = ("x-forwarded-user", "ann@example.org")
PAGE = (("origin", ORIGIN), ("sec-fetch-site", "same-origin"))


def test_a_session_ends_with_the_time_of_its_token() -> None:
    """Though its own is not over."""
    house = House()
    secret = house.token("read", expires=house.now + 60)
    cookie = house.cookie(secret)

    assert house.ask("GET", CASE, cookie).status == 200
    house.now += 60
    assert house.ask("GET", CASE, cookie).status == 401


def test_signing_in_takes_a_token_and_its_attempts() -> None:
    """A right one gives a cookie that opens and is written down; wrong ones are counted with those of requests."""
    house = House()
    secret = house.token("read")

    def tried(presented: str) -> str | int:
        found: list[str | int] = []

        async def work() -> None:
            try:
                found.append(await sign_in(presented, "203.0.113.7", house.bearer, TOKENS, KEY))
            except RefusedError as refused:
                found.append(refused.status)

        finish(work())
        return found[0]

    given = str(tried(f"{secret}\n"))
    assert given.endswith("HttpOnly; SameSite=Strict; Secure")
    assert house.ask("GET", CASE, ("cookie", given.partition(";")[0])).status == 200
    assert [(e.action, e.outcome, e.subject) for e in house.events] == [("sign-in", "done", prefix(secret))]
    assert [tried("wrong") for _ in range(11)] == [401] * 10 + [429]
    assert house.ask("GET", CASE, bearer(secret)).status == 200
    assert "Strict" in str(tried(secret))


def test_a_cookie_is_for_the_name_of_the_server() -> None:
    """By another name, or its address, a browser is not served with it, even what it may read."""
    house = House()
    cookie = house.cookie(house.token("admin"))

    for host in ("evil.example", "203.0.113.1", "thpdiag.example.org:8080", "thpdiag.example.org.evil.example"):
        assert house.ask("GET", CASE, cookie, ("host", host)).status == 421
    assert house.ask("GET", CASE, cookie, ("host", "THPDIAG.example.org")).status == 200


def test_a_session_ends_with_its_time() -> None:
    """A cookie of yesterday, of another key or with another token's prefix is none."""
    house = House()
    secret, other = house.token("read"), house.token("admin")
    name, value = house.cookie(secret)

    forged = value.replace(prefix(secret), prefix(other))
    strange = f"__Host-thpdiag={credentials.begin_session(bytes(32), prefix(secret), house.now)}"
    assert [house.ask("GET", CASE, (name, text)).status for text in (value, forged, strange)] == [200, 401, 401]
    house.now += credentials.SESSION_SECONDS
    assert house.ask("GET", CASE, (name, value)).status == 401


def test_two_cookies_of_our_name_are_none() -> None:
    """A neighbour of the host may have set one of them."""
    house = House()
    name, value = house.cookie(house.token("read"))

    assert house.ask("GET", CASE, (name, f"a=b; {value}")).status == 200
    assert house.ask("GET", CASE, (name, f"{value}; {value}")).status == 401


def test_no_login_is_for_this_machine_and_by_its_name() -> None:
    """A name of a stranger that points at loopback (DNS rebinding), other sites and a proxy in front are refused."""
    house = House(Access())

    def deleted(host: str, *headers: tuple[str, str]) -> int:
        return house.ask("DELETE", CASE, ("host", host), *headers, peer="127.0.0.1").status

    assert [deleted(host) for host in ("127.0.0.1:8080", "localhost:8080", "[::1]:8080", "LOCALHOST")] == [200] * 4
    assert deleted("localhost:8080", ("origin", "http://localhost:8080"), ("sec-fetch-site", "same-origin")) == 200
    assert [deleted(host) for host in ("evil.example:8080", "localhost.evil.example", "", "[", "localhost@evil")] == [
        421
    ] * 5
    assert deleted("localhost:8080", ("origin", "http://localhost:3000"), ("sec-fetch-site", "same-site")) == 403
    assert deleted("localhost:8080", ("origin", "http://evil.example")) == 403
    assert deleted("localhost:8080", ("origin", "null")) == 403
    assert deleted("localhost:8080", ("x-forwarded-for", "198.51.100.1")) == 403
    assert house.ask("GET", CASE, ("host", "evil.example"), peer="127.0.0.1").status == 421


def test_the_header_of_a_proxy_counts_from_its_address_only() -> None:
    """From anywhere else it is a claim, and refused; so are two of them, and X-Forwarded-For makes nobody the proxy."""
    house = House(PROXY)

    assert house.ask("GET", CASE, USER, peer="10.0.0.5").status == 200
    assert house.ask("GET", CASE, USER, peer="10.0.0.6").status == 403
    assert house.ask("GET", CASE, USER, ("x-forwarded-for", "10.0.0.5"), peer="10.0.0.6").status == 403
    assert house.ask("GET", CASE, USER, USER, peer="10.0.0.5").status == 403
    assert house.ask("GET", CASE, USER, peer="").status == 403
    assert house.ask("GET", CASE, ("x-forwarded-user", " "), peer="10.0.0.5").status == 401
    assert house.ask("GET", CASE, peer="10.0.0.5").status == 401
    assert [(who.name, who.auth_method) for _, _, who, _ in house.through] == [("ann@example.org", AuthMethod.PROXY)]


def test_users_of_a_proxy_do_what_they_may_and_from_our_pages() -> None:
    """They read and upload, those that are named do everything, and a change needs the token of a page of theirs."""
    house = House(PROXY)
    ann = Principal(USER[1], AuthMethod.PROXY, frozenset(), binding=USER[1])
    root = replace(ann, name="root@example.org", binding="root@example.org")
    hers, roots = (("x-csrf-token", credentials.issue_csrf_token(KEY, who, house.now)) for who in (ann, root))

    def deleted(*headers: tuple[str, str]) -> int:
        return house.ask("DELETE", CASE, *PAGE, *headers, peer="10.0.0.5").status

    assert deleted(USER, hers) == 403
    assert deleted(("x-forwarded-user", root.name), roots) == 200
    assert deleted(("x-forwarded-user", root.name)) == 403
    assert deleted(("x-forwarded-user", root.name), hers) == 403


def test_behind_a_proxy_programs_have_tokens() -> None:
    """Ours count from anywhere; what the proxy's own login leaves in Authorization is not looked at."""
    house = House(PROXY)

    assert house.ask("GET", CASE, bearer(house.token("read"))).status == 200
    assert house.ask("GET", CASE, ("authorization", "Basic YW5uOng="), USER, peer="10.0.0.5").status == 200
    assert house.ask("GET", CASE, ("authorization", "Basic YW5uOng=")).status == 401
    assert house.ask("GET", CASE, bearer(f"thpdiag_{'0' * 16}_{'0' * 64}"), USER, peer="10.0.0.5").status == 401


def test_without_a_proxy_its_header_says_nothing() -> None:
    """In mode tokens nobody is believed for a name."""
    house = House(replace(TOKENS, proxies=parse_networks(["10.0.0.5"])))

    assert house.ask("GET", CASE, USER, peer="10.0.0.5").status == 401


def test_somebody_without_a_session_is_shown_where_to_begin_one() -> None:
    """In a browser only; a program gets its 401."""
    house = House()
    app = protect(house._app, replace(TOKENS, sign_in="/sign-in"), ROUTES, house.bearer, KEY)
    house.app = app

    shown = house.ask("GET", "/", ("accept", "text/html,*/*"))
    assert (shown.status, shown.headers["location"]) == (303, "/sign-in")
    onward = house.ask("GET", f"{CASE}?at=1%2F2", ("accept", "text/html"))
    assert onward.headers["location"] == f"/sign-in?to={CASE}%3Fat%3D1%252F2"
    assert house.ask("GET", "/", ("accept", "*/*")).status == 401
    assert house.ask("POST", "/files", ("accept", "text/html")).status == 401
