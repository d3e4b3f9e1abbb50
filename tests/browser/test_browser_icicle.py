"""The call graph with scripts on: a click zooms, search finds, keys walk, and Escape takes all of it back."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from browser_fixtures import Show
from browser_pages import RESULTS, Shown, document
from thpdiag.report.html import render

SLOW = "java;main;page_fault;compact_zone;_spin_lock"
STACKS = [
    [SLOW, 0.5],
    ["java;main;page_fault", 0.1],
    ["java;main;vfs_read_iter_and_more;_spin_lock", 0.2],
    ["cc;_spin_lock", 0.2],
]
FIGURE = ".icicle >> nth=0"


def _page() -> str:
    (found,) = (path for path in RESULTS if path.stem == "found")
    base = document(found)
    return render({**base, "profiles": [{**base["profiles"][0], "folded": STACKS}]})


@pytest.fixture
def shown(show: Show) -> Shown:
    """A page with one small call graph."""
    opened = show(_page())
    opened.page.locator(FIGURE).scroll_into_view_if_needed()
    return opened


def _frame(shown: Shown, name: str, number: int = 0) -> Locator:
    boxes = shown.page.locator(FIGURE).locator(".f rect", has_text=re.compile(rf"^{re.escape(name)}: "))
    return boxes.nth(number)


def _widths(shown: Shown) -> dict[str, float]:
    """Names of the frames that are to be seen, with the share of the picture that each has."""
    found: dict[str, float] = shown.page.locator(FIGURE).evaluate(
        """(figure) => {
          const whole = figure.querySelector(":scope > svg").getBoundingClientRect().width;
          return Object.fromEntries([...figure.querySelectorAll(".f rect")]
            .filter((one) => one.getBoundingClientRect().width > 0)
            .map((one) => [one.textContent.split(": ")[0], one.getBoundingClientRect().width / whole]));
        }"""
    )
    return found


def test_a_click_zooms_and_escape_shows_all(shown: Shown) -> None:
    """A frame that is clicked takes the whole width with all it called; what is beside it is gone until Escape."""
    whole = _widths(shown)
    assert whole["page_fault"] == pytest.approx(0.6, abs=0.01)
    _frame(shown, "page_fault").click()
    near = _widths(shown)
    assert near["page_fault"] == pytest.approx(1, abs=0.01)
    assert near["compact_zone"] == pytest.approx(5 / 6, abs=0.01)
    assert "vfs_read_iter_and_more" not in near
    assert "cc" not in near
    expect(shown.page.locator(FIGURE).locator(".told")).to_contain_text("page_fault: 60.0 %")
    shown.page.keyboard.press("Escape")
    assert _widths(shown) == whole
    assert shown.complaints == []


def test_search_counts_what_holds_the_text(shown: Shown) -> None:
    """Boxes whose name holds the words are marked and their share is told; a stack counts once."""
    page, figure = shown.page, shown.page.locator(FIGURE)
    page.keyboard.press("/")
    box = figure.locator("input")
    expect(box).to_be_focused()
    page.keyboard.type("SPIN")
    expect(figure.locator("p [aria-live]")).to_have_text("3 boxes, in 90.0 % of the samples")
    assert figure.locator(".f rect.hit").count() == 3
    box.fill("page_fault")
    expect(figure.locator("p [aria-live]")).to_have_text("1 box, in 60.0 % of the samples")
    box.fill("no such function")
    expect(figure.locator("p [aria-live]")).to_contain_text("0 boxes")
    page.keyboard.press("Escape")
    expect(figure).to_be_focused()
    assert box.input_value() == ""
    assert figure.locator(".f rect.hit").count() == 0


def test_keys_walk_along_the_calls(shown: Shown) -> None:
    """Down goes to what was called, up to the caller, left and right along the row; Enter zooms, Escape ends it."""
    page, figure = shown.page, shown.page.locator(FIGURE)
    told = figure.locator(".told")
    figure.focus()
    for key, name in (
        ("ArrowDown", "all"), ("ArrowDown", "java"), ("ArrowRight", "cc"), ("ArrowLeft", "java"), ("ArrowDown", "main"),
        ("ArrowDown", "page_fault"), ("ArrowRight", "vfs_read_iter"), ("ArrowUp", "main"), ("ArrowDown", "page_fault"),
    ):  # fmt: skip
        page.keyboard.press(key)
        expect(told).to_contain_text(name)
    assert figure.locator("rect.chosen:not([display])").count() == 1
    page.keyboard.press("Enter")
    assert _widths(shown)["page_fault"] == pytest.approx(1, abs=0.01)
    page.keyboard.press("Escape")
    assert _widths(shown)["page_fault"] == pytest.approx(0.6, abs=0.01)
    assert figure.locator("rect.chosen:not([display])").count() == 0


def test_a_slash_that_is_typed_stays_a_slash(shown: Shown) -> None:
    """In the box, and with Control held, the key means what it always means."""
    box = shown.page.locator(FIGURE).locator("input")
    box.fill("")
    box.press_sequentially("a/b")
    assert box.input_value() == "a/b"


def test_names_are_cut_to_their_boxes(show: Show) -> None:
    """On a telephone a name has as many letters as fit its box there, not as many as fit at a desk."""
    shown = show(_page(), viewport={"width": 390, "height": 800})
    texts = shown.page.locator(FIGURE).locator("svg svg text")
    shown.page.locator(FIGURE).scroll_into_view_if_needed()  # nothing is measured that nobody sees
    expect(texts.filter(has_text="…").first).to_be_attached()
    wide = texts.evaluate_all(
        """all => all.filter((one) => one.textContent.startsWith("vfs"))
        .filter((one) => one.getComputedTextLength() > 8 + 0.2 * innerWidth).map((one) => one.textContent)"""
    )
    assert texts.filter(has_text="vfs_").count() == 1
    assert wide == []


def test_a_chosen_function_tells_its_callers_and_callees(shown: Shown) -> None:
    """Over all stacks, by name; the address then names the frame."""
    page, figure = shown.page, shown.page.locator(FIGURE)
    _frame(shown, "_spin_lock").click()
    beside = figure.locator(".beside")
    expect(beside).to_contain_text("_spin_lock, 90.0 % in all stacks, called by: compact_zone 50.0 %")
    expect(beside).to_contain_text("cc 20.0 %")
    assert re.search(r"#h1-calls1\.\d+$", page.url)
    page.keyboard.press("Escape")
    expect(beside).to_be_empty()


def test_an_address_leads_to_its_frame(shown: Shown) -> None:
    """What somebody sent opens zoomed to the frame that he looked at."""
    _frame(shown, "page_fault").click()
    number = shown.page.url.rpartition(".")[2]
    shown.page.keyboard.press("Escape")
    shown.page.evaluate("number => { location.hash = `h1-calls1.${number}`; }", number)
    expect(shown.page.locator(FIGURE).locator(".told")).to_contain_text("page_fault: 60.0 %")
    assert _widths(shown)["page_fault"] == pytest.approx(1, abs=0.01)


def test_search_takes_expressions(shown: Shown) -> None:
    """`page|read` finds either; a half-typed expression is searched as the text that it is."""
    figure = shown.page.locator(FIGURE)
    figure.locator("input").fill("^page|read")
    expect(figure.locator("p [aria-live]")).to_have_text("2 boxes, in 80.0 % of the samples")
    figure.locator("input").fill("[page")
    expect(figure.locator("p [aria-live]")).to_contain_text("0 boxes")
