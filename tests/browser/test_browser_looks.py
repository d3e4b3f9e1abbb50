"""How a page looks: in dark, on a telephone, on paper, to keys and to a screen reader."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from browser_fixtures import Show
from browser_pages import CAPTURE, RESULTS, STORY, Shown, document, near, page_of
from thpdiag.model.result import as_result
from thpdiag.report.first_block import summarize

STORIES = ("hadoop-centos62", "voltdb-rhel66-kvm", "mero-centos7", "bioinformatics-ubuntu1404", "redis-shop-ubuntu")
SOURCES = (*RESULTS, STORY, CAPTURE)
WIDE = {"width": 1200, "height": 900}
TELEPHONE = {"width": 390, "height": 800}
SETTINGS = [("light", WIDE), ("dark", TELEPHONE)]
OPEN_ALL = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"


def _name(part: object) -> str:
    assert isinstance(part, Path)
    return part.parent.name if part.name == "bundle" else part.stem


@pytest.mark.parametrize(("scheme", "size"), SETTINGS, ids=["light and wide", "dark and narrow"])
@pytest.mark.parametrize("source", SOURCES, ids=_name)
def test_axe_finds_nothing(source: Path, scheme: str, size: dict[str, int], show: Show) -> None:
    """No violation of axe-core's rules with everything unfolded: contrast, names, landmarks, headings, focus."""
    shown = show(page_of(source), color_scheme=scheme, viewport=size)
    shown.page.evaluate(OPEN_ALL)
    found = Axe().run(shown.page).response
    assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found["violations"]] == []


@pytest.mark.parametrize("source", SOURCES, ids=_name)
def test_a_telephone_needs_no_scrolling_sideways(source: Path, show: Show) -> None:
    """At 390 px nothing of the page is wider than the screen, unfolded too; a wide table scrolls in itself."""
    page = show(page_of(source), viewport=TELEPHONE).page
    page.evaluate(OPEN_ALL)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    wide = page.evaluate(
        """[...document.querySelectorAll('main *, footer *')].filter((one) => {
          const box = one.getBoundingClientRect();
          return box.width && box.right > 391 && !one.closest('.scroll, svg');
        }).map((one) => one.outerHTML.slice(0, 80))"""
    )
    assert wide == []


@pytest.mark.parametrize("size", [WIDE, TELEPHONE], ids=["wide", "narrow"])
@pytest.mark.parametrize("source", [STORY, CAPTURE], ids=_name)
def test_no_line_number_is_broken(source: Path, size: dict[str, int], show: Show) -> None:
    """`ticket.txt:29` in a narrow column does not read as line 2."""
    page = show(page_of(source), viewport=size).page
    page.evaluate(OPEN_ALL)
    broken = page.evaluate(
        """[...document.querySelectorAll('.place wbr')].filter((one) => {
          const range = document.createRange();
          range.selectNodeContents(one.nextSibling);
          return new Set([...range.getClientRects()].map((box) => box.top)).size > 1;
        }).map((one) => one.parentNode.textContent)"""
    )
    assert page.locator(".place wbr").count() > 20
    assert broken == []


def test_charts_are_to_be_read_in_the_dark(show: Show) -> None:
    """Paper, lines and letters change with the colours that the reader asked for, and lines stay visible."""
    for scheme, paper, line in (("light", "#ffffff", "#2b6cb0"), ("dark", "#15191e", "#79b8ff")):
        shown = show(page_of(CAPTURE), color_scheme=scheme)
        found = shown.colours(shown.page.locator(".panel").first)
        assert sum(count for colour, count in found.items() if near(colour, paper, 8)) > 1000
        assert sum(count for colour, count in found.items() if near(colour, line, 40)) > 100


def _printed(shown: Shown, folder: Path) -> tuple[str, int]:
    """The words on paper without blanks, and the number of sheets."""
    pdftotext = shutil.which("pdftotext")
    if not pdftotext:
        pytest.skip("no pdftotext (Debian: poppler-utils)")
    shown.page.pdf(path=folder / "report.pdf", format="A4", print_background=True)
    done = subprocess.run([pdftotext, "-layout", folder / "report.pdf", "-"], capture_output=True, check=True)
    sheets = re.findall(rb"/Type\s*/Page\b", (folder / "report.pdf").read_bytes())
    return re.sub(r"\s+", "", done.stdout.decode()), len(sheets)


