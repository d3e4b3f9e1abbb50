"""Input: every member that may contain evidence is detected and parsed; plus what became of each and all problems.

Large recordings (a day has millions of rows) become columns. Of repeated facts, such as the command of a process in
each listing or the banner of each report, only the first is kept.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from time import monotonic
from typing import BinaryIO, Literal, NamedTuple

from thpdiag.bundle import Member, members
from thpdiag.bundle.codecs import CHUNK
from thpdiag.bundle.limits import interrupt_when_out_of_time, out_of_cpu_time
from thpdiag.bundle.member import NON_TEXT_BYTES, utf16_of, without_padding
from thpdiag.bundle.open import STDIN, is_rereadable
from thpdiag.detect import Detector, TaggedRecord
from thpdiag.detect.session_clock import Group
from thpdiag.detect.text_parts import TEXT_PART
from thpdiag.detect.transcript import clean
from thpdiag.host.captures import collector_failures, drop_link_copies
from thpdiag.host.excerpts import MAX_CACHE_BYTES, TextCache, reread
from thpdiag.host.options import Options
from thpdiag.host.series import sampling_interval
from thpdiag.host.sibling_files import SpooledMembers, is_recording, sibling_files
from thpdiag.knowledge.paths import is_tail, is_wanted, system_path
from thpdiag.model import (
    Citation,
    Event,
    Fact,
    InputRecord,
    Listing,
    Problem,
    ProblemKind,
    Profile,
    Record,
    Sample,
    Series,
    SymbolList,
    SymbolTable,
)
from thpdiag.model.case import begin_of, end_of
from thpdiag.model.parser import Content, OutOfTimeError
from thpdiag.parsers import bulk_formats, line_formats

MAX_EXTRA_RECORDS = 10_000  # above the number of bytes of a member: more means that a parser does not advance
MAX_ROW_NUMBERS = 50_000  # up to here rows stay rows, which costs less than loading numpy
NUMBERS_PER_ROW = 10  # numbers that take as much memory as the rest of a row
BANNER_FACTS = frozenset(("host.name", "kernel.release", "cpu.count"))  # OSWatcher repeats sysstat's first line
FIRST_BYTES, FIRST_LINE = 1024, 80  # examined, and shown, of a member without a parser
_NEVER_EMPTY = re.compile(r"proc/(?:meminfo|vmstat|buddyinfo|zoneinfo|stat|loadavg|uptime|version|cpuinfo|interrupts)")
MAX_NOISE = 0.05  # share of NUL bytes, or of control characters, in the head of a text
Place = tuple[str, int, int]


class Step(NamedTuple):
    """The progress of an analysis: bytes read, rules evaluated, or reports written.

    A `total` of 0 is unknown. `what` is the current item; `files` counts members including the current one; `places`
    name the host, state and window in which rules are evaluated: a noun, its number, and how many there are.
    """

    stage: Literal["read", "judge", "write"]
    done: int = 0
    total: int = 0
    what: str = ""
    files: int = 0
    places: tuple[Place, ...] = ()


Progress = Callable[[Step], None]


def throttle(show: Progress, seconds: float) -> Progress:
    """Return a function that passes on the first and last step of each stage, and one per `seconds` in between."""
    last: Step | None = None
    due = 0.0

    def take(step: Step) -> None:
        nonlocal last, due
        previous, last = last, step
        is_new = previous is None or previous.stage != step.stage
        if previous and is_new:
            show(previous)
        if is_new or monotonic() >= due:
            show(step)
            due = monotonic() + seconds

    return take


@dataclass(frozen=True, slots=True)
class ParsedInput:
    """Everything that was read: readings by member, what became of each member, and problems.

    `texts` caches the texts of members. `parts` are the parts of texts that were not written in the order of their
    lines.
    """

    readings: Mapping[str, Sequence[TaggedRecord]]
    inputs: Sequence[InputRecord]
    problems: Sequence[Problem]
    texts: TextCache = field(default_factory=TextCache)
    parts: Mapping[str, Sequence[Event]] = field(default_factory=dict)


def read_input(
    paths: Sequence[Path], options: Options, *, stdin: BinaryIO | None = None, progress: Progress | None = None
) -> ParsedInput:
    """Detect and parse every member that may contain evidence."""
    detector = Detector(line_formats(), strict=options.strict)
    builder = _InputBuilder(texts=TextCache(MAX_CACHE_BYTES) if STDIN in paths else TextCache())
    inputs = [*paths, *sibling_files(paths)]
    count = _ReadingCount(progress, Step("read", total=_total_bytes(inputs))) if progress else None
    arriving = members(inputs, is_wanted, options.limits, stdin, count.read if count else None)
    # Symbol lists are read once if a recording is named here that needs them; few recordings are in archives.
    rereadable = all(is_rereadable(path) for path in paths) and not any(map(is_recording, paths))
    try:
        with SpooledMembers() as spooled, interrupt_when_out_of_time(options.limits.cpu_seconds):
            builder.read(arriving, detector, spooled, rereadable=rereadable, count=count)
    except OutOfTimeError:
        text = out_of_cpu_time(options.limits)
        builder.problems.append(Problem(Citation(builder.member), text, ProblemKind.LIMIT, hides=True))
    builder.problems += collector_failures(builder.readings)
    readings: Mapping[str, Sequence[TaggedRecord]] = builder.readings
    if len(readings) > 1:
        readings = drop_link_copies(readings, builder.inputs)
    if any(isinstance(r.record, Profile | SymbolList | SymbolTable) for rows in readings.values() for r in rows):
        from thpdiag.host.kernel_symbols import symbolize_profiles  # loads numpy

        reread_lists = partial(_reread_lists, builder.inputs, paths, options, detector)
        readings, notices = symbolize_profiles(readings, detector, reread_lists)
        builder.problems += notices
    return ParsedInput(
        {member: readings[member] for member in sorted(readings, key=_folder_order)},
        sorted(builder.inputs, key=lambda i: _folder_order(i.member)),
        sorted(builder.problems, key=lambda p: _folder_order(p.cite.member)),
        builder.texts,
        builder.parts,
    )


class _ReadingCount:
    """Counts the bytes and members that were read, for the progress display."""

    def __init__(self, progress: Progress, step: Step) -> None:
        self._progress, self._step = progress, step
        progress(step)

    def read(self, done: int) -> None:
        self._step = self._step._replace(done=done)
        self._progress(self._step)

    def begin(self, member: str) -> None:
        self._step = self._step._replace(what=member, files=self._step.files + 1)
        self._progress(self._step)


def _total_bytes(inputs: Sequence[Path]) -> int:
    """Return the number of bytes to read, 0 if it is unknown beforehand: folders, pipes."""
    return sum(path.stat().st_size for path in inputs) if all(map(Path.is_file, inputs)) else 0


@dataclass(slots=True)
class _InputBuilder:
    """Everything that was read so far; `member` is the current one."""

    member: str = ""
    readings: dict[str, list[TaggedRecord]] = field(default_factory=dict)
    inputs: list[InputRecord] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    texts: TextCache = field(default_factory=TextCache)
    parts: dict[str, list[Event]] = field(default_factory=dict)
    absolute: dict[str, list[str]] = field(default_factory=dict)  # members with absolute names, by archive
    relative: set[str] = field(default_factory=set)  # archives that have members with relative names

    def read(
        self, arriving: Iterable[Member | Problem], detector: Detector, spooled: SpooledMembers,
        *, rereadable: bool, count: _ReadingCount | None,
    ) -> None:  # fmt: skip
        """Read the members as they arrive."""
        spooled_members: list[tuple[Member, str]] = []
        for member in arriving:
            if isinstance(member, Problem):
                self.problems.append(member)
                continue
            self.member = member.path
            if count:
                count.begin(member.path)
            begin = _first_line(member)
            self.texts.watch(member)
            readings = _read_member(member, detector, spooled, rereadable=rereadable)
            member.finish()
            if readings is None:
                spooled_members.append((member, begin))
            else:
                self.add(member, readings, begin)
        for member, begin in spooled_members:
            self.add(member, spooled.read(member.path, detector), begin)
        self._reject_absolute_names()

    def _reject_absolute_names(self) -> None:
        """Reject members with absolute names if others are relative: a copy of a host's files has only one kind."""
        for archive in sorted(self.relative & self.absolute.keys()):
            rejected = set(self.absolute[archive])
            for member in rejected:
                del self.readings[member]
            self.inputs = [row for row in self.inputs if row.member not in rejected]
            self.problems = [p for p in self.problems if p.cite.member not in rejected]
            text = "has an absolute name beside relative ones in its archive and is not taken for a file of the host"
            cite, count = Citation(min(rejected)), len(rejected)
            self.problems.append(Problem(cite, text, ProblemKind.REFUSED, count=count, hides=True))

    def add(self, member: Member, readings: Sequence[TaggedRecord], begin: str) -> None:
        """Add the readings of a member; `begin` is its first line."""
        if member.absolute:
            self.absolute.setdefault(member.archive, []).append(member.path)
        else:
            self.relative.add(member.archive)
        if parts := [r.record for r in readings if isinstance(r.record, Event) and r.record.kind == TEXT_PART]:
            self.parts[member.path] = parts
            readings = [r for r in readings if r.record not in parts]
        self.readings.setdefault(member.path, []).extend(readings)
        problems = [r.record for r in readings if isinstance(r.record, Problem)]
        if member.was_read_as_lines and len(problems) < len(readings):
            self.texts.add(member)
        self.problems += [*problems, *member.problems]
        rows = _input_records(member, readings, len(problems) + len(member.problems))
        self.inputs += [row if row.reader else row._replace(size=member.length, first_line=begin) for row in rows]


