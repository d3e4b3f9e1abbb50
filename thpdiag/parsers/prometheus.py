"""Prometheus and OpenMetrics text, and responses of the Prometheus HTTP API.

The metric names are those of node_exporter; its labels become the entity:

    node_cpu_seconds_total{cpu="0",mode="system"}      node_cpu_seconds_total.system of CPU 0
    node_buddyinfo_blocks{node="0",size="9",zone="Normal"}      node_buddyinfo_blocks_order9 of a zone
    node_memory_numa_MemFree{node="0"}                 node_memory_numa_MemFree_bytes of a NUMA node

Before 0.16 (2018) names had no unit (`node_cpu`, `node_memory_MemFree`, `node_intr`), with the same values. Labels that
the server adds (job, pod, prometheus ...) do not identify the entity; `instance` is the host. Process metrics describe
the exporter itself and are not used. Source: node_exporter 0.14 to 1.8, collector/*.go.

Dumps and query responses contain one series after the other, each with all its times; metrics of an entity that have
the same times are combined to rows.

Responses of the HTTP API of Prometheus, and of compatible servers (Thanos, VictoriaMetrics, Mimir), as `curl` saves
them.

    {"status":"success","data":{"resultType":"matrix","result":[
      {"metric":{"__name__":"node_load1","instance":"web1:9100"},"values":[[1795170792,"8.69"],[1795170852,"8.48"]]}]}}

Units: those in the names; times are seconds since 1970 UTC, with fraction. `query_range` returns a matrix, `query` a
vector (one `value` each). The result of a function (rate(), sum()) has no name, so its meaning is unknown and it is not
used. Any JSON layout is accepted. The response is read one series at a time, so its size does not matter.
Source: Prometheus HTTP API v1.

Prometheus metrics as text: the page of an exporter, OpenMetrics, and dumps of a server's storage.

    # TYPE node_vmstat_thp_fault_alloc untyped
    node_vmstat_thp_fault_alloc 939613
    node_buddyinfo_blocks{node="0",size="9",zone="Normal"} 86 1795170792123
    {__name__="node_load1", instance="web1:9100"} 8.69 1795170792123

Units: base units, in the names. The page of an exporter (`curl HOST:9100/metrics`) has no times: its time is
node_time_seconds in it, else a time line above; successive pages become rows. Times after values are milliseconds, in
OpenMetrics (`# EOF` at the end) seconds; the magnitude distinguishes them. By default node_exporter has no thp_* and no
compact_* (--collector.vmstat.fields adds them). A dump has one series after the other and no comments.
Source: Prometheus text format 0.0.4, OpenMetrics 1.0, promtool 2.x `tsdb dump` and `tsdb dump-openmetrics`.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from thpdiag.detect.timestamps import FIRST_EPOCH, LAST_EPOCH
from thpdiag.knowledge.vocabulary import added_metrics
from thpdiag.model import Citation, Clock, Entity, Fact, Moment, Problem, ProblemKind, Record, Sample, Series, Subject
from thpdiag.model.parser import BulkParser, Lines, Parser, Source
from thpdiag.parsers._json import JSON_OPENS, BrokenJsonError, JsonArray, json_head, json_pieces
from thpdiag.parsers._lines import MIN_SERIES_ROWS, ParseErrors, member_parser, with_errors
from thpdiag.parsers._time import with_block_time
from thpdiag.parsers.procfs import memory as proc_vmstat

MAX_VALUE = 2.0**63
CPU = "node_cpu_seconds_total"
SYSTEM: Subject = ("system", ())
_RENAMED = {
    "node_cpu": CPU,
    "node_context_switches": "node_context_switches_total",
    "node_intr": "node_intr_total",
    "node_forks": "node_forks_total",
    "node_boot_time": "node_boot_time_seconds",
}
_MODES = frozenset(("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"))
_SYSTEM = re.compile(
    r"node_(?:vmstat_\w+|memory_(?!numa_)\w+|load1|procs_running|procs_blocked|context_switches_total|intr_total|"
    r"forks_total|boot_time_seconds|pressure_(?:cpu|io|memory)_(?:waiting|stalled)_seconds_total)",
    re.ASCII,
)
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,9})?", re.ASCII)
_WORD = re.compile(r"\w{1,40}", re.ASCII)
_ORDER = re.compile(r"\d{1,2}", re.ASCII)
_FLOAT = re.compile(r"\+?\d{1,20}(?:\.\d{0,20})?(?:[eE][-+]?\d{1,2})?", re.ASCII)
_DUPLICATE = "the same metric of one host from two jobs or servers: the first is used"


@dataclass(frozen=True, slots=True)
class Place:
    """The kind and entity that a series belongs to, and the canonical name of its metric."""

    kind: str
    entity: Entity
    metric: str


def place(name: str, labels: Mapping[str, str]) -> Place | None:
    """Return the place of a metric, or None if it is not used. CPU time without the label `cpu` is a sum by a query."""
    name = _RENAMED.get(name, name)
    node, zone, cpu = labels.get("node", ""), labels.get("zone", ""), labels.get("cpu", "").removeprefix("cpu")
    if name == CPU:
        mode = labels.get("mode", "")
        if mode not in _MODES or (cpu and not _NUMBER.fullmatch(cpu)):
            return None
        return Place("cpu", (("cpu", cpu),), f"{CPU}.{mode}") if cpu else Place("system", (), f"{CPU}.{mode}")
    if name == "node_buddyinfo_blocks" or name.startswith("node_zoneinfo_"):
        order = _ORDER.fullmatch(labels.get("size", ""))
        if name == "node_buddyinfo_blocks":
            name = f"node_buddyinfo_blocks_order{int(order[0])}" if order else ""
        is_known = name and _NUMBER.fullmatch(node) and _WORD.fullmatch(zone)
        return Place("zone", (("node", node), ("zone", zone)), name) if is_known else None
    is_sized = name.startswith("node_memory_") and not name.endswith("_bytes")
    if name.startswith("node_memory_numa_"):
        if not _NUMBER.fullmatch(node) or "HugePages_" in name:
            return None
        return Place("node", (("node", node),), f"{name}_bytes" if is_sized and not name.endswith("_total") else name)
    if not _SYSTEM.fullmatch(name) and name not in added_metrics():
        return None
    return Place("system", (), f"{name}_bytes" if is_sized and not name.startswith("node_memory_HugePages_") else name)


def host_of(labels: Mapping[str, str]) -> str:
    """Return the host in the label `instance`, or "" if it is missing or the local host."""
    name = labels.get("instance", "")
    name = name.partition("]")[0].strip("[") if name.startswith("[") else name.partition(":")[0]
    if name in ("localhost", "127.0.0.1", "::1") or not re.fullmatch(r"[\w.:-]{1,253}", name, re.ASCII):
        return ""
    return name


def sample_value(text: str) -> float | None:
    """Parse a value; None if it is NaN (a stale series), infinite, negative or larger than a counter can be."""
    value = float(text) if _FLOAT.fullmatch(text) else MAX_VALUE
    return value if value < MAX_VALUE else None


@dataclass(slots=True)
class Points:
    """All points of one metric: seconds (UTC), values and the line of each."""

    seconds: array[float] = field(default_factory=lambda: array("d"))
    values: array[float] = field(default_factory=lambda: array("d"))
    lines: array[int] = field(default_factory=lambda: array("q"))

    def add(self, seconds: float, value: float, line: int) -> None:
        self.seconds.append(seconds)
        self.values.append(value)
        self.lines.append(line)

    def in_order(self) -> Points:
        """Return the points sorted by time, without duplicate times, which a dump of overlapping blocks has."""
        if all(a < b for a, b in zip(self.seconds, self.seconds[1:], strict=False)):
            return self
        points, last = Points(), float("-inf")
        for seconds, value, line in sorted(zip(self.seconds, self.values, self.lines, strict=True), key=lambda p: p[0]):
            if seconds > last:
                points.add(seconds, value, line)
                last = seconds
        return points


@dataclass(slots=True)
class SeriesOfHosts:
    """Points by host, entity and metric. Of a metric that several jobs or replicas report, only the first is used."""

    member: str
    reader: str
    hosts: dict[str, dict[Subject, dict[str, Points]]] = field(default_factory=dict)
    first_labels: dict[tuple[str, Place], str] = field(default_factory=dict)

    def points(self, target: Place, labels: Mapping[str, str]) -> Points | None:
        """Return the points to which a series is appended; None if another series already provides the metric."""
        host, text = host_of(labels), repr(sorted(labels.items()))
        if self.first_labels.setdefault((host, target), text) != text:
            return None
        entities = self.hosts.setdefault(host, {})
        return entities.setdefault((target.kind, target.entity), {}).setdefault(target.metric, Points())

    def records(self) -> Iterator[Record]:
        """Yield the name of each host, then its rows: the metrics of an entity that have the same times."""
        for host, entities in self.hosts.items():
            for metrics in entities.values():
                metrics.update({name: points.in_order() for name, points in metrics.items()})
            _add_sum_of_cpus(entities)
            tables: list[tuple[Subject, dict[str, Points]]] = []
            for subject, metrics in entities.items():
                by_times: dict[bytes, dict[str, Points]] = {}
                for name, points in metrics.items():
                    if points.seconds:
                        by_times.setdefault(points.seconds.tobytes(), {})[name] = points
                tables += ((subject, table) for table in by_times.values())
            firsts = [next(iter(table.values())) for _, table in tables]
            if host and tables:
                yield Fact("host.name", host, Citation(self.member, firsts[0].lines[0]))
            is_short = sum(len(points.seconds) for points in firsts) < MIN_SERIES_ROWS
            for (kind, entity), table in tables:
                yield from self._rows(kind, entity, table) if is_short else (self._columns(kind, entity, table),)

    def _rows(self, kind: str, entity: Entity, table: Mapping[str, Points]) -> Iterator[Sample]:
        first = next(iter(table.values()))
        for number, seconds in enumerate(first.seconds):
            values = {name: points.values[number] for name, points in table.items()}
            cite = Citation(self.member, first.lines[number])
            yield Sample(kind, values, cite, self.reader, entity, Moment(seconds, Clock.UTC))

    def _columns(self, kind: str, entity: Entity, table: Mapping[str, Points]) -> Series:
        import numpy as np  # imported late: needed only for long input

        first = next(iter(table.values()))
        values = {name: np.frombuffer(points.values, np.float64) for name, points in table.items()}
        lines, seconds = np.frombuffer(first.lines, np.int64), np.frombuffer(first.seconds, np.float64)
        return Series(kind, values, self.member, lines, self.reader, entity, seconds, Clock.UTC)


def _add_sum_of_cpus(entities: dict[Subject, dict[str, Points]]) -> None:
    """Add the CPU time of the host, like the first line of /proc/stat, if all CPUs have the same times."""
    cpus = [metrics for (kind, _), metrics in entities.items() if kind == "cpu"]
    for name in dict.fromkeys(name for metrics in cpus for name in metrics if name.startswith(CPU)):
        parts = [metrics[name] for metrics in cpus if name in metrics]
        if len(parts) == len(cpus) and len({points.seconds.tobytes() for points in parts}) == 1:
            sums = array("d", (sum(row) for row in zip(*(points.values for points in parts), strict=True)))
            entities.setdefault(SYSTEM, {}).setdefault(name, Points(parts[0].seconds, sums, parts[0].lines))


JSON_NAME = "prometheus_json"
JSON_TITLE = "Prometheus query answers, JSON"
_KIND = re.compile(r'"resultType"\s{0,20}:\s{0,20}"(matrix|vector)"')
_RESULT = re.compile(r'"result"\s{0,20}:\s{0,20}\[')
_LINE = re.compile(r'\s*\{\s*"status"\s*:\s*"success"\s*,.{0,4000}"resultType"\s*:\s*"(?:matrix|vector)"')


def _add_series(series: SeriesOfHosts, result: object, line: int) -> Iterator[str]:
    """Add the points of one series of a response; yield descriptions of what is wrong with it."""
    item = result if isinstance(result, Mapping) else {}
    labels, points = item.get("metric"), item.get("values", [item["value"]] if "value" in item else None)
    if not isinstance(labels, Mapping) or not isinstance(points, list):
        yield "a series that is not of the form of an answer: not used"
        return
    labels = {name: value for name, value in labels.items() if isinstance(value, str)}
    name = labels.pop("__name__", "")
    target = place(name, labels)
    if not name:
        yield "a series without a name, which a function of the query made: not used"
    if target is None:
        return
    series_points = series.points(target, labels)
    if series_points is None:
        yield _DUPLICATE
        return
    for point in points:
        seconds, text = point if isinstance(point, list) and len(point) == 2 else (None, None)
        value = sample_value(text) if isinstance(text, str) else None
        if isinstance(seconds, int | float) and FIRST_EPOCH <= seconds < LAST_EPOCH and value is not None:
            series_points.add(float(seconds), value, line)
        elif text != "NaN":
            yield "a point that is not a time and a number: not used"


def _read_json(source: Source, pieces: Iterator[str], first_line: int = 1) -> Iterator[Record]:
    """Yield the hosts of a response and their rows."""
    errors, series, damage = ParseErrors(source, JSON_NAME), SeriesOfHosts(source.member, JSON_NAME), ""
    line = first_line
    try:
        for line, result in JsonArray(pieces, first_line).members(_RESULT):
            for reason in _add_series(series, result, line):
                errors.note(line, "", reason)
    except BrokenJsonError as error:
        damage = str(error)
    yield from series.records()
    if damage:
        text = f"an answer of Prometheus: {damage}; what precedes it was read"
        yield Problem(source.cite(line), text, ProblemKind.DAMAGED, JSON_NAME)
    yield from errors.problems()


def read_json_line(source: Source, lines: Lines) -> Iterator[Record]:
    """Yield the records of responses on one line each, as curl prints them."""
    for number, text in lines:
        yield from _read_json(source, iter((text,)), number)


JSON_PARSER = Parser(JSON_NAME, JSON_TITLE, read_json_line, opens=_LINE, continues=lambda text: False)
JSON_BULK_PARSER = BulkParser(
    JSON_NAME, JSON_TITLE, lambda path, head, size: _KIND.search(json_head(head)),
    lambda source, content: _read_json(source, json_pieces(content)), opens=JSON_OPENS,
)  # fmt: skip


TEXT_NAME = "prometheus"
_MIN_BULK_BYTES = 1 << 20  # from this size on a member is not searched for other blocks
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
_NODE_METRIC = re.compile(
    rf'node_[a-z]\w{{0,200}}(?:{_LABELS})?[ \t]{{1,9}}[-+]?[\dN]|\{{__name__="node_[a-z]', re.ASCII
)
_FACTS = {
    "node_uname_info": {
        "nodename": "host.name", "release": "kernel.release", "version": "kernel.build", "machine": "kernel.arch",
    },
    "node_os_info": {"pretty_name": "os.name", "id": "os.id", "version_id": "os.version"},
}  # fmt: skip


@dataclass(slots=True)
class Page:
    """One page of an exporter. Its values have no times of their own."""

    rows: dict[Subject, dict[str, float]] = field(default_factory=dict)
    cites: dict[Subject, Citation] = field(default_factory=dict)
    time: Moment | None = None

    def samples(self) -> Iterator[Sample]:
        cpus = [(key, values) for key, values in self.rows.items() if key[0] == "cpu"]
        for name in dict.fromkeys(name for _, values in cpus for name in values if name.startswith(CPU)):
            if all(name in values for _, values in cpus):
                self.rows.setdefault(SYSTEM, {}).setdefault(name, sum(values[name] for _, values in cpus))
                self.cites.setdefault(SYSTEM, self.cites[cpus[0][0]])
        for (kind, entity), values in self.rows.items():
            yield Sample(kind, values, self.cites[kind, entity], TEXT_NAME, entity, self.time)


@dataclass(slots=True)
class Text:
    """State of the parser: the current page, samples of pages without a time, and values with times."""

    source: Source
    errors: ParseErrors
    series: SeriesOfHosts
    page: Page = field(default_factory=Page)
    undated: list[Sample] = field(default_factory=list)
    facts: set[tuple[str, str]] = field(default_factory=set)

    def parse_line(self, number: int, text: str) -> Iterator[Record]:
        match = _SAMPLE.match(text)
        if not match or not (match[1] or match[2]):
            self.errors.note(number, text, "not a line of Prometheus metrics")
            return
        labels = {label: _ESCAPE.sub(_unescape, value) for label, value in _LABEL.findall(match[2] or "")}
        name = match[1] or labels.pop("__name__", "")
        if name in _FACTS:
            yield from self._facts(number, text, _FACTS[name], labels)
            return
        target, value, timestamp = place(name, labels), sample_value(match[3]), match[4]
        if name == "node_time_seconds" and value and not timestamp and FIRST_EPOCH <= value < LAST_EPOCH:
            self.page.time = Moment(value, Clock.UTC)
        if target is None or match[3] == "NaN":
            return
        if value is None:
            self.errors.note(number, text, "a value that is not a number from 0 to 2^63: left out")
        elif timestamp:
            self._add_dated(number, text, target, value, labels, timestamp)
        else:
            subject = (target.kind, target.entity)
            if target.metric in self.page.rows.get(subject, {}):
                yield from self.end_page()
            self.page.rows.setdefault(subject, {})[target.metric] = value
            self.page.cites.setdefault(subject, self.source.cite(number, text))

    def _add_dated(
        self, number: int, text: str, target: Place, value: float, labels: Mapping[str, str], timestamp: str
    ) -> None:
        """Add a value with a time in milliseconds or seconds; no valid date is valid in both units."""
        seconds = sample_value(timestamp) or 0.0
        seconds = seconds / 1000 if seconds >= LAST_EPOCH else seconds
        if not FIRST_EPOCH <= seconds < LAST_EPOCH:
            self.errors.note(number, text, "an invalid time: the value is left out")
        elif (points := self.series.points(target, labels)) is None:
            self.errors.note(number, text, _DUPLICATE)
        else:
            points.add(seconds, value, number)

    def end_page(self) -> Iterator[Record]:
        """Begin a new page; yield the samples of the previous one if it has a time."""
        page, self.page = self.page, Page()
        if page.time:
            yield from page.samples()
        else:
            self.undated += page.samples()

    def _facts(self, number: int, text: str, names: Mapping[str, str], labels: Mapping[str, str]) -> Iterator[Fact]:
        for label, name in names.items():
            value = labels.get(label, "")
            if value and (name, value) not in self.facts:
                self.facts.add((name, value))
                yield Fact(name, value, self.source.cite(number, text))


def _unescape(escape: re.Match[str]) -> str:
    return " " if escape[1] == "n" else escape[1]


@with_errors(TEXT_NAME)
def read_text(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield samples of the host, CPUs, zones and NUMA nodes, and facts of the kernel."""
    text = Text(source, errors, SeriesOfHosts(source.member, TEXT_NAME))
    for number, line in lines:
        if line.strip() and not line.startswith("#"):
            yield from text.parse_line(number, line)
    yield from text.end_page()
    yield from with_block_time(source, text.undated)
    yield from text.series.records()


