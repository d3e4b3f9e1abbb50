"""sadf (sysstat): sar's data for other programs, as rows (-d, -p), JSON (-j) and XML (-x).

    # hostname;interval;timestamp;pgpgin/s;pgpgout/s;fault/s;majflt/s;pgfree/s;pgscank/s;pgscand/s;pgsteal/s;%vmeff
    web1;600;2026-11-20 03:40:01 UTC;8.00;52.00;17860.00;0.00;9478.00;0.00;0.00;0.00;0.00
    "paging": {"pgpgin": 8.00, "fault": 17860.00, "vmeff-percent": 0.00}     ->  pgpgin/s fault/s %vmeff

Units: those of sar; times have dates and are UTC unless made with -T, -t (local time, `utc` is 0 in JSON and XML). The
best form of sar's data. A header of -d names the columns of the rows below it; with -h one row has all tables, and
`[...]` ends columns that repeat for each CPU or device. -p has one value per line; consecutive values of one time and
item are one row. JSON and XML are parsed line by line, never as a whole, with limits of depth and length. Varies:
columns by version and option (`user` with -u, `usr` with -A); sosreport 3.x has only CPU time, 4.x all; the DTDs 2.5
(RHEL 6) to 3.11 differ in attributes and elements. Source: sysstat sadf.c, rndr_stats.c, json_stats.c, xml_stats.c,
sadf_misc.c, 9.0 to 12.7; DTD 2.5 to 3.11.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from xml.parsers import expat

from thpdiag.bundle.member import LineDamage
from thpdiag.model import Clock, Event, Fact, Moment, Problem, ProblemKind, Record, Sample
from thpdiag.model.parser import BulkParser, Content, Foreign, Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, any_of, numbered_lines, parse_member, undecoded_problems
from thpdiag.parsers._units import parse_number
from thpdiag.parsers.sysstat._tables import UTC_ZONES, parse_time, table_of

NAME = "sadf"
Place = tuple[int, str]  # line number and text


@dataclass(slots=True)
class Rows:
    """Converts rows of tables in any form to records. `machine` decides the size of a page."""

    source: Source
    odd: ParseErrors
    reader: str = NAME
    machine: str = ""
    _restarts: set[Moment | None] = field(default_factory=set)

    def row(self, place: Place, time: Moment | None, columns: Sequence[str], cells: Sequence[str]) -> Iterator[Sample]:
        """Yield the Sample of a row if it is used."""
        table = table_of(tuple(columns), self.machine)
        row = table.row(cells) if table else None
        if isinstance(row, str):
            self.odd.note(*place, row)
        elif row is not None:
            cite = self.source.cite(*place)
            yield Sample(row.kind, row.values, cite, self.reader, row.entity, time, row.resolution)

    def restart(self, place: Place, time: Moment | None, cpus: str) -> Iterator[Event]:
        """Yield a restart of the host once; every block of rows repeats it."""
        if time not in self._restarts:
            self._restarts.add(time)
            yield Event("restart", self.source.cite(*place), time, {"cpus": cpus} if cpus else {})


D_HEADER = re.compile(r"# hostname;interval;timestamp(?:;|$)")
_STAMP = r"(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: [A-Z+\-\d]{1,6})?|\d{9,10})"
D_ROW = re.compile(rf"([^;\s]{{1,255}});(-?\d{{1,9}});({_STAMP});(.+)")
P_ROW = re.compile(rf"([^;\s]{{1,255}})\t(-?\d{{1,9}})\t({_STAMP})\t(\S{{1,255}})\t(\S{{1,40}})\t(-?[\d.,]+)\s*$")
P_RESTART = re.compile(rf"([^;\s]{{1,255}})\t-1\t({_STAMP})\tLINUX-RESTART(?:\s+\((\d{{1,5}}) CPUs?\))?\s*$")
_RESTART = re.compile(r"LINUX-RESTART(?:\s+\((\d{1,5}) CPUs?\))?\s*$")
_ROW_STARTS = frozenset(  # of -p, which begin a row
    ("pgpgin/s", "kbmemfree", "kbswpfree", "runq-sz", "pswpin/s", "proc/s", "%user", "%usr", "all", "intr/s")
)
_INSTANCE = frozenset(("CPU", "INTR", "DEV", "IFACE", "TTY"))
MAX_ROW_VALUES = 64  # no table has more columns
_CPU = re.compile(r"cpu(\d{1,5})$")


@dataclass(slots=True)
class PRow:
    """Values of -p, one per line, that are one row."""

    place: Place
    stamp: str
    item: str
    columns: list[str] = field(default_factory=list)
    cells: list[str] = field(default_factory=list)

    def takes(self, stamp: str, item: str, column: str) -> bool:
        begins = column in _ROW_STARTS or (column.startswith("%s") and column.endswith("-10")) or column in self.columns
        return not begins and len(self.columns) < MAX_ROW_VALUES and (stamp, item) == (self.stamp, self.item)


@dataclass(slots=True)
class RowForms:
    """The forms -d and -p, line by line."""

    rows: Rows
    host: str = ""
    _columns: Sequence[str] = ()
    _open: PRow | None = None

    def line(self, number: int, text: str) -> Iterator[Record]:
        """Yield the records of a line."""
        place = (number, text)
        match = D_ROW.match(text) or P_ROW.match(text)
        if D_HEADER.match(text):
            self._columns = text.rstrip().split(";")[3:]
        elif match:
            if match[1] != self.host:
                yield from self.end()
                self.host = match[1]
                yield Fact("host.name", self.host, self.rows.source.cite(*place))
            yield from self._d_row(place, match[3], match[4]) if match.re is D_ROW else self._p_value(place, match)
        elif match := P_RESTART.match(text):
            yield from self.rows.restart(place, parse_time(match[2]), match[3] or "")
        elif text.strip():
            self.rows.odd.note(*place, "not a line of sadf")

    def _d_row(self, place: Place, stamp: str, text: str) -> Iterator[Record]:
        if restart := _RESTART.match(text):
            yield from self.rows.restart(place, parse_time(stamp), restart[1] or "")
        elif not text.startswith("COM ") or ";" in text:
            if not self._columns:
                self.rows.odd.note(*place, "a row of sadf without its header")
            for columns, cells in _tables(self._columns, text.rstrip().split(";")):
                if cells is None:
                    self.rows.odd.note(*place, "a row with other columns than its header")
                else:
                    yield from self.rows.row(place, parse_time(stamp), columns, cells)

    def _p_value(self, place: Place, match: re.Match[str]) -> Iterator[Sample]:
        _, _, stamp, item, column, cell = match.groups()
        if self._open is None or not self._open.takes(stamp, item, column):
            yield from self.end()
            self._open = PRow(place, stamp, item)
        self._open.columns.append(column)
        self._open.cells.append(cell)

    def end(self) -> Iterator[Sample]:
        """Yield the open row of -p, as -d would print it."""
        row, self._open = self._open, None
        if row is None:
            return
        columns, cells = row.columns, row.cells
        if row.item != "-":
            cpu = _CPU.match(row.item)
            columns = ["INTR" if columns[0] in ("all", "intr/s") else "CPU", *columns]
            cells = [cpu[1] if cpu else row.item, *cells]
        yield from self.rows.row(row.place, parse_time(row.stamp), columns, cells)


def _tables(columns: Sequence[str], cells: Sequence[str]) -> Iterator[tuple[Sequence[str], Sequence[str] | None]]:
    """Yield the tables of a row: one, or with -h all; cells of None do not fit their columns."""
    if tuple(columns) == ("INTR", "CPU*"):  # `all`, and each CPU if requested
        yield ("INTR", "all"), cells[:2]
        return
    repeating = [index for index, column in enumerate(columns) if column.endswith("[...]")]
    if not repeating:
        yield columns, cells if len(cells) == len(columns) else None
        return
    end = repeating[0] + 1
    begin = max((p for p in range(end) if columns[p] in _INSTANCE), default=0)
    width, others = end - begin, len(columns) - (end - begin)
    times, remainder = divmod(len(cells) - others, width)
    if len(repeating) > 1 or remainder or times < 1:  # ambiguous
        yield columns, None
        return
    group = [column.removesuffix("[...]") for column in columns[begin:end]]
    yield columns[:begin], cells[:begin]
    for index in range(times):
        yield group, cells[begin + index * width : begin + (index + 1) * width]
    yield columns[end:], cells[begin + times * width :]


def read(source: Source, lines: Lines, reader: str = NAME, host: str = "", machine: str = "") -> Iterator[Record]:
    """A Sample per row and entity, an event per restart. With an installed sadf, host and machine are known."""
    odd = ParseErrors(source, reader)
    forms = RowForms(Rows(source, odd, reader, machine), host)
    for number, text in lines:
        yield from forms.line(number, text)
    yield from forms.end()
    yield from odd.problems()


Columns = Mapping[str, str]  # column by attribute
MAX_NAME_CHARS = 255
MAX_DEPTH = 32
MAX_TOKEN_CHARS = 1 << 16  # of one string or number
MAX_LINE_BYTES = 64 << 20
_MODES = ("nice", "iowait", "steal", "irq", "soft", "guest", "gnice", "idle", "usr", "user", "sys", "system")
_CPU_COLUMNS = {mode: f"%{mode}" for mode in _MODES}
_PAGING = ("pgpgin", "pgpgout", "fault", "majflt", "pgfree", "pgscank", "pgscand", "pgsteal", "pgprom", "pgdem")
_MEMORY = ("memfree", "avail", "buffers", "cached", "commit", "active", "dirty", "shmem", "anonpg", "slab", "kstack")
_PRESSURE = {
    f"{share}_avg{time}": (share[0], f"-{time}" if time else "")
    for share in ("some", "full")
    for time in ("10", "60", "300", "")
}
TABLES: Mapping[str, tuple[Columns, ...]] = {
    "paging": ({name: f"{name}/s" for name in _PAGING},),
    "swap-pages": ({"pswpin": "pswpin/s", "pswpout": "pswpout/s"},),
    "process-and-context-switch": ({"proc": "proc/s", "cswch": "cswch/s"},),
    "processes": ({"proc": "proc/s"},),
    "context-switch": ({"cswch": "cswch/s"},),
    "queue": ({name: name for name in ("runq-sz", "plist-sz", "ldavg-1", "blocked")},),
    "memory": (
        {**{name: f"kb{name}" for name in _MEMORY}, "inactive": "kbinact", "pgtbl": "kbpgtbl", "vmused": "kbvmused"},
        {"swpfree": "kbswpfree", "swpcad": "kbswpcad"},
    ),
    **{
        f"psi-{what}": ({name: f"%{letter}{what}{time}" for name, (letter, time) in _PRESSURE.items()},)
        for what in ("cpu", "io", "mem")
    },
}
USED_NAMES = {*TABLES, "timestamp", "cpu-load", "cpu-load-all", "interrupts", "int-global", "boot", "restarts"}
_CHILD_ELEMENTS = frozenset(("cpu", "irq"))  # XML elements whose parent is the activity
_FACTS = {"release": "kernel.release", "nodename": "host.name", "machine": "kernel.arch"}


class TreeError(ValueError):
    """The text is not JSON or XML of sadf, or it ends early."""


@dataclass(slots=True)
class Node:
    """An open XML element, JSON object or array; elements of an array have its name."""

    name: str
    line: int
    values: dict[str, str] = field(default_factory=dict)
    is_array: bool = False
    text: str = ""
    children: int = 0


@dataclass(slots=True)
class Tree:
    """Takes the parts of JSON or XML in order and makes records of them."""

    rows: Rows
    line: int = 1
    time: Moment | None = None
    stack: list[Node] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)  # last values: files may be concatenated
    _made: dict[str, str] = field(default_factory=dict)

    def open(self, node: Node) -> None:
        if len(self.stack) >= MAX_DEPTH:
            raise TreeError("it is nested too deeply")
        if self.stack:
            self.stack[-1].children += 1
        self.stack.append(node)

    def scalar(self, line: int, name: str, text: str) -> Iterator[Record]:
        """Yield a fact of the host."""
        text = text[:MAX_NAME_CHARS].rstrip()
        if self.facts.get(name) == text or not text or not text.isprintable():
            return
        cite = self.rows.source.cite(line, text)
        if fact := _FACTS.get(name):
            self.facts[name] = text
            self.rows.machine = text if name == "machine" else self.rows.machine
            yield Fact(fact, text, cite)
        elif name == "number-of-cpus" and (count := parse_number(text)) is not None:
            self.facts[name] = text
            yield Fact("cpu.count", int(count), cite)
        elif name in ("file-date", "file-utc-time"):
            self._made[name] = text
        elif name == "timezone" and text in UTC_ZONES:  # other abbreviations are ambiguous
            self.facts[name] = text
            yield Fact("host.utc_offset", 0.0, cite, time=parse_time(f"{' '.join(self._made.values())} UTC"))

    def element(self, node: Node, parent: str = "") -> Iterator[Record]:
        """Yield the records of an activity, or of one of its instances."""
        activity, line, given = parent if node.name in _CHILD_ELEMENTS else node.name, node.line, node.values
        if activity == "timestamp":
            self.time = _moment(given)
        elif activity in ("cpu-load", "cpu-load-all"):
            known = {_CPU_COLUMNS[name]: cell for name, cell in given.items() if name in _CPU_COLUMNS}
            cpu = given.get("cpu", given.get("number", ""))
            yield from self.rows.row((line, f"cpu {cpu[:20]}"), self.time, ("CPU", *known), (cpu, *known.values()))
        elif activity in ("interrupts", "int-global") and given.get("intr") == "sum":
            cell = given.get("all", given.get("value"))
            if cell is not None and given.get("cpu", "all") == "all":
                yield from self.rows.row((line, "interrupts"), self.time, ("INTR", "all"), ("sum", cell))
        elif activity in ("boot", "restarts") and "date" in given:
            yield from self.rows.restart((line, ""), _moment(given), given.get("cpu_count", "")[:5])
        for table in TABLES.get(activity, ()):
            known = {column: given[attribute] for attribute, column in table.items() if attribute in given}
            if known:
                yield from self.rows.row((line, activity), self.time, tuple(known), tuple(known.values()))


def _moment(given: Mapping[str, str]) -> Moment | None:
    moment = parse_time(f"{given.get('date', '')} {given.get('time', '')}")
    if moment is None or given.get("utc", "1") == "0":
        return moment
    return Moment(moment.seconds, Clock.UTC)


_FLAT = r'\{[^{}\[\]"]*(?:"[^"\\]*"[^{}\[\]"]*)*\}'  # an object on one line, as sadf prints activities
_TOKEN = re.compile(_FLAT + r'|"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


@dataclass(slots=True)
class JsonTree(Tree):
    """JSON in which no string contains a line end."""

    key: str | None = None
    awaits_value: bool = False  # after a key and its colon
    begun: bool = False

    def feed(self, text: str) -> Iterator[Record]:
        position = 0
        for match in _TOKEN.finditer(text):
            if text[position : match.start()].strip():
                raise TreeError("a string is broken")
            position = match.end()
            yield from self._token(match[0])
        if text[position:].strip():
            raise TreeError("a string is broken")

    def end(self) -> Iterator[Record]:
        if self.stack or not self.begun:
            raise TreeError("it ends early")
        yield from ()

    def _token(self, token: str) -> Iterator[Record]:
        if token[0] == "{" or token == "[":
            within = self.stack[-1] if self.stack else None
            name = within.name if within and within.is_array else self.key or ""
            self.open(Node(name, self.line, is_array=token == "["))
            self.key, self.awaits_value, self.begun = None, False, True
            if len(token) > 1 and name in USED_NAMES:
                self.stack[-1].values = _flat_values(token)
            if len(token) > 1:  # a complete object; an unused one is not parsed
                yield from self._close(is_array=False)
        elif token in "}]":
            yield from self._close(is_array=token == "]")
        elif token == ":":
            self.awaits_value = True
        elif token == ",":
            self.key, self.awaits_value = None, False
        else:
            yield from self._scalar(_scalar_text(token))

    def _close(self, *, is_array: bool) -> Iterator[Record]:
        if not self.stack or self.stack[-1].is_array is not is_array:
            raise TreeError("a bracket closes nothing")
        node = self.stack.pop()
        if node.values and not is_array:
            yield from self.element(node)

    def _scalar(self, text: str) -> Iterator[Record]:
        if not self.stack:
            raise TreeError("a value outside of any element")
        within = self.stack[-1]
        if not within.is_array and not self.awaits_value:
            self.key = text
        elif self.key is not None:
            within.values[self.key] = text
            if within.name == "hosts":
                yield from self.scalar(self.line, self.key, text)


def _flat_values(token: str) -> dict[str, str]:
    try:
        values = json.loads(token, parse_float=str, parse_int=str)
    except ValueError as error:
        raise TreeError("an object is broken") from error
    return {key: value for key, value in values.items() if isinstance(value, str)}


def _scalar_text(token: str) -> str:
    if len(token) > MAX_TOKEN_CHARS:
        raise TreeError("a value is too long")
    if not token.startswith('"'):
        return token
    try:
        return str(json.loads(token, strict=False))
    except ValueError as error:
        raise TreeError("a string is broken") from error


@dataclass(slots=True)
class XmlTree(Tree):
    """XML. Declared entities, which sadf never has, are refused."""

    records: list[Record] = field(default_factory=list)
    parser: expat.XMLParserType = field(default_factory=lambda: expat.ParserCreate("utf-8"))
    fed: int = 1  # last line given to the parser

    def __post_init__(self) -> None:
        parser = self.parser
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._text
        parser.EntityDeclHandler = parser.UnparsedEntityDeclHandler = self._refuse

    def feed(self, text: str) -> Iterator[Record]:
        line_ends, self.fed = "\n" * (self.line - self.fed), self.line
        yield from self._parse((line_ends + text).encode("utf-8", "replace"))

    def end(self) -> Iterator[Record]:
        yield from self._parse(b"", is_final=True)

    def _parse(self, data: bytes, *, is_final: bool = False) -> Iterator[Record]:
        failure = None
        try:
            self.parser.Parse(data, is_final)
        except TreeError as error:
            failure = error
        except expat.ExpatError as error:
            failure = TreeError(f"not valid XML: {expat.errors.messages.get(error.code, 'broken')}")
        records, self.records = self.records, []
        yield from records
        if failure:
            self.line = min(self.line, self.parser.CurrentLineNumber)
            raise failure

    def _start(self, name: str, given: dict[str, str]) -> None:
        node = Node(name, self.parser.CurrentLineNumber, given)
        self.open(node)
        if name == "timestamp":
            self.records.extend(self.element(node))
        elif name == "host":
            self.records.extend(self.scalar(node.line, "nodename", given.get("nodename", "")))

    def _text(self, text: str) -> None:
        if self.stack and len(self.stack[-1].text) < MAX_NAME_CHARS * 4:
            self.stack[-1].text += text

    def _end(self, _: str) -> None:
        node = self.stack.pop()
        text, parent = node.text.strip(), self.stack[-1] if self.stack else None
        if parent is None:
            return
        if not node.children and not node.values and text:
            if parent.name == "host":
                self.records.extend(self.scalar(node.line, node.name, text))
            else:
                parent.values[node.name] = text
        elif node.values and node.name != "timestamp":
            self.records.extend(self.element(node, parent.name))

    def _refuse(self, *_: object) -> None:
        raise TreeError("it declares entities, which sadf never does")


def _read_tree(source: Source, content: Content, form: type[JsonTree | XmlTree]) -> Iterator[Record]:
    odd, undecoded = ParseErrors(source, NAME), LineDamage()
    tree = form(Rows(source, odd))
    try:
        for tree.line, text in numbered_lines(content, undecoded, MAX_LINE_BYTES):
            yield from tree.feed(text)
        yield from tree.end()
    except TreeError as error:
        yield Problem(source.cite(tree.line), f"{error}; what precedes it was read", ProblemKind.DAMAGED, NAME)
    yield from undecoded_problems(source, undecoded, NAME)
    yield from odd.problems()


MIN_BULK_BYTES = 64 * 1024  # shorter rows are read line by line
_JSON = re.compile(rb'\s*\{\s*"sysstat"\s*:')
_XML = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]{0,200}\?>\s*)?"
    rb"(?:<sysstat[\s>]|<!DOCTYPE\s+(?:sysstat\b|\w+[^<]{0,200}\bsysstat\b))"
)
_OPENS = re.compile(f"{D_HEADER.pattern}|{P_ROW.pattern}")
_HEAD_BYTES = 1 << 16  # start of the member that decides its form

belongs = any_of(D_HEADER, D_ROW, P_ROW, P_RESTART)


def _form(head: bytes) -> type[JsonTree | XmlTree] | None:
    return JsonTree if _JSON.match(head) else XmlTree if _XML.match(head) else None


def _claims(path: str, head: bytes, size: int | None) -> bool:
    """Whether a member is JSON or XML of any size, or long and nothing but rows."""
    if _form(head):
        return True
    lines = head.decode("utf-8", "replace").split("\n")[:-1]
    if len(head) < MIN_BULK_BYTES or not lines or not _OPENS.match(lines[0]):
        return False
    return all(belongs(text.rstrip("\r")) for text in lines[:: max(len(lines) // 200, 1)])


def read_bulk(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """The same as columns: a Series per entity."""
    from thpdiag.parsers._table import as_series  # imports numpy, so only where there is a recording

    head = b""
    while len(head) < _HEAD_BYTES and (chunk := next(content.chunks, b"")):
        head += chunk
    whole = Content(chain((head,), content.chunks), content.size)
    if form := _form(head):
        yield from as_series(_read_tree(source, whole, form))
    else:
        yield from parse_member(source, whole, NAME, read)


PARSER = Parser(NAME, "sadf rows, JSON and XML", read, opens=_OPENS, continues=belongs)
BULK_PARSER = BulkParser(
    NAME, PARSER.title, _claims, read_bulk,
    opens=re.compile(_JSON.pattern + b"|" + _XML.pattern + rb"|# hostname;interval|[^;\s]{1,255}\t-?\d{1,9}\t\d"),
)  # fmt: skip
