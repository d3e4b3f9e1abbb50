"""pprof: profiles as protocol buffers (mostly within gzip), and the text of `pprof -top`.

    message Profile { sample_type = 1; sample = 2; mapping = 3; location = 4; function = 5; string_table = 6; ...
                      time_nanos = 9; duration_nanos = 10; period_type = 11; period = 12; default_sample_type = 14 }

A sample is a list of locations, leaf first, and a value for each type; a location has several lines where functions
were inlined, the innermost first. The type is `cpu` in nanoseconds where there is one, else `samples` or the default.
Types of memory, locks and blocking are not CPU time. Kernel functions are those of a mapping named [kernel.kallsyms] or
vmlinux; Go's own profiler and gperftools record only the program, so then nothing is known of the kernel. The labels
`comm`, `thread_name`, `pid` and `tid` are the task. Locations without functions are nameless. Citations have the number
of the sample.

    File: churn
    Type: cpu
    Duration: 10.06s, Total samples = 4.16s (41.37%)
    Showing nodes accounting for 3.90s, 93.69% of 4.16s total
    Dropped 35 nodes (cum <= 0.02s)
          flat  flat%   sum%        cum   cum%
         0.95s 22.84% 22.84%      0.95s 22.84%  clear_page_erms

The text has the share of each function alone, and with its callees. Source: google/pprof proto/profile.proto,
internal/report/report.go; protocol buffers' wire format; recorded with google/pprof of November 2026.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from thpdiag.model import Citation, Measure, Problem, ProblemKind, Record, Stacks, Task
from thpdiag.model.parser import BulkParser, Content, Foreign, Lines, Parser, Source
from thpdiag.model.profile import Inclusive
from thpdiag.parsers._lines import ParseErrors, any_of, any_of_first, printable
from thpdiag.parsers.stacks._stacks import MAX_BYTES, MAX_DEPTH, MAX_NAME_CHARS, StackBuilder, read_bytes

NAME = "pprof"
ALTERNATIVE = "send the text of `pprof -traces`, or of `perf script`"
_KERNEL = re.compile(r"\[?(?:guest\.)?kernel(?:\.\w+)?\]?|.*/?vmlinu[xz][^/]{0,80}|.*\.ko(?:\.\w{2,3})?")
_CPU = ("cpu", "on-cpu", "oncpu", "samples", "sample", "cycles", "cpu-clock", "cpu-cycles", "task-clock")
_OFF_CPU = ("off-cpu", "offcpu", "off_cpu")
_FIRST_FIELDS = re.compile(rb"(?s:\x0a.[\x08\x10]|\x32\x00|\x48[\x80-\xff]{7,9}|[\x12\x5a].[\x08\x0a])")
MIN_FIELDS = 3  # that fit before bytes of any name count as a profile


class _DamagedError(Exception):
    """The bytes are not a valid message."""


class Field(NamedTuple):
    """A field of a message: its number, and its value or the range of its bytes."""

    number: int
    value: int
    start: int
    end: int


def iter_fields(data: bytes, position: int, end: int) -> Iterator[Field]:
    """Yield the fields of the message in a part of the bytes."""
    while position < end:
        key, position = read_varint(data, position, end)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise _DamagedError
        if kind == 0:
            value, position = read_varint(data, position, end)
            yield Field(number, value, 0, 0)
        elif kind == 2:
            size, position = read_varint(data, position, end)
            if size > end - position:
                raise _DamagedError
            yield Field(number, 0, position, position + size)
            position += size
        elif kind in (1, 5):
            position += 8 if kind == 1 else 4
            if position > end:
                raise _DamagedError
        else:
            raise _DamagedError


def read_varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Return the number at a position, and the position after it."""
    value = shift = 0
    while position < end and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, position
        shift += 7
    raise _DamagedError


def read_numbers(data: bytes, item: Field) -> list[int]:
    """Return the values of a repeated number: packed, or a single one."""
    if item.end == 0:
        return [item.value]
    values, at = [], item.start
    while at < item.end:
        value, at = read_varint(data, at, item.end)
        values.append(value)
    return values


