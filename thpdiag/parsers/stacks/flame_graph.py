"""Flame graphs as SVG: of FlameGraph's flamegraph.pl, of inferno and what imitates them, and of ourselves.

    <title>folio_zero_user (1,070,707,060 samples, 25.73%)</title><rect x="116.0" y="293" width="303.6" ...

Each rectangle is a function with all that it calls; its callers lie beside it on the side of `all`, as wide or wider.
So stacks are found again by place: a function's caller is the one over whose width its middle lies. What a function has
more than those on it is its own. Counts are exact; functions narrower than a tenth of a pixel are not drawn and count
to their caller. Kernel functions have no mark, for the marks of folded stacks (`_[k]`) are not printed: names decide.
`--inverted` has the root at the top, `--reverse` the leaf at the root, which the kernel's entries show. Units are the
word behind the count (`--countname`): samples, else a time or bytes. inferno prints exact places (fg:x, fg:w), and all
of it in one line.
Read by expressions, as text: no entities but those of XML's own characters, no depth. Source: FlameGraph 1.0+
flamegraph.pl, inferno 0.12 flamegraph/mod.rs; recorded with both.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from thpdiag.model import Measure, Problem, ProblemKind, Record
from thpdiag.model.parser import BulkParser, Content, Foreign, Source
from thpdiag.parsers._lines import printable
from thpdiag.parsers.perf.folded import FoldedStack, profile_of_stacks
from thpdiag.parsers.stacks._stacks import MAX_DEPTH, MAX_NAME, bare_name, is_entry, is_kernel_function, text_of

NAME = "flame_graph"
MAX_FRAMES = 400_000
_FRAME = re.compile(
    r"<title>(?P<name>[^<]{1,4000}?) \((?P<count>[\d,.]{1,24}) (?P<unit>[^,()<>]{1,40}), "
    r"[\d.]{1,8}%(?:; ?[+-]?[\d.]{1,12}%)?\)"
    r"</title>\s{0,20}(?:<a [^<>]{0,400}>\s{0,20})?<rect (?P<rect>[^<>]{1,600})>"
)
_TITLES = re.compile(r"<title>[^<]{0,4000}</title>")
_PLACE = re.compile(r"(?:^|\s)(?P<key>x|y|width|fg:x|fg:w)=\"(?P<value>\d{1,20}(?:\.\d{0,20})?)%?\"")
_HEADING = re.compile(r"<text id=\"title\"[^<>]{0,200}>(?P<text>[^<]{0,200})</text>")
_MADE_BY = (b"flame graph", b"Flame Graph", b"inferno", b"Icicle", b"flamegraph")
_WAITS = re.compile(r"off.?cpu|blocked|wakeup|wait", re.IGNORECASE)
_TIME = re.compile(r"(?:ns|us|ms|s|nanosec\w*|microsec\w*|millisec\w*|sec\w*)$", re.IGNORECASE)
_SAMPLES = re.compile(r"samples?|counts?|cycles|ticks", re.IGNORECASE)


@dataclass(slots=True)
class _Rectangle:
    name: str
    count: float
    left: float
    width: float
    line: int
    caller: _Rectangle | None = None
    own: float = field(default=0.0)


def claims(_path: str, head: bytes, _size: int | None) -> bool:
    """An SVG that says at its beginning that it is one of these."""
    return b"<svg" in head[:4096] and any(word in head for word in _MADE_BY)


def read(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """One profile."""
    text, cut = text_of(content)
    if cut:
        yield Problem(source.cite(1), "a flame graph that is too large: the rest was not read; send the folded stacks "
                      "that it was made of", ProblemKind.LIMIT, NAME)  # fmt: skip
    levels, unit, drawn = _levels(text)
    heading = _HEADING.search(text)
    odd: dict[str, int] = {}
    if (missing := len(_TITLES.findall(text)) - drawn) > 1:  # one is the title of the picture
        odd["not a function with a count"] = missing
    stacks = list(_stacks(source, levels, odd))
    if stacks:
        yield profile_of_stacks(NAME, stacks, odd, _measure(unit, html.unescape(heading["text"]) if heading else ""))
    else:
        text = "a picture that no stacks can be read from; send the folded stacks that it was made of"
        yield Problem(source.cite(1), text, ProblemKind.UNREADABLE, NAME)
    if stacks and odd:
        reasons = ", ".join(f"{reason} ({number})" for reason, number in odd.items())
        yield Problem(
            source.cite(1), f"a flame graph with damaged functions: {reasons}", ProblemKind.ODD, NAME, sum(odd.values())
        )


def _levels(text: str) -> tuple[dict[float, list[_Rectangle]], str, int]:
    """The functions by height, the unit of their counts, and how many there are."""
    levels: dict[float, list[_Rectangle]] = defaultdict(list)
    units: dict[str, int] = defaultdict(int)
    number, line, seen = 0, 1, 0
    for found in _FRAME.finditer(text):
        line += text.count("\n", seen, found.start())
        seen = found.start()
        place = {
            part["key"]: float(part["value"]) for part in _PLACE.finditer(found["rect"]) if _is_number(part["value"])
        }
        count = found["count"].replace(",", "")
        if not {"x", "y", "width"} <= place.keys() or not _is_number(count) or number >= MAX_FRAMES:
            continue
        number += 1
        left, width = place.get("fg:x", place["x"]), place.get("fg:w", place["width"])
        name = printable(html.unescape(found["name"])[:MAX_NAME])
        levels[place["y"]].append(_Rectangle(name, float(count), left, width, line))
        units[found["unit"]] += 1
    return levels, max(units, key=units.__getitem__, default=""), number


def _is_number(text: str) -> bool:
    return text.count(".") <= 1 and text.strip(".") != ""


def _stacks(source: Source, levels: dict[float, list[_Rectangle]], odd: dict[str, int]) -> Iterator[FoldedStack]:
    """The stacks that end at each function, root first."""
    heights = sorted(levels)
    if not heights:
        return
    root = max((heights[0], heights[-1]), key=lambda height: max(one.width for one in levels[height]))
    if root != heights[0]:
        heights.reverse()
    callers: list[_Rectangle] = []
    order: list[_Rectangle] = []
    for depth, height in enumerate(heights[: MAX_DEPTH + 1]):
        level = sorted(levels[height], key=lambda one: one.left)
        lefts = [one.left for one in callers]
        kept = []
        for one in level:
            middle = one.left + one.width / 2
            at = bisect_right(lefts, middle) - 1
            if depth and (at < 0 or middle > callers[at].left + callers[at].width):
                odd["a function without its caller"] = odd.get("a function without its caller", 0) + 1
                continue
            one.own, one.caller = one.count, callers[at] if depth else None
            if one.caller:
                one.caller.own -= one.count
            kept.append(one)
        callers = kept
        order += kept
    found = [one for one in order if one.own > 0 and (one.caller or one.name != "all")]
    paths = [_path(one) for one in found]
    reverse = _is_reversed(paths, [one.own for one in found])
    for one, names in zip(found, paths, strict=True):
        if names:
            cite = source.cite(one.line, f"{one.name} ({one.count:,.0f})")
            yield FoldedStack(names[::-1] if reverse else names, one.own, cite)


def _path(one: _Rectangle) -> list[str]:
    names = []
    at: _Rectangle | None = one
    while at is not None:
        if at.caller is not None or at.name != "all":
            names.append(at.name)
        at = at.caller
    return names[::-1]


def _is_reversed(paths: Sequence[list[str]], weights: Sequence[float]) -> bool:
    """Whether the kernel is left where it should be entered."""
    inside = outside = 0.0
    for names, weight in zip(paths, weights, strict=True):
        bare = [bare_name(name) for name in names]
        at = next((place for place, name in enumerate(bare) if is_entry(name)), None)
        if at is not None:
            outside += weight * any(is_kernel_function(name) and not is_entry(name) for name in bare[:at])
            inside += weight * any(is_kernel_function(name) and not is_entry(name) for name in bare[at + 1 :])
    return outside > inside


def _measure(unit: str, heading: str) -> Measure | None:
    """What the counts are, by their unit and the heading; None: the stacks show it."""
    if _WAITS.search(heading):
        return Measure.OFF_CPU
    if _SAMPLES.fullmatch(unit):
        return None
    return None if _TIME.fullmatch(unit) else Measure.OTHER


BULK_PARSER = BulkParser(
    NAME, "flame graphs (SVG)", claims, read, opens=re.compile(rb"(?:\xef\xbb\xbf)?\s{0,20}<(?:\?xml|svg|!DOCTYPE svg)")
)