def _reread_lists(
    inputs: Sequence[InputRecord], paths: Sequence[Path], options: Options, detector: Detector, partial: set[str]
) -> dict[str, list[TaggedRecord]]:
    """Return the complete symbol lists of these members."""
    wanted = {member: {row.sha256 for row in inputs if row.member == member} for member in partial}
    lists: dict[str, list[TaggedRecord]] = {}
    for member in reread(wanted, paths, options.limits):
        readings = _read_member(member, detector, SpooledMembers(), rereadable=False) or ()
        member.finish()
        if member.sha256 in wanted[member.path]:
            lists.setdefault(member.path, []).extend(r for r in readings if isinstance(r.record, SymbolList))
    return lists


def _folder_order(member: str) -> list[str]:
    """Return a key for directory order, so that results do not depend on the order of an archive."""
    return member.split("/")


def _read_member(
    member: Member, detector: Detector, spooled: SpooledMembers, *, rereadable: bool
) -> list[TaggedRecord] | None:
    """Return the readings of a member, None if it is spooled. `rereadable`: it can be read a second time."""
    head = member.head()
    paths = [system_path(path) or path for path in (member.path, *member.aliases)]
    claiming = (f.load() for f in bulk_formats() if any(f.claims(path, head, member.size) for path in paths))
    if reader := next(claiming, None):
        if spooled.spool(member, reader, paths):
            return None
        chunks = member.chunks() if b"\0" in head else member.chunks_of_lines()
        on_demand = rereadable and reader.on_demand
        if on_demand:
            member.keep(0)
        content = Content(chunks, member.size, member.file, again=on_demand)
        return list(_limit_records(member, detector.bulk(reader, member.path, content)))
    if (text := _unusable_reason(head, member.size, paths)) is not None:
        return [TaggedRecord(Problem(Citation(member.path), text, ProblemKind.UNRECOGNISED), "", ("", ""))]
    # The first line of a tail may be incomplete.
    lines = islice(member.lines(), 1, None) if is_tail(member.path) else member.lines()
    begin = head.decode(utf16_of(head) or "utf-8", "replace")
    return fold_rows(_limit_records(member, detector.read_listings(member.path, lines, begin, member.aliases)))


