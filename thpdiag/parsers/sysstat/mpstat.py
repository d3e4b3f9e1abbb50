"""mpstat (sysstat): CPU time by mode, for all CPUs together and for each.

    06:09:58     CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle
    06:09:59     all    4.00    0.00   46.50    0.00    0.00    0.00    0.00    0.00    0.00   49.50

Units: percent of the CPU, or of all. %sys is the kernel without interrupts, guests are not in %usr.
Varies: %user and an intr/s column up to 8.x, %gnice from 10.1. Further tables of -A and -I (interrupts by CPU) hold
nothing of use here. Without an interval the one report is an average since boot; its header has the time of its rows.
Source: sysstat mpstat.c, 8.1 to 12.6.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from thpdiag.model import Record, Sample
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._cpu import cpu_ratios, is_plausible
from thpdiag.parsers._lines import ParseErrors, any_of, any_of_first, with_errors
from thpdiag.parsers._units import parse_share
from thpdiag.parsers.sysstat._tables import (
    AVERAGE_WORD,
    BANNER,
    CLOCK,
    MODES,
    TimedRow,
    Times,
    banner_facts,
    cpu_entity,
)

HEADER = re.compile(rf"{CLOCK}\s+CPU\s+%us(?:e)?r\s+%nice\s+%sys\s+%iowait\s+%irq\s+%soft\s")
OTHER_HEADER = re.compile(rf"{CLOCK}\s+(?:CPU|NODE)\s+\S")
ROW = re.compile(rf"{CLOCK}\s+(?:all|\d{{1,5}})\s+[\d.,]+(?:\s+[\d.,]+)*\s*$")
AVERAGE = re.compile(rf"{AVERAGE_WORD}\s+(?:CPU|NODE|all|\d{{1,5}})\s")
RESOLUTION = 0.0001  # two decimals of a percent


@lru_cache(64)
def _places(columns: tuple[str, ...]) -> Mapping[str, int]:
    """In which column each mode stands."""
    return {mode: columns.index(column) for column, mode in MODES.items() if column in columns}


@lru_cache(64)
def _resolution(names: tuple[str, ...]) -> Mapping[str, float]:
    return dict.fromkeys(names, RESOLUTION)


def _sample(
    source: Source, odd: ParseErrors, at: tuple[int, str], columns: tuple[str, ...], row: TimedRow
) -> Iterator[Sample]:
    cells = row.cells.split()
    if len(cells) != len(columns):
        odd.note(*at, "a row of mpstat with other columns than its header")
        return
    places = _places(columns)
    parts = {mode: value for mode, place in places.items() if (value := parse_share(cells[place])) is not None}
    if len(parts) < len(places) or not is_plausible(parts):
        odd.note(*at, "CPU shares of mpstat that do not add up to 100 %: not used")
        return
    values = cpu_ratios(parts)
    resolution = _resolution(tuple(values))
    kind, entity = cpu_entity(cells[0])
    yield Sample(kind, values, source.cite(*at), "mpstat", entity, row.time, resolution, bool(row.average))


@with_errors("mpstat")
def read(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """A Sample of the host per row `all`, one per CPU for the others; averages at the end are left out."""
    times = Times(source=source)
    columns: tuple[str, ...] = ()
    for line, text in lines:
        if banner := BANNER.match(text):
            times.date = banner[3]
            yield from banner_facts(source, line, text)
        elif ("CPU" in text or "NODE" in text) and OTHER_HEADER.match(text):
            columns = tuple(times.header(text).split()) if HEADER.match(text) else ()
        elif columns and text.strip() and not AVERAGE.match(text):
            if row := times.row(text):
                yield from _sample(source, odd, (line, text), columns, row)
            else:
                odd.note(line, text, "not a line of mpstat")


PARSER = Parser(
    "mpstat", "mpstat tables", read, opens=re.compile(f"{BANNER.pattern}|{HEADER.pattern}"),
    continues=any_of(ROW, OTHER_HEADER, AVERAGE, blank=True), confirm=any_of_first(4, HEADER),
)  # fmt: skip
