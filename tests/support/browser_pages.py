"""An open page with its requests and console messages, and the pages that the tests open."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page

from analyze_bytes import result_of
from command_line import ROOT
from thpdiag.report.html import render

RESULTS = sorted((ROOT / "tests" / "results").glob("*.json"), key=str)
STORY = ROOT / "fixtures" / "stories" / "hadoop-centos62" / "bundle"  # operator's actions, CPU split, call graph
CAPTURE = ROOT / "fixtures" / "captures" / "storm-always"  # panels of every kind, samples with times
ADDRESS = "http://report.example/page.html"
Rgb = tuple[int, int, int]

_COLOURS = """async (picture) => {
  const image = new Image();
  image.src = `data:image/png;base64,${picture}`;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height);
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const data = context.getImageData(0, 0, image.width, image.height).data;
  const found = new Map();
  for (let at = 0; at < data.length; at += 4) {
    const colour = (data[at] << 16) | (data[at + 1] << 8) | data[at + 2];
    found.set(colour, (found.get(colour) || 0) + 1);
  }
  return [...found];
}"""


@dataclass
class Shown:
    """An open page: requested addresses, and the messages of the console: errors, violations of the policy."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append("a dialog"), dialog.dismiss()))
        self.page.on("websocket", lambda socket: self.requests.append(socket.url))

    def colours(self, of: Locator) -> dict[Rgb, int]:
        """Return the number of pixels of each colour in an element on the screen."""
        blank = self.page.context.browser
        assert blank is not None
        reader = blank.new_page()
        pairs = reader.evaluate(_COLOURS, base64.b64encode(of.screenshot()).decode())
        reader.close()
        return {(colour >> 16, colour >> 8 & 255, colour & 255): count for colour, count in pairs}


@cache
def document(source: Path) -> dict[str, Any]:
    """Return the result of a bundle, or of a result file."""
    if source.suffix == ".json":
        read: dict[str, Any] = json.loads(source.read_text(encoding="utf-8"))
        return read
    return result_of(source)


@cache
def page_of(source: Path) -> str:
    """Return the page of a bundle or result, made once."""
    return render(document(source))


def near(colour: Rgb, wanted: str, most: int = 45) -> bool:
    """Return whether a pixel has a colour, up to anti-aliasing."""
    parts = (int(wanted[at : at + 2], 16) for at in (1, 3, 5))
    return all(abs(one - other) <= most for one, other in zip(colour, parts, strict=True))
