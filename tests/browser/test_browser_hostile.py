"""Names of a customer's host in every string of a document run nothing and break nothing in a browser."""

from __future__ import annotations

import re
from copy import deepcopy
from itertools import cycle
from typing import Any

import pytest
from playwright.sync_api import expect

from browser_fixtures import Show
from browser_pages import ADDRESS, CAPTURE, Shown, document
from test_hostile_words import CONTROLS, MARK, WORDS
from thpdiag.model.result import complete_document
from thpdiag.report import FORMATS
from thpdiag.report.html import render

OURS = {  # what the program decides: words of the schema, and ids that point from one part to another
    "by", "classes", "classes_missing", "classes_spoken", "clock", "confidence", "fingerprint", "heat", "id", "kind",
    "mechanism", "outcome", "panel", "provenance", "restart", "role", "rule", "schema", "severity", "sha256", "state",
    "status", "to", "unit", "value", "when",
}  # fmt: skip
KNOWN = set(
    re.findall(
        "[a-z0-9]+",
        """html head meta title style body main article header footer nav section h1 h2 h3 h4 p a dl dt dd ul ol li code
        pre span strong details summary figure figcaption svg g rect path text br wbr div em i table thead tbody
        tr th td script input label button""",
    )
)
ALIVE = """() => ({
  elements: [...new Set([...document.querySelectorAll('*')].map((one) => one.localName))],
  handlers: [...document.querySelectorAll('*')].flatMap((one) => [...one.attributes])
    .filter((one) => one.name.startsWith('on') || /^(src|action|formaction)$/.test(one.name)).map((one) => one.name),
  links: [...document.querySelectorAll('[href]')].map((one) => one.getAttribute('href')).filter((to) => to[0] !== '#'),
})"""


def _planted(node: Any, words: Any, key: str = "") -> Any:
    """The document with a hostile word in front of every string that a host could have named."""
    if isinstance(node, dict):
        return {name: _planted(value, words, name) for name, value in node.items()}
    if isinstance(node, list):
        return [_planted(value, words, key) for value in node]
    if not isinstance(node, str) or key in OURS:
        return node
    word = MARK + next(words)
    return ";".join(word.replace(";", ",") + frame for frame in node.split(";")) if key == "folded" else word + node


@pytest.fixture(scope="module")
def planted() -> dict[str, Any]:
    """The result of a capture with panels, call graph and tables; it is a valid result still."""
    made: dict[str, Any] = _planted(deepcopy(document(CAPTURE)), cycle(WORDS))
    return dict(complete_document(made))


def _bare(page: str) -> str:
    """The page without its policy: what is escaped must be so without help."""
    return re.sub(r"<meta http-equiv[^>]*>", "", page)


def _used(shown: Shown) -> None:
    """Hovers, searches, zooms and unfolds, so that the script writes what it read."""
    page = shown.page
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.locator(".plot").first.hover()
    expect(page.locator(".key .now").first).not_to_be_empty()
    box = page.locator(".icicle input").first
    box.fill("<img src=x onerror=alert(1)>")
    expect(page.locator(".icicle [aria-live]").first).to_contain_text("of the samples")
    page.locator(".icicle .f rect").nth(5).click()
    expect(page.locator(".icicle .told").first).to_contain_text(MARK)


@pytest.mark.parametrize("policy", ["with its policy", "without"])
def test_nothing_of_the_input_lives_in_the_page(policy: str, planted: dict[str, Any], show: Show) -> None:
    """Only our elements, no handler, no request, no dialog, no complaint: when opened, and after each part was used."""
    page = render(planted)
    shown = show(page if policy == "with its policy" else _bare(page))
    for use in (lambda _: None, _used):
        use(shown)
        alive = shown.page.evaluate(ALIVE)
        assert set(alive["elements"]) <= KNOWN
        assert alive["handlers"] == []
        assert alive["links"] == []
    assert shown.requests == [ADDRESS]
    assert shown.complaints == []


def test_what_runs_is_seen_to_run(planted: dict[str, Any], show: Show) -> None:
    """The test above can fail: the same word unescaped opens a dialog and asks for an address."""
    page = _bare(render(planted)).replace("<main>", "<main><img src=x onerror=alert(1)>")
    shown = show(page)
    expect(shown.page.locator("img")).to_have_count(1)
    shown.page.wait_for_load_state()
    assert len(shown.requests) == 2
    assert "a dialog" in shown.complaints


def test_a_hostile_page_is_laid_out_as_any_other(planted: dict[str, Any], show: Show) -> None:
    """Long and wide words break where they stand: nothing is wider than a telephone, all sections are there."""
    page = show(render(planted), viewport={"width": 390, "height": 800}).page
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    headings = page.locator("h2").evaluate_all("all => all.map((one) => one.id)")
    assert {"h1-why", "h1-timeline", "h1-stacks", "h1-rules", "h1-host", "h1-inputs", "reproduce"} <= set(headings)


def test_hostile_words_stand_where_they_are_shown(planted: dict[str, Any], show: Show) -> None:
    """They reached captions of charts, boxes of the call graph, excerpts, tables and the title, as letters."""
    page = show(render(planted)).page
    for place in (".panel figcaption", ".icicle title", ".excerpt", ".scroll td", "h1", ".place"):
        texts = page.locator(place).evaluate_all("all => all.map((one) => one.textContent)")
        assert any(MARK in text for text in texts), place
        assert not any(CONTROLS.search(text.replace("\n", "")) for text in texts), place
    assert MARK in page.title()


def test_a_terminal_gets_no_control_character(planted: dict[str, Any]) -> None:
    """The text of the same document, at every depth, holds none but line ends."""
    text = FORMATS["text"](planted)
    assert MARK in text
    assert CONTROLS.search(text) is None
