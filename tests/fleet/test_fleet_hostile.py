"""Whatever hosts, bundles and reasons are called, the page of a fleet has it as letters and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from hostile_fleet import HOSTS, OPTIONS, hostile_fleet
from small_fleets import page, read, store
from small_results import ANALYSIS
from test_hostile_words import CONTROLS, MARK, Page
from thpdiag.fleet.page import page_script, page_style
from thpdiag.report.html import digest
from thpdiag.store.results import Analysis

LISTS = ("hosts", "outliers", "changes", "incomplete")
ATTRIBUTES = {
    "aria-hidden", "aria-label", "aria-labelledby", "charset", "class", "content", "cx", "cy", "d", "fill", "height",
    "href", "http-equiv", "id", "lang", "name", "open", "preserveaspectratio", "r", "role", "scope", "stroke",
    "stroke-width", "tabindex", "viewbox", "width", "x", "y",
    *(f"data-{name}" for name in re.findall(r"\w+", "counts facet found many notes number one order plain rows v")),
}  # fmt: skip
ELEMENTS = set(
    re.findall(
        "[a-z0-9]+",
        """html head meta title style body main header section h1 h2 h3 p a div dl dt dd details summary table thead
        tbody tr th td b i span small svg rect path circle script""",
    )
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page; pages of hosts have hostile names too, and so have the reasons why findings are accepted."""
    folder = store(
        tmp_path_factory.mktemp("hostile"), hostile_fleet(), Analysis(MARK + "<i>", MARK + "\x1b[31m", OPTIONS)
    )
    return page(
        folder,
        page=lambda row: f"javascript:{row['host']}" if row["host"] else "",
        known=f'- {{rule: THP-010, reason: "{MARK}</dd><img src=x onerror=alert(1)>"}}',
    )


def test_only_elements_and_attributes_of_ours(hostile: str) -> None:
    """No other element, no other attribute, no handler; one style and one script, each with our hash."""
    tags = Page(hostile).tags

    assert {name for name, _ in tags} == ELEMENTS
    assert {name for _, attributes in tags for name in attributes} <= ATTRIBUTES
    tree = read(hostile)
    assert [digest(one.text) for one in tree.xpath("//style|//script")] == [digest(page_style()), digest(page_script())]


def test_no_hostile_word_is_in_an_attribute(hostile: str) -> None:
    """But for the addresses of pages, which are quoted and lead to no scheme."""
    told = [(key, value or "") for _, attributes in Page(hostile).tags for key, value in attributes.items()]

    assert {key for key, value in told if MARK in value} == {"href"}
    links = {value for key, value in told if key == "href" and not value.startswith("#")}
    assert len(links) > 20
    assert not any(set(link) & set("<>\"' :\\") for link in links)


def test_nothing_hidden_stays_hidden(hostile: str) -> None:
    """No control character, no mark that turns or hides text, no lone surrogate: the page can be written as UTF-8."""
    assert CONTROLS.search(hostile.replace("\n", "")) is None
    assert hostile.encode()


@pytest.mark.parametrize("name", LISTS)
def test_each_list_has_hostile_words_as_letters(name: str, hostile: str) -> None:
    """They reached the cells, so the tests above look at something, and no row was lost or torn by one."""
    tree = read(hostile)
    found: list[Any] = tree.xpath(f"//*[@id='{name}']//tbody/tr")
    width = len(tree.xpath(f"//*[@id='{name}']//thead")[0].xpath(".//th"))

    assert any(MARK in row.text_content() for row in found)
    assert {len(row) for row in found} == {width}
    assert len(tree.xpath("//*[@id='hosts']//tbody/tr")) == sum(number % 9 != 8 for number in range(HOSTS))


def test_counts_take_any_value(hostile: str) -> None:
    """Values of customers are counted as they are shown."""
    tree = read(hostile)

    listed = {row[5].text_content() for row in tree.xpath("//*[@id='hosts']//tbody/tr")}
    counted = {cell.text_content() for cell in tree.xpath("//table[@data-counts='Kernel']//th")}
    assert counted == listed


def test_a_path_of_the_analyst_is_not_told(tmp_path: Path) -> None:
    """Nothing of the folder that the store lies in is in its page."""
    folder = store(tmp_path / "analyst-home-4711", hostile_fleet()[:20], ANALYSIS)

    assert "analyst-home-4711" not in page(folder)