def _continues(text: str) -> bool:
    if text.startswith("#"):
        return bool(_TYPE.match(text) or _HELP.match(text))
    match = _SAMPLE.match(text)
    if not match or not (match[1] or match[2]):
        return False
    if match[2]:
        return bool(_LABEL.search(match[2])) or match[2] == "{}"
    opens = proc_vmstat.VMSTAT.opens
    return sample_value(match[3].lstrip("-")) is not None and not (opens and opens.match(text))


def _confirm(lines: list[str]) -> bool:
    """Return whether a line is a type comment or a value of node_exporter."""
    return any(_TYPE.match(line) or _NODE_METRIC.match(line) for line in lines)


def _claims_text(path: str, head: bytes, size: int | None) -> bool:
    """Return whether the beginning of a long member consists of metrics only."""
    lines = head.decode("utf-8", "replace").split("\n")[:-1]
    return len(lines) > 100 and _confirm(lines[:8]) and all(_continues(line.rstrip("\r")) for line in lines[::10])


TEXT_PARSER = Parser(
    TEXT_NAME, "Prometheus and OpenMetrics text", read_text,
    opens=re.compile(f"{_TYPE.pattern}|{_HELP.pattern}|{_NODE_METRIC.pattern}", re.ASCII), continues=_continues,
    confirm=_confirm,
)  # fmt: skip
TEXT_BULK_PARSER = member_parser(TEXT_PARSER, _claims_text, min_size=_MIN_BULK_BYTES)
