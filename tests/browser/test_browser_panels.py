"""Panels of a timeline with scripts on: values under the pointer in all of them, a closer look by mouse and by keys."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from browser_fixtures import Show
from browser_pages import CAPTURE, Shown, document, page_of
from thpdiag.report.html import render
from thpdiag.report.quantity import moment, quantity

GROUP = ".axis >> nth=0"
HINT = "Point at a chart"


@pytest.fixture
def shown(show: Show) -> Shown:
    """The page of a capture, at its first group of panels."""
    opened = show(page_of(CAPTURE))
    opened.page.locator(GROUP).locator(".plot").first.scroll_into_view_if_needed()
    return opened


def _time(group: Locator, part: float) -> float:
    """The time at a part of the width, by the stretches that the group names."""
    at = 1000 * part
    stretches = [list(map(float, one.split())) for one in (group.get_attribute("data-x") or "").split(",")]
    first, last, left, right = next((one for one in stretches if at <= one[3]), stretches[-1])
    return first + max(0.0, (at - left) / (right - left)) * (last - first) if right > left else first


def _expected(numbers: str, time: float) -> str:
    """What the result says of a line at a time: the mean of the nearest bucket."""
    series = [document(CAPTURE)["timeline"]["series"][int(number)] for number in numbers.split(",")]
    rows = [(abs(row[0] - time), quantity(row[3], one["unit"])) for one in series for row in one["points"]]
    return min(rows, key=lambda row: row[0])[1]


def _moment(time: float, clock: str) -> str:
    """On both clocks, since it is known when the host was booted."""
    boot = document(CAPTURE)["timeline"]["boot"]
    assert boot["clock"] == clock
    return f"at {moment(time, clock)} = {moment(time - boot['t'], 'boot')}"


def _views(page: Page) -> set[str]:
    """What stretch the plots of the first group show."""
    boxes = (
        page.locator(GROUP).locator(".plot").evaluate_all("plots => plots.map((one) => one.getAttribute('viewBox'))")
    )
    return {" ".join(box.split()[::2]) for box in boxes}


def _point(shown: Shown, part: float) -> None:
    box = shown.page.locator(GROUP).locator(".plot").first.bounding_box()
    assert box
    shown.page.mouse.move(box["x"] + part * box["width"], box["y"] + box["height"] / 2)


@pytest.mark.parametrize("part", [0.013, 0.31, 0.777])
def test_pointing_at_one_panel_tells_the_values_in_all(shown: Shown, part: float) -> None:
    """Each line says the time and mean of the bucket nearest to the pointer, as the result has it."""
    group = shown.page.locator(GROUP)
    _point(shown, part)
    expect(group.locator(".key .now").first).not_to_be_empty()
    told = {
        line.get_attribute("data-s") or "": words.text_content()
        for panel in group.locator(".panel").all()
        for line, words in zip(panel.locator("[data-s]").all(), panel.locator(".key .now").all(), strict=True)
    }
    assert len(told) > 3
    assert told == {numbers: _expected(numbers, _time(group, part)) for numbers in told}
    assert (group.locator(".now-at").text_content() or "").startswith("at ")
    assert group.locator(".cursor[d]").count() == group.locator(".plot").count()


def test_dragging_over_a_panel_looks_closer_in_all(shown: Shown) -> None:
    """The stretch that was dragged over fills every panel, no text gets selected, Escape shows all again."""
    page, group = shown.page, shown.page.locator(GROUP)
    whole = group.locator(".now-at").text_content()
    _point(shown, 0.25)
    page.mouse.down()
    _point(shown, 0.5)
    page.mouse.up()
    (view,) = _views(page)
    left, wide = map(float, view.split())
    assert abs(left - 250) < 3
    assert abs(wide - 250) < 5
    assert page.evaluate("getSelection().toString()") == ""
    assert "Escape shows all" in (group.locator(".now-at").text_content() or "")
    page.keyboard.press("Escape")
    assert _views(page) == {"0 1000"}
    assert group.locator(".now-at").text_content() == whole


def test_a_drag_may_end_beside_the_panel(shown: Shown) -> None:
    """Who drags over the edge of the chart means up to its end."""
    _point(shown, 0.6)
    shown.page.mouse.down()
    _point(shown, 1.08)
    shown.page.mouse.up()
    (view,) = _views(shown.page)
    left, wide = map(float, view.split())
    assert abs(left - 600) < 3
    assert abs(left + wide - 1000) < 0.01


def test_a_closer_look_draws_every_bucket(shown: Shown) -> None:
    """Lines are drawn anew from the result, within the plot and through as many points as it has."""
    group = shown.page.locator(GROUP)
    _point(shown, 0.2)
    shown.page.mouse.down()
    _point(shown, 0.4)
    shown.page.mouse.up()
    line = group.locator("[data-s]").first
    expect(line).to_have_attribute("data-fine", "")
    points = document(CAPTURE)["timeline"]["series"][int((line.get_attribute("data-s") or "").split(",")[0])]["points"]
    path = line.locator("path").last.get_attribute("d") or ""
    places = [float(pair.partition(",")[2]) for pair in path.replace("M", "L").split("L")[1:]]
    assert len(places) == len(points)
    assert all(0 <= y <= 100 for y in places)
    assert shown.complaints == []


def test_a_closer_look_keeps_a_point_alone(show: Show) -> None:
    """A series of one point is still a dash when everything is drawn anew."""
    rows = [[float(at), 1.0, 1.0, 1.0] for at in range(100)]
    told = {"clock": "day", "panel": "huge_pages", "unit": "1"}
    series = [{**told, "metric": "many", "points": rows}, {**told, "metric": "alone", "points": [rows[50]]}]
    least = {"schema": "thpdiag/result/1", "verdict": {"status": "cannot_tell"}}
    page = show(render({**least, "timeline": {"series": series}})).page
    page.locator(GROUP).focus()
    page.keyboard.press("+")
    alone = page.locator("[data-s='1'][data-fine] path").last
    expect(alone).to_have_attribute("d", re.compile(r"^M[0-9.]+,[0-9.]+H[0-9.]+$"))


def test_keys_walk_and_zoom(shown: Shown) -> None:
    """Arrows move the time that is told, Home and End go to the ends, + and - look closer and back."""
    page, group = shown.page, shown.page.locator(GROUP)
    told = group.locator(".now-at")
    clock = group.get_attribute("data-clock") or ""
    group.focus()
    page.keyboard.press("End")
    assert told.text_content() == _moment(_time(group, 1.0), clock)
    page.keyboard.press("Home")
    assert told.text_content() == _moment(_time(group, 0.0), clock)
    for _ in range(30):
        page.keyboard.press("ArrowRight")
    for _ in range(10):
        page.keyboard.press("ArrowLeft")
    assert told.text_content() == _moment(_time(group, 0.2), clock)
    page.keyboard.press("+")
    assert _views(page) == {"0 450"}
    page.keyboard.press("-")
    assert _views(page) == {"0 650"}
    page.keyboard.press("Escape")
    assert _views(page) == {"0 1000"}
    page.keyboard.press("Control+-")  # belongs to the browser
    assert _views(page) == {"0 1000"}


def test_how_to_use_the_panels_is_said_where_it_works(show: Show) -> None:
    """The hint stands below the panels with scripts only: without them there is nothing to use."""
    assert HINT in show(page_of(CAPTURE)).page.locator(GROUP).inner_text()
    assert HINT not in show(page_of(CAPTURE), java_script_enabled=False).page.locator(GROUP).inner_text()


def test_without_the_result_the_panels_still_tell_the_time(show: Show) -> None:
    """A page whose data somebody took out, or a browser that cannot unpack it, says less and breaks nothing."""
    page = page_of(CAPTURE)
    data = page.partition('id="result">')[2].partition("</script>")[0]
    shown = show(page.replace(data, "AAAA"))
    shown.page.locator(".plot").first.hover()
    expect(shown.page.locator(".now-at").first).to_have_text(re.compile("^at "))
    assert shown.page.locator(".key .now").first.text_content() == ""
    assert shown.complaints == []


VALUES: list[tuple[float, str]] = [
    (value, unit)
    for unit in ("ratio", "bytes", "bytes/s", "1/s", "seconds", "1", "", "kthreads")
    for value in (0, 0.004, 0.0712, 0.6, 1, 12.34, 59.4, 61, 999, 3600, 86461, 123456.7, 5.4e9, -3.2)
]
TIMES: list[tuple[float, str]] = [
    (time, clock)
    for clock in ("utc", "local", "day", "boot", "")
    for time in (0, 7.27, 59.96, 86399, 90061.5, 1763654321.27)
    if clock or time < 1e5  # numbers of samples are small
]


def test_the_script_says_numbers_and_times_as_the_page_does(show: Show) -> None:
    """The same value has the same words whether the page or its script wrote them."""
    words = files("thpdiag.report.html").joinpath("script", "words.js").read_text(encoding="utf-8")
    page = show("<!DOCTYPE html><title>words</title>").page

    def said(function: str, pairs: list[tuple[float, Any]]) -> list[str]:
        made: list[str] = page.evaluate(
            f"pairs => {{ {words}; return pairs.map((pair) => {function}(...pair)); }}", pairs
        )
        return made

    assert said("quantity", VALUES) == [quantity(value, unit) for value, unit in VALUES]
    assert said("moment", TIMES) == [moment(time, clock or None) for time, clock in TIMES]


@pytest.mark.parametrize("width", [1280, 390])
def test_pointing_at_a_panel_moves_nothing(width: int, show: Show) -> None:
    """Values stand in places of their own: no chart moves away from below the pointer."""
    shown = show(page_of(CAPTURE), viewport={"width": width, "height": 900})
    page = shown.page
    places = "all => all.map((one) => { const box = one.getBoundingClientRect(); return [box.top, box.height]; })"
    before = page.locator(".panel, h2").evaluate_all(places)
    page.locator(GROUP).locator(".plot").first.hover()
    expect(page.locator(".key .now").first).not_to_be_empty()
    scrolled = page.evaluate("scrollY")
    after = page.locator(".panel, h2").evaluate_all(places)
    assert [[round(top + scrolled), height] for top, height in after] == [
        [round(top), height] for top, height in before
    ]


def test_what_the_verdict_speaks_of_comes_first(show: Show) -> None:
    """Its chart is the first one and marked; what no finding speaks of is folded, with a scale of two ends each."""
    page = show(page_of(CAPTURE), java_script_enabled=False).page
    first = page.locator(".panel").first
    expect(first.locator("strong")).to_have_text("compact_stall")
    expect(first.locator(".rule").first).to_have_text(document(CAPTURE)["verdict"]["rule"])
    assert all(len(one.locator("text.scale").all()) == 2 for one in page.locator(".panel:has(.plot + .scale)").all())
    folded = page.locator("details:has(> .axis)")
    assert folded.get_attribute("open") is None
    assert folded.locator(".panel.named").count() == 0
