"""Lines that a terminal or a ticket system has cut on the right, without what may be only a part of a value.

    /sys/kernel/mm/transparent_hugepage/hugepages-2048kB/stats/anon_fault_alloc:1898
    27242 root      20   0   13.8g  12.1g   9876 R  99.7 77.3   1:02.11 /usr/lib/jvm/jav...

A mark tells it (`...`, which an ellipsis has become) that stands at the same column in several lines. Without one, some
lines that are as wide as a terminal tell it if none is wider and no columns stand below each other: the rows of a whole
table end at the same column too, and the header of a cut one is not known. Lines that still have numbers or times
before them are not as wide as they were printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from thpdiag.detect.layout import prefix_of
from thpdiag.detect.transcript import TextLine

TERMINALS = frozenset((80, 100, 120, 132))  # usual widths, in columns
MAX_LINES = 60  # of a paragraph that are looked at together
MIN_WIDTH, MIN_MARKED, MIN_CUT = 40, 2, 3  # columns; lines that end at the same one, with a mark and without
RIGHT_EDGE, TABLE_GAPS = 30, 2  # columns at the right, and of how many of them are blanks in a table
MARK = "..."
_LAST_WORD = re.compile(r"(?<=\S)\s*(?!\.{4})\S+$")  # not of rulers
_RULER = re.compile(r"([-=~_*#+])\1{3}$")
_LAST_CELL = re.compile(r"(?<=,)[^,]*$")
_CELLS = re.compile(r"[^\s,\"{]+,(?:[^,\"{]+,){3}")  # blanks are parts of them: 30.2 is not 30.2 GB
_GRAPH = re.compile(r" {12}[ |-]")  # its lines keep their places, and the marks at their ends
_PERF_ROW = re.compile(r"\s*\d{1,3}\.\d\d%\s.*\s\[[k.guH]\]\s")


def may_be_cut(lines: Sequence[str]) -> bool:
    """Whether lines end as cut ones do: a quick look. Some rows of any long table are as wide as a terminal."""
    if sum(line.endswith(MARK) for line in lines) >= MIN_MARKED:
        return True
    if TERMINALS.isdisjoint(map(len, lines)):
        return False
    begin = 0
    while begin < len(lines):
        part = lines[begin : begin + MAX_LINES]
        part = part[: part.index("") + 1] if "" in part else part
        widths = list(map(len, part))
        if (widest := max(widths)) in TERMINALS and widths.count(widest) >= MIN_CUT:
            return True
        begin += len(part)
    return False


def without_cut_words(lines: Iterable[TextLine]) -> Iterator[TextLine]:
    """The lines, the cut ones without their last words."""
    part: list[TextLine] = []
    for line in lines:
        part.append(line)
        if not line.text or len(part) == MAX_LINES:
            yield from _without_cut_words(part)
            part = []
    yield from _without_cut_words(part)


def _without_cut_words(lines: Sequence[TextLine]) -> Iterator[TextLine]:
    width = max((len(line.text) for line in lines), default=0)
    widest = [line.text for line in lines if len(line.text) == width and not _GRAPH.match(line.text)]
    is_cut = width >= MIN_WIDTH and (
        _are_marked(widest) or (width in TERMINALS and _are_cut(widest) and not prefix_of(lines))
    )
    for line in lines:
        is_whole = not is_cut or len(line.text) < width or _GRAPH.match(line.text)
        last = _LAST_CELL if " " in line.text and _CELLS.match(line.text) else _LAST_WORD
        yield line if is_whole else line._replace(text=last.sub("", line.text))


def _are_marked(lines: Sequence[str]) -> bool:
    return len(lines) >= MIN_MARKED and all(line.endswith(MARK) for line in lines)


def _are_cut(lines: Sequence[str]) -> bool:
    lines = [line for line in lines if not _RULER.search(line)]  # which programs make as wide as a terminal
    most = 0.75 * len(lines)
    gaps = sum(
        sum(map(signs.count, " |")) >= most for signs in zip(*(line[-RIGHT_EDGE:] for line in lines), strict=True)
    )
    return len(set(lines)) >= MIN_CUT and (gaps < TABLE_GAPS or all(map(_PERF_ROW.match, lines)))
