"""A team's day in a browser: sign in with OpenID Connect, a note, a ticket, a link that ends, an analysis again."""

from __future__ import annotations

import socket
import time
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import expect

from oidc_provider import CLIENT, CLIENT_SECRET, provider
from serve_application import AFTER, BEFORE, Whole, served
from serve_storage_fixtures import Hands
from thpdiag.serve.access.oidc import OidcClient, OidcSettings
from thpdiag.serve.access.principals import Mode, Scope
from thpdiag.serve.routes import application
from thpdiag.serve.storage.database import DAY
from upload_browser import NewContext

ROLES = {"support": frozenset((Scope.UPLOAD, Scope.WORK))}


def test_sign_in_and_out_at_a_provider(tmp_path: Path, new_context: NewContext) -> None:
    """From a page that needs a login to the provider, back to that page, and out again; without script."""
    listens = socket.create_server(("127.0.0.1", 0))
    origin = f"http://localhost:{listens.getsockname()[1]}"
    with (
        provider() as given,
        served(tmp_path, Mode.OIDC, origin=origin, hands=Hands(time.time())) as made,
    ):
        oidc = OidcClient(OidcSettings(given.issuer, CLIENT, CLIENT_SECRET, roles=ROLES), made.hands)
        bearer = replace(made.server.bearer, logins=made.storage.logins)
        server = replace(made.server, oidc=oidc, bearer=bearer)
        whole = Whole(server, application(server), made.hands)
        key = whole.completed(BEFORE)
        page = new_context(java_script_enabled=False).new_page()
        with whole.listening(listens):
            page.goto(f"{origin}/cases/{key}")
            page.click("text=Sign in with 127.0.0.1")
            expect(page).to_have_url(f"{origin}/cases/{key}")
            expect(page.locator(".who")).to_have_text("Anna")
            page.fill("#note", "seen **it**")
            page.click("text=Add the note")
            expect(page.locator(".note strong").last).to_have_text("it")
            expect(page.locator(".note .small").first).to_contain_text("Anna")
            page.click("text=Sign out")
            page.click("text=Sign out of 127.0.0.1 too")
            expect(page).to_have_title("Signed out of the provider")
            page.goto(f"{origin}/cases/{key}")
            expect(page.locator("h1")).to_have_text("Sign in")


@pytest.mark.parametrize("script", [True, False], ids=["with script", "without script"])
def test_work_on_a_case(tmp_path: Path, new_context: NewContext, script: bool) -> None:
    """State, owner and ticket; a link that shows the report to a stranger until it ends; an analysis by other rules."""
    with served(tmp_path) as made:
        key = made.completed(BEFORE)
        server = replace(made.server, analysis=replace(made.server.analysis, rules_digest="f" * 64))
        whole = Whole(server, application(server), made.hands)
        page, stranger = (new_context(java_script_enabled=script).new_page() for _ in range(2))
        with whole.listening() as url:
            page.goto(f"{url}/cases/{key}")
            page.select_option("#state", "waiting")
            page.fill("#assignee", "Anna")
            page.fill("#ticket", "https://tickets.example.org/THP-7")
            page.click("text=Save")
            expect(page.locator("main .line")).to_contain_text("waiting for customer, Anna")
            expect(page.get_by_role("link", name="https://tickets.example.org/THP-7")).to_be_visible()
            page.fill("#days", "2")
            page.click("text=Create a link")
            address = page.locator("#address").inner_text()
            stranger.goto(address)
            expect(stranger.locator("h1")).to_contain_text("Page faults compact memory")
            whole.hands.now += 2 * DAY
            stranger.goto(address)
            expect(stranger.locator("main")).to_contain_text("not valid, or has expired")
            page.goto(f"{url}/cases/{key}")
            page.click("text=Analyze again with today's rules")
            new = whole.done(whole.claimed(), whole.storage.cases.document(whole.completed(AFTER)) or {})
            page.goto(f"{url}/cases/{new}")
            expect(page.locator(".changes")).to_contain_text("the verdict was found")
            page.goto(f"{url}/analyses")
            expect(page.locator("table .host")).to_have_count(1)
