"""The page of a fleet in a browser: filters, order and windows of rows with a script, everything without one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from browser_fixtures import Show
from browser_pages import ADDRESS, near
from hostile_fleet import hostile_fleet
from small_fleets import bundle, found, host, many, page, page_of, store
from test_browser_hostile import ALIVE
from test_browser_looks import OPEN_ALL, SETTINGS, TELEPHONE
from test_browser_places import PLACES
from test_hostile_words import MARK

ROWS = "#hosts tbody tr"
ELEMENTS = {"button", "input", "label", "nav", "option", "select"}  # what the script adds


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> str:
    """450 bundles with 446 hosts; some differ from their like, some have a page of their own."""
    folder = store(tmp_path_factory.mktemp("fleet"), many(450))
    return page(folder, page=lambda row: f"hosts/{row['bundle']}.html" if row["verdict"] == "found" else "")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    return page(store(tmp_path_factory.mktemp("hostile"), hostile_fleet()))


def tally(shown: Page, section: str = "hosts") -> str:
    return shown.locator(f"#{section} [aria-live]").inner_text()


@pytest.mark.parametrize("place", PLACES)
def test_a_page_is_whole_wherever_it_is_opened(place: str, fleet: str, show: Show) -> None:
    """One request, no complaint but those of a policy that forbids our style and script; every host can be shown."""
    headers, browser = PLACES[place]
    if place.startswith("strict"):
        headers = {"Content-Security-Policy": "sandbox allow-scripts", "X-Content-Type-Options": "nosniff"}
    shown = show(fleet, headers, **browser)
    assert shown.requests == [ADDRESS]
    expected = r"inline style violates|script execution .* sandboxed" if place == "Jenkins" else "(?!)"
    assert [said for said in shown.complaints if not re.search(expected, said)] == []
    assert shown.page.locator("h1").is_visible()
    scripted = shown.page.locator("input[type=search]").count() > 0
    assert scripted == (place in ("with scripts", "sandbox", "strict"))
    assert shown.page.locator(ROWS).count() == (100 if scripted else 446)
    assert shown.page.locator("#outliers svg").first.bounding_box()


def test_a_page_opened_as_a_file_asks_for_nothing_else(fleet: str, show_file: Show) -> None:
    """By its own policy alone: no request but the file, no complaint, and its script runs."""
    shown = show_file(fleet)
    assert len(shown.requests) == 1
    assert shown.complaints == []
    assert tally(shown.page) == "446 hosts"


def test_without_script_each_leaf_unfolds(fleet: str, show: Show) -> None:
    """By keys, one at a time; the last host is to be seen then."""
    shown = show(fleet, java_script_enabled=False).page
    first, last = shown.locator("#hosts summary").first, shown.locator("#hosts summary").last
    expect(shown.locator(ROWS).first).to_be_visible()
    last.focus()
    shown.keyboard.press("Enter")
    expect(shown.locator(ROWS).last).to_be_visible()
    expect(shown.locator(ROWS).first).to_be_hidden()
    first.click()
    expect(shown.locator(ROWS).first).to_be_visible()


def test_the_search_takes_words_in_any_order(fleet: str, show: Show) -> None:
    """Each word must be somewhere in the row; case does not matter; what is found is counted and told."""
    shown = show(fleet).page
    search = shown.get_by_label("Search").first
    for words, count in (("WEB12", 11), ("critical web", 9), ("web critical 6.1.0", 2), ("nowhere", 0), ("  ", 446)):
        search.fill(words)
        assert tally(shown) == ("446 hosts" if count == 446 else f"{count} of 446 hosts")
        assert shown.locator(ROWS).count() == min(count, 100)
    search.fill("web12")
    shown.get_by_role("button", name="Show all").first.click()
    assert tally(shown) == "446 hosts"
    expect(search).to_be_focused()


def test_filters_narrow_together(fleet: str, show: Show) -> None:
    """A choice of two columns and a word; values stand with their numbers, severities in their order."""
    shown = show(fleet).page
    choices = shown.locator("#hosts select")
    assert [one.split("\n")[0] for one in shown.locator("#hosts .controls label").all_inner_texts()] == [
        "Search", "Verdict", "Severity", "Mechanism", "Confidence", "Kernel", "Application",
    ]  # fmt: skip
    assert choices.nth(1).locator("option").all_inner_texts() == [
        "all", "critical (9)", "high (9)", "medium (9)", "low (9)", "info (9)",
    ]  # fmt: skip
    choices.nth(0).select_option(label="found (45)")
    choices.nth(4).select_option(label="6.1.3 (63)")
    results = shown.locator(f"{ROWS} td:nth-child(2)").all_inner_texts()
    assert results == sorted(results, key=["critical", "high", "medium", "low", "info"].index)
    assert tally(shown) == f"{len(results)} of 446 hosts"
    assert set(shown.locator(f"{ROWS} td:nth-child(6)").all_inner_texts()) == {"6.1.3"}
    choices.nth(5).select_option(label="jvm (149)")
    assert 0 < shown.locator(ROWS).count() < len(results)
    assert all("jvm" in text for text in shown.locator(f"{ROWS} td:nth-child(8)").all_inner_texts())


def test_what_nobody_accepted_is_one_choice_away(tmp_path: Path, show: Show) -> None:
    """Notes below a result are a filter too, and that there is none."""
    bundles = [
        bundle(1, host("db1", found("high"))), bundle(2, host("db2", found("high"))),
        bundle(3, host("db3", found("low", state="past")), status="partial", reason="cut"),
    ]  # fmt: skip
    shown = show(page_of(tmp_path, bundles, known="- {rule: THP-010, host: db1, reason: known}")).page
    notes = shown.get_by_label("Note")
    assert notes.locator("option").all_inner_texts() == [
        "all", "no note (1)", "accepted (1)", "incomplete (1)", "over (1)",
    ]  # fmt: skip
    notes.select_option(label="no note (1)")
    assert shown.locator(f"{ROWS} td:first-child span").all_inner_texts() == ["db2"]


def test_a_count_leads_to_its_hosts(fleet: str, show: Show) -> None:
    """As many as it says, by keys too; what was chosen before is forgotten, and the number has the focus."""
    shown = show(fleet).page
    shown.get_by_label("Search").first.fill("web1")
    shown.locator("table[data-counts=Severity] button", has_text="medium").focus()
    shown.keyboard.press("Enter")
    assert tally(shown) == "9 of 446 hosts"
    expect(shown.locator("#hosts [aria-live]")).to_be_focused()
    expect(shown.locator(ROWS).first).to_be_in_viewport()
    shown.locator("summary", has_text="Kernel, Distribution").click()
    shown.locator("table[data-counts=Kernel] button", has_text="6.1.2").click()
    assert tally(shown) == "64 of 446 hosts"


def test_columns_sort_up_down_and_back(fleet: str, show: Show) -> None:
    """Names as people count, grades by gravity, numbers by size; the head says which way; the third press undoes it."""
    shown = show(fleet).page
    before = shown.locator(f"{ROWS} td:first-child span, {ROWS} td:first-child a").all_inner_texts()
    name = shown.locator("#hosts th button").first
    name.click()
    names = shown.locator(f"{ROWS} td:first-child > :first-child").all_inner_texts()
    assert names[:4] == ["web0", "web1", "web2", "web3"]
    assert names[10] == "web10"
    assert shown.locator("#hosts th").first.get_attribute("aria-sort") == "ascending"
    name.click()
    assert shown.locator(f"{ROWS} td:first-child > :first-child").first.inner_text() == "web449"
    assert shown.locator("#hosts th").first.get_attribute("aria-sort") == "descending"
    name.click()
    assert shown.locator(f"{ROWS} td:first-child > :first-child").all_inner_texts() == before
    result = shown.locator("#hosts th button").nth(1)
    result.click()
    result.click()
    assert shown.locator(f"{ROWS} td:nth-child(2)").first.inner_text() == "nothing found"
    distance = shown.locator("#outliers th button").last
    distance.click()
    distance.click()
    scores = [float(one) for one in shown.locator("#outliers td:last-child[data-v]").evaluate_all(
        "all => all.map((one) => one.dataset.v)")]  # fmt: skip
    assert scores == sorted(scores, reverse=True) != sorted(scores)


def test_rows_come_in_windows(fleet: str, show: Show) -> None:
    """A hundred at a time: forth, back, to the end; a filter begins at the first again."""
    shown = show(fleet).page
    pager = shown.locator("#hosts .pager")
    assert pager.locator("span").inner_text() == "1 to 100 of 446"
    assert pager.get_by_role("button", name="Previous").is_disabled()
    pager.get_by_role("button", name="Next").click()
    assert pager.locator("span").inner_text() == "101 to 200 of 446"
    pager.get_by_role("button", name="Last").click()
    assert pager.locator("span").inner_text() == "401 to 446 of 446"
    assert shown.locator(ROWS).count() == 46
    assert pager.get_by_role("button", name="Next").is_disabled()
    shown.get_by_label("Search").first.fill("web")
    assert pager.locator("span").inner_text() == "1 to 100 of 446"
    shown.get_by_label("Search").first.fill("critical")
    expect(pager).to_be_hidden()


def test_a_key_goes_to_the_search(fleet: str, show: Show) -> None:
    """`/`, but not where somebody writes."""
    shown = show(fleet).page
    shown.keyboard.press("/")
    search = shown.get_by_label("Search").first
    expect(search).to_be_focused()
    shown.keyboard.type("a/b")
    assert search.input_value() == "a/b"


@pytest.mark.parametrize(("scheme", "size"), SETTINGS, ids=["light and wide", "dark and narrow"])
@pytest.mark.parametrize("script", [True, False], ids=["script", "none"])
def test_axe_finds_nothing(script: bool, scheme: str, size: dict[str, int], tmp_path: Path, show: Show) -> None:
    """No violation of axe-core's rules with everything unfolded; without script its own scripts cannot run, so a page
    without ours stands for it."""
    known = "- {rule: THP-010, host: db1, reason: change 4711}"
    html = page_of(tmp_path, many(230), known=known, page=lambda row: f"{row['bundle']}.html")
    html = html if script else re.sub(r"<script>.*?</script>", "", html, flags=re.S)
    shown = show(html, color_scheme=scheme, viewport=size)
    shown.page.evaluate(OPEN_ALL)
    found_ones = Axe().run(shown.page).response["violations"]
    assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found_ones] == []


@pytest.mark.parametrize("source", ["fleet", "hostile"])
@pytest.mark.parametrize("script", [True, False], ids=["script", "none"])
def test_a_telephone_needs_no_scrolling_sideways(
    source: str, script: bool, request: pytest.FixtureRequest, show: Show
) -> None:
    """At 390 px nothing of the page is wider than the screen; a row is a card whose lines say what they are."""
    html = request.getfixturevalue(source)
    html = html if script else re.sub(r"<script>.*?</script>", "", html, flags=re.S)
    shown = show(html, viewport=TELEPHONE).page
    shown.evaluate(OPEN_ALL)
    assert shown.evaluate("document.documentElement.scrollWidth") == 390
    assert shown.locator("#hosts .scroll").first.evaluate("(one) => one.scrollWidth <= one.clientWidth + 1")
    label = shown.locator(f"{ROWS} td:nth-child(6)").first
    assert label.evaluate("(one) => getComputedStyle(one).display") == "block"
    assert label.evaluate("(one) => getComputedStyle(one, '::before').content") == '"Kernel: "'


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_have_their_colours(scheme: str, fleet: str, show: Show) -> None:
    """The box of a group and the dot of the host are to be told from the paper, also where no style is allowed."""
    shown = show(fleet, color_scheme=scheme)
    box, host_itself = ("#2b6cb0", "#b0370a") if scheme == "light" else ("#79b8ff", "#ffa657")
    pixels = shown.colours(shown.page.locator("#outliers svg:has(circle)").first)
    assert sum(count for colour, count in pixels.items() if near(colour, box, 30)) > 10
    assert sum(count for colour, count in pixels.items() if near(colour, host_itself, 30)) > 10
    bare = show(fleet, PLACES["Jenkins"][0])
    pixels = bare.colours(bare.page.locator("#outliers svg:has(circle)").first)
    assert sum(count for colour, count in pixels.items() if near(colour, "#2b6cb0", 30)) > 10


def test_paper_has_all_that_passes(fleet: str, show: Show) -> None:
    """What is printed is every row that passes the filters, not the window, and no controls; then the window again."""
    shown = show(fleet).page
    shown.get_by_label("Search").first.fill("nothing")
    shown.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    shown.emulate_media(media="print")
    assert shown.locator(ROWS).count() == 401
    expect(shown.locator("#hosts .controls")).to_be_hidden()
    shown.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert shown.locator(ROWS).count() == 100


@pytest.mark.parametrize("script", [True, False], ids=["script", "none"])
def test_nothing_of_the_fleet_lives_in_the_page(script: bool, hostile: str, show: Show) -> None:
    """Without its policy: only our elements, no handler, no request, no dialog, and each control was used."""
    bare = re.sub(r"<meta http-equiv[^>]*>", "", hostile)
    shown = show(bare, java_script_enabled=script)
    before = set(re.findall(r"<([a-z0-9]+)", re.sub(r"<script>.*?</script>", "", hostile, flags=re.S)))
    if script:
        _used(shown.page)
        alive = shown.page.evaluate(ALIVE)
        assert set(alive["elements"]) <= before | ELEMENTS | {"script"}
        assert alive["handlers"] == []
        assert shown.page.evaluate("Object.keys({}.__proto__)") == []
    assert shown.requests == [ADDRESS]
    assert shown.complaints == []


def _used(shown: Page) -> None:
    """Searches, chooses each value of each filter, presses each count and each head."""
    shown.locator("#hosts input").fill(f"{MARK}<script>")
    shown.evaluate(
        """() => {
          document.querySelectorAll("select").forEach((one) => [...one.options].forEach((_, at) => {
            one.selectedIndex = at;
            one.dispatchEvent(new Event("change"));
          }));
          document.querySelectorAll("th button").forEach((one) => one.click());
        }"""
    )
    assert MARK in shown.locator("#hosts option").all_inner_texts()[-1]


def test_a_fleet_of_one_needs_no_controls_that_do_nothing(tmp_path: Path, show: Show) -> None:
    """One host, one bundle that failed: the page stands, and what cannot choose between anything is not there."""
    shown = show(page_of(tmp_path, [bundle(1, host("db1", found("high"))), bundle(2)])).page
    expect(shown.locator(ROWS)).to_be_visible()
    assert shown.locator("input, select, button").count() == 0
    shown = show(page_of(tmp_path, [bundle(3, host("db3", found("high")))])).page
    assert tally(shown) == "2 hosts"
    assert shown.locator("#hosts select").count() == 0
    expect(shown.locator("#hosts .pager")).to_be_hidden()
