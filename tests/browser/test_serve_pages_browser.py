"""Pages of cases in a browser, from the real server: for everybody, without script, whatever a customer's host is
called."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, expect

from browser_pages import Shown
from serve_application import AFTER, BEFORE, STORM, Whole, served
from test_browser_looks import SETTINGS, TELEPHONE

NewContext = Callable[..., BrowserContext]
HOSTILE = (
    "<script>alert(1)</script>\"'><img src=http://evil.example/x onerror=alert(2)>"
    "\u202egpj.exe\x1b[31m\u05d0\u05d1{{7*7}}"
)
MEMBER = "logs/<b>'\"&x=1#\u05d0 {{7*7}}%2e.txt"
ALIVE = """() => [...document.querySelectorAll('*')].filter((one) =>
  ['script', 'img', 'b', 'svg'].includes(one.localName) || [...one.attributes].some((a) => a.name.startsWith('on')))
  .filter((one) => !one.matches('script[src^="/static/"]')).map((one) => one.outerHTML)"""
TOO_WIDE = """() => [...document.querySelectorAll('body *')].filter((one) => {
  const box = one.getBoundingClientRect();
  return box.width > 1 && box.right > innerWidth + 1 && !one.closest('.scroll, .cases thead');
}).map((one) => one.outerHTML.slice(0, 90))"""


@dataclass
class Site:
    """A server with cases, and the addresses of one page of each kind."""

    url: str
    whole: Whole
    pages: dict[str, str]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with served(tmp_path) as whole:
        storm, before, after = whole.completed(STORM), whole.completed(BEFORE), whole.completed(AFTER)
        hostile, member = _hostile(whole, 0), quote(MEMBER, safe="")
        _hostile(whole, 1)
        pages = {
            "list": "/cases", "nothing found": "/cases?host=absent", "wrong date": "/cases?since=x",
            "case": f"/cases/{storm}", "with others": f"/cases/{before}",
            "compare": f"/cases/{before}/compare?with={after}",
            "lines": f"/cases/{storm}/lines?member=session.txt&line=30", "none": f"/cases/{'0' * 32}",
            "hostile case": f"/cases/{hostile}", "hostile compare": f"/cases/{hostile}/compare?with={storm}",
            "hostile lines": f"/cases/{hostile}/lines?member={member}&line=2",
        }  # fmt: skip
        with whole.listening() as url:
            yield Site(url, whole, pages)


def _hostile(whole: Whole, number: int) -> str:
    """A case whose host, bundle, file and words are hostile."""
    document: dict[str, Any] = deepcopy(json.loads(BEFORE.read_text(encoding="utf-8")))
    document["case"] = document["host"]["name"] = document["host"]["kernel"] = HOSTILE
    document["verdict"]["sentence"] = HOSTILE
    first = document["findings"][0]
    first["title"] = HOSTILE
    first["evidence"][0] |= {"member": MEMBER, "line": 2, "text": HOSTILE, "excerpt": [HOSTILE]}
    whole_tar, line = io.BytesIO(), f"{number}\n{HOSTILE}\n".encode()
    with tarfile.open(fileobj=whole_tar, mode="w") as tar:
        entry = tarfile.TarInfo(MEMBER)
        entry.size = len(line)
        tar.addfile(entry, io.BytesIO(line))
    whole.uploaded(whole_tar.getvalue(), f"{HOSTILE}.tar")
    return whole.done(whole.claimed(), document)


def opened(site: Site, new_context: NewContext, **browser: Any) -> Shown:
    """A browser that notes every request and complaint; nothing but the server can be reached."""
    context = new_context(**{"viewport": {"width": 1200, "height": 900}, **browser})
    shown = Shown(context.new_page())
    shown.page.on("request", lambda request: shown.requests.append(request.url))
    return shown


@pytest.mark.parametrize(("scheme", "size"), SETTINGS, ids=["light and wide", "dark and narrow"])
def test_axe_finds_nothing(scheme: str, size: dict[str, int], site: Site, new_context: NewContext) -> None:
    """No violation of axe-core's rules on any page, with everything unfolded, frames included."""
    shown = opened(site, new_context, color_scheme=scheme, viewport=size, bypass_csp=True)
    for name, target in site.pages.items():
        shown.page.goto(site.url + target, wait_until="networkidle")
        shown.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        found = Axe().run(shown.page, options={"iframes": False}).response
        assert [(name, one["id"], [n["html"] for n in one["nodes"]]) for one in found["violations"]] == []