@dataclass(slots=True)
class _ProfileTables:
    """The tables of a profile by id; texts are indices of `strings` until all is read."""

    strings: list[str] = field(default_factory=list)
    types: list[tuple[int, int]] = field(default_factory=list)
    samples: list[Field] = field(default_factory=list)
    mappings: dict[int, int] = field(default_factory=dict)
    locations: dict[int, tuple[int, list[int]]] = field(default_factory=dict)  # (mapping, functions)
    functions: dict[int, int] = field(default_factory=dict)
    default: int = 0

    def text(self, number: int) -> str:
        return self.strings[number] if 0 <= number < len(self.strings) else ""


def read(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """One profile."""
    data, cut = read_bytes(content)
    if data[:2] == b"\x1f\x8b":
        data, cut = _inflate(data)
    if cut:
        text = f"a pprof that is cut, or too large to be read as a whole; {ALTERNATIVE}"
        yield Problem(Citation(source.member), text, ProblemKind.LIMIT, NAME)
    message = _ProfileTables()
    try:
        for message_field in iter_fields(data, 0, len(data)):
            _take_field(data, message_field, message)
    except _DamagedError:
        text = f"a pprof that is damaged: what is beyond was not read; {ALTERNATIVE}"
        yield Problem(Citation(source.member), text, ProblemKind.DAMAGED, NAME)
    yield from _profiles(source, data, message)


def _inflate(data: bytes) -> tuple[bytes, bool]:
    """Return the decompressed bytes up to a limit, and whether there are more or the end is missing."""
    unpack = zlib.decompressobj(31)
    try:
        plain = unpack.decompress(data, MAX_BYTES)
    except zlib.error:
        return b"", True
    return plain, not unpack.eof


def _take_field(data: bytes, item: Field, message: _ProfileTables) -> None:
    """Take a field of the profile."""
    if item.number == 2:
        message.samples.append(item)
    elif item.number == 4:
        _take_location(data, item, message)
    elif item.number == 6:
        message.strings.append(data[item.start : min(item.end, item.start + MAX_NAME_CHARS)].decode("utf-8", "replace"))
    elif item.number == 14:
        message.default = item.value
    elif item.number in (1, 3, 5):
        inner = {f.number: f.value for f in iter_fields(data, item.start, item.end)}
        if item.number == 1:
            message.types.append((inner.get(1, 0), inner.get(2, 0)))
        elif item.number == 3:
            message.mappings[inner.get(1, 0)] = inner.get(5, 0)
        else:
            message.functions[inner.get(1, 0)] = inner.get(2, 0) or inner.get(3, 0)


def _take_location(data: bytes, item: Field, message: _ProfileTables) -> None:
    """Take a location: its mapping, and the functions that were inlined there, the innermost first."""
    id_ = mapping = 0
    functions: list[int] = []
    for part in iter_fields(data, item.start, item.end):
        if part.number == 1:
            id_ = part.value
        elif part.number == 2:
            mapping = part.value
        elif part.number == 4 and len(functions) < MAX_DEPTH:
            line = {f.number: f.value for f in iter_fields(data, part.start, part.end)}
            functions.append(line.get(1, 0))
    message.locations[id_] = (mapping, functions)


def _profiles(source: Source, data: bytes, message: _ProfileTables) -> Iterator[Record]:
    names = [message.text(kind) for kind, _ in message.types]
    type_index = _choose_type(names, message.text(message.default))
    units = [message.text(unit) for _, unit in message.types]
    count_index = next((place for place, name in enumerate(names) if name in ("samples", "sample")), None)
    builder = StackBuilder()
    known: dict[int, list[int]] = {}
    for number, sample in enumerate(message.samples, 1):
        try:
            _add_sample(source.cite(number), data, sample, message, builder, known, (type_index, count_index))
        except _DamagedError:
            builder.count_odd("damaged")
    if builder.odd:
        reasons = ", ".join(f"{reason} ({number})" for reason, number in builder.odd.items())
        text = f"samples of pprof that are left out: {reasons}"
        yield Problem(Citation(source.member), text, ProblemKind.ODD, NAME, sum(builder.odd.values()))
    if builder.first is None:
        text = f"a pprof without samples; {ALTERNATIVE}"
        yield Problem(Citation(source.member), text, ProblemKind.UNREADABLE, NAME)
        return
    kind, unit = (names[type_index], units[type_index]) if names else ("", "")
    yield builder.profile(NAME, Citation(source.member), event=printable(kind)[:80], measures=_measure(kind, unit))


def _choose_type(names: list[str], default: str) -> int:
    """Return the index of the type: CPU time, else the default, else the last, as pprof does."""
    for wanted in ("cpu", *_CPU, default):
        if wanted in names:
            return names.index(wanted)
    return max(0, len(names) - 1)


def _measure(kind: str, unit: str) -> Measure | None:
    if kind in _OFF_CPU:
        return Measure.OFF_CPU
    if kind in ("samples", "sample", ""):
        return None
    return Measure.CPU if kind in _CPU and unit != "bytes" else Measure.OTHER


def _add_sample(
    cite: Citation, data: bytes, sample: Field, message: _ProfileTables, builder: StackBuilder,
    known: dict[int, list[int]], columns: tuple[int, int | None],
) -> None:  # fmt: skip
    """Add a sample; locations that the profile lacks are omitted."""
    locations: list[int] = []
    values: list[int] = []
    labels: dict[str, str] = {}
    for part in iter_fields(data, sample.start, sample.end):
        if part.number == 1 and len(locations) < MAX_DEPTH:
            locations += read_numbers(data, part)
        elif part.number == 2:
            values += read_numbers(data, part)
        elif part.number == 3:
            inner = {f.number: f.value for f in iter_fields(data, part.start, part.end)}
            labels[message.text(inner.get(1, 0))] = message.text(inner[2]) if inner.get(2) else str(inner.get(3, ""))
    chain: list[int] = []
    for location in locations[:MAX_DEPTH]:
        if location not in known:
            known[location] = _frames(message, builder, location)
        chain += known[location]
    value, counts = columns
    weight = values[value] if value < len(values) else 0
    samples = values[counts] if counts is not None and counts < len(values) else 1
    if weight == 0:  # it has values of other types only
        return
    builder.add(chain, float(weight), cite, _task(labels), min(samples, 1 << 40))


def _frames(message: _ProfileTables, builder: StackBuilder, location: int) -> list[int]:
    mapping, functions = message.locations.get(location, (0, []))
    file = printable(message.text(message.mappings.get(mapping, 0)))
    kernel = bool(_KERNEL.fullmatch(file)) if file else None
    names = [message.text(message.functions.get(number, 0)) for number in functions] or [""]
    return [builder.frame(name, file, kernel=kernel) for name in names]


def _task(labels: dict[str, str]) -> Task:
    def integer(*names: str) -> int | None:
        text = next((labels[name] for name in names if name in labels), "")
        return int(text) if text.isdigit() and len(text) <= 10 else None

    comm = next((labels[name] for name in ("comm", "thread_comm", "thread_name", "thread") if name in labels), "")
    return Task(printable(comm)[:64], integer("pid", "process_id"), integer("tid", "thread_id"))


def _is_message(path: str, head: bytes, size: int | None) -> bool:
    """Whether the bytes are a profile: the name indicates it, or the fields fit and the string table begins with ""."""
    if head[:2] == b"\x1f\x8b":
        head = zlib.decompressobj(31).decompress(head, 1 << 16) if len(head) > 20 else b""
    is_named = re.search(r"(?:^|/)[^/]{0,120}(?:\.pb(?:\.gz)?|\.pprof|\.prof|\.profile)$", path) is not None
    if not _FIRST_FIELDS.match(head):
        return False
    items: list[Field] = []
    try:
        for item in iter_fields(head, 0, len(head)):
            items.append(item)
            if len(items) >= 200:
                break
    except _DamagedError:
        pass
    kinds = {item.number for item in items}
    if not items or not kinds <= set(range(1, 16)) or any(item.end == 0 for item in items if item.number <= 6):
        return False
    has_empty_string = any(item.number == 6 and item.start == item.end for item in items)
    sample_type = next((item for item in items if item.number == 1), None)
    try:
        inner = {f.number for f in iter_fields(head, sample_type.start, sample_type.end)} if sample_type else {0}
    except _DamagedError:
        return False
    return (inner <= {1, 2} and (len(items) > MIN_FIELDS or is_named)) or (has_empty_string and is_named)


def claims(path: str, head: bytes, size: int | None) -> bool:
    """Whether a member is a profile, compressed or not."""
    try:
        return _is_message(path, head, size)
    except zlib.error:
        return False


BULK_PARSER = BulkParser(
    NAME, "pprof (protocol buffers)", claims, read,
    opens=re.compile(rb"(?s:\x1f\x8b|\x0a.[\x08\x10]|\x32\x00|\x48[\x80-\xff]{7,9}|[\x12\x5a].[\x08\x0a])"),
)  # fmt: skip


# Text

_HEADER = re.compile(r"\s{2,10}flat\s{1,4}flat%\s{1,4}sum%\s{2,12}cum\s{1,4}cum%\s*$")
_AMOUNT = r"-?[\d.]{1,16}[A-Za-z]{0,12}"
_ROW = re.compile(
    rf"\s{{0,12}}{_AMOUNT}\s{{1,8}}(?P<flat>\d{{1,5}}(?:\.\d{{1,4}})?)%\s{{1,8}}[\d.]{{1,8}}%\s{{1,12}}{_AMOUNT}\s{{1,8}}"
    r"(?P<cum>\d{1,5}(?:\.\d{1,4})?)%\s\s(?P<name>\S.{0,1000})$"
)
_TOP_OPENS = re.compile(r"File: \S|Type: \w|Showing nodes accounting for|\s{2,10}flat\s{1,4}flat%")
_TYPE = re.compile(r"Type: (?P<type>\S{1,60})")
_OTHER_LINES = re.compile(
    r"(?:File|Build ID|Type|Time|Duration|Comment|Active filters|PeriodType|Period): ?|Showing |Dropped \d"
    r"|Total samples|\s{3}\S.{0,200}$|\s*$|\(pprof\)"
)


def read_top(source: Source, lines: Lines) -> Iterator[Record]:
    """A profile without callers, in percent."""
    builder, odd = StackBuilder(), ParseErrors(source, NAME)
    inclusive: list[Inclusive] = []
    kind, first, total = "", None, 0.0
    for number, text in lines:
        if match := _ROW.match(text):
            name, flat, cum = match["name"].strip(), float(match["flat"]), float(match["cum"])
            inlined = name.removesuffix(" (inline)").removesuffix(" (partial-inline)")
            frame = builder.frame(inlined)
            first = first or source.cite(number, text)
            if flat > 0:
                builder.add([frame], flat, source.cite(number, text))
                total += flat
            inclusive.append(Inclusive(frame, "", cum, number))
        elif match := _TYPE.match(text):
            kind = match["type"]
        elif not (_HEADER.match(text) or _OTHER_LINES.match(text)):
            odd.note(number, text, "not a line of pprof table")
    yield from odd.problems()
    if first is not None:
        profile = builder.profile(
            NAME, first, event=printable(kind), measures=_measure(kind or "cpu", ""), stacks=Stacks.NONE,
            unlisted=max(0.0, round(100.0 - total, 2)), percent=True,
        )  # fmt: skip
        yield replace(profile, inclusive=tuple(inclusive))


TOP_PARSER = Parser(
    NAME, "pprof -top", read_top, opens=_TOP_OPENS, continues=any_of(_ROW, _HEADER, _OTHER_LINES),
    confirm=any_of_first(15, _HEADER), lookahead=14,
)  # fmt: skip
