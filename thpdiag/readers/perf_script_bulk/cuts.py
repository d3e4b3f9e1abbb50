"""Where a file of perf script can be cut: between two whole samples."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from thpdiag.readers.perf_script_bulk.heads import exact
from thpdiag.readers.perf_script_bulk.plain import plain
from thpdiag.readers.perf_script_lines import frame, single

_SEARCHED = 1 << 20  # bytes behind an even cut in which two samples must stand
_HEAD_START = 64 << 20  # bytes that one process reads while the others start
_EMPTY_LINE = re.compile(rb"\n\r?\n")


@dataclass(frozen=True, slots=True)
class Range:
    """A part of a file."""

    file: Path
    begin: int
    end: int


def ranges_of(file: Path, length: int, count: int) -> list[Range]:
    """At most so many ranges, the first a little larger."""
    head_start = min(_HEAD_START, length // (2 * count))
    each = (length - head_start) // count
    places = {0, length}
    with file.open("rb") as opened:
        places |= {_cut(opened, head_start + each * number, length) for number in range(1, count)}
    return [Range(file, begin, end) for begin, end in pairwise(sorted(places))]


def _cut(file: BinaryIO, near: int, length: int) -> int:
    """The first place behind that is between two samples; the end of the file if there is none."""
    file.seek(near)
    data = file.read(_SEARCHED)
    before = False
    for this, following in pairwise(_EMPTY_LINE.finditer(data)):
        whole = _is_sample(data[this.end() : following.start()])
        if before and whole:
            return near + this.end()
        before = whole
    return length


def _is_sample(block: bytes) -> bool:
    """A head with a time, and nothing but frames."""
    first, *others = (line.rstrip(b"\r") for line in block.split(b"\n"))
    found = exact(first)
    if found is None or found.seconds is None or single(found.rest) or not others:
        return False
    return all(_is_frame(line) for line in others)


def _is_frame(raw: bytes) -> bool:
    text = plain(raw)
    return text is not None and text[:1] in (" ", "\t") and frame(text) is not None
