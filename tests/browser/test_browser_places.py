"""Where a page is opened: as a file, on Jenkins, in a sandbox, with scripts off. All of it is to be seen everywhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from browser_fixtures import Show
from browser_pages import ADDRESS, CAPTURE, RESULTS, STORY, Shown, near, page_of
from thpdiag.report.html import policy

JENKINS = {"Content-Security-Policy": "sandbox; default-src 'none'; img-src 'self'; style-src 'self'"}
SANDBOX = {"Content-Security-Policy": "sandbox allow-scripts"}
STRICT = {"Content-Security-Policy": f"sandbox allow-scripts; {policy()}", "X-Content-Type-Options": "nosniff"}
PLACES = {
    "with scripts": ({}, {}),
    "without scripts": ({}, {"java_script_enabled": False}),
    "Jenkins": (JENKINS, {}),
    "sandbox": (SANDBOX, {}),
    "strict": (STRICT, {}),
    "strict, without scripts": (STRICT, {"java_script_enabled": False}),
}
SOURCES = (*RESULTS, STORY, CAPTURE)
CASES = [
    *((source, place) for source in SOURCES for place in ("with scripts", "Jenkins")),
    *((CAPTURE, place) for place in PLACES if place not in ("with scripts", "Jenkins")),
]
CHARTS = ".panel > svg, .icicle > svg, .heat > svg"
DRAWN = "path[d], rect:not([fill='none'])"


def _name(source: Path) -> str:
    return source.stem if source.suffix else (source.parent.name if source.name == "bundle" else source.name)


def _charts(shown: Shown) -> list[str]:
    """Charts in which nothing can be seen: without a shape that has a size."""
    boxes = shown.page.evaluate(
        """([charts, drawn]) => [...document.querySelectorAll(charts)]
        .filter((one) => !one.closest("details:not([open])"))
        .map((one) => [...one.querySelectorAll(drawn)].filter((shape) => {
          const box = shape.getBoundingClientRect();
          return box.width + box.height > 1 && box.width >= 0 && box.height >= 0;
        }).length)""",
        [CHARTS, DRAWN],
    )
    return [f"chart {number}" for number, count in enumerate(boxes) if not count]


@pytest.mark.parametrize(("source", "place"), CASES, ids=lambda part: part if isinstance(part, str) else _name(part))
def test_a_page_is_whole_wherever_it_is_opened(source: Path, place: str, show: Show) -> None:
    """One request, the page itself; no complaint but those of a policy that forbids our style and script; charts."""
    headers, browser = PLACES[place]
    shown = show(page_of(source), headers, **browser)
    assert shown.requests == [ADDRESS]
    expected = r"inline style violates|script execution .* sandboxed" if place == "Jenkins" else "(?!)"
    assert [said for said in shown.complaints if not re.search(expected, said)] == []
    assert shown.page.locator("h1").is_visible()
    assert _charts(shown) == []


@pytest.mark.parametrize("place", PLACES)
def test_charts_have_their_colours_everywhere(place: str, show: Show) -> None:
    """The lines of a panel and the boxes of a call graph are on the screen in their colours, not as black boxes."""
    headers, browser = PLACES[place]
    shown = show(page_of(CAPTURE), headers, **browser)
    panel = shown.page.locator(".panel > svg").first
    lines = [line.get_attribute("stroke") or "" for line in panel.locator("[data-s] path[stroke]").all()]
    pixels = shown.colours(panel)
    assert lines  # the first two; others lie on the ground and on one another
    assert [line for line in lines[:2] if sum(n for colour, n in pixels.items() if near(colour, line)) < 50] == []
    graph = shown.colours(shown.page.locator(".icicle > svg").first)
    assert sum(n for colour, n in graph.items() if near(colour, "#bcd7f0", 25)) > 1000
    black = sum(n for colour, n in {**pixels, **graph}.items() if near(colour, "#000000", 40))
    assert black < 0.05 * sum([*pixels.values(), *graph.values()])


@pytest.mark.parametrize("source", [CAPTURE, STORY], ids=_name)
def test_a_page_opened_as_a_file_asks_for_nothing_else(source: Path, show_file: Show) -> None:
    """By its own policy alone: no request but the file, no complaint, and its script runs."""
    shown = show_file(page_of(source))
    assert [address.rpartition("/")[2] for address in shown.requests] == ["report.html"]
    assert shown.complaints == []
    assert shown.page.locator(".icicle input[type=search]").first.is_visible()


@pytest.mark.parametrize("place", ["with scripts", "sandbox", "strict"])
def test_the_script_runs_where_it_may(place: str, show: Show) -> None:
    """Also in a sandbox of its own origin, and where only what has our hash may run."""
    shown = show(page_of(CAPTURE), PLACES[place][0])
    shown.page.locator(".plot").first.hover()
    expect(shown.page.locator(".key .now").first).not_to_be_empty()
    assert shown.complaints == []


def test_a_policy_with_other_hashes_stops_style_and_script(show: Show) -> None:
    """The tests above can fail: what is not ours by its hash has no effect under the page's own policy."""
    page = page_of(CAPTURE).replace("</body>", '<script>document.title="ran"</script></body>')
    shown = show(page.replace("<style>", "<style>body { opacity: 0.9 }</style><style>"))
    assert len(shown.complaints) == 2
    assert shown.page.title() != "ran"
