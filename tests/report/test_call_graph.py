"""The call graph of a page: which recording comes first, how much of each is drawn, what the script does with it."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import unquote

import pytest

from browser_fixtures import Show
from test_html_report import _Page
from thpdiag.model.result import as_result
from thpdiag.report.charts.icicle import MAX_FRAMES
from thpdiag.report.html import recordings, render

FOLDED: list[list[Any]] = [
    ["java;main;page_fault;compact_zone;_spin_lock;compact_zone", 0.5],
    ["java;main;page_fault", 0.1],
    ["java;main;read", 0.2],
    ["cc;compact_zone", 0.1],
    ["cc;<b>x", 0.1],
]


def recording(member: str, folded: list[list[Any]] = FOLDED, **more: Any) -> dict[str, Any]:
    return {"event": "cycles", "samples": 100, "member": member, "folded": folded, **more}


def document(*profiles: dict[str, Any], cites: str = "") -> dict[str, Any]:
    evidence = [{"text": "a lock", "kind": "stack", "member": cites}]
    return {
        "schema": "thpdiag/result/1",
        "verdict": {"status": "found", "rule": "R-1"},
        "findings": [{"rule": "R-0"}, {"rule": "R-1", "evidence": evidence}],
        "profiles": list(profiles),
    }


MATCHED = {"matched": ["compact_zone"], "matched_stacks": [0], "kernel_entries": ["page_fault", "compact_zone"]}


def section(page: str) -> str:
    return page.partition('<section aria-labelledby="h1-stacks">')[2].partition("</section>")[0]


def test_the_recording_of_the_leading_finding_is_open() -> None:
    """It comes first; those of other findings follow, then the others in their order, all of them folded."""
    told = document(
        recording("a.data"), recording("b.data", **MATCHED), recording("c.data"), recording("d.data", **MATCHED),
        cites="d.data",
    )  # fmt: skip
    assert [one.profile.member for one in recordings(as_result(told), "p")] == ["d.data", "b.data", "a.data", "c.data"]
    opened, *folded = section(render(told)).split('<details class="recording screen">')
    assert "d.data" in opened
    assert [re.findall(r"\b\w\.data", part)[0] for part in folded] == ["b.data", "a.data", "c.data"]


def test_an_event_that_no_finding_cites_does_not_lead() -> None:
    """Of two events of one file the one with something marked is open."""
    told = document(recording("a", event="page-faults"), recording("a", **MATCHED), cites="a")
    assert recordings(as_result(told), "p")[0].profile.event == "cycles"


def test_a_recording_without_samples_stands_last() -> None:
    """What is unfolded shows something: the event of a recording that nothing was sampled of waits below."""
    told = document(recording("a", event="dummy", folded=[]), recording("b"), cites="c")
    assert [one.profile.member for one in recordings(as_result(told), "p")] == ["b", "a"]


@pytest.mark.parametrize("count", [1, 2, 5, 11, 40])
def test_a_page_has_no_more_frames_than_it_can_hold(count: int) -> None:
    """However many recordings: at most 1,800 frames, and a table for each."""
    many = [[f"t;f{number}", 0.0006] for number in range(1600)]
    page = section(render(document(*(recording(f"{n}.data", many) for n in range(count)))))
    assert page.count("<rect ") + page.count("<rect>") <= MAX_FRAMES + 100  # with the keys of the colours
    assert page.count("<table>") == count
    assert len(re.findall('class="icicle"', page)) == min(count, 14)


def test_ids_and_regions_are_told_apart() -> None:
    """Two recordings share no id and no name of a region."""
    page = _Page(render(document(recording("a"), recording("b", heat=["1" * 50], heat_cell={"begin": 1}))))
    told = [a["id"] for _, a in page.elements if "id" in a]
    assert len(told) == len(set(told))
    regions = [a["aria-label"] for _, a in page.elements if a.get("role") == "region"]
    assert len(regions) == len(set(regions))


def test_a_list_without_callers_is_explained_as_one() -> None:
    """Nothing speaks of what stands below where no source says who called whom."""
    flat = section(render(document(recording("a", [["?;f", 0.9], ["?;g", 0.1]]))))
    assert "the source does not say what called it" in flat
    assert "below it is what it called" in section(render(document(recording("a"))))


def test_the_text_beneath_says_what_the_picture_shows() -> None:
    """The table of functions follows each picture."""
    page = section(render(document(recording("a"))))
    assert page.index('class="icicle"') < page.index("callers and callees</span></h3>") < page.index("<table>")


ASKS = """
(async () => {
  while (document.documentElement.className) await new Promise(requestAnimationFrame);
  const figure = document.querySelector(".icicle");
  const line = () => figure.querySelector(".told").textContent;
  const box = figure.querySelector("input");
  const how = { bubbles: true, cancelable: true };
  const press = (key, on = figure) => on.dispatchEvent(new KeyboardEvent("keydown", { key, ...how }));
  const search = (text) => {
    box.value = text;
    box.dispatchEvent(new Event("input"));
    return figure.querySelector("label + span").textContent;
  };
  const rect = (name) => [...figure.querySelectorAll(".f rect")].find((one) => one.textContent.startsWith(name));
  const width = (name) => rect(name).getAttribute("display") || rect(name).getAttribute("width");
  const told = { start: line() };
  press("/", document.body);
  told.focused = document.activeElement === box;
  told.twice = search("compact_zone");
  told.hits = figure.querySelectorAll(".hit").length;
  told.markup = search("<B>");
  told.nothing = search("all that");
  press("Escape", box);
  told.left = [document.activeElement === figure, box.value, figure.querySelectorAll(".hit").length];
  const keys = ["Down", "Down", "Down", "Down", "Right", "Left", "Up"];
  told.walk = keys.map((key) => { press(`Arrow${key}`); return line(); });
  press("ArrowDown");
  press("Enter");
  told.zoomed = [width("page_fault"), width("main"), width("compact_zone: 50"), width("read"), width("cc")];
  told.labels = [...figure.querySelectorAll(".labels text")].map((one) => one.textContent);
  press("Escape");
  told.reset = [width("page_fault"), width("main"), width("read"), width("cc")].map(parseFloat);
  rect("cc").dispatchEvent(new MouseEvent("click", { bubbles: true }));
  told.clicked = [width("cc"), width("java"), line()];
  const shown = document.createElement("p");
  shown.id = "told";
  shown.textContent = encodeURIComponent(JSON.stringify(told));
  document.body.append(shown);
})();
"""


def test_the_script_searches_walks_and_zooms(show: Show) -> None:
    """One page in a browser: `/`, a share that counts no stack twice, arrows with shares read out, zoom and back."""
    page = re.sub(r"<meta http-equiv[^>]*>", "", render(document(recording("a", **MATCHED), cites="a")))
    opened = show(page.replace("</body>", f'<script type="module">{ASKS}</script></body>'))
    told = json.loads(unquote(opened.page.locator("#told").text_content() or ""))
    assert told["start"].startswith("Click or Enter")
    assert told["focused"] is True
    assert told["twice"] == "3 boxes, in 60.0 % of the samples"
    assert told["hits"] == 3
    assert told["markup"] == "1 box, in 10.0 % of the samples"
    assert told["nothing"] == "0 boxes, in 0.0 % of the samples"
    assert told["left"] == [True, "", 0]
    assert told["walk"] == [
        "all non-idle samples: 100.0 %",
        "java: 80.0 % (task)",
        "main: 80.0 % (program)",
        "page_fault: 60.0 %, own 10.0 % (kernel)",
        "read: 20.0 %, all own (program)",
        "page_fault: 60.0 %, own 10.0 % (kernel)",
        "main: 80.0 % (program)",
    ]
    assert told["zoomed"] == ["100.000%", "100.000%", "83.333%", "none", "none"]
    assert told["labels"] == [
        "all non-idle samples",
        "java",
        "main",
        "page_fault",
        "compact_zone",
        "_spin_lock",
        "compact_zone",
    ]
    assert told["reset"] == [60.0, 80.0, 20.0, 20.0]
    assert told["clicked"] == ["100.000%", "none", "cc: 20.0 % (task)"]
