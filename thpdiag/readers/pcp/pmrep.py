"""pmrep -o csv (Performance Co-Pilot): any metrics of a live host or an archive, a row per moment.

    Time,"mem.vmstat.thp_fault_alloc","mem.util.free","kernel.all.load-1 minute","kernel.percpu.cpu.sys-cpu0"
    2026-11-20 10:33:16,,14908952,8.480,
    2026-11-20 10:33:20,0.000,14834968,8.480,64.250

Units: of the metrics (KiB, ms), unless -b, -y or -q changed them, which CSV does not show. Counters are rates per
second with three decimals, missing in the first row; with -r they are plain counts. Times are those of the zone in the
header (-x) or in each row (-k: `Host,Interval,Time`), else of the wall clock of where pmrep ran; or epochs (-f %s).
Varies: delimiter (-l; a blank with `:vmstat`, whose derived metrics are not known here), a header again where instances
change (-1). Source: PCP pmrep.py, 3.12 to 6.0.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from thpdiag.bundle.stamps import FIRST_EPOCH, LAST_EPOCH
from thpdiag.model import Clock, Fact, Moment, Record
from thpdiag.reader import BulkReader, Content, Foreign, Lines, Reader, Source
from thpdiag.readers.elements.daytime import date_seconds, day_seconds
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.elements.whole_member import whole
from thpdiag.readers.pcp.names import metric
from thpdiag.readers.pcp.rows import Cell, Rows

NAME = "pmrep"
_LARGE = 1 << 20  # bytes of a member that is not searched for other blocks
_DECIDING = 20  # rows that tell counts from rates
_HEADER = re.compile(r'(?:Host([,;\t| ])Interval[,;\t| ])?Time([,;\t| ])"[a-z]\w{0,60}\.[\w.]')
_ABOVE = re.compile(r"#\s{1,9}(archive|host|timezone|start|end|metrics|samples|interval|duration): \S|#\s*$")
_OPENING = re.compile(r"#\s{1,9}(?:archive|host): \S")
_SAID = re.compile(r"#\s{1,9}(host|timezone): (\S+)")
_ROW = re.compile(
    r"(?:([\w.-]{0,255})[,;\t| ][\d.]{0,12}[,;\t| ])?"
    r"(?:(\d{4})-(\d\d)-(\d\d) (\d\d:\d\d:\d\d(?:\.\d{1,6})?)( UTC(?:[-+]\d[\d:]{0,4})?)?|(\d{9,10}(?:\.\d{1,6})?))"
    r"(?=[,;\t| ]|$)",
    re.ASCII,
)
_ZONE = re.compile(r" ?UTC(?:([-+])(\d{1,2})(?::?(\d\d))?)?$", re.ASCII)


@dataclass(slots=True)
class Run:
    """The rows below one header; the first are held until they tell what was converted."""

    source: Source
    odd: Oddities
    rows: Rows
    delimiter: str = ","
    columns: Sequence[tuple[str, str]] = ()
    ahead: float | None = None  # of UTC, in seconds
    hosts: set[str] = field(default_factory=set)
    converted: bool = False
    held: list[tuple[int, str, list[str], Moment]] = field(default_factory=list)
    deciding: bool = True

    def said(self, number: int, text: str) -> Iterator[Record]:
        """A line of the extended header."""
        found = _SAID.match(text)
        if found and found[1] == "timezone":
            self.ahead = _ahead(found[2])
        elif found:
            yield from self._host(number, text, found[2])

    def header(self, text: str) -> Iterator[Record]:
        yield from self.decide()
        found = _HEADER.match(text)
        if found:
            self.delimiter = found[2]
            names = self._cells(text[text.index("Time") + 5 :])
            self.columns = [(name, instance) for name, _, instance in (word.partition("-") for word in names)]
            self.converted, self.deciding = False, True

    def row(self, number: int, text: str) -> Iterator[Record]:
        found = _ROW.match(text)
        time = self._time(found) if found else None
        cells = self._cells(text[found.end() + 1 :]) if found else []
        if self.delimiter.isspace():  # the last ones may be empty, and blanks at the end are not kept
            cells += [""] * (len(self.columns) - len(cells))
        if found is None or time is None or len(cells) != len(self.columns):
            self.odd.note(number, text, "a row of pmrep without a time or with other columns than its header")
            return
        if found[1]:
            yield from self._host(number, text, found[1])
        if self.deciding:
            self.held.append((number, text, cells, time))
            if len(self.held) == _DECIDING:
                yield from self.decide()
        else:
            yield from self._values(number, text, cells, time)

    def decide(self) -> Iterator[Record]:
        """Rates have decimals, or go down. What one counter is, all are: -r is said once."""
        held, self.held, self.deciding = self.held, [], False
        for at, (name, instance) in enumerate(self.columns):
            where = metric(name, instance)
            texts = [cells[at] for _, _, cells, _ in held if cells[at]] if where and where.counter else []
            falls = any((len(a), a) > (len(b), b) for a, b in pairwise(texts))
            self.converted = self.converted or falls or any("." in text for text in texts)
        for row in held:
            yield from self._values(*row)

    def _values(self, number: int, text: str, cells: Sequence[str], time: Moment) -> Iterator[Record]:
        given = [
            Cell(name, instance, cell, self.converted)
            for (name, instance), cell in zip(self.columns, cells, strict=True)
            if cell
        ]
        yield from self.rows.row(given, self.source.cite(number, text), time)

    def _cells(self, text: str) -> list[str]:
        try:
            return next(csv.reader([text], delimiter=self.delimiter), [""])
        except csv.Error:
            return []

    def _host(self, number: int, text: str, name: str) -> Iterator[Fact]:
        if name not in self.hosts:
            self.hosts.add(name)
            yield Fact("host.name", name, self.source.cite(number, text))

    def _time(self, found: re.Match[str]) -> Moment | None:
        _, year, month, day, clock, zone, epoch = found.groups()
        if epoch:
            seconds = float(epoch)
            return Moment(seconds, Clock.UTC) if FIRST_EPOCH <= seconds < LAST_EPOCH else None
        midnight, since = date_seconds(int(year), int(month), int(day)), day_seconds(clock)
        if midnight is None or since is None:
            return None
        ahead = _ahead(zone) if zone else self.ahead
        return Moment(midnight + since, Clock.LOCAL) if ahead is None else Moment(midnight + since - ahead, Clock.UTC)


def _ahead(zone: str) -> float | None:
    """`UTC+1`: an hour ahead."""
    found = _ZONE.match(zone)
    if not found:
        return None
    seconds = int(found[2] or 0) * 3600.0 + int(found[3] or 0) * 60
    return -seconds if found[1] == "-" else seconds


def read(source: Source, lines: Lines, reader: str = NAME) -> Iterator[Record]:
    """Rows of the host and of each CPU, zone, NUMA node and process; facts that metrics tell."""
    odd = Oddities(source, reader)
    run = Run(source, odd, Rows(reader, odd))
    for number, text in lines:
        if not text.strip():
            continue
        if text.startswith("#"):
            yield from run.said(number, text)
        elif text.startswith(("Time", "Host")) and _HEADER.match(text):
            yield from run.header(text)
        else:
            yield from run.row(number, text)
    yield from run.decide()
    yield from odd.problems()


def _continues(text: str) -> object:
    return _ROW.match(text) or _HEADER.match(text) or _ABOVE.match(text)


def _confirm(lines: list[str]) -> bool:
    return any(_HEADER.match(line) for line in lines)


def _claims(path: str, head: bytes, size: int | None) -> bool:
    if size is not None and size < _LARGE:
        return False
    lines = head.decode("utf-8", "replace").split("\n")[:-1]
    return len(lines) > 2 and _confirm(lines[:12]) and all(_continues(line.rstrip("\r")) for line in lines)


def _read_bulk(source: Source, content: Content) -> Iterator[Record | Foreign]:
    return whole(source, content, NAME, read)


READER = Reader(
    NAME,
    "pmrep CSV (Performance Co-Pilot)",
    read,
    opens=re.compile(f"{_HEADER.pattern}|{_OPENING.pattern}"),
    continues=_continues,
    confirm=_confirm,
    lookahead=12,
)
BULK = BulkReader(NAME, READER.title, _claims, _read_bulk)