def test_paper_has_what_a_person_would_print(show: Show, tmp_path: Path) -> None:
    """A PDF holds verdict, findings, evidence and advice unfolded; all rules and inputs where somebody asks for all."""
    shown = show(page_of(CAPTURE))
    folded = shown.page.locator("details.finding:not(.quiet, [open]) li").last.evaluate("(one) => one.textContent")
    text, sheets = _printed(shown, tmp_path)
    rules = [rule["id"] for rule in document(CAPTURE)["rules"] if rule["outcome"] == "silent"]
    said = document(CAPTURE)["verdict"]["sentence"]
    assert re.sub(r"\s+", "", said)[:60] in text
    assert re.sub(r"\s+", "", folded)[:40] in text
    assert sum(rule in text for rule in rules) < len(rules) / 2
    shown.page.locator("#print-all > summary").click()
    everything, more = _printed(shown, tmp_path)
    assert all(rule in everything for rule in rules)
    assert all(re.sub(r"\s+", "", row["member"]) in everything for row in document(CAPTURE)["inputs"])
    assert sheets < more


@pytest.mark.parametrize("source", [STORY, CAPTURE], ids=_name)
def test_a_report_takes_few_sheets(source: Path, show: Show, tmp_path: Path) -> None:
    """Not even that of a capture with call stacks, counters and settings is a book."""
    assert _printed(show(page_of(source)), tmp_path)[1] <= 8


def test_the_verdict_is_painted_first_and_then_the_rest(show: Show, tmp_path: Path) -> None:
    """What waits for the first paint is on the screen right after it, on paper at any time, and at once on a reload."""
    shown = show(page_of(STORY))
    expect(shown.page.locator("footer")).to_be_visible()
    (tmp_path / "page.html").write_text(page_of(STORY), encoding="utf-8")
    browser = shown.page.context.browser
    assert browser is not None
    again = browser.new_page()
    again.goto(f"{(tmp_path / 'page.html').as_uri()}#reproduce")
    again.reload()
    assert again.evaluate("document.documentElement.className") == ""
    expect(again.locator("footer")).to_be_in_viewport()
    again.close()
    shown.page.evaluate("document.documentElement.className = 'opening'")
    assert not shown.page.locator("section").first.is_visible()
    assert "Reproduce" in _printed(shown, tmp_path)[0]


def test_the_whole_condition_of_a_rule_unfolds(show: Show) -> None:
    """Of a rule that did not match, too: every check with its value, what it found and what it would have needed."""
    page = show(page_of(CAPTURE)).page
    rule = next(one for one in document(CAPTURE)["rules"] if one["outcome"] == "silent" and one["tree"]["children"])
    page.locator("details.fold", has=page.locator("table[data-host]")).locator("> summary").click()
    row = page.locator("tr", has=page.get_by_text(rule["id"], exact=True))
    button = row.get_by_role("button", name="Condition")
    button.click()
    expect(row.locator(".tree > li > code")).to_have_text(rule["tree"]["expr"])
    assert row.locator(".tree > li > ul > li").count() == len(rule["tree"]["children"])
    expect(button).to_have_attribute("aria-expanded", "true")
    button.click()
    expect(row.locator(".tree")).to_be_hidden()


def test_nothing_is_cut_on_paper(show: Show) -> None:
    """On paper no chart is broken over two sheets, boxes do not scroll, what is for hands is gone, all is unfolded."""
    page = show(page_of(CAPTURE)).page
    page.emulate_media(media="print")
    assert page.locator(".panel").first.evaluate("(one) => getComputedStyle(one).breakInside") == "avoid"
    assert page.locator(".scroll").first.evaluate("(one) => getComputedStyle(one).overflowX") == "visible"
    assert page.locator(".hint, .told, .icicle label").evaluate_all(
        "all => all.every((one) => getComputedStyle(one).display === 'none')"
    )
    folded = page.locator("details.finding:not([open]) > :not(summary)").first
    expect(folded).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_has_the_focus_is_seen(scheme: str, show: Show) -> None:
    """Each kind of element that keys can reach has an outline when it has the focus."""
    page = show(page_of(CAPTURE), color_scheme=scheme).page
    seen: set[str] = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        kind, width, style = page.evaluate(
            """() => { const one = document.activeElement, look = getComputedStyle(one);
            return [one.className || one.tagName, parseFloat(look.outlineWidth), look.outlineStyle]; }"""
        )
        if kind == "BODY":  # beyond the last one
            break
        assert width >= 1, kind
        assert style != "none", kind
        seen.add(kind)
    assert {"A", "SUMMARY", "axis live"} <= seen


