"""The icicle of a recording: every frame where it belongs, as wide as its share, and what is left out said."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thpdiag.model.result import Profile, as_result
from thpdiag.report.charts.icicle import (
    KERNEL,
    LOOKS,
    MARKED,
    MAX_DEPTH,
    MIN_SHARE,
    OTHER,
    ROW,
    STEPS,
    TASK,
    Frame,
    call_tree,
    differential,
    icicle,
)

Stacks = list[list[Any]]
SLOW = "java;main;page_fault;compact_zone;_spin_lock"
STACKS: Stacks = [[SLOW, 0.6], ["java;main;page_fault", 0.1], ["java;main;read", 0.2], ["cc;_spin_lock", 0.1]]


def profile(folded: Stacks, **more: Any) -> Profile:
    least = {"schema": "thpdiag/result/1", "verdict": {"status": "cannot_tell"}}
    (full,) = as_result({**least, "profiles": [{"folded": folded, **more}]}).profiles
    return full


def frames(folded: Stacks, **more: Any) -> dict[str, Frame]:
    """By the path, as far as the picture has it."""
    path: list[str] = []
    found = {}
    for frame in call_tree(profile(folded, **more)).frames:
        path = [*path[: max(frame.depth - 1, 0)], frame.name] if frame.depth else []
        found[";".join(path)] = frame
    return found


class _Drawn(HTMLParser):
    """The frames of a picture: (class of the group, y, x, width, tooltip)."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.frames: list[tuple[str, int, float, float, str]] = []
        self.tags: set[str] = set()
        self._look, self._y, self._open = "", "0", False
        self.feed(page.partition("</figcaption>")[2])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        self.tags.add(tag)
        self._look = told["class"] if tag == "g" else self._look
        self._y = told.get("y", "0") if tag == "svg" else self._y
        if tag == "rect":
            place = (float(told.get(key, "0%").removesuffix("%")) for key in ("x", "width"))
            self.frames.append((self._look, int(self._y), *place, ""))
        self._open = tag == "title"

    def handle_data(self, data: str) -> None:
        if self._open:
            look, y, x, width, text = self.frames.pop()
            self.frames.append((look, y, x, width, text + data))

    def handle_endtag(self, tag: str) -> None:
        self._open = self._open and tag != "title"


def drawn(folded: Stacks, most: int = 3000, **more: Any) -> _Drawn:
    return _Drawn(icicle(profile(folded, **more), "i", most))


def test_a_frame_is_as_wide_as_its_share_and_the_hottest_stands_left() -> None:
    """Places from shares, callers above, own shares what no frame below accounts for."""
    found = frames(STACKS)
    places = {path: (f.left, f.right, f.depth) for path, f in found.items()}
    assert places == {
        "": (0, 10_000, 0),
        "java": (0, 9000, 1),
        "java;main": (0, 9000, 2),
        "java;main;page_fault": (0, 7000, 3),
        "java;main;page_fault;compact_zone": (0, 6000, 4),
        SLOW: (0, 6000, 5),
        "java;main;read": (7000, 9000, 3),
        "cc": (9000, 10_000, 1),
        "cc;_spin_lock": (9000, 10_000, 2),
    }
    assert found["java;main;page_fault"].own == pytest.approx(0.1)
    assert found["java;main"].own == pytest.approx(0.0)


names = st.sampled_from(["a", "b", "c", "page_fault", ""])
paths = st.lists(names, min_size=1, max_size=6).map(";".join)


@given(st.lists(st.tuples(paths, st.floats(0, 1)), max_size=40))
def test_frames_below_fit_under_their_caller(stacks: list[tuple[str, float]]) -> None:
    """Side by side without overlap, within the caller, and their widths sum to its own but for its own share."""
    tree = call_tree(profile([list(stack) for stack in stacks]))
    last: dict[int, Frame] = {}
    inner: dict[int, float] = {}
    for number, frame in enumerate(tree.frames):
        if frame.depth:
            caller = last[frame.depth - 1]
            before = last.get(frame.depth)
            assert caller.left <= frame.left <= frame.right <= caller.right
            assert before is None or before.right <= frame.left
            inner[id(caller)] = inner.get(id(caller), 0.0) + frame.share
        last = {depth: f for depth, f in last.items() if depth < frame.depth} | {frame.depth: frame}
        assert number or (frame.left, frame.right) == (0, STEPS)
    for frame in tree.frames:
        assert frame.share == pytest.approx(frame.own + inner.get(id(frame), 0.0))
        assert frame.own >= -1e-9
        assert frame.share >= MIN_SHARE * 0.999


