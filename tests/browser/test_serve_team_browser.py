"""A team's day in a browser: sign in with OpenID Connect, a session that an admin ends, a note, a ticket, a link that
ends, an analysis again."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import expect

from oidc_provider import CLIENT, CLIENT_SECRET, Provider, provider
from serve_application import AFTER, BEFORE, Whole, served
from serve_storage_fixtures import Hands
from thpdiag.serve.access.oidc import OidcClient, OidcSettings
from thpdiag.serve.access.principals import Mode, Scope
from thpdiag.serve.routes import application
from thpdiag.serve.storage.database import DAY
from upload_browser import NewContext

ROLES = {"support": frozenset((Scope.UPLOAD, Scope.WORK)), "leads": frozenset((Scope.ADMIN,))}


@contextmanager
def signing_in(folder: Path) -> Iterator[tuple[Whole, Provider, str]]:
    """A server that a provider signs people in to, and its address."""
    listens = socket.create_server(("127.0.0.1", 0))
    origin = f"http://localhost:{listens.getsockname()[1]}"
    with provider() as given, served(folder, Mode.OIDC, origin=origin, hands=Hands(time.time())) as made:
        oidc = OidcClient(OidcSettings(given.issuer, CLIENT, CLIENT_SECRET, roles=ROLES), made.hands)
        server = replace(made.server, oidc=oidc, bearer=replace(made.server.bearer, logins=made.storage.logins))
        whole = Whole(server, application(server), made.hands)
        with whole.listening(listens):
            yield whole, given, origin


def test_sign_in_and_out_at_a_provider(tmp_path: Path, new_context: NewContext) -> None:
    """From a page that needs a login to the provider, back to that page, and out again; without script."""
    page = new_context(java_script_enabled=False).new_page()
    with signing_in(tmp_path) as (whole, _, origin):
        key = whole.completed(BEFORE)
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
def test_an_admin_ends_a_session(tmp_path: Path, new_context: NewContext, script: bool) -> None:
    """It is in the admin's list beside the admin's own; the page of the other then asks for a new sign-in."""
    page, admins = (new_context(java_script_enabled=script).new_page() for _ in range(2))
    with signing_in(tmp_path) as (whole, given, origin):
        page.goto(f"{origin}/cases")
        page.click("text=Sign in with 127.0.0.1")
        expect(page.locator("h1")).to_have_text("Cases")
        expect(page.get_by_role("link", name="Tokens")).to_have_count(0)

        whole.hands.now += 1
        given.user = {"sub": "u2", "name": "Lea", "groups": ["leads"]}
        admins.goto(f"{origin}/tokens")
        admins.click("text=Sign in with 127.0.0.1")
        expect(admins).to_have_url(f"{origin}/tokens")
        rows = admins.get_by_role("table", name="Sessions").locator("tbody tr")
        expect(rows).to_have_count(2)
        expect(rows.nth(0)).to_contain_text("Anna")
        expect(rows.nth(0).locator(".may")).to_have_text("upload, work")
        expect(rows.nth(1)).to_contain_text("Lea yours")
        rows.nth(0).locator("summary").click()
        rows.nth(0).locator("button").click()
        expect(admins).to_have_url(f"{origin}/tokens#sessions")
        expect(rows).to_have_count(1)

        page.reload()
        expect(page.locator("h1")).to_have_text("Sign in")
        page.click("text=Sign in with 127.0.0.1")
        expect(page.locator(".who")).to_have_text("Lea")  # who the provider says it is now


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
