"""Flame graphs, and files of the viewers speedscope and Firefox Profiler (samply, Gecko).

speedscope, its exports and files that others write for it, also `thpdiag flame -f speedscope`:

    {"$schema": "https://www.speedscope.app/file-format-schema.json", "shared": {"frames": [{"name": "main"}]},
     "profiles": [{"type": "sampled", "unit": "none", "samples": [[0, 1]], "weights": [417]}]}

Stacks are root first. `unit` is none (samples), a time or bytes. `evented` profiles have the times at which functions
begin and end: elapsed time, in which a thread may have slept. speedscope writes perf script in this form, from one
sample to the next; in one recording it had 36 % where the samples have 50 %. A profile is a thread, whose name is the
task unless the stacks begin with it. `file` of a frame is its object.

Firefox Profiler, processed (samply) and Gecko's own form:

    {"meta": {"product": "churn", "categories": [{"name": "User"}, {"name": "Kernel"}]}, "threads": [{"name": "churn",
     "samples": {"stack": [3], "weight": [1]}, "stackTable": {"prefix": [null], "frame": [0]},
     "frameTable": {"func": [0], "category": [1]}, "funcTable": {"name": [0]}, "stringArray": ["main"]}]}

Tables by column; Gecko's have a `schema` that numbers the columns of rows in `data`. A stack is a frame and the stack
of its caller. Kernel functions are of the category Kernel, or of the library [kernel.kallsyms]. Samples weigh one
without a `weight` column; where `threadCPUDelta` is 0 the thread did not run, and the sample is not CPU time. samply
keeps addresses for the viewer to resolve (`0x5f20`): then the functions are unknown.
Varies: samply 0.13 and later puts the tables of all threads under `shared`. Read as a whole, up to 32 MiB. Source:
speedscope file-format-spec.ts 1.25; Firefox Profiler docs-developer/processed-profile-format, gecko-profile-format;
samply fxprof-processed-profile.

Flame graphs as SVG: of FlameGraph's flamegraph.pl, of inferno and compatible tools, and of thpdiag.

    <title>folio_zero_user (1,070,707,060 samples, 25.73%)</title><rect x="116.0" y="293" width="303.6" ...

Each rectangle is a function with all that it calls; its caller is the rectangle next to it in the direction of `all`
whose width covers its middle. A function's count minus those of its callees is its own. Counts are exact; functions
narrower than a tenth of a pixel are not drawn and count for their caller. Kernel functions have no mark, because the
marks of folded stacks (`_[k]`) are not printed: names decide. `--inverted` has the root at the top, `--reverse` the
leaf at the root, which is recognised by the kernel's entries. The unit is the word after the count (`--countname`):
samples, else a time or bytes. inferno prints exact positions (fg:x, fg:w), and everything in one line. Read by regular
expressions, as text: no entities except those of XML, no nesting. Source: FlameGraph 1.0+ flamegraph.pl, inferno 0.12
flamegraph/mod.rs; recorded with both.
"""

from __future__ import annotations

import html
import json
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from thpdiag.model import Measure, Problem, ProblemKind, Record, Task
from thpdiag.model.parser import BulkParser, Content, Foreign, Source
from thpdiag.parsers._lines import printable
from thpdiag.parsers.perf.folded import FoldedStack, profile_of_stacks
from thpdiag.parsers.stacks._stacks import (
    MAX_DEPTH,
    MAX_NAME_CHARS,
    StackBuilder,
    bare_name,
    is_entry,
    is_kernel_function,
    read_text,
)

Json = Mapping[str, Any]
MAX_SAMPLES = 4_000_000
ALTERNATIVE = "send the text of `perf script`, or folded stacks"
_THREAD = re.compile(r"(?P<comm>\S.{0,63}?)(?: pid: \d{1,10})? tid: \d{1,10}$")


class _OddDocumentError(Exception):
    """The document does not match its format."""


def _load(source: Source, content: Content, reader: str) -> Iterator[Problem | Json]:
    """Yield the document, or the problem with it."""
    text, cut = read_text(content)
    try:
        data = None if cut else json.loads(text, parse_constant=lambda _: None)
    except (RecursionError, ValueError):
        data = None
    if cut:
        text = f"a recording that is too large to be read as a whole; {ALTERNATIVE}"
        yield Problem(source.cite(1), text, ProblemKind.LIMIT, reader)
    elif not isinstance(data, dict):
        text = f"JSON that is cut, broken or nested too deeply; {ALTERNATIVE}"
        yield Problem(source.cite(1), text, ProblemKind.DAMAGED, reader)
    else:
        yield data


