"""iostat (sysstat): its CPU line. The device tables between are recognised and not used.

    avg-cpu:  %user   %nice %system %iowait  %steal   %idle
              22.00    0.00   50.50    0.50    0.00   27.00

Units: percent of all CPUs; %system has interrupts in it. The first report of a run is an average since boot (unless
started with -y). Varies: time lines before each report (-t) in the locale's form, ISO, or `Time: 11:01:52`; further
device columns. Source: sysstat iostat.c, 7.0 to 12.6.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Clock, Moment, Record, Sample
from thpdiag.model.facts import zoned_moment
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._cpu import cpu_ratios_of_totals, is_plausible
from thpdiag.parsers._lines import ParseErrors, any_of, any_of_first, parse_command, with_errors
from thpdiag.parsers._units import parse_share
from thpdiag.parsers.sysstat._tables import BANNER, CLOCK, DATE, MODES, Times, banner_facts

HEADER = re.compile(r"avg-cpu:\s+%user\s+%nice\s+%sys(?:tem)?\s+%iowait\s")
DEVICE = re.compile(r"Device:?\s|\s+extended device statistics|Filesystem:?\s")
ROW = re.compile(r"\S*(?:\s+\d+[.,]\d+){2}(?:\s+\d+(?:[.,]\d+)?)*\s*$")
TIME = re.compile(rf"(?:Time: |({DATE})[ T])({CLOCK})(Z|[+-]\d\d:?\d\d)?\s*$")


def values(columns: list[str], cells: list[str]) -> dict[str, float] | None:
    """The shares of a CPU line; None if they are not all shares."""
    if len(columns) != len(cells):
        return None
    shares = {column: parse_share(cell) for column, cell in zip(columns, cells, strict=True)}
    found = {column: value for column, value in shares.items() if value is not None}
    if len(found) < len(shares) or not is_plausible(found):
        return None
    return cpu_ratios_of_totals({MODES[column]: value for column, value in found.items() if column in MODES})


def _when(text: str, clock: Times) -> Moment | None:
    """The moment of a time line; the date stands in it or is not known."""
    found = TIME.match(text)
    if not found:
        return None
    times = Times(found[1], source=clock.source) if found[1] else clock
    row = times.row(found[2])
    if row is None or row.time is None or not found[3]:
        return row.time if row else None
    return zoned_moment(row.time.seconds, found[3]) if row.time.clock is Clock.LOCAL else row.time


@with_errors("iostat")
def read(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """A Sample of the host per CPU line."""
    command = parse_command(source.command, "iostat", with_value="pjgo")
    clock, time = Times(source=source), source.time
    columns: list[str] = []
    reports = 0
    for line, text in lines:
        if banner := BANNER.match(text):
            clock.date = banner[3]
            yield from banner_facts(source, line, text)
        elif HEADER.match(text):
            columns = text.split()[1:]
        elif TIME.match(text):
            time = _when(text, clock)
        elif columns and text.strip():
            found, reports = values(columns, text.split()), reports + 1
            columns = []
            if found is None:
                odd.note(line, text, "CPU shares of iostat that do not add up: not used")
                continue
            resolution = dict.fromkeys(found, 0.0001)
            boot = reports == 1 and not (command and "y" in command.options)
            yield Sample("system", found, source.cite(line, text), "iostat", (), time, resolution, boot)
            time = None


PARSER = Parser(
    "iostat", "iostat CPU line", read, opens=re.compile(f"{BANNER.pattern}|{HEADER.pattern}"),
    continues=any_of(HEADER, DEVICE, ROW, TIME, blank=True), confirm=any_of_first(5, HEADER),
)  # fmt: skip
