"""Prometheus metrics as text: what an exporter shows, OpenMetrics, and dumps of a server's store.

    # TYPE node_vmstat_thp_fault_alloc untyped
    node_vmstat_thp_fault_alloc 939613
    node_buddyinfo_blocks{node="0",size="9",zone="Normal"} 86 1795170792123
    {__name__="node_load1", instance="web1:9100"} 8.69 1795170792123

Units: base units, in the names. An exporter's page (`curl HOST:9100/metrics`) has no times: that of node_time_seconds
in it is taken, else a time line above; a page after the other makes rows. Times behind values are milliseconds, in
OpenMetrics (`# EOF` at the end) seconds; the size of the number tells. Default node_exporters have no thp_* and no
compact_* (--collector.vmstat.fields widens them). A dump has one series after the other and no comments.
Source: Prometheus text format 0.0.4, OpenMetrics 1.0, promtool 2.x `tsdb dump` and `tsdb dump-openmetrics`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from thpdiag.bundle.stamps import FIRST_EPOCH, LAST_EPOCH
from thpdiag.model import Citation, Clock, Fact, Moment, Record, Sample, Subject
from thpdiag.reader import BulkReader, Content, Foreign, Lines, Reader, Source
from thpdiag.readers.elements.dated import dated
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.elements.whole_member import whole
from thpdiag.readers.procfs import vmstat as proc_vmstat
from thpdiag.readers.prometheus.names import CPU, Place, host_of, place, sample_value
from thpdiag.readers.prometheus.points import Gathered

NAME = "prometheus"
_LARGE = 1 << 20  # bytes of a member that is not searched for other blocks
_TYPES = "counter|gauge|untyped|unknown|histogram|gaugehistogram|summary|info|stateset"
_LABELS = r"\{[^\n]{0,4000}\}"
_TYPE = re.compile(rf"# TYPE [A-Za-z_:][\w:]{{0,200}} (?:{_TYPES})\s*$", re.ASCII)
_HELP = re.compile(r"# (?:HELP|UNIT) [A-Za-z_:][\w:]{0,200}(?: |$)|# EOF\s*$", re.ASCII)
_SAMPLE = re.compile(
    rf"([A-Za-z_:][\w:]{{0,200}})?({_LABELS})?[ \t]{{1,9}}(\S{{1,40}})(?:[ \t]{{1,9}}(-?[\d.eE+]{{1,30}}))?"
    r"(?:[ \t]{1,9}#[^\n]*)?\s*$",
    re.ASCII,
)
_LABEL = re.compile(r'([A-Za-z_]\w{0,100})="((?:[^"\\]|\\.)*)"', re.ASCII)
_ESCAPE = re.compile(r"\\(.)")
_OURS = re.compile(rf'node_[a-z]\w{{0,200}}(?:{_LABELS})?[ \t]{{1,9}}[-+]?[\dN]|\{{__name__="node_[a-z]', re.ASCII)
_FACTS = {
    "node_uname_info": {
        "nodename": "host.name", "release": "kernel.release", "version": "kernel.build", "machine": "kernel.arch",
    },
    "node_os_info": {"pretty_name": "os.name", "id": "os.id", "version_id": "os.version"},
}  # fmt: skip
_NOT_OURS = "a value that is no number from 0 to 2^63: left out"
_TWICE = "the same metric of one host from two jobs or servers: the first is used"
_BAD_TIME = "a time that is none: the value is left out"


@dataclass(slots=True)
class Page:
    """One page of an exporter, whose values have no times."""

    rows: dict[Subject, dict[str, float]] = field(default_factory=dict)
    cites: dict[Subject, Citation] = field(default_factory=dict)
    time: Moment | None = None

    def samples(self) -> Iterator[Sample]:
        cpus = [(key, values) for key, values in self.rows.items() if key[0] == "cpu"]
        for name in dict.fromkeys(name for _, values in cpus for name in values if name.startswith(CPU)):
            if all(name in values for _, values in cpus):
                system = self.rows.setdefault(("system", ()), {})
                system.setdefault(name, sum(values[name] for _, values in cpus))
                self.cites.setdefault(("system", ()), self.cites[cpus[0][0]])
        for (kind, entity), values in self.rows.items():
            yield Sample(kind, values, self.cites[kind, entity], NAME, entity, self.time)


@dataclass(slots=True)
class Text:
    """What was read so far."""

    source: Source
    odd: Oddities
    gathered: Gathered
    page: Page = field(default_factory=Page)
    undated: list[Sample] = field(default_factory=list)
    told: set[tuple[str, str]] = field(default_factory=set)

    def line(self, number: int, text: str) -> Iterator[Record]:
        found = _SAMPLE.match(text)
        if not found or not (found[1] or found[2]):
            self.odd.note(number, text, "not a line of Prometheus metrics")
            return
        labels = labels_of(found[2] or "")
        name = found[1] or labels.pop("__name__", "")
        if name in _FACTS:
            yield from self._facts(number, text, _FACTS[name], labels)
            return
        where, value = place(name, labels), sample_value(found[3])
        if name == "node_time_seconds" and value and not found[4] and FIRST_EPOCH <= value < LAST_EPOCH:
            self.page.time = Moment(value, Clock.UTC)
        if where is None:
            return
        if value is None:
            if found[3] != "NaN":
                self.odd.note(number, text, _NOT_OURS)
        elif found[4]:
            self._dated(number, text, where, value, labels, found[4])
        else:
            yield from self._undated(number, text, where, value)

    def _dated(self, number: int, text: str, where: Place, value: float, labels: Mapping[str, str], stamp: str) -> None:
        seconds = _seconds(stamp)
        if seconds is None:
            self.odd.note(number, text, _BAD_TIME)
            return
        points = self.gathered.points(host_of(labels), where, repr(sorted(labels.items())))
        if points is None:
            self.odd.note(number, text, _TWICE)
        else:
            points.add(seconds, value, number)

    def _undated(self, number: int, text: str, where: Place, value: float) -> Iterator[Record]:
        key = (where.kind, where.entity)
        if where.metric in self.page.rows.get(key, {}):
            yield from self.turn()
        self.page.rows.setdefault(key, {})[where.metric] = value
        self.page.cites.setdefault(key, self.source.cite(number, text))

    def turn(self) -> Iterator[Record]:
        """The next page begins."""
        page, self.page = self.page, Page()
        if page.time:
            yield from page.samples()
        else:
            self.undated += page.samples()

    def _facts(self, number: int, text: str, names: Mapping[str, str], labels: Mapping[str, str]) -> Iterator[Fact]:
        for label, name in names.items():
            value = labels.get(label, "")
            if value and (name, value) not in self.told:
                self.told.add((name, value))
                yield Fact(name, value, self.source.cite(number, text))


def labels_of(text: str) -> dict[str, str]:
    return {name: _ESCAPE.sub(_unescaped, value) for name, value in _LABEL.findall(text)}


def _unescaped(found: re.Match[str]) -> str:
    return " " if found[1] == "n" else found[1]


def _seconds(text: str) -> float | None:
    """Milliseconds or seconds: the one is a thousand times as large, and no date is in between."""
    value = sample_value(text)
    if value is None:
        return None
    seconds = value / 1000 if value >= LAST_EPOCH else value
    return seconds if FIRST_EPOCH <= seconds < LAST_EPOCH else None


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """Rows of the host, of CPUs, zones and NUMA nodes; facts of the kernel."""
    odd = Oddities(source, NAME)
    text = Text(source, odd, Gathered(source.member, NAME))
    for number, line in lines:
        if line.strip() and not line.startswith("#"):
            yield from text.line(number, line)
    yield from text.turn()
    yield from dated(source, text.undated)
    yield from text.gathered.records()
    yield from odd.problems()


def _continues(text: str) -> bool:
    if text.startswith("#"):
        return bool(_TYPE.match(text) or _HELP.match(text))
    found = _SAMPLE.match(text)
    if not found or not (found[1] or found[2]):
        return False
    if found[2]:
        return bool(_LABEL.search(found[2])) or found[2] == "{}"
    return sample_value(found[3].lstrip("-")) is not None and not _of_proc(text)


def _of_proc(text: str) -> bool:
    return proc_vmstat.READER.opens is not None and proc_vmstat.READER.opens.match(text) is not None


def _confirm(lines: list[str]) -> bool:
    """A type, or a value of node_exporter."""
    return any(_TYPE.match(line) or _OURS.match(line) for line in lines)


def _claims(path: str, head: bytes, size: int | None) -> bool:
    """A long one of nothing else."""
    if size is not None and size < _LARGE:
        return False
    lines = head.decode("utf-8", "replace").split("\n")[:-1]
    return len(lines) > 100 and _confirm(lines[:8]) and all(_continues(line.rstrip("\r")) for line in lines[::10])


def _read_bulk(source: Source, content: Content) -> Iterator[Record | Foreign]:
    return whole(source, content, NAME, read)


READER = Reader(
    NAME,
    "Prometheus and OpenMetrics text",
    read,
    opens=re.compile(f"{_TYPE.pattern}|{_HELP.pattern}|{_OURS.pattern}", re.ASCII),
    continues=_continues,
    confirm=_confirm,
)
BULK = BulkReader(NAME, READER.title, _claims, _read_bulk)