def _mismatch(source: Source, reader: str) -> Problem:
    return Problem(
        source.cite(1), f"a recording that does not match its format; {ALTERNATIVE}", ProblemKind.DAMAGED, reader
    )


def _as_list(value: object) -> Sequence[Any]:
    if not isinstance(value, list):
        raise _OddDocumentError
    return value


def _numbers(values: Sequence[Any]) -> list[float]:
    """Return the weights as numbers, 0 for those that are none."""
    return [float(v) if isinstance(v, int | float) and abs(v) < 1e18 and v == v else 0.0 for v in values]


SPEEDSCOPE = "speedscope"
_SPEEDSCOPE_UNITS = {"none", "nanoseconds", "microseconds", "milliseconds", "seconds"}


def read_speedscope(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """One profile of all threads."""
    for document in _load(source, content, SPEEDSCOPE):
        if isinstance(document, Problem):
            yield document
            continue
        try:
            yield from _speedscope(source, document)
        except (_OddDocumentError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            yield _mismatch(source, SPEEDSCOPE)


def _speedscope(source: Source, data: Json) -> Iterator[Record]:
    frames = [_speedscope_name(frame) for frame in _as_list(data["shared"]["frames"])]
    stacks: list[FoldedStack] = []
    odd = Counter[str]()
    units = set()
    for profile in _as_list(data["profiles"]):
        units.add(str(profile.get("unit")))
        rows = _rows_of_samples(profile) if profile.get("type") == "sampled" else _rows_of_events(profile)
        for numbers, weight in rows:
            if not 0 < weight < 1e18 or not all(isinstance(n, int) and 0 <= n < len(frames) for n in numbers):
                odd["a stack of unknown functions, or without weight"] += 1
                continue
            names = [frames[n] for n in numbers[:MAX_DEPTH]]
            thread = _THREAD.match(str(profile.get("name", "")))
            if thread:  # a thread of perf script
                names = [printable(thread["comm"]), *names]
            if names:
                stacks.append(FoldedStack(names, weight, source.cite(1, " < ".join(names[::-1])[:200])))
    if odd:
        yield Problem(source.cite(1), "incomplete stacks of speedscope", ProblemKind.ODD, SPEEDSCOPE, sum(odd.values()))
    if stacks:
        timed = any(profile.get("type") != "sampled" for profile in data["profiles"])
        other = timed or not units <= _SPEEDSCOPE_UNITS
        yield profile_of_stacks(SPEEDSCOPE, stacks, odd, Measure.OTHER if other else None)


def _speedscope_name(frame: Json) -> str:
    name = printable(str(frame["name"])[:MAX_NAME_CHARS]) or "[unknown]"
    file = str(frame.get("file") or "")
    return f"{name}_[k]" if file == "[kernel.kallsyms]" and not name.endswith("_[k]") else name


def _rows_of_samples(profile: Json) -> Iterator[tuple[Sequence[Any], float]]:
    samples, weights = _as_list(profile["samples"]), _numbers(_as_list(profile["weights"]))
    for stack, weight in zip(samples[:MAX_SAMPLES], weights, strict=False):
        yield _as_list(stack), weight


def _rows_of_events(profile: Json) -> Iterator[tuple[Sequence[Any], float]]:
    """Yield the time between two events for the functions that are open."""
    open_: list[Any] = []
    previous = float(profile.get("startValue") or 0)
    for event in _as_list(profile["events"])[:MAX_SAMPLES]:
        time = float(event["at"])
        if open_ and time > previous:
            yield tuple(open_), time - previous
        previous = time
        if event["type"] == "O" and len(open_) < MAX_DEPTH:
            open_.append(event["frame"])
        elif event["type"] == "C" and open_:
            open_.pop()


FIREFOX = "firefox_profile"


@dataclass(slots=True)
class _Columns:
    """A table of either form by column."""

    table: Json

    def column(self, name: str) -> Sequence[Any]:
        """Return all values, None where a row is too short; empty if there is no such column."""
        if isinstance(self.table.get(name), list):
            return _as_list(self.table[name])
        schema = self.table.get("schema")
        if not isinstance(schema, dict) or name not in schema:
            return ()
        index = schema[name]
        rows = _as_list(self.table["data"])
        return [row[index] if isinstance(row, list) and len(row) > index else None for row in rows]


def read_firefox(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """One profile of all threads."""
    for document in _load(source, content, FIREFOX):
        if isinstance(document, Problem):
            yield document
            continue
        try:
            yield from _firefox(source, document)
        except (_OddDocumentError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            yield _mismatch(source, FIREFOX)


def _firefox(source: Source, data: Json) -> Iterator[Record]:
    builder = StackBuilder()
    meta = data["meta"]
    kernel = {number for number, row in enumerate(meta.get("categories") or ()) if row.get("name") == "Kernel"}
    processes = [data, *(p for p in data.get("processes") or () if isinstance(p, dict))]
    for process in processes:
        for thread in _as_list(process.get("threads", [])):
            _add_thread(source, builder, thread, data.get("shared") or {}, data.get("libs") or [], kernel)
    facts = {"product": printable(str(meta["product"]))[:100]} if meta.get("product") else {}
    nameless = builder.read and builder.unknown >= builder.read
    if nameless:
        text = "no function of this recording has a name: samply keeps addresses for its viewer; " + ALTERNATIVE
        yield Problem(source.cite(1), text, ProblemKind.UNREADABLE, FIREFOX)
    if builder.odd:
        text = "incomplete samples of the Firefox Profiler"
        yield Problem(source.cite(1), text, ProblemKind.ODD, FIREFOX, sum(builder.odd.values()))
    if builder.first is not None:
        yield builder.profile(FIREFOX, builder.first, facts=facts)
    else:
        yield Problem(source.cite(1), f"a recording without samples; {ALTERNATIVE}", ProblemKind.UNREADABLE, FIREFOX)


def _add_thread(
    source: Source, builder: StackBuilder, thread: Json, shared: Json, libs: Sequence[Any], kernel: set[int]
) -> None:
    def table(name: str) -> _Columns:
        return _Columns(thread.get(name) or shared.get(name) or {})

    strings = [
        str(s)[:MAX_NAME_CHARS]
        for s in thread.get("stringArray") or thread.get("stringTable") or shared.get("stringArray") or ()
    ]
    frames = _frames(builder, table, strings, libs, kernel)
    prefixes, frames_of_stack = table("stackTable").column("prefix"), table("stackTable").column("frame")
    samples = _Columns(thread["samples"])
    stacks = samples.column("stack")[:MAX_SAMPLES]
    weights = _numbers(samples.column("weight")) or [1.0] * len(stacks)
    cpu_deltas = samples.column("threadCPUDelta")
    known: dict[int, tuple[int, ...] | None] = {}
    task = Task(printable(str(thread.get("name", "")))[:64], _integer(thread.get("pid")), _integer(thread.get("tid")))
    cite = source.cite(1, f"thread {task.comm}")
    for index, (stack, weight) in enumerate(zip(stacks, weights, strict=False)):
        if index < len(cpu_deltas) and cpu_deltas[index] == 0:
            continue  # the thread slept
        if stack is None:
            builder.count_odd("without a stack")
            continue
        if stack not in known:
            known[stack] = _chain(stack, prefixes, frames_of_stack, len(frames))
        if (chain := known[stack]) is None:
            builder.count_odd("an incomplete stack")
        else:
            builder.add([frames[n] for n in chain], weight, cite, task, max(1, int(weight)) if weight > 0 else 1)


def _frames(builder: StackBuilder, table: Any, strings: list[str], libs: Sequence[Any], kernel: set[int]) -> list[int]:
    """Return the builder's number of each row of the table of frames."""
    names, resources = table("funcTable").column("name"), table("funcTable").column("resource")
    libs_of_resource = table("resourceTable").column("lib")
    functions, categories = table("frameTable").column("func"), table("frameTable").column("category")
    locations = table("frameTable").column("location")  # of Gecko: the name
    numbers = []
    for row in range(len(functions) or len(locations)):
        function = functions[row] if functions else None
        name = _get(strings, _get(names, function) if functions else _get(locations, row))
        lib = _get(libs_of_resource, _get(resources, function)) if functions else None
        object_ = libs[lib].get("name", "") if isinstance(lib, int) and 0 <= lib < len(libs) else ""
        in_kernel = _get(categories, row) in kernel or "kernel.kallsyms" in str(object_)
        numbers.append(
            builder.frame(str(name or ""), printable(str(object_)), kernel=in_kernel if kernel or libs else None)
        )
    return numbers


def _get(values: Sequence[Any], index: object) -> Any:
    return values[index] if isinstance(index, int) and 0 <= index < len(values) else None


def _integer(value: object) -> int | None:
    text = str(value)
    return int(text) if text.isdigit() and len(text) <= 10 else None


def _chain(stack: object, prefixes: Sequence[Any], frames: Sequence[Any], frame_count: int) -> tuple[int, ...] | None:
    """Return rows of the table of frames, leaf first; None if an index is invalid or the chain is a cycle."""
    chain: list[int] = []
    while stack is not None:
        frame = _get(frames, stack)
        if not isinstance(frame, int) or not 0 <= frame < frame_count or len(chain) >= MAX_DEPTH:
            return None
        chain.append(frame)
        stack = _get(prefixes, stack)
    return tuple(chain)


_SPEEDSCOPE_HEAD = re.compile(
    rb"\"\$schema\"\s*:\s*\"https?://www\.speedscope\.app/file-format-schema\.json\"|\"shared\"\s*:\s*\{\s*\"frames\""
)
_FIREFOX_HEAD = re.compile(rb"\"(?:preprocessedProfileVersion|stackwalk|sampleUnits|markerSchema|processType)\"\s*:")
_OPENS = re.compile(rb"(?:\xef\xbb\xbf)?\s{0,20}\{")


SPEEDSCOPE_PARSER = BulkParser(
    SPEEDSCOPE, "speedscope (JSON)", lambda _path, head, _size: _SPEEDSCOPE_HEAD.search(head), read_speedscope,
    opens=_OPENS,
)  # fmt: skip
FIREFOX_PARSER = BulkParser(
    FIREFOX, "Firefox Profiler (samply, Gecko; JSON)",
    lambda _path, head, _size: b'"meta"' in head and _FIREFOX_HEAD.search(head), read_firefox, opens=_OPENS,
)  # fmt: skip


FLAME_GRAPH = "flame_graph"
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
_WAIT_HEADING = re.compile(r"off.?cpu|blocked|wakeup|wait", re.IGNORECASE)
_TIME_UNITS = re.compile(r"(?:ns|us|ms|s|nanosec\w*|microsec\w*|millisec\w*|sec\w*)$", re.IGNORECASE)
_SAMPLE_UNITS = re.compile(r"samples?|counts?|cycles|ticks", re.IGNORECASE)


@dataclass(slots=True)
class _Rectangle:
    name: str
    count: float
    left: float
    width: float
    line: int
    caller: _Rectangle | None = None
    self_count: float = 0.0


def _is_flame_graph(_path: str, head: bytes, _size: int | None) -> bool:
    """Whether an SVG names one of these tools at its beginning."""
    return b"<svg" in head[:4096] and any(word in head for word in _MADE_BY)


def read_flame_graph(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """One profile."""
    text, cut = read_text(content)
    if cut:
        yield Problem(source.cite(1), "a flame graph that is too large: the rest was not read; send the folded stacks "
                      "that it was made of", ProblemKind.LIMIT, FLAME_GRAPH)  # fmt: skip
    levels, unit, drawn = _rectangles_by_height(text)
    heading = _HEADING.search(text)
    odd = Counter[str]()
    if (missing := len(_TITLES.findall(text)) - drawn) > 1:  # one is the title of the image
        odd["not a function with a count"] = missing
    stacks = list(_stacks(source, levels, odd))
    if stacks:
        measures = _measure(unit, html.unescape(heading["text"]) if heading else "")
        yield profile_of_stacks(FLAME_GRAPH, stacks, odd, measures)
    else:
        text = "a picture that no stacks can be read from; send the folded stacks that it was made of"
        yield Problem(source.cite(1), text, ProblemKind.UNREADABLE, FLAME_GRAPH)
    if stacks and odd:
        reasons = ", ".join(f"{reason} ({number})" for reason, number in odd.items())
        text = f"a flame graph with damaged functions: {reasons}"
        yield Problem(source.cite(1), text, ProblemKind.ODD, FLAME_GRAPH, sum(odd.values()))


def _rectangles_by_height(text: str) -> tuple[dict[float, list[_Rectangle]], str, int]:
    """Return the functions by height, the unit of their counts, and their number."""
    levels: dict[float, list[_Rectangle]] = defaultdict(list)
    units: dict[str, int] = defaultdict(int)
    number, line, seen = 0, 1, 0
    for match in _FRAME.finditer(text):
        line += text.count("\n", seen, match.start())
        seen = match.start()
        place = {
            part["key"]: float(part["value"]) for part in _PLACE.finditer(match["rect"]) if _is_number(part["value"])
        }
        count = match["count"].replace(",", "")
        if not {"x", "y", "width"} <= place.keys() or not _is_number(count) or number >= MAX_FRAMES:
            continue
        number += 1
        left, width = place.get("fg:x", place["x"]), place.get("fg:w", place["width"])
        name = printable(html.unescape(match["name"])[:MAX_NAME_CHARS])
        levels[place["y"]].append(_Rectangle(name, float(count), left, width, line))
        units[match["unit"]] += 1
    return levels, max(units, key=units.__getitem__, default=""), number


def _is_number(text: str) -> bool:
    return text.count(".") <= 1 and text.strip(".") != ""


def _stacks(source: Source, levels: dict[float, list[_Rectangle]], odd: Counter[str]) -> Iterator[FoldedStack]:
    """Yield the stacks that end at each function, root first."""
    heights = sorted(levels)
    if not heights:
        return
    root = max((heights[0], heights[-1]), key=lambda height: max(rectangle.width for rectangle in levels[height]))
    if root != heights[0]:
        heights.reverse()
    callers: list[_Rectangle] = []
    order: list[_Rectangle] = []
    for depth, height in enumerate(heights[: MAX_DEPTH + 1]):
        level = sorted(levels[height], key=lambda rectangle: rectangle.left)
        lefts = [rectangle.left for rectangle in callers]
        kept = []
        for rectangle in level:
            middle = rectangle.left + rectangle.width / 2
            position = bisect_right(lefts, middle) - 1
            if depth and (position < 0 or middle > callers[position].left + callers[position].width):
                odd["a function without its caller"] += 1
                continue
            rectangle.self_count, rectangle.caller = rectangle.count, callers[position] if depth else None
            if rectangle.caller:
                rectangle.caller.self_count -= rectangle.count
            kept.append(rectangle)
        callers = kept
        order += kept
    leaves = [
        rectangle for rectangle in order if rectangle.self_count > 0 and (rectangle.caller or rectangle.name != "all")
    ]
    paths = [_path_from_root(rectangle) for rectangle in leaves]
    reverse = _is_reversed(paths, [rectangle.self_count for rectangle in leaves])
    for rectangle, names in zip(leaves, paths, strict=True):
        if names:
            cite = source.cite(rectangle.line, f"{rectangle.name} ({rectangle.count:,.0f})")
            yield FoldedStack(names[::-1] if reverse else names, rectangle.self_count, cite)


def _path_from_root(rectangle: _Rectangle) -> list[str]:
    names = []
    current: _Rectangle | None = rectangle
    while current is not None:
        if current.caller is not None or current.name != "all":
            names.append(current.name)
        current = current.caller
    return names[::-1]


def _is_reversed(paths: Sequence[list[str]], weights: Sequence[float]) -> bool:
    """Whether the kernel is left where it should be entered."""
    inside = outside = 0.0
    for names, weight in zip(paths, weights, strict=True):
        normalised = [bare_name(name) for name in names]
        entry = next((place for place, name in enumerate(normalised) if is_entry(name)), None)
        if entry is not None:
            outside += weight * any(is_kernel_function(name) and not is_entry(name) for name in normalised[:entry])
            inside += weight * any(is_kernel_function(name) and not is_entry(name) for name in normalised[entry + 1 :])
    return outside > inside


def _measure(unit: str, heading: str) -> Measure | None:
    """Return what the counts are according to unit and heading, None if the stacks decide."""
    if _WAIT_HEADING.search(heading):
        return Measure.OFF_CPU
    if _SAMPLE_UNITS.fullmatch(unit):
        return None
    return None if _TIME_UNITS.fullmatch(unit) else Measure.OTHER


FLAME_GRAPH_PARSER = BulkParser(
    FLAME_GRAPH, "flame graphs (SVG)", _is_flame_graph, read_flame_graph,
    opens=re.compile(rb"(?:\xef\xbb\xbf)?\s{0,20}<(?:\?xml|svg|!DOCTYPE svg)"),
)  # fmt: skip
