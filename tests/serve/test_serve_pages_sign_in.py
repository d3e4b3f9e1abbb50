"""The page where a session begins, asked in memory: what it lets in, what it says, and where it leads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from serve_application import PROXY, Header, Whole, served
from serve_requests import ORIGIN, Answer
from thpdiag.serve.access.credentials import ATTEMPT_BURST
from thpdiag.serve.access.gate import local_path, path_with_return
from thpdiag.serve.access.principals import Mode

FORM: Header = ("content-type", "application/x-www-form-urlencoded")
OURS: tuple[Header, ...] = (("origin", ORIGIN), ("sec-fetch-site", "same-origin"))
HTML: Header = ("accept", "text/html")
ELSEWHERE = (
    "https://evil.example/", "//evil.example/", "/\\evil.example/", "\\\\evil.example", "/\t/evil.example", " /cases",
    "javascript:alert(1)", "/cases\r\nSet-Cookie: a=b", "evil", "/caf\u00e9", "/sign-in", "/sign-in?to=/sign-in", "",
    "/" + "a" * 2_000,
)  # fmt: skip


@pytest.fixture
def whole(tmp_path: Path, database: str | None) -> Iterator[Whole]:
    with served(tmp_path, Mode.TOKENS, database) as made:
        yield made


def sent(whole: Whole, token: str, to: str = "", *headers: Header) -> Answer:
    """The form as a browser sends it."""
    body = urlencode({"token": token}).encode()
    return whole.ask("POST", f"/sign-in{to}", FORM, HTML, *(headers or OURS), body=body)


def session(answer: Answer) -> Header:
    """What the browser sends from then on."""
    return "cookie", answer.headers["set-cookie"].partition(";")[0]


def test_a_token_begins_a_session_that_goes_on_to_where_somebody_wanted(whole: Whole) -> None:
    """From the page that was refused by way of the form to that page; the token itself is in no answer."""
    wanted = "/cases?host=web%201&verdict=found"
    asked = whole.ask("GET", wanted, HTML)
    form = whole.ask("GET", asked.headers["location"], HTML)
    secret = whole.secret("read")
    done = sent(whole, f" {secret}\n", asked.headers["location"].removeprefix("/sign-in"))

    assert (asked.status, asked.headers["location"]) == (303, path_with_return("/sign-in", wanted))
    assert f'action="/sign-in?to={quote(wanted, safe="/")}"' in form.body.decode()
    assert (done.status, done.headers["location"]) == (303, wanted)
    assert all(word in done.headers["set-cookie"] for word in ("HttpOnly", "SameSite=Strict", "Secure", "__Host-"))
    assert secret not in str(done.headers)
    assert whole.ask("GET", wanted, HTML, session(done)).status == 200
    assert [entry[0] for entry in whole.audited()] == ["sign-in"]


def test_a_wrong_token_is_said_on_the_page(whole: Whole) -> None:
    """With the status of the refusal, no cookie, and nothing of what was typed; the way on is kept."""
    answer = sent(whole, f"thpdiag_{'0' * 16}_{'1' * 64}", "?to=/cases")
    page = answer.body.decode()

    assert (answer.status, "set-cookie" in answer.headers) == (401, False)
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert 'role="alert"' in page
    assert "not valid" in page
    assert "1" * 64 not in page
    assert 'action="/sign-in?to=/cases"' in page
    assert whole.audited() == [("authenticate", "refused", "0" * 16)]


@pytest.mark.parametrize("body", [b"", b"token=", b"token=a&token=b", b"\xff=%ff", b"token=%ff", b"&" * 99])
def test_a_form_without_a_token_is_no_attempt(whole: Whole, body: bytes) -> None:
    """It is said, and costs nobody one of the attempts of an address."""
    answer = whole.ask("POST", "/sign-in", FORM, HTML, *OURS, body=body)

    assert (answer.status, "set-cookie" in answer.headers, whole.audited()) == (400, False, [])


def test_whoever_tries_too_often_is_told_how_long_to_wait(whole: Whole) -> None:
    """A right token is taken nevertheless."""
    for _ in range(int(ATTEMPT_BURST)):
        assert sent(whole, "guess").status == 401
    answer = sent(whole, "guess")
    seconds = int(answer.headers["retry-after"])

    assert answer.status == 429
    assert f"Try again in {seconds} seconds" in answer.body.decode()
    assert sent(whole, whole.secret("read")).status == 303
    whole.hands.now += seconds
    assert sent(whole, "guess").status == 401


@pytest.mark.parametrize("to", ELSEWHERE)
def test_it_leads_nowhere_else(whole: Whole, to: str) -> None:
    """What is not a path of this server is forgotten, by the form and by what comes after it."""
    query = f"?to={quote(to, safe='')}"
    form = whole.ask("GET", f"/sign-in{query}", HTML)
    done = sent(whole, whole.secret("read"), query)

    assert 'action="/sign-in"' in form.body.decode()
    assert (done.status, done.headers["location"]) == (303, "/")


def test_addresses_of_this_server_are_kept_as_they_are() -> None:
    """With their queries; two of them stand for none."""
    assert [local_path(path) for path in ("/cases", "/cases?host=a%2Fb&rule=THP-001", "/a//b")] == [
        "/cases", "/cases?host=a%2Fb&rule=THP-001", "/a//b",
    ]  # fmt: skip
    assert path_with_return("/sign-in", "/") == "/sign-in"


def test_a_page_of_another_site_signs_nobody_in(whole: Whole) -> None:
    """Somebody who is signed in as a stranger unknowingly would upload a customer's bundle for them."""
    secret = whole.secret("upload")
    strange = [
        sent(whole, secret, "", ("origin", "https://evil.example")),
        sent(whole, secret, "", ("origin", "null")),
        sent(whole, secret, "", ("origin", ORIGIN), ("sec-fetch-site", "cross-site")),
    ]

    assert [(answer.status, "set-cookie" in answer.headers) for answer in strange] == [(403, False)] * 3


