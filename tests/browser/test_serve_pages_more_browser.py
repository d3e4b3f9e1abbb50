"""Signing in, tokens, rules and the fleet in a browser: with script and without, bright and dark, wide and narrow."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from socket import create_server
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, expect

from serve_application import Whole, served
from serve_requests import serving
from small_results import document
from thpdiag.serve.access.principals import Mode
from thpdiag.serve.fleet import FleetCache

HOSTILE = "<img src=x onerror=\"document.title='owned'\">\u202e'&{{7*7}}"
NewContext = Callable[..., BrowserContext]
WIDE, NARROW = {"width": 1200, "height": 900}, {"width": 390, "height": 844}
WAYS = [("light", WIDE), ("dark", NARROW)]
AXE = "Failed to execute 'postMessage' on 'DOMWindow'"  # it speaks to all frames, also to those in a sandbox
SLOW = 30_000  # milliseconds that a busy machine may take


@dataclass
class Site:
    """A server in mode tokens with a fleet of two hosts, its address, and a token of an admin."""

    whole: Whole
    url: str
    secret: str


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    at = create_server(("127.0.0.1", 0))
    url = f"http://localhost:{at.getsockname()[1]}"
    with at, served(tmp_path_factory.mktemp("site"), Mode.TOKENS, origin=url) as whole:
        for number, host in enumerate((HOSTILE, "web1")):
            whole.uploaded(f"{number}".encode(), f"{HOSTILE}.tar")
            told = document(number)
            whole.done(whole.claimed(), {**told, "host": {**told["host"], "name": host, "kernel": HOSTILE}})
        assert FleetCache(whole.storage, whole.hands).view(120).made
        secret = whole.secret("admin", label="alice")
        whole.secret("read", label=HOSTILE.replace("\u202e", ""))
        with whole.listening(at):
            yield Site(whole, url, secret)


def opened(new_context: NewContext, site: Site, **browser: Any) -> tuple[Page, list[str]]:
    """A page that is signed in, and what its console complains of."""
    page = new_context(**{"viewport": WIDE, **browser}).new_page()
    page.set_default_timeout(SLOW)
    told: list[str] = []
    page.on("console", lambda message: told.extend([] if message.text.startswith(AXE) else [message.text]))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.goto(f"{site.url}/cases")
    page.fill("#token", site.secret)
    page.click("main button")
    expect(page).to_have_url(f"{site.url}/cases")
    return page, told


def is_fine(page: Page) -> None:
    """No violation of axe-core's rules; nothing stands out to the side; nothing of a stranger is an element."""
    found = [violation["id"] for violation in Axe().run(page).response["violations"]]
    assert found == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("img").count() == 0
    assert "owned" not in page.title()


@pytest.mark.parametrize(("scheme", "size"), WAYS)
def test_every_page_can_be_read_by_everybody(
    site: Site, new_context: NewContext, scheme: str, size: dict[str, int]
) -> None:
    """Also those that say what went wrong; no page breaks its own policy."""
    page = new_context(viewport=size, color_scheme=scheme).new_page()
    page.goto(f"{site.url}/sign-in")
    is_fine(page)
    page.fill("#token", "wrong")
    page.click("main button")
    expect(page.get_by_role("alert")).to_contain_text("not valid")
    is_fine(page)
    page.context.close()

    page, told = opened(new_context, site, viewport=size, color_scheme=scheme)
    for address in ("/fleet", "/fleet?q=nothing", "/rules", "/rules?q=nothing+at+all", "/rules/THP-010", "/tokens"):
        page.goto(f"{site.url}{address}")
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        is_fine(page)
    assert told == []
    page.context.close()