def _limit_records(member: Member, readings: Iterable[TaggedRecord]) -> Iterator[TaggedRecord]:
    """Yield the readings, until there are more records than bytes: then the parser does not advance."""
    for number, reading in enumerate(readings):
        if number > max(member.length, member.size or 0) + MAX_EXTRA_RECORDS:
            text = f"a bug in thpdiag: parser {reading.reader} does not advance; the rest was not read"
            yield replace(reading, record=Problem(Citation(member.path), text, ProblemKind.BUG, reading.reader))
            return
        yield reading


def _unusable_reason(head: bytes, size: int | None, paths: Iterable[str]) -> str | None:
    """Return why a member with this head cannot be read as text, None if it can."""
    if size == 0 and any(map(_NEVER_EMPTY.fullmatch, paths)):
        return "empty, as tar copies files of /proc, whose size is 0: copy them with cat or cp -r"
    return "not text" if _is_noise(head) else None


def _is_noise(head: bytes) -> bool:
    """Whether a member with this head is no text. Of short members only NUL bytes count: parsing them costs little."""
    if utf16_of(head):
        return False
    if len(head) < CHUNK:
        head = without_padding(head)
    noise = len(head) - len(head.translate(None, NON_TEXT_BYTES)) if len(head) >= CHUNK else head.count(0)
    return noise > MAX_NOISE * len(head)