def test_a_telephone_needs_no_scrolling_sideways(site: Site, new_context: NewContext) -> None:
    """At 390 px nothing is wider than the screen."""
    shown = opened(site, new_context, viewport=TELEPHONE)
    for name, target in site.pages.items():
        shown.page.goto(site.url + target)
        assert (name, shown.page.evaluate(TOO_WIDE)) == (name, [])
        assert (name, shown.page.evaluate("document.documentElement.scrollWidth")) == (name, 390)


def test_hostile_names_run_nothing_and_ask_nobody(site: Site, new_context: NewContext) -> None:
    """Shown as text on every page: no element of theirs, no request to elsewhere, no dialog, no policy violated."""
    shown = opened(site, new_context)
    for name, target in site.pages.items():
        shown.page.goto(site.url + target, wait_until="networkidle")
        assert (name, shown.page.evaluate(ALIVE)) == (name, [])
        if name.startswith("hostile"):
            assert "<script>alert(1)</script>" in shown.page.inner_text("main")
            assert "\\u202egpj.exe\\x1b[31m" in shown.page.inner_text("main")
    assert {address for address in shown.requests if not address.startswith(site.url)} == set()
    absent = "Failed to load resource: the server responded with a status of 40"
    assert [said for said in shown.complaints if not said.startswith(absent)] == []


def test_a_hostile_member_is_led_to(site: Site, new_context: NewContext) -> None:
    """The link on the case page leads to the lines of just that file; they are text."""
    shown = opened(site, new_context)
    shown.page.goto(site.url + site.pages["hostile case"])
    shown.page.locator(".evidence a", has_text="logs/").first.click()
    expect(shown.page.locator(".lines .cited code").first).to_contain_text("<img src=http://evil.example/x")
    expect(shown.page.locator("h1")).to_have_text(MEMBER)


def test_everything_works_without_script(site: Site, new_context: NewContext) -> None:
    """Search, case, report in its frame, cited line, comparison, keep, delete with its question."""
    page = opened(site, new_context, java_script_enabled=False).page
    page.goto(f"{site.url}/cases")
    page.fill("#host", "dem")
    page.select_option("#verdict", "found")
    page.click("text=Search")
    page.click(".cases .host a")
    expect(page.locator("#verdict-0")).to_contain_text("Page faults compact memory")
    page.click(".whole-report summary")
    expect(page.frame_locator("iframe").locator("h1")).to_contain_text("Page faults compact memory")
    page.click("#host ~ table .act a")
    expect(page.frame_locator("iframe").locator(".verdict").first).to_contain_text("fixed")
    page.click("#before a")
    page.click("button:has-text('Keep')")
    expect(page.locator("main .line")).to_contain_text("yes: the case and its files do not expire")
    page.click("button:has-text('Delete')")
    page.click("button:has-text('Delete it')")
    expect(page).to_have_url(f"{site.url}/cases")
    expect(page.locator(".cases .host a", has_text="demo")).to_have_count(1)


def test_everything_is_reached_by_keyboard(site: Site, new_context: NewContext) -> None:
    """Tab visits every link, field and button in their order, the first leads past the navigation, focus is seen."""
    page = opened(site, new_context).page
    page.goto(f"{site.url}/cases")
    wanted = page.locator("a, button, select, input").count()
    outlines, visited = set(), set()
    for _ in range(wanted + 12):  # a date has several fields
        page.keyboard.press("Tab")
        at = page.evaluate("document.activeElement.outerHTML.slice(0, 200)")
        if at not in visited and not at.startswith("<body"):
            outlines.add(page.evaluate("getComputedStyle(document.activeElement).outlineStyle"))
        visited.add(at)
    every = page.locator("a, button, select, input").evaluate_all(
        "all => all.map((one) => one.outerHTML.slice(0, 200))"
    )
    assert set(every) <= visited
    assert "none" not in outlines


def test_the_report_reaches_nothing_of_ours(site: Site, new_context: NewContext) -> None:
    """Its frame has an origin of its own, which sees neither the page around it nor any cookie."""
    shown = opened(site, new_context)
    shown.page.goto(site.url + site.pages["case"])
    shown.page.click(".whole-report summary")
    shown.page.wait_for_load_state("networkidle")
    shown.page.frame_locator("iframe").locator("h1").wait_for()
    frame = shown.page.frames[1]
    assert frame.evaluate("window.origin") == "null"
    assert frame.evaluate("(() => { try { return parent.document.title } catch { return 'closed' } })()") == "closed"
    height = shown.page.locator("iframe").bounding_box()
    assert height is not None
    assert height["height"] > 800