def test_a_link_of_another_site_finds_the_session(whole: Whole) -> None:
    """The browser sends no cookie with it; the page loads itself again, from here, and goes on. It does so once."""
    link = whole.ask("GET", "/sign-in?to=/cases", HTML, ("sec-fetch-site", "cross-site"))
    again = link.headers["refresh"].partition("url=")[2]
    cookie, _ = whole.signed_in("read")
    known = whole.ask("GET", again, HTML, cookie, ("sec-fetch-site", "same-origin"))
    stranger = whole.ask("GET", again, HTML, ("sec-fetch-site", "same-origin"))

    assert link.status == 200
    assert (known.status, known.headers["location"]) == (303, "/cases")
    assert (stranger.status, "refresh" in stranger.headers) == (200, False)
    started = whole.ask("GET", "/sign-in", HTML, ("sec-fetch-site", "cross-site")).headers["refresh"]
    assert started == "0;url=/sign-in?to=/"


def test_signing_out_forgets_the_session(whole: Whole) -> None:
    """The cookie is ended, and that is written down with the prefix of its token; without one nothing is."""
    cookie, _ = whole.signed_in("read")
    (token,) = whole.storage.tokens.all()
    out = whole.ask("POST", "/sign-out", cookie, *OURS)

    assert (out.status, out.headers["location"]) == (303, "/sign-in")
    assert out.headers["set-cookie"].startswith("__Host-thpdiag=; Path=/; Max-Age=0")
    assert whole.audited() == [("sign-out", "done", token.prefix)]
    assert whole.ask("POST", "/sign-out", *OURS).status == 303
    assert whole.ask("POST", "/sign-out", cookie, ("origin", "https://evil.example")).status == 403
    assert len(whole.audited()) == 2


def test_somebody_who_is_signed_in_sees_as_whom(whole: Whole) -> None:
    """And may sign in with another token."""
    cookie, _ = whole.signed_in("read")
    page = whole.ask("GET", "/sign-in", HTML, cookie).body.decode()

    assert "You are signed in with the token" in page
    assert 'name="token"' in page


@pytest.mark.parametrize("mode", [Mode.NONE, Mode.PROXY])
def test_where_no_token_counts_there_is_no_form(tmp_path: Path, mode: Mode) -> None:
    """The page says why, and a form that comes all the same begins nothing."""
    with served(tmp_path, mode) as whole:
        page = whole.ask("GET", "/sign-in", HTML)
        body = urlencode({"token": whole.secret("admin")}).encode()
        answer = whole.ask("POST", "/sign-in", FORM, body=body)
        proxied = whole.ask("GET", "/sign-in", HTML, whole.proxied("ann"), peer=PROXY) if mode is Mode.PROXY else page

        assert "No sign-in is needed" in page.body.decode()
        assert "<form" not in page.body.decode()
        assert (answer.status, "set-cookie" in answer.headers) == (409, False)
        assert ("ann" in proxied.body.decode()) is (mode is Mode.PROXY)
