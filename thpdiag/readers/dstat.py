"""dstat --output FILE, also of pcp-dstat: CSV with five lines of head.

    "Dstat 0.8.0 CSV output"
    "Cmdline:","dstat -tcms --output dstat.csv 2 5",,,,"Date:","20 Nov 2026 11:09:02 CET"
    "system","total cpu usage",,,,,"memory usage",,,,"swap",
    "time","usr","sys","idl","wai","stl","used","free","buff","cach","used","free"
    20-11 11:09:02,68.479,7.558,23.709,0.109,0.145,1012166656,16299692032,354381824,7007039488,0,0

Units: percent of all CPUs, nice in usr, interrupts in sys unless hiq and siq stand beside; bytes; per second. CPU
shares of a run's first row are averages since boot, its other rates are totals and not used. Times have no year, which
the head's Date gives, or are epochs (-T). Varies: a run appended to the file has a head of its own; pcp-dstat writes
`total usage:usr` for a column, counts interrupts into usr, prints memory in KiB and paging in pages; int and csw are
counts of an interval that it does not name, and not used. Its first row has sizes only, and a group without anything a
single empty cell.
Source: dstat 0.6 to 0.8, pcp-dstat 4.1 to 6.0.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from operator import eq

from thpdiag.bundle.stamps import FIRST_EPOCH, LAST_EPOCH, MONTHS
from thpdiag.model import Clock, Fact, Moment, Record, Sample
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.cpu_parts import plausible, with_sums
from thpdiag.readers.elements.daytime import DAY, date_seconds, day_seconds
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.elements.quantities import LARGEST, number

HEAD = re.compile(r'"(Dstat|pcp-dstat) [\w.]{1,20} CSV [Oo]utput"')
MARK = re.compile(r'"(Author|Host|Cmdline):"|"(?:[\w/% .:-]{1,60})?"(?:,|\s*$)')
ROW = re.compile(r"\d[\d.:, -]{0,2000}[\d,]\s*$|\d(?:\s*$)")
_DATE = re.compile(r"(\d{1,2}) ([^\W\d]{3,9})\.? (\d{4}) ")
_TIME = re.compile(r"(?:(\d{4})-(\d\d)-(\d\d)|(\d\d)-(\d\d)) (\d\d:\d\d:\d\d(?:\.\d{1,3})?)\s*$", re.ASCII)
MODES = {"idl": "idle", "wai": "iowait", "hiq": "irq", "siq": "softirq", "stl": "steal"}
CPU_GROUPS = ("total cpu usage", "total usage")
SIZES = {
    ("memory usage", "free"): "node_memory_MemFree_bytes",
    ("memory usage", "buff"): "node_memory_Buffers_bytes",
    ("memory usage", "cach"): "vmstat_cache_bytes",
    ("swap", "used"): "node_memory_SwapUsed_bytes",
    ("swap", "free"): "node_memory_SwapFree_bytes",
    ("load avg", "1m"): "node_load1",
}
QUEUE = {("procs", "run"): "node_procs_running", ("procs", "blk"): "node_procs_blocked"}
RATES = {
    ("paging", "in"): "swap_in_bytes:rate",
    ("paging", "out"): "swap_out_bytes:rate",
    ("system", "int"): "node_intr_total:rate",
    ("system", "csw"): "node_context_switches_total:rate",
}
FAULTS = {
    ("procs", "new"): "node_forks_total:rate",
    ("virtual memory", "majpf"): "node_vmstat_pgmajfault:rate",
    ("virtual memory", "minpf"): "node_vmstat_pgfault:rate",  # its column holds all faults
}
PCP_KIB = {
    ("memory usage", "free"): "node_memory_MemFree_bytes",
    ("memory usage", "buf"): "node_memory_Buffers_bytes",
    ("memory usage", "cach"): "node_memory_Cached_bytes",
}
PCP_RATES = {("paging", "in"): "node_vmstat_pswpin:rate", ("paging", "out"): "node_vmstat_pswpout:rate"}
Column = tuple[str, str]
MOST = LARGEST / 1024


def cells(text: str) -> list[str]:
    """The fields of a line; empty for what is no CSV."""
    try:
        return next(csv.reader([text]), [])
    except csv.Error:
        return []


@dataclass(slots=True)
class Run:
    """The rows below one head."""

    source: Source
    odd: Oddities
    pcp: bool = False
    began: tuple[int, float] | None = None  # year, midnight of the day it was started
    groups: Sequence[str] = ()
    columns: Sequence[Column] = ()
    instances: Collection[str] = ()  # groups of pcp-dstat that leave a single empty cell where they have nothing
    rows: int = 0

    def head(self, number_: int, text: str) -> Iterator[Record]:
        words = cells(text)
        if words[:1] == ["Host:"] and len(words) > 1 and words[1]:
            yield Fact("host.name", words[1], self.source.cite(number_, text))
        elif words[:1] == ["Cmdline:"]:
            date = _DATE.match(words[-1]) if words else None
            month = MONTHS.get(date[2].lower()[:3]) if date else None
            midnight = date_seconds(int(date[3]), month, int(date[1])) if date and month else None
            self.began = None if midnight is None or not date else (int(date[3]), midnight)
        elif words[:1] != ["Author:"]:
            self._titles(words)

    def _titles(self, words: Sequence[str]) -> None:
        """Two lines: the groups, each over its first column, then the columns."""
        if not self.groups:
            filled = ""
            groups = []
            for word in words:
                filled = word or filled
                groups.append(filled)
            self.groups = groups
        elif not self.columns:
            pairs = zip(self.groups, words, strict=False)
            self.columns = [(group, word.rpartition(":")[2]) for group, word in pairs]
            self.instances = {group for group, word in zip(self.groups, words, strict=False) if ":" in word}

    def row(self, number_: int, text: str) -> Iterator[Record]:
        words = self._filled(cells(text))
        if len(words) != len(self.columns):
            self.odd.note(number_, text, "a row of dstat with other columns than its head")
            return
        self.rows += 1
        named = dict(zip(self.columns, words, strict=True))
        time = self._time(named)
        now, rates = self._values(number_, text, named)
        boot = self.rows == 1 and not self.pcp
        cite = self.source.cite(number_, text)
        shares = {name: 0.00001 for name in rates if name.startswith("cpu_ratio") and name != "cpu_ratio.sys_share"}
        if boot:  # its other rates are totals divided by the delay, which are rates of nothing
            rates = {name: value for name, value in rates.items() if name.startswith("cpu_ratio")}
        parts = ((now, {}, False), (rates, shares, True)) if boot else ((now | rates, shares, False),)
        for values, resolution, since in parts:
            if values:
                yield Sample("system", values, cite, "dstat", (), time, resolution, since_boot=since)

    def _filled(self, words: list[str]) -> list[str]:
        """The row with the cells that empty groups left out."""
        missing, at, found = len(self.columns) - len(words), 0, []
        while missing > 0 and at < len(self.columns) and words:
            group = self.columns[at][0]
            size = len(list(takewhile(partial(eq, group), (of for of, _ in self.columns[at:]))))
            if group in self.instances and not words[0] and missing >= size - 1:
                found += [""] * size
                missing -= size - 1
                del words[0]
            else:
                found += words[:size]
                del words[:size]
            at += size
        return found + words

    def _values(
        self, number_: int, text: str, named: Mapping[Column, str]
    ) -> tuple[dict[str, float], dict[str, float]]:
        found: list[dict[str, float]] = []
        for names in (PCP_KIB if self.pcp else SIZES, QUEUE, (PCP_RATES if self.pcp else RATES) | FAULTS):
            read = {name: number(named[column]) for column, name in names.items() if named.get(column)}
            found.append({name: value for name, value in read.items() if value is not None and value <= MOST})
            if len(found[-1]) < len(read):
                self.odd.note(number_, text, "an impossible number of dstat: not used")
        sizes, queue, per_second = found
        unit = 1024 if self.pcp else 1
        now = {name: value * unit for name, value in sizes.items()} | queue
        shares = self._cpu(named)
        if shares is None:
            self.odd.note(number_, text, "CPU shares of dstat that do not add up: not used")
        return now, per_second | (shares or {})

    def _cpu(self, named: Mapping[Column, str]) -> dict[str, float] | None:
        """Shares of all CPUs; None if they are none."""
        group = next((g for g in CPU_GROUPS if (g, "usr") in named), "")
        texts = {name: text for (of, name), text in named.items() if group and of == group and text}
        read = {name: number(text) for name, text in texts.items()}
        percent = {name: value / 100 for name, value in read.items() if value is not None}
        if not texts:
            return {}
        if len(percent) < len(read) or not plausible(percent) or not {"usr", "sys"} <= percent.keys():
            return None
        parts = {mode: percent[name] for name, mode in MODES.items() if name in percent}
        if self.pcp and "hiq" not in percent:  # interrupts are in usr
            busy = min(percent["usr"] + percent["sys"], 1.0)
            values = {f"cpu_ratio.{mode}": value for mode, value in parts.items()}
            return values | {"cpu_ratio.system": percent["sys"], "cpu_ratio.busy": busy}
        whole = with_sums({**parts, "user": percent["usr"], "system": percent["sys"]})
        hidden = {"cpu_ratio.user"} | (set() if "hiq" in percent else {"cpu_ratio.system"})
        return {name: value for name, value in whole.items() if name not in hidden}

    def _time(self, named: Mapping[Column, str]) -> Moment | None:
        text = next((text for (_, name), text in named.items() if name in ("time", "epoch", "date/time")), "")
        seconds = number(text.strip())
        if seconds is not None and FIRST_EPOCH <= seconds <= LAST_EPOCH:
            return Moment(seconds, Clock.UTC)
        found = _TIME.match(text)
        clock = day_seconds(found[6]) if found else None
        if not found or clock is None:
            return None
        midnight = self._midnight(found)
        return None if midnight is None else Moment(midnight + clock, Clock.LOCAL)

    def _midnight(self, found: re.Match[str]) -> float | None:
        """A day and month without a year are on or after the day in the head."""
        if found[1]:
            return date_seconds(int(found[1]), int(found[2]), int(found[3]))
        if self.began is None:
            return None
        year, start = self.began
        midnight = date_seconds(year, int(found[5]), int(found[4]))
        if midnight is not None and midnight < start - DAY:
            return date_seconds(year + 1, int(found[5]), int(found[4]))
        return midnight


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """A Sample of the host per row."""
    odd = Oddities(source, "dstat")
    run = Run(source, odd)
    for number_, text in lines:
        if head := HEAD.match(text):
            run = Run(source, odd, pcp=head[1] == "pcp-dstat")
        elif MARK.match(text):
            if text.startswith('"Host:"') and run.columns:
                run = Run(source, odd, pcp=run.pcp)
            yield from run.head(number_, text)
        elif run.columns and ROW.match(text):
            yield from run.row(number_, text)
        elif text.strip():
            odd.note(number_, text, "a line that is none of dstat's")
    yield from odd.problems()


def belongs(text: str) -> bool:
    """An empty line stands before a head that was appended."""
    return not text.strip() or bool(MARK.match(text) or HEAD.match(text) or ROW.match(text))


READER = Reader("dstat", "dstat and pcp-dstat CSV", read, opens=HEAD, continues=belongs)
