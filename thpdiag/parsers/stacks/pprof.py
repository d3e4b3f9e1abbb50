"""pprof: profiles as protocol buffers (mostly within gzip), and the text of `pprof -top`.

    message Profile { sample_type = 1; sample = 2; mapping = 3; location = 4; function = 5; string_table = 6; ...
                      time_nanos = 9; duration_nanos = 10; period_type = 11; period = 12; default_sample_type = 14 }

A sample is a list of locations, leaf first, and a value for each type; a location has several lines where functions
were inlined, the innermost first. The type is `cpu` in nanoseconds where there is one, else `samples` or the default.
Types of memory, locks and blocking are no CPU time. Kernel functions are those of a mapping named [kernel.kallsyms] or
vmlinux; Go's own profiler and gperftools see the program alone, so then nothing is known of the kernel. Labels `comm`,
`thread_name`, `pid`, `tid` tell the task. Locations without functions keep their address: they are nameless.
What is cited is the number of the sample.

    File: churn
    Type: cpu
    Duration: 10.06s, Total samples = 4.16s (41.37%)
    Showing nodes accounting for 3.90s, 93.69% of 4.16s total
    Dropped 35 nodes (cum <= 0.02s)
          flat  flat%   sum%        cum   cum%
         0.95s 22.84% 22.84%      0.95s 22.84%  clear_page_erms

Text tells shares of each function alone, and with all that it calls. Source: google/pprof proto/profile.proto,
internal/report/report.go; protocol buffers' wire format; recorded with google/pprof of November 2026.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from thpdiag.model import Citation, Measure, Problem, ProblemKind, Record, Stacks, Task
from thpdiag.model.parser import BulkParser, Content, Foreign, Lines, Parser, Source
from thpdiag.model.profile import Inclusive
from thpdiag.parsers._lines import ParseErrors, any_of, any_of_first, printable
from thpdiag.parsers.stacks._stacks import MAX_BYTES, MAX_DEPTH, MAX_NAME, StackBuilder, bytes_of

NAME = "pprof"
MAX_FIELDS = 20_000_000
INSTEAD = "send the text of `pprof -traces`, or of `perf script`"
_KERNEL = re.compile(r"\[?(?:guest\.)?kernel(?:\.\w+)?\]?|.*/?vmlinu[xz][^/]{0,80}|.*\.ko(?:\.\w{2,3})?")
_CPU = ("cpu", "on-cpu", "oncpu", "samples", "sample", "cycles", "cpu-clock", "cpu-cycles", "task-clock")
_OFF_CPU = ("off-cpu", "offcpu", "off_cpu")
_WALL = ("wall", "wallclock")


_BEGINS = re.compile(rb"(?s:\x0a.[\x08\x10]|\x32\x00|\x48[\x80-\xff]{7,9}|[\x12\x5a].[\x08\x0a])")
SURE = 3  # fields that fit, after which bytes are no other format's by chance


class _DamagedError(Exception):
    """The bytes are no such message."""


class Field(NamedTuple):
    """A field of a message: a number, or where its bytes are."""

    number: int
    value: int
    start: int
    end: int


def fields(data: bytes, at: int, end: int) -> Iterator[Field]:
    """The fields of the message in a part of the bytes, in order."""
    while at < end:
        key, at = varint(data, at, end)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise _DamagedError
        if kind == 0:
            value, at = varint(data, at, end)
            yield Field(number, value, 0, 0)
        elif kind == 2:
            size, at = varint(data, at, end)
            if size > end - at:
                raise _DamagedError
            yield Field(number, 0, at, at + size)
            at += size
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
            if at > end:
                raise _DamagedError
        else:
            raise _DamagedError


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The number that begins here, and where it ends."""
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
        shift += 7
    raise _DamagedError


def numbers(data: bytes, one: Field) -> list[int]:
    """A repeated number: packed, or one of them."""
    if one.end == 0:
        return [one.value]
    found, at = [], one.start
    while at < one.end:
        value, at = varint(data, at, one.end)
        found.append(value)
    return found


@dataclass(slots=True)
class _Message:
    """What the tables of a profile hold, by id; texts are numbers of `strings` until all is read."""

    strings: list[str] = field(default_factory=list)
    types: list[tuple[int, int]] = field(default_factory=list)
    samples: list[Field] = field(default_factory=list)
    mappings: dict[int, int] = field(default_factory=dict)
    locations: dict[int, tuple[int, list[int]]] = field(default_factory=dict)  # mapping, functions
    functions: dict[int, int] = field(default_factory=dict)
    default: int = 0

    def text(self, number: int) -> str:
        return self.strings[number] if 0 <= number < len(self.strings) else ""


