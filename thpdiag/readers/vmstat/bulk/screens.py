"""Headers that only repeat, a screenful after the one above: they are found together, for there are thousands a day."""

from __future__ import annotations

import numpy as np

from thpdiag.readers.vmstat.bulk.numbers import Ints, Marks
from thpdiag.readers.vmstat.bulk.table import Table
from thpdiag.readers.vmstat.lines import BANNER, HEADER
from thpdiag.readers.vmstat.run import SCREEN

FEWEST = 4  # headers from which it is worth the search


def repeated(table: Table, special: Ints) -> tuple[Ints, Marks]:
    """The lines of headers that begin no run, and which of the special lines they and their banners are.

    Only the plainest case: three headers with the same text as far apart, nothing but rows and banners between, and no
    two headers of the text farther apart. All others are looked at one by one.
    """
    none = np.zeros(0, np.int64), np.zeros(len(special), np.bool_)
    header, banner = _first(table, special, HEADER.match), _first(table, special, BANNER.match)
    if header < 0:
        return none
    is_header = _like(table, special, header)
    is_banner = _like(table, special, banner) if banner >= 0 else np.zeros(len(special), np.bool_)
    places = np.flatnonzero(is_header)  # in `special`
    if len(places) < FEWEST:
        return none
    lines = special[places]
    apart, between = np.diff(lines), np.diff(places) - 1
    above = np.zeros(len(places), np.bool_)  # a banner right above
    above[1:] = is_banner[places[1:] - 1] & (special[places[1:] - 1] == lines[1:] - 1)
    plain = between == above[1:]
    gaps = apart - 1 - above[1:]
    screen = gaps[0]
    if screen < SCREEN or gaps.max() > screen or not (is_header | is_banner)[: places[-1]][places[0] :].all():
        return none
    regular = plain & (gaps == screen)
    skipped = np.zeros(len(places), np.bool_)
    skipped[2:] = regular[1:] & regular[:-1]
    quiet = np.zeros(len(special), np.bool_)
    quiet[places[skipped]] = True
    quiet[places[skipped & above] - 1] = True
    return lines[skipped], quiet


def _first(table: Table, special: Ints, match: object) -> int:
    """The first of the special lines that fits, -1 if none of the first ones does."""
    for number in special[:8].tolist():
        if match(table.line(number).decode("utf-8", "replace")):  # type: ignore[operator]
            return int(number)
    return -1


def _like(table: Table, special: Ints, line: int) -> Marks:
    """Which of the special lines have the text of this one."""
    starts, ends = table.starts[special], table.ends[special]
    begin, end = int(table.starts[line]), int(table.ends[line])
    same: Marks = ends - starts == end - begin
    buffer = np.frombuffer(table.text, np.uint8)
    window = np.lib.stride_tricks.sliding_window_view(buffer, max(end - begin, 1))
    same[same] = (window[starts[same]] == window[begin]).all(axis=1)
    return same
