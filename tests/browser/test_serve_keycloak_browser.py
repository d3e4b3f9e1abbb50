"""Sign-in with OpenID Connect at a real provider: Keycloak, where THPDIAG_KEYCLOAK names its unpacked distribution.

Users of two groups sign in by Keycloak's own pages, an admin ends a session, somebody signs out of both.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from serve_application import BEFORE, Whole, served
from serve_storage_fixtures import Hands
from thpdiag.serve.access.oidc import CALLBACK_PATH, OidcClient, OidcSettings
from thpdiag.serve.access.principals import Mode, Scope
from thpdiag.serve.routes import application
from upload_browser import LONG, NewContext

HOME = os.environ.get("THPDIAG_KEYCLOAK")
ROLES = {"support": frozenset((Scope.UPLOAD, Scope.WORK)), "leads": frozenset((Scope.ADMIN,))}
GROUPS = {
    "name": "groups", "protocol": "openid-connect", "protocolMapper": "oidc-group-membership-mapper",
    "config": {"claim.name": "groups", "full.path": "false", "id.token.claim": "true"},
}  # fmt: skip

pytestmark = pytest.mark.skipif(HOME is None, reason="THPDIAG_KEYCLOAK names no distribution of Keycloak")


def user(name: str, group: str) -> dict[str, object]:
    password = {"type": "password", "value": f"word of {name}", "temporary": False}
    told = {"firstName": name.capitalize(), "lastName": "Adler", "email": f"{name}@example.org"}
    return {"username": name, "enabled": True, "groups": [f"/{group}"], "credentials": [password], **told}


def realm(origin: str) -> dict[str, object]:
    client = {
        "clientId": "thpdiag", "secret": "kept between us", "redirectUris": [f"{origin}{CALLBACK_PATH}"],
        "attributes": {"pkce.code.challenge.method": "S256"}, "protocolMappers": [GROUPS],
    }  # fmt: skip
    users = [user("anna", "support"), user("lea", "leads")]
    groups = [{"name": name} for name in ROLES]
    return {"realm": "team", "enabled": True, "groups": groups, "users": users, "clients": [client]}


def asked(address: str, body: bytes, headers: Mapping[str, str]) -> Any:
    with urllib.request.urlopen(urllib.request.Request(address, body, dict(headers)), timeout=60) as answer:
        return json.loads(answer.read() or b"null")


@contextmanager
def keycloak() -> Iterator[str]:
    """The address of one that runs with a database in its memory."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [f"{HOME}/bin/kc.sh", "start-dev", "--db=dev-mem", "--http-host=127.0.0.1", f"--http-port={port}"]
    env = {**os.environ, "KC_BOOTSTRAP_ADMIN_USERNAME": "root", "KC_BOOTSTRAP_ADMIN_PASSWORD": "root"}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        assert server.stdout
        try:
            said = list(iter_until(server.stdout, "Listening on:"))
            assert "Listening on:" in said[-1], said
            Thread(target=deque, args=(server.stdout, 0), daemon=True).start()  # a pipe that nobody reads fills
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def iter_until(lines: Iterable[str], word: str) -> Iterator[str]:
    for line in lines:
        yield line
        if word in line:
            return


def add_realm(address: str, origin: str) -> None:
    login = {"grant_type": "password", "client_id": "admin-cli", "username": "root", "password": "root"}
    token = asked(f"{address}/realms/master/protocol/openid-connect/token", urlencode(login).encode(), {})
    headers = {"Authorization": f"Bearer {token['access_token']}", "Content-Type": "application/json"}
    asked(f"{address}/admin/realms", json.dumps(realm(origin)).encode(), headers)


def sign_in(page: Page, address: str, name: str) -> None:
    page.goto(address)
    page.click("text=Sign in with 127.0.0.1")
    page.fill("#username", name)
    page.fill("#password", f"word of {name}")
    page.click("#kc-login")
    expect(page).to_have_url(address)
    expect(page.locator(".who")).to_have_text(f"{name.capitalize()} Adler")


def test_a_team_signs_in_at_keycloak(tmp_path: Path, new_context: NewContext) -> None:
    """By their groups they may work or administer; a session that an admin ended is over."""
    listens = socket.create_server(("127.0.0.1", 0))
    origin = f"http://localhost:{listens.getsockname()[1]}"
    with (
        keycloak() as address,
        served(tmp_path, Mode.OIDC, origin=origin, hands=Hands(time.time())) as made,
    ):
        add_realm(address, origin)
        settings = OidcSettings(f"{address}/realms/team", "thpdiag", "kept between us", roles=ROLES)
        bearer = replace(made.server.bearer, logins=made.storage.logins)
        server = replace(made.server, oidc=OidcClient(settings, time.time), bearer=bearer)
        whole = Whole(server, application(server), made.hands)
        key = whole.completed(BEFORE)
        annas, admins = (new_context().new_page() for _ in range(2))
        with whole.listening(listens):
            for page in (annas, admins):
                page.set_default_timeout(LONG)
            sign_in(annas, f"{origin}/cases/{key}", "anna")
            expect(annas.locator("#note")).to_be_visible()
            sign_in(admins, f"{origin}/tokens", "lea")
            row = admins.locator("tr", has_text="Anna Adler")
            expect(row.locator(".may")).to_have_text("upload, work")
            row.locator("summary").click()
            row.locator("button").click()
            expect(row).to_have_count(0)
            annas.reload()
            expect(annas.locator("h1")).to_have_text("Sign in")

            admins.click("text=Sign out")
            admins.click("text=Sign out of 127.0.0.1 too")
            admins.click("#kc-logout")
            admins.goto(f"{origin}/tokens")
            admins.click("text=Sign in with 127.0.0.1")
            expect(admins.locator("#password")).to_be_visible()  # Keycloak does not know them either