def _first_line(member: Member) -> str:
    """Return the first line of a member that is not empty; an empty string if it is no text."""
    head = without_padding(member.head()[:FIRST_BYTES])
    encoding = utf16_of(head)
    if b"\0" in head and not encoding:
        return ""
    lines = (clean(line) for line in head.decode(encoding or "utf-8", "replace").splitlines())
    return next((line.strip()[:FIRST_LINE] for line in lines if line.strip()), "")


def _input_records(member: Member, readings: Sequence[TaggedRecord], problems: int) -> list[InputRecord]:
    """Return one row per parser that found records in the member, or one without a parser."""
    by_reader: dict[str, list[Record]] = {}
    for reading in readings:
        if not isinstance(reading.record, Problem):
            by_reader.setdefault(reading.reader, []).append(reading.record)
    if not by_reader:  # a parser that only reported problems still recognised it
        reader = next((reading.reader for reading in readings if reading.reader), "")
        return [InputRecord(member.path, reader, 0, sha256=member.sha256, problems=problems)]
    rows = []
    for reader, records in by_reader.items():
        times = [t for record in records for t in (begin_of(record), end_of(record)) if t]
        comparable = times if len({t.clock for t in times}) == 1 else []
        first, last = (min(comparable), max(comparable)) if comparable else (None, None)
        period, gaps = sampling_interval(records)
        # of stacks the samples (rows if there are only shares), else rows, snapshots, facts and events
        if profiles := [record for record in records if isinstance(record, Profile)]:
            count = sum(profile.ledger.read or len(profile.rows) for profile in profiles)
        else:
            count = sum(len(record) if isinstance(record, Series) else 1 for record in records)
        rows.append(
            InputRecord(member.path, reader, count, first, last, member.sha256, problems, period=period, gaps=gaps)
        )
    return rows


def fold_rows(readings: Iterable[TaggedRecord]) -> list[TaggedRecord]:
    """Return the records, with rows as columns if there are many.

    In that case repeated facts about processes and from banners are dropped.
    """
    rest = iter(readings)
    buffered: deque[TaggedRecord] = deque()
    numbers = 0
    for reading in rest:
        buffered.append(reading)
        numbers += _count_numbers(reading.record)
        if numbers >= MAX_ROW_NUMBERS:
            break
    else:
        return [row for reading in buffered for row in _separate_rows(reading)]
    from thpdiag.parsers._table import SeriesBuilder

    columns: dict[tuple[str, Group], SeriesBuilder] = defaultdict(SeriesBuilder)
    known: dict[tuple[object, ...], object] = {}
    kept: list[TaggedRecord] = []
    for reading in chain((buffered.popleft() for _ in range(len(buffered))), rest):
        if isinstance(reading.record, Sample):
            columns[reading.reader, reading.group].add(reading.record)
        elif isinstance(reading.record, Listing):
            columns[reading.reader, reading.group].add_listing(reading.record)
        elif not isinstance(reading.record, Fact) or _is_new_fact(reading.record, reading, known):
            kept.append(reading)
    for (reader, group), rows in columns.items():
        kept += (TaggedRecord(series, reader, group) for series in rows.series())
    return kept


def _count_numbers(record: Record) -> int:
    """Return the size of a record in numbers."""
    rows = len(record) if isinstance(record, Listing) else 1
    return rows * (NUMBERS_PER_ROW + (len(record.values) if isinstance(record, Sample | Listing) else 0))


def _separate_rows(reading: TaggedRecord) -> Iterator[TaggedRecord]:
    """Yield the rows of a listing one by one, any other record unchanged."""
    if isinstance(reading.record, Listing):
        yield from (replace(reading, record=row) for row in reading.record)
    else:
        yield reading


def _is_new_fact(fact: Fact, reading: TaggedRecord, known: dict[tuple[object, ...], object]) -> bool:
    """Whether a fact about a process, or from a banner, is new. `known` holds the previous ones."""
    if fact.name.startswith("process."):
        return known.setdefault((fact.name, fact.value, fact.labels, reading.group), fact) is fact
    if fact.name not in BANNER_FACTS or fact.time is not None:
        return True
    key = (fact.name, reading.reader, reading.group)
    previous, known[key] = known.get(key), fact.value
    return previous != fact.value
