"""What a browser may do with answers of the upload page, and what its log says: headers, file names, no secrets."""

from __future__ import annotations

import io
import logging
import re
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import Response
from starlette.types import ASGIApp

from serve_requests import CASE, Answer, House, ask, bearer, prefix
from thpdiag.report.html import policy
from thpdiag.serve.access.audit import RequestLog, log_handler, mask_secrets
from thpdiag.serve.access.http import (
    PAGE_HEADERS,
    STATIC_HEADERS,
    SecurityHeaders,
    content_disposition,
    download_headers,
    report_headers,
)
from thpdiag.serve.access.principals import Access

ALWAYS = {
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


def answered(headers: dict[str, str]) -> Answer:
    """What leaves of an answer with these headers."""
    app: ASGIApp = SecurityHeaders(Response("x", headers=headers))
    return ask(app, "GET", "/")


def directives(answer: Answer) -> dict[str, str]:
    parts = [part.strip().partition(" ") for part in answer.headers["content-security-policy"].split(";")]
    return {name: rest for name, _, rest in parts}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        PAGE_HEADERS,
        STATIC_HEADERS,
        report_headers(policy()),
        download_headers("a"),
        {"x-content-type-options": "no"},
    ],
)
def test_every_answer_says_what_it_always_says(headers: dict[str, str]) -> None:
    """Nothing is guessed from its bytes, and no other site uses a part of it, whatever the route has said."""
    told = answered(headers).headers

    assert {name: told.getlist(name) for name in ALWAYS} == {name: [value] for name, value in ALWAYS.items()}
    assert told["referrer-policy"] in ("no-referrer", "same-origin")


def test_an_answer_that_forgot_what_it_is_shows_nothing() -> None:
    """Neither scripts nor styles nor frames, an origin of its own, and no cache keeps it."""
    answer = answered({})

    assert directives(answer) == {
        "default-src": "'none'", "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'",
        "sandbox": "",
    }  # fmt: skip
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"


def test_a_page_uses_what_is_ours_only() -> None:
    """Everything else is refused, inline too, and it is in no frame."""
    answer = answered(PAGE_HEADERS)
    told = directives(answer)

    assert told["default-src"] == told["base-uri"] == told["frame-ancestors"] == "'none'"
    assert {told[name] for name in told if name not in ("default-src", "base-uri", "frame-ancestors")} == {"'self'"}
    assert answer.headers["referrer-policy"] == "same-origin"  # to others nothing


def test_a_report_has_an_origin_of_its_own() -> None:
    """Its script runs by digest, in a frame of ours, and reaches nothing."""
    told = directives(answered(report_headers(policy())))

    assert told["sandbox"] == "allow-scripts"
    assert told["default-src"] == "'none'"
    assert told["frame-ancestors"] == "'self'"
    assert told["script-src"].startswith("'sha256-")
    assert "connect-src" not in told


@pytest.mark.parametrize(
    "loose",
    [
        "default-src 'none'; script-src 'unsafe-inline'", "default-src 'self'", "", "script-src 'none'",
        "default-src 'none'; script-src https://cdn.example", "default-src 'none'; style-src *",
        "default-src 'none'\r\nset-cookie: a=b", "default-src 'none'; sandbox allow-same-origin",
    ],
)  # fmt: skip
def test_a_report_with_a_loose_policy_is_not_served(loose: str) -> None:
    """A mistake of ours that a test shall find, not a customer."""
    with pytest.raises(ValueError, match="by digest only"):
        report_headers(loose)


def test_an_upload_that_is_opened_is_saved() -> None:
    """An upload of HTML comes as bytes to be saved, in a sandbox, whatever it is called."""
    answer = answered(download_headers("report.html"))

    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment; ")
    assert "sandbox" in directives(answer)


@given(st.text(max_size=300) | st.binary(max_size=50).map(lambda b: b.decode("utf-8", "surrogateescape")))
def test_the_name_of_a_file_is_only_a_name(name: str) -> None:
    """One header, in it no folder, no control character, nothing that turns the direction, no hidden file."""
    told = re.fullmatch(
        r"attachment; filename=\"([\w.-]+)\"; filename\*=UTF-8''([\w.~%-]+)", content_disposition(name), re.ASCII
    )

    assert told
    whole = unquote(told[2], errors="strict")
    assert whole.isprintable()
    assert not set(whole) & set("/\\\u202e\u2066")
    assert not whole.startswith(".")
    assert not told[1].startswith(".")
    assert 0 < len(whole) <= 120


