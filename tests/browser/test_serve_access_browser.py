"""Access to the upload page in a browser: what it is for the browser to hold to, it is asked to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from socket import create_server

import pytest
from playwright.sync_api import BrowserContext, expect
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Connection

from serve_requests import KEY, House, prefix, serving
from thpdiag.report.html import policy_for
from thpdiag.serve.access import credentials
from thpdiag.serve.access.gate import RouteRule, Routes, protect
from thpdiag.serve.access.http import PAGE_HEADERS, download_headers, report_headers
from thpdiag.serve.access.principals import Access, Mode, Scope

ROUTES = Routes(
    (
        RouteRule("GET", "/sign-in", ()),
        RouteRule("GET", "/page", (Scope.READ,)),
        RouteRule("GET", "/report", (Scope.READ,)),
        RouteRule("GET", "/upload.html", (Scope.READ,)),
        RouteRule("POST", "/keep", (Scope.READ,)),
    )
)
SCRIPT = """
const told = [];
try { parent.document.title } catch (e) { told.push('no parent') }
try { document.cookie } catch (e) { told.push('no cookie') }
fetch('/page').catch(() => told.push('no fetch')).finally(() => document.body.textContent = told.join(', '));
"""
REPORT = f"<!DOCTYPE html><body>waits<script>{SCRIPT}</script><script>document.body.textContent = 'strange'</script>"
PAGE = """<!DOCTYPE html><title>ours</title><script>document.title = 'inline'</script>
<form method=post action='/keep?csrf={csrf}'><button>keep</button></form><iframe src=/report></iframe>"""
STRANGE = """<!DOCTYPE html><title>strange</title><iframe src='{to}/report'></iframe><script src='{to}/page'></script>
<form method=post action='{to}/keep?csrf={csrf}'><button>keep</button></form>"""
NewContext = Callable[..., BrowserContext]


@dataclass
class Web:
    """Our server under the name of this machine, and one of a stranger under its address: another site."""

    ours: str
    strange: str
    house: House
    served: list[str] = field(default_factory=list)  # what has got through to our application
    csrf: str = ""  # a token that is right for the session, should the stranger have seen it

    async def app(self, scope: Connection, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        self.served.append(f"{request.method} {request.url.path}")
        await self.answer(request)(scope, receive, send)

    def answer(self, request: Request) -> Response:
        who = request.state.principal
        if request.url.path == "/sign-in":
            cookie = credentials.begin_session(KEY, prefix(self.house.token("read")), self.house.now)
            return PlainTextResponse(
                "in", headers={"Set-Cookie": credentials.set_cookie_header(cookie, over_tls=False)}
            )
        if request.url.path == "/page":
            self.csrf = credentials.issue_csrf_token(KEY, who, self.house.now)
            return HTMLResponse(PAGE.format(csrf=self.csrf), headers=PAGE_HEADERS)
        if request.url.path == "/report":
            return HTMLResponse(REPORT, headers=report_headers(policy_for("", SCRIPT)))
        if request.url.path == "/upload.html":
            return Response(REPORT, headers=download_headers("upload.html"))
        return PlainTextResponse(f"kept for {who.auth_method}")

    async def stranger(self, scope: Connection, receive: Receive, send: Send) -> None:
        page = STRANGE.format(to=self.ours, csrf=self.csrf)
        await HTMLResponse(page, headers={"Referrer-Policy": "unsafe-url"})(scope, receive, send)


@pytest.fixture(params=[Mode.TOKENS, Mode.NONE])
def web(request: pytest.FixtureRequest) -> Iterator[Web]:
    """Both servers, with login and without."""
    with closing(create_server(("127.0.0.1", 0))) as here, closing(create_server(("127.0.0.1", 0))) as there:
        ours, strange = (
            f"http://{name}:{s.getsockname()[1]}" for name, s in (("localhost", here), ("127.0.0.1", there))
        )
        origins = frozenset((ours,)) if request.param is Mode.TOKENS else frozenset()
        house = House(Access(request.param, origins=origins))
        made = Web(ours, strange, house)
        guarded: ASGIApp = protect(made.app, house.access, ROUTES, house.bearer, KEY)
        with serving(guarded, here), serving(made.stranger, there):
            yield made


def signed_in(context: BrowserContext, web: Web) -> None:
    page = context.new_page()
    page.goto(f"{web.ours}/sign-in")
    page.goto(f"{web.ours}/page")
    page.close()
    web.served.clear()


def test_a_page_of_ours_may_change_something_without_script(web: Web, new_context: NewContext) -> None:
    """A plain form carries what shows that it is ours, though nothing but the browser is at work."""
    context = new_context(java_script_enabled=False)
    signed_in(context, web)
    page = context.new_page()
    page.goto(f"{web.ours}/page")
    page.click("button")

    expect(page.locator("body")).to_have_text(f"kept for {'session' if web.house.access.origins else 'local'}")
    context.close()


def test_a_page_of_another_site_may_not(web: Web, new_context: NewContext) -> None:
    """No form of theirs gets through, though they know the token of ours; no frame, no script; a link does at most."""
    context = new_context()
    signed_in(context, web)
    page = context.new_page()
    page.goto(web.strange, wait_until="load")
    with page.expect_response(f"{web.ours}/keep*") as answered:
        page.click("button")

    assert answered.value.status == 403
    assert web.served == []
    context.close()


def test_our_page_runs_nothing_inline_and_a_report_reaches_nothing(web: Web, new_context: NewContext) -> None:
    """Our title stays; the report's own script runs, a stranger's does not, and it sees neither us nor cookies."""
    context = new_context()
    signed_in(context, web)
    page = context.new_page()
    page.goto(f"{web.ours}/page")

    expect(page.frame_locator("iframe").locator("body")).to_have_text("no parent, no cookie, no fetch")
    assert page.title() == "ours"
    assert web.served == ["GET /page", "GET /report"]
    context.close()


def test_an_upload_that_is_opened_is_saved_by_the_browser(web: Web, new_context: NewContext) -> None:
    """An upload of HTML never becomes a page of ours."""
    context = new_context()
    signed_in(context, web)
    page = context.new_page()
    page.goto(f"{web.ours}/page")
    with page.expect_download() as saved:
        page.evaluate("location.href = '/upload.html'")

    assert saved.value.suggested_filename == "upload.html"
    assert page.url == f"{web.ours}/page"
    context.close()


def test_a_session_is_seen_by_no_script(web: Web, new_context: NewContext) -> None:
    """Its cookie is for requests to this host, and for those of this site."""
    context = new_context()
    signed_in(context, web)
    page = context.new_page()
    page.goto(f"{web.ours}/page")

    assert page.evaluate("document.cookie") == ""
    assert [(c["httpOnly"], c["sameSite"]) for c in context.cookies()] == [(True, "Strict")]
    context.close()
