"""The upload page in a browser: its requests, complaints, and the speed of its connection."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, ConsoleMessage, Dialog, Locator, Page, Request, expect

from serve_application import STORM, archive

NewContext = Callable[..., BrowserContext]
WIDE = {"width": 1200, "height": 900}
TELEPHONE = {"width": 390, "height": 800}
BLOCK = 4096
LONG = 60_000  # milliseconds that no test waits unless something is broken
A_CASE = re.compile(r"/cases/[0-9a-f]{32}$")
A_JOB = re.compile(r"/jobs/[0-9a-f]{32}$")
AWAY = re.compile(r"ERR_(?:CONNECTION|SOCKET_NOT_CONNECTED|EMPTY_RESPONSE|INTERNET_DISCONNECTED)|status of (?:4|5)\d\d")

expect.set_options(timeout=LONG)


@dataclass
class Sending:
    """An open upload page."""

    page: Page
    url: str
    requests: list[Request] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)  # of the console, but that a server is away or refuses
    dialogs: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(LONG)
        self.page.on("request", lambda request: self.requests.append(request))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._said)
        self.page.on("dialog", self._dialog)
        self.page.goto(self.url)

    def _said(self, line: ConsoleMessage) -> None:
        if not AWAY.search(line.text):
            self.complaints.append(line.text)

    def _dialog(self, dialog: Dialog) -> None:
        self.dialogs.append(dialog.type)
        dialog.accept()

    def choose(self, *files: Path | dict[str, Any]) -> None:
        self.page.locator("#file").set_input_files(list(files))  # type: ignore[arg-type]

    def row(self, number: int = 0) -> Locator:
        return self.page.locator("#transfers > li").nth(number)

    def told(self, number: int = 0) -> Locator:
        return self.row(number).locator(".told")

    def press(self, button: str, number: int = 0) -> None:
        self.row(number).get_by_role("button", name=button).click()

    def try_now(self) -> None:
        """Press the button between two attempts, and detect the new attempt first."""
        js = """async () => {
          const button = document.querySelector("#transfers .now:not([hidden])");
          if (!button) return null;
          button.click();
          for (let turn = 0; turn < 20; turn++) await null;
          return button.hidden;
        }"""
        while (begun := self.page.evaluate(js)) is None:
            self.row().locator(".now").wait_for()
        assert begun

    def slow(self, rate: int) -> None:
        """Limit the rate in bytes per second; -1 is unlimited."""
        line = self.page.context.new_cdp_session(self.page)
        line.send("Network.enable")
        speed = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": rate}
        line.send("Network.emulateNetworkConditions", speed)

    def passed(self, share: float, number: int = 0) -> None:
        """Wait until this part of a file was sent."""
        js = "([at, share]) => document.querySelectorAll('#transfers progress')[at].value >= share"
        self.page.wait_for_function(js, arg=[number, share], polling=20)

    def asked(self, method: str, path: str) -> list[Request]:
        return [one for one in self.requests if one.method == method and one.url.startswith(self.url + path)]

    def violations(self) -> list[tuple[str, list[str]]]:
        """Return the violations that axe-core finds."""
        found = Axe().run(self.page).response["violations"]
        return [(one["id"], [node["html"] for node in one["nodes"]]) for one in found]

    def sideways(self) -> int:
        """Return by how many pixels the page is wider than the screen."""
        width: int = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        return width


def opened(new_context: NewContext, url: str, **browser: Any) -> Sending:
    context = new_context(**{"viewport": WIDE, "color_scheme": "light", **browser})
    return Sending(context.new_page(), f"{url}/")


def bundle(folder: Path, name: str, size: int, seed: int = 1) -> Path:
    """Return a bundle with a known cause and unreadable filler up to this size."""
    file = folder / name
    content = io.BytesIO()
    blocks = (
        b"%d %d" % (seed, number) for number in range(-(-size // BLOCK))
    )  # each another, so that none can be lost
    filling = b"".join(block.ljust(BLOCK, b"\0") for block in blocks)[:size]
    with tarfile.open(fileobj=io.BytesIO(archive(STORM))) as given, tarfile.open(fileobj=content, mode="w") as tar:
        for member in given:
            tar.addfile(member, given.extractfile(member))
        entry = tarfile.TarInfo("filling.bin")
        entry.size = size
        tar.addfile(entry, io.BytesIO(filling))
    file.write_bytes(content.getvalue())
    return file


def kept(folder: Path) -> list[str]:
    """Return the digests of all bundles of a server, computed from its disk."""
    files = [file for file in (folder / "bundles").rglob("*") if file.is_file()]
    return sorted(sha256(file.read_bytes()).hexdigest() for file in files)


def digest(*files: Path) -> list[str]:
    return sorted(sha256(file.read_bytes()).hexdigest() for file in files)