def test_a_name_stays_what_it_is() -> None:
    """Letters of any language for those who can read them, and ASCII for the others."""
    assert content_disposition("../C:\\x\\sosreport-ä\u202etxt.tar.xz") == (
        "attachment; filename=\"sosreport-__txt.tar.xz\"; filename*=UTF-8''sosreport-%C3%A4_txt.tar.xz"
    )
    assert (
        content_disposition("")
        == content_disposition("..")
        == "attachment; filename=\"download\"; filename*=UTF-8''download"
    )


def test_refusals_have_the_headers_too() -> None:
    """Those of the gate, and of the form of a request."""
    for path, status in ((CASE, 401), ("/a/../b", 400)):
        answer = House().ask("GET", path)
        assert answer.status == status
        assert {name: answer.headers[name] for name in ALWAYS} == ALWAYS
        assert "sandbox" in directives(answer)


def logged(method: str, target: str, *headers: tuple[str, str], house: House) -> str:
    lines: list[str] = []
    log = RequestLog(house.app, Access(), lines.append)
    ask(log, method, target, [("host", "thpdiag.example.org"), *headers])
    return "\n".join(lines)


def test_the_log_says_who_did_what() -> None:
    """Address, way, prefix and name of the token, method, path, answer."""
    house = House()
    secret = house.token("read")

    assert logged("GET", CASE, bearer(secret), house=house) == f"203.0.113.7 token:{prefix(secret)}:ci GET {CASE} 200"
    assert logged("GET", CASE, house=house) == f"203.0.113.7 nobody GET {CASE} 401"


def test_no_secret_is_in_the_log_or_written_down() -> None:
    """Neither of a request that is served nor of one that is refused: headers and queries are not there."""
    house = House()
    secret = house.token("upload", label="ci")
    cookie = house.cookie(secret)
    target = f"{CASE}?csrf={house.csrf(cookie)[1]}&token={secret}&q=canary"
    text = "".join(
        logged(method, target, login, ("referer", f"https://x/?{secret}"), house=house)
        for method in ("GET", "DELETE", "PUT")
        for login in (cookie, bearer(secret), bearer(secret[:-1] + "x"))
    ) + str(house.events)

    hidden = [secret.split("_")[2], secret.split("_")[2][:-1], cookie[1].rpartition(".")[2], "canary", "csrf="]
    assert [word for word in hidden if word in text] == []
    assert house.events


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer SECRET", "{'authorization': 'Basic SECRET'}", "(b'cookie', b'thpdiag=SECRET; a=SECRET')",
        "Set-Cookie: thpdiag=SECRET; Path=/", f"token thpdiag_{'0' * 16}_{'ab' * 32}",
        "GET /x?csrf=SECRET&a=SECRET HTTP/1.1",
        f"{'0a' * 8}.{'ab' * 16}.aSa_0Q.{'cd' * 20}-_x", "postgresql+psycopg://thpdiag:SECRET@db/thpdiag",
        "bearer SECRET", "X-CSRF-Token: SECRET",
    ],
)  # fmt: skip
def test_a_line_of_a_library_has_no_secret_either(text: str) -> None:
    """What has its form is blotted out, in the traceback of a mistake too; the rest stays."""
    stream = io.StringIO()
    logger = logging.Logger("a library")
    logger.addHandler(log_handler(stream))
    try:
        raise ValueError(text)
    except ValueError:
        logger.exception("while reading %s", text)
    written = stream.getvalue()

    assert [word for word in ("SECRET", "ab" * 8, "cd" * 8) if word in written] == []
    assert "***" in written
    assert "ValueError" in written


@pytest.mark.parametrize(
    "text", ["is this a question? yes", "sha256 " + "ab" * 32, "https://thpdiag.example.org:8080/x"]
)
def test_what_is_no_secret_stays_in_the_log(text: str) -> None:
    """The digest of a bundle, an address, a question."""
    assert mask_secrets(text) == text


def test_a_name_of_a_customer_makes_no_line_of_its_own() -> None:
    """Line breaks and control characters in a path or a method are escaped; the path is logged as it was sent."""
    line = logged("GET\x1b", "/api/v1/bundles/a%0Ab\x1b[2J", house=House())

    assert line == "203.0.113.7 nobody GET\\x1b /api/v1/bundles/a%0Ab\\x1b[2J 400"


def test_a_request_without_answer_is_logged_too() -> None:
    """A mistake of ours, or a client that went away."""
    lines: list[str] = []

    async def breaks(*_: object) -> None:
        raise RuntimeError("ours")

    with pytest.raises(RuntimeError):
        ask(RequestLog(breaks, Access(), lines.append), "GET", CASE)
    assert lines == [f"203.0.113.7 nobody GET {CASE} 499"]
