"""Fixtures for tests of pages in a browser: Chromium of Debian, and a page served from memory with any headers.

There is no server and no network: the first request is answered here, every other one is recorded and refused.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from browser_pages import ADDRESS, Shown

BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")
Show = Callable[..., Shown]


@pytest.fixture(scope="session")
def base_url() -> None:
    """None: all addresses are complete. The fixture of this name in the plugin uses a form pytest will disallow."""


@pytest.fixture(scope="session")
def _pw_artifacts_folder(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Return the folder for artifacts of failures; the default one is not removed in a worker of xdist."""
    return SimpleNamespace(name=str(tmp_path_factory.mktemp("artifacts")))


@pytest.fixture(scope="session")
def browser_type_launch_args(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Start the Chromium of the system (`THPDIAG_CHROMIUM` names another) with a profile in a folder of the tests.

    The headless shell is used where it exists: the same engine in two thirds of the time.
    """
    named = os.environ.get("THPDIAG_CHROMIUM")
    program = named or next(filter(None, map(shutil.which, BROWSERS)), None)
    if not program:
        pytest.skip("no Chromium: install it (Debian: chromium) or let THPDIAG_CHROMIUM name one")
    home = str(tmp_path_factory.mktemp("browser"))
    places = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"), home)
    flags = ["--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update"]
    return {"executable_path": program, "args": flags, "env": {**os.environ, **places}}


def _open(page: Page, address: str) -> None:
    """Wait for the complete layout: content below the verdict follows the first paint (opening.js)."""
    page.goto(address)
    expect(page.locator("html.opening")).to_have_count(0)


@pytest.fixture
def show(new_context: Callable[..., BrowserContext]) -> Show:
    """Open a page from its HTML, with response headers and browser options (scripts, colours, size)."""

    def opened(html: str, headers: dict[str, str] | None = None, **browser: Any) -> Shown:
        context = new_context(**{"viewport": {"width": 1200, "height": 900}, "color_scheme": "light", **browser})
        shown = Shown(context.new_page())

        def answer(route: Route) -> None:
            shown.requests.append(route.request.url)
            if shown.requests == [ADDRESS]:
                route.fulfill(body=html, headers={"Content-Type": "text/html; charset=utf-8", **(headers or {})})
            else:
                route.abort()

        context.route(re.compile(""), answer)
        _open(shown.page, ADDRESS)
        return shown

    return opened


@pytest.fixture
def show_file(new_context: Callable[..., BrowserContext], tmp_path: Path) -> Show:
    """Open a page from a file, as users do."""

    def opened(html: str) -> Shown:
        file = tmp_path / "report.html"
        file.write_text(html, encoding="utf-8")
        shown = Shown(new_context().new_page())
        shown.page.on("request", lambda request: shown.requests.append(request.url))
        _open(shown.page, file.as_uri())
        return shown

    return opened