def read(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """One profile."""
    data, cut = bytes_of(content)
    if data[:2] == b"\x1f\x8b":
        data, cut = _inflate(data)
    if cut:
        text = f"a pprof that is cut, or too large to be read as a whole; {INSTEAD}"
        yield Problem(Citation(source.member), text, ProblemKind.LIMIT, NAME)
    found = _Message()
    try:
        for one in fields(data, 0, len(data)):
            _take(data, one, found)
    except _DamagedError:
        text = f"a pprof that is damaged: what is beyond was not read; {INSTEAD}"
        yield Problem(Citation(source.member), text, ProblemKind.DAMAGED, NAME)
    yield from _profiles(source, data, found)


def _inflate(data: bytes) -> tuple[bytes, bool]:
    """What gzip packed, up to a limit, and whether there is more or an end is missing."""
    unpack = zlib.decompressobj(31)
    try:
        plain = unpack.decompress(data, MAX_BYTES)
    except zlib.error:
        return b"", True
    return plain, not unpack.eof


def _take(data: bytes, one: Field, found: _Message) -> None:
    """A field of the profile."""
    if one.number == 2:
        found.samples.append(one)
    elif one.number == 4:
        _take_location(data, one, found)
    elif one.number == 6:
        found.strings.append(data[one.start : min(one.end, one.start + MAX_NAME)].decode("utf-8", "replace"))
    elif one.number == 14:
        found.default = one.value
    elif one.number in (1, 3, 5):
        inner = {f.number: f.value for f in fields(data, one.start, one.end)}
        if one.number == 1:
            found.types.append((inner.get(1, 0), inner.get(2, 0)))
        elif one.number == 3:
            found.mappings[inner.get(1, 0)] = inner.get(5, 0)
        else:
            found.functions[inner.get(1, 0)] = inner.get(2, 0) or inner.get(3, 0)


def _take_location(data: bytes, one: Field, found: _Message) -> None:
    """Its mapping and the functions that were inlined into it, the innermost first."""
    id_ = mapping = 0
    functions: list[int] = []
    for part in fields(data, one.start, one.end):
        if part.number == 1:
            id_ = part.value
        elif part.number == 2:
            mapping = part.value
        elif part.number == 4 and len(functions) < MAX_DEPTH:
            line = {f.number: f.value for f in fields(data, part.start, part.end)}
            functions.append(line.get(1, 0))
    found.locations[id_] = (mapping, functions)


def _profiles(source: Source, data: bytes, found: _Message) -> Iterator[Record]:
    names = [found.text(kind) for kind, _ in found.types]
    at = _choose_type(names, found.text(found.default))
    units = [found.text(unit) for _, unit in found.types]
    counts = next((place for place, name in enumerate(names) if name in ("samples", "sample")), None)
    builder = StackBuilder()
    known: dict[int, list[int]] = {}
    for number, one in enumerate(found.samples, 1):
        try:
            _sample(source.cite(number), data, one, found, builder, known, (at, counts))
        except _DamagedError:
            builder.leave_out("damaged")
    if builder.odd:
        reasons = ", ".join(f"{reason} ({number})" for reason, number in builder.odd.items())
        text = f"samples of pprof that are left out: {reasons}"
        yield Problem(Citation(source.member), text, ProblemKind.ODD, NAME, sum(builder.odd.values()))
    if builder.first is None:
        text = f"a pprof without samples; {INSTEAD}"
        yield Problem(Citation(source.member), text, ProblemKind.UNREADABLE, NAME)
        return
    kind, unit = (names[at], units[at]) if names else ("", "")
    yield builder.profile(NAME, Citation(source.member), event=printable(kind)[:80], measures=_measure(kind, unit))


def _choose_type(names: list[str], default: str) -> int:
    """Which type is read: CPU time, else the default, else the last, as pprof does."""
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


def _sample(
    cite: Citation, data: bytes, one: Field, found: _Message, builder: StackBuilder, known: dict[int, list[int]],
    columns: tuple[int, int | None],
) -> None:  # fmt: skip
    """A sample; of locations that are not in the profile it has none."""
    locations: list[int] = []
    values: list[int] = []
    labels: dict[str, str] = {}
    for part in fields(data, one.start, one.end):
        if part.number == 1 and len(locations) < MAX_DEPTH:
            locations += numbers(data, part)
        elif part.number == 2:
            values += numbers(data, part)
        elif part.number == 3:
            inner = {f.number: f.value for f in fields(data, part.start, part.end)}
            labels[found.text(inner.get(1, 0))] = found.text(inner[2]) if inner.get(2) else str(inner.get(3, ""))
    chain: list[int] = []
    for location in locations[:MAX_DEPTH]:
        if location not in known:
            known[location] = _frames(found, builder, location)
        chain += known[location]
    value, counts = columns
    weight = values[value] if value < len(values) else 0
    samples = values[counts] if counts is not None and counts < len(values) else 1
    if weight == 0:  # of the other types only
        return
    builder.add(chain, float(weight), cite, _task(labels), min(samples, 1 << 40))


def _frames(found: _Message, builder: StackBuilder, location: int) -> list[int]:
    mapping, functions = found.locations.get(location, (0, []))
    file = printable(found.text(found.mappings.get(mapping, 0)))
    kernel = bool(_KERNEL.fullmatch(file)) if file else None
    names = [found.text(found.functions.get(number, 0)) for number in functions] or [""]
    return [builder.frame(name, file, kernel=kernel) for name in names]


def _task(labels: dict[str, str]) -> Task:
    def number(*names: str) -> int | None:
        text = next((labels[name] for name in names if name in labels), "")
        return int(text) if text.isdigit() and len(text) <= 10 else None

    comm = next((labels[name] for name in ("comm", "thread_comm", "thread_name", "thread") if name in labels), "")
    return Task(printable(comm)[:64], number("pid", "process_id"), number("tid", "thread_id"))


def _is_message(path: str, head: bytes, size: int | None) -> bool:
    """Whether the bytes are such a message: a name that says so, or fields in which a string table begins with ""."""
    if head[:2] == b"\x1f\x8b":
        head = zlib.decompressobj(31).decompress(head, 1 << 16) if len(head) > 20 else b""
    named = re.search(r"(?:^|/)[^/]{0,120}(?:\.pb(?:\.gz)?|\.pprof|\.prof|\.profile)$", path) is not None
    if not _BEGINS.match(head):
        return False
    seen: list[Field] = []
    try:
        for one in fields(head, 0, len(head)):
            seen.append(one)
            if len(seen) >= 200:
                break
    except _DamagedError:
        pass
    kinds = {one.number for one in seen}
    if not seen or not kinds <= set(range(1, 16)) or any(one.end == 0 for one in seen if one.number <= 6):
        return False
    empty = any(one.number == 6 and one.start == one.end for one in seen)
    typed = next((one for one in seen if one.number == 1), None)
    try:
        inner = {f.number for f in fields(head, typed.start, typed.end)} if typed else {0}
    except _DamagedError:
        return False
    return (inner <= {1, 2} and (len(seen) > SURE or named)) or (empty and named)


def claims(path: str, head: bytes, size: int | None) -> bool:
    """Whether a member is such a profile, packed or not."""
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
_AROUND = re.compile(
    r"(?:File|Build ID|Type|Time|Duration|Comment|Active filters|PeriodType|Period): ?|Showing |Dropped \d"
    r"|Total samples|\s{3}\S.{0,200}$|\s*$|\(pprof\)"
)


def read_top(source: Source, lines: Lines) -> Iterator[Record]:
    """A profile without callers, in percent."""
    builder, odd = StackBuilder(), ParseErrors(source, NAME)
    inclusive: list[Inclusive] = []
    kind, first, shown = "", None, 0.0
    for number, text in lines:
        if match := _ROW.match(text):
            name, flat, cum = match["name"].strip(), float(match["flat"]), float(match["cum"])
            inlined = name.removesuffix(" (inline)").removesuffix(" (partial-inline)")
            frame = builder.frame(inlined)
            first = first or source.cite(number, text)
            if flat > 0:
                builder.add([frame], flat, source.cite(number, text))
                shown += flat
            inclusive.append(Inclusive(frame, "", cum, number))
        elif match := _TYPE.match(text):
            kind = match["type"]
        elif not (_HEADER.match(text) or _AROUND.match(text)):
            odd.note(number, text, "not a line of pprof table")
    yield from odd.problems()
    if first is not None:
        from dataclasses import replace

        found_ = builder.profile(
            NAME, first, event=printable(kind), measures=_measure(kind or "cpu", ""), stacks=Stacks.NONE,
            unlisted=max(0.0, round(100.0 - shown, 2)), percent=True,
        )  # fmt: skip
        yield replace(found_, inclusive=tuple(inclusive))


TOP_PARSER = Parser(
    NAME, "pprof -top", read_top, opens=_TOP_OPENS, continues=any_of(_ROW, _HEADER, _AROUND),
    confirm=any_of_first(15, _HEADER), lookahead=14,
)  # fmt: skip