def test_the_picture_has_the_places_of_the_tree() -> None:
    """Percent across, a row for each caller, and a tooltip with the share and what of it is the function's own."""
    found = {text: (y, x, width) for _, y, x, width, text in drawn(STACKS).frames}
    assert found == {
        "all non-idle samples: 100.0 %": (0, 0, 100),
        "java: 90.0 %": (ROW, 0, 90),
        "cc: 10.0 %": (ROW, 90, 10),
        "main: 90.0 %": (2 * ROW, 0, 90),
        "page_fault: 70.0 %, own 10.0 %": (3 * ROW, 0, 70),
        "read: 20.0 %, all own": (3 * ROW, 70, 20),
        "compact_zone: 60.0 %": (4 * ROW, 0, 60),
        "_spin_lock: 60.0 %, all own": (5 * ROW, 0, 60),
        "_spin_lock: 10.0 %, all own": (2 * ROW, 90, 10),
    }


def test_what_findings_rest_on_is_outlined_where_they_do() -> None:
    """A function of a matched stack has colour and outline; the same function of another stack has neither."""
    told = drawn(STACKS, matched=["_spin_lock", "compact_zone"], matched_stacks=[0])
    marked = {(text.partition(":")[0], y) for look, y, _, _, text in told.frames if look == f"f {LOOKS[MARKED][0]}"}
    assert marked == {("compact_zone", 4 * ROW), ("_spin_lock", 5 * ROW)}
    fills = {look[1] for look in LOOKS.values()}
    assert len(fills) == len(LOOKS)
    assert all(float(LOOKS[MARKED][3]) > float(look[3]) for name, look in LOOKS.items() if name != MARKED)
    page = icicle(profile(STACKS, matched=["compact_zone"], matched_stacks=[0]), "i", 3000)
    assert "cited by a finding (outlined)" in page
    assert "outlined" not in icicle(profile(STACKS), "i", 3000)


def test_tasks_programs_and_the_kernel_are_told_apart() -> None:
    """All that the kernel calls is the kernel's; a task of the name of a kernel function stays a task."""
    found = frames([*STACKS, ["page_fault;x", 0.1]], kernel_entries=["page_fault"])
    kinds = {path: frame.kind for path, frame in found.items()}
    assert (kinds["java"], kinds["page_fault"]) == (TASK, TASK)
    assert (kinds["java;main"], kinds["java;main;read"]) == (OTHER, OTHER)
    assert (kinds["java;main;page_fault"], kinds[SLOW]) == (KERNEL, KERNEL)


def test_small_functions_are_folded_and_it_is_said() -> None:
    """Below 0.05 % of the samples nothing is drawn; the caller has it as its own share."""
    told = icicle(profile([["a;b", 0.9992], ["a;b;c", 0.0004], ["a;d", 0.0004]]), "i", 3000)
    assert {text.partition(":")[0] for *_, text in _Drawn(told).frames} == {"all non-idle samples", "a", "b"}
    assert "Functions of less than 0.05 % are not drawn but counted to their callers (0.08 % of the samples)." in told
    assert "b: 100.0 %, all own" in told
    assert "Every function is drawn." in icicle(profile(STACKS), "i", 3000)


def test_what_the_document_has_folded_is_said() -> None:
    """The sentence names the limit and the share of the document."""
    told = icicle(profile(STACKS, folded_least=0.002, folded_into_callers=0.031), "i", 3000)
    assert "less than 0.20 % are not drawn but counted to their callers (3.1 % of the samples)" in told


def test_no_more_frames_than_asked_for() -> None:
    """The largest stay, and callers before what they call."""
    folded = [[f"t;f{number};g;h", 0.001 * (1 + number / 1000)] for number in range(900)]
    told = drawn(folded, 300)
    assert len(told.frames) <= 300
    tree = call_tree(profile(folded), 300)
    assert min(f.share for f in tree.frames) >= tree.least > MIN_SHARE
    assert tree.folded > 0.5
    assert sum(f.own for f in tree.frames) == pytest.approx(tree.share)