@pytest.mark.parametrize("script", [True, False], ids=["script", "no-script"])
def test_a_token_is_made_used_and_revoked(site: Site, new_context: NewContext, script: bool) -> None:
    """Without script as with it; somebody else signs in with it, until it is revoked."""
    page, _ = opened(new_context, site, java_script_enabled=script)
    page.goto(f"{site.url}/tokens")
    page.fill("#name", f"for bob {script}")
    page.fill("#days", "1")
    page.click("text=Create the token")
    secret = page.locator(".command").inner_text()
    assert re.fullmatch(r"thpdiag_[0-9a-f]{16}_[0-9a-f]{64}", secret)
    page.goto(f"{site.url}/tokens")
    assert secret not in page.content()

    bob = new_context(java_script_enabled=script).new_page()
    bob.goto(f"{site.url}/rules?q=khugepaged")
    bob.fill("#token", f" {secret} ")
    bob.press("#token", "Enter")
    expect(bob).to_have_url(f"{site.url}/rules?q=khugepaged")
    assert bob.get_by_role("link", name="Tokens").count() == 0

    row = page.locator("tr", has_text=f"for bob {script}")
    row.locator("summary").click()
    row.locator("button").click()
    expect(row).to_have_count(0)
    bob.reload()
    expect(bob.locator("#token")).to_be_visible()
    bob.context.close()
    page.context.close()


def test_signing_out_ends_it(site: Site, new_context: NewContext) -> None:
    """The page that was open leads to the form afterwards."""
    page, _ = opened(new_context, site)
    page.click("text=Sign out")
    expect(page.locator("#token")).to_be_visible()
    assert page.context.cookies() == []
    page.goto(f"{site.url}/fleet")
    expect(page).to_have_url(f"{site.url}/sign-in?to=/fleet")
    page.context.close()


def test_a_link_in_a_ticket_finds_who_is_signed_in(site: Site, new_context: NewContext) -> None:
    """A page of another site has a link to a page of ours; the browser sends no cookie with it."""

    async def ticket(scope: Any, receive: Any, send: Any) -> None:
        body = f'<!DOCTYPE html><title>ticket</title><a href="{site.url}/rules/THP-010">rule</a>'.encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]})
        await send({"type": "http.response.body", "body": body})

    page, _ = opened(new_context, site)
    with create_server(("127.0.0.1", 0)) as at, serving(ticket, at):
        page.goto(f"http://127.0.0.1:{at.getsockname()[1]}/")
        page.click("a")
        expect(page).to_have_url(f"{site.url}/rules/THP-010")
        stranger = new_context().new_page()
        stranger.goto(f"http://127.0.0.1:{at.getsockname()[1]}/")
        stranger.click("a")
        expect(stranger).to_have_url(f"{site.url}/sign-in?to=/rules/THP-010")
        expect(stranger.locator("#token")).to_be_visible()
        stranger.context.close()
    page.context.close()


def test_the_fleet_is_in_a_frame_that_reaches_nothing(site: Site, new_context: NewContext) -> None:
    """Its own script runs, names are text in it, and it has neither our page nor our session."""
    page, told = opened(new_context, site)
    page.goto(f"{site.url}/fleet")
    frame = page.frame_locator("iframe.fleet")
    expect(frame.locator("h1")).to_contain_text("2 hosts")
    expect(frame.get_by_label("Search")).to_be_visible()  # made by its script
    assert frame.locator("img").count() == 0
    inner = next(one for one in page.frames if one.url.endswith("/fleet/page"))
    assert inner.evaluate("origin") == "null"
    assert "owned" not in page.title()
    assert told == []

    page.get_by_role("link", name="web1").first.click()
    expect(page).to_have_url(re.compile(rf"{site.url}/cases/[0-9a-f]{{32}}"))
    page.context.close()


def test_the_fleet_without_script_is_complete(site: Site, new_context: NewContext, tmp_path: Path) -> None:
    """The list, its search, the frame, and the file."""
    page, _ = opened(new_context, site, java_script_enabled=False)
    page.goto(f"{site.url}/fleet")
    expect(page.frame_locator("iframe.fleet").locator("h1")).to_contain_text("2 hosts")
    page.fill("#q", "web1")
    page.click("text=Search")
    expect(page.locator("tbody tr")).to_have_count(1)
    with page.expect_download() as saved:
        page.click("text=Save as CSV")
    saved.value.save_as(tmp_path / "fleet.csv")
    assert (tmp_path / "fleet.csv").read_text("utf-8").count("/cases/") == 2
    page.context.close()
