"""What the tests of pages in a browser share: Debian's Chromium, and a page served from memory with any headers.

Nothing listens and nothing is fetched: the browser's only request is answered here, and each further one is noted
and refused.
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
    """None: addresses are whole here. The plugin's own fixture of this name is written as pytest will not allow."""


@pytest.fixture(scope="session")
def _pw_artifacts_folder(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Where the plugin puts what it keeps of a failure; its own folder is not taken away in a worker of xdist."""
    return SimpleNamespace(name=str(tmp_path_factory.mktemp("artifacts")))


@pytest.fixture(scope="session")
def browser_type_launch_args(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Chromium as the system has it (`THPDIAG_CHROMIUM` names another), which writes into a folder of the tests.

    Without its own windows where there is such a one: the same engine, and a third of the time less.
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
    """Until all of it is laid out: what lies below the verdict comes after the first paint (opening.js)."""
    page.goto(address)
    expect(page.locator("html.opening")).to_have_count(0)


@pytest.fixture
def show(new_context: Callable[..., BrowserContext]) -> Show:
    """Opens a page: its HTML, headers of the answer, and what the browser is like (scripts, colours, size)."""

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
    """Opens a page as most will be: a file, double-clicked."""

    def opened(html: str) -> Shown:
        file = tmp_path / "report.html"
        file.write_text(html, encoding="utf-8")
        shown = Shown(new_context().new_page())
        shown.page.on("request", lambda request: shown.requests.append(request.url))
        _open(shown.page, file.as_uri())
        return shown

    return opened