def test_a_source_that_lists_a_part_says_so() -> None:
    """The picture is as wide as what is listed; shares stay those of all samples."""
    page = icicle(profile([["?;x;y", 0.02], ["?;x", 0.0076]]), "i", 3000)
    assert "Call graph</span> of the 2.8 % of the samples that the source lists:" in page
    assert 'data-share="0.0276"' in page
    assert {(text, width) for _, _, _, width, text in _Drawn(page).frames} >= {
        ("the 2.8 % of the samples that the source lists: 2.8 %", 100.0), ("task not known: 2.8 %", 100.0),
        ("y: 2.0 %, all own", 72.46),
    }  # fmt: skip


@pytest.mark.parametrize(
    "folded",
    [
        [],
        [["a", 0.0]],
        [["a;b", float("nan")], ["a;c", -0.5], ["a;d", float("inf")], ["a;e", 1e308]],
    ],
)
def test_nothing_to_draw_is_no_picture(folded: Stacks) -> None:
    """No samples, or shares that are none."""
    assert icicle(profile(folded), "i", 3000) == ""


def test_odd_stacks_are_drawn() -> None:
    """One stack, a task alone, empty names, recursion: each call has a row of its own."""
    assert len(drawn([["a;b", 1.0]]).frames) == 3
    assert [text for *_, text in drawn([["", 1.0]]).frames][1] == "task not known: 100.0 %, all own"
    recursive = drawn([["a;" + ";".join(["f"] * 40), 0.7], ["a;f", 0.3]])
    rows = [y // ROW for _, y, *_, text in recursive.frames if text.startswith("f:")]
    assert sorted(rows) == list(range(2, 42))


def test_deep_stacks_have_a_row_for_each_call() -> None:
    """Two hundred calls are drawn; a stack without end is cut, and that is said."""
    deep = ["t;" + ";".join(f"f{n}" for n in range(200)), 1.0]
    assert max(y for _, y, *_ in drawn([deep]).frames) == 201 * ROW
    endless = icicle(profile([["t;" + "f;" * 5000 + "f", 1.0]]), "i", 3000)
    assert f"Stacks of more than {MAX_DEPTH} functions are cut at that depth." in endless
    assert len(_Drawn(endless).frames) == MAX_DEPTH + 1


def test_hostile_names_are_text() -> None:
    """Tags, quotes and control characters of a name make no element and no attribute."""
    nasty = '</title><script>alert(1)</script>" onload="x\x1b[31m\u202e'
    page = icicle(profile([[f"{nasty};{nasty}", 1.0]], matched=[nasty], matched_stacks=[0]), "i", 3000)
    assert _Drawn(page).tags == {"svg", "g", "rect", "title", "text", "p"}
    assert [text.partition("\\x1b")[0] for *_, text in _Drawn(page).frames][1:] == [nasty[:-6]] * 2
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", page)


def test_a_page_of_two_thousand_frames_is_small() -> None:
    """Less than 100 bytes for each frame, names and shares included; the same document gives the same bytes."""
    folded = [[f"java;main;do_syscall_64;function_number_{n};inner_{n}", 0.001] for n in range(999)]
    page = icicle(profile(folded), "i", 3000)
    assert len(_Drawn(page).frames) == 4 + 2 * 999
    assert len(page) < 210_000
    assert page == icicle(profile(folded), "i", 3000)


def test_names_stand_where_they_fit() -> None:
    """A wide frame has its name, a narrow one the tooltip alone, and a long name is shortened."""
    page = icicle(profile([["a;" + "n" * 300, 0.97], ["a;narrow", 0.03]]), "i", 3000)
    labels = re.findall("<text[^>]*>([^<]*)</text>", page)
    assert labels[:2] == ["all non-idle samples", "a"]
    assert re.fullmatch("n{100,160}…", labels[2])
    assert len(labels) == 3


def test_two_recordings_are_one_picture() -> None:
    """As wide as the mean of both, so that what is gone is seen; the colour and the tooltip tell the change."""
    page = differential([("t;a;b", 0.5, 0.1), ("t;a", 0.1, 0.1), ("t;c", 0.4, 0.8)], "d")
    told = {text: (look, width) for look, _, _, width, text in _Drawn(page).frames}
    assert told == {
        "all non-idle samples: before 100.0 %, after 100.0 %": ("f d0", 100),
        "t: before 100.0 %, after 100.0 %": ("f d0", 100),
        "a: before 60.0 %, after 20.0 %": ("f n3", 40),
        "b: before 50.0 %, after 10.0 %": ("f n3", 30),
        "c: before 40.0 %, after 80.0 %": ("f u3", 60),
    }
    assert "much less" in page
    assert differential([], "d") == ""
