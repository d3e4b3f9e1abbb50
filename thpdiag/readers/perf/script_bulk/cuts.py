"""Where a file of perf script can be cut: between two whole samples."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from thpdiag.readers.perf.script_bulk.heads import exact, strong
from thpdiag.readers.perf.script_bulk.plain import plain
from thpdiag.readers.perf.script_lines import frame, single

_SEARCHED = 1 << 20  # bytes behind an even cut in which two samples must stand
_HEAD_START = 64 << 20  # bytes that one process reads while the others start
_LINES = 200  # of those where no line is empty
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
    return near + found if (found := _flat_cut(data)) else length


def _flat_cut(data: bytes) -> int:
    """The place of the first sample of one line that stands behind another; 0 if there is none."""
    at = data.find(b"\n") + 1
    lines = data[at:].split(b"\n")[:_LINES]
    for this, following in pairwise(lines):
        at += len(this) + 1
        if _is_flat(this) and _is_flat(following):
            return at
    return 0


def _is_flat(raw: bytes) -> bool:
    """A head with who, time, event and a frame."""
    found = strong(raw.rstrip(b"\r"))
    return found is not None and bool(single(found.rest))


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