def test_details_open_by_key(show: Show) -> None:
    """Enter and the space bar unfold and fold, without scripts too."""
    page = show(page_of(CAPTURE), java_script_enabled=False).page
    folded = page.locator("details").first
    folded.locator("summary").first.focus()
    for key, is_open in (("Enter", True), ("Space", False), ("Space", True)):
        page.keyboard.press(key)
        assert folded.evaluate("(one) => one.open") == is_open


def test_the_contents_lead_to_the_sections(show: Show) -> None:
    """Each link below the verdict brings its heading into view, in the order of the page, by keys too."""
    page = show(page_of(STORY)).page
    links = page.locator("nav.contents a")
    targets = links.evaluate_all("all => all.map((one) => one.getAttribute('href').slice(1))")
    assert targets == page.locator("h2").evaluate_all("all => all.map((one) => one.id)")[: len(targets)]
    assert len(targets) > 5
    links.nth(2).focus()
    page.keyboard.press("Enter")
    expect(page.locator(f"#{targets[2]}")).to_be_in_viewport()


SIX = [*sorted((STORY.parents[1] / name / "bundle" for name in STORIES), key=str), CAPTURE]


@pytest.mark.parametrize("source", SIX, ids=_name)
def test_the_first_screen_answers(source: Path, show: Show) -> None:
    """Without scrolling at 1280 x 800: verdict, confidence with its reason, proof and figure, do now, undo, verify."""
    page = show(page_of(source), viewport={"width": 1280, "height": 800}).page
    told = summarize(as_result(document(source)))
    assert told.finding is not None
    block = page.locator("header.verdict")
    assert block.evaluate("(one) => one.getBoundingClientRect().bottom") <= 800
    words = " ".join((block.text_content() or "").split())
    wanted = (told.sentence, told.severity, f"{told.confidence} by {told.reason}", told.finding.rule, told.host)
    assert [text for text in wanted if " ".join(text.split()) not in words] == []
    assert len(told.proofs) > 0
    for one in told.proofs:
        assert f"{one.member}:{one.line}" in words
        assert " ".join((one.text or "").split()) in words
    expect(block.locator(".proof svg").first).to_be_in_viewport(ratio=1)
    commands = block.locator(".actions .command").all_text_contents()
    assert [list(command.split("\n")) for command in commands] == [
        [row for command in list_ for row in command.split("\n")] for list_ in told.actions.values() if list_
    ]
    assert [label.partition(" (")[0] for label in block.locator(".actions .label").all_text_contents()] == [
        label for label, list_ in told.actions.items() if list_
    ]
    expect(block.locator(".copy")).to_have_count(len(commands))


def test_a_command_is_copied(show: Show) -> None:
    """The button beside a command puts it, and nothing else, into the clipboard, or marks it to be copied."""
    page = show(page_of(STORY)).page
    button = page.locator("header .copy").first
    button.click()
    expect(button).not_to_have_text("Copy")
    assert page.evaluate("getSelection().toString()").strip() in (
        "",
        page.locator("header .command").first.inner_text(),
    )


def test_lists_are_filtered(show: Show) -> None:
    """Words in a box leave the files, or rules, that have them all; folders open; an empty box shows all again."""
    page = show(page_of(CAPTURE)).page
    page.locator("nav.contents a[href='#h1-inputs']").click()
    folded = page.locator("details.fold", has=page.locator("#h1-inputs"))
    expect(folded).to_have_attribute("open", "")
    box, files = folded.locator("input"), folded.locator(".files li:not(:has(li))")
    whole = files.count()
    box.fill("counters")
    expect(folded.locator(".files li:not(:has(li)):visible")).to_have_count(1)
    expect(folded.locator("[aria-live]")).to_have_text(f"1 of {whole}")
    box.fill("")
    expect(folded.locator("[aria-live]")).to_have_text("")
    assert files.evaluate_all("all => all.every((one) => !one.hidden)")


def test_details_are_folded(show: Show) -> None:
    """Inputs, rules and the host are headings with a count until somebody opens them."""
    page = show(page_of(CAPTURE), java_script_enabled=False).page
    for section in ("rules", "host", "inputs"):
        folded = page.locator("details.fold", has=page.locator(f"#h1-{section}"))
        assert folded.get_attribute("open") is None
        expect(folded.locator("summary .small").first).to_be_visible()
