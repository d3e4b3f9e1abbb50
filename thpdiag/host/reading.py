"""Input: every member that may hold evidence, detected and parsed; what became of each, and what went wrong.

Of a recorder's day, millions of rows, rows become columns; of what a listing says of a process in the same words each
time, or the first line of each report of the host, only the first is kept.
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

RECORDS_OF_NOTHING = 10_000  # more records than a member has bytes
MANY_NUMBERS = 50_000  # below, rows stay rows, which costs less than to load numpy
ROW_NUMBERS = 10  # numbers take as much memory as what else there is of a row
BANNER = frozenset(("host.name", "kernel.release", "cpu.count"))  # OSWatcher has a first line of sysstat per report
FIRST_BYTES, FIRST_LINE = 1024, 80  # looked at, and shown, of what no reader knows
_NEVER_EMPTY = re.compile(r"proc/(?:meminfo|vmstat|buddyinfo|zoneinfo|stat|loadavg|uptime|version|cpuinfo|interrupts)")
MAX_NOISE = 0.05  # share of NUL bytes, or of control characters, in the head of a member above which it is no text
Place = tuple[str, int, int]


class Step(NamedTuple):
    """How far an analysis is: bytes of the input that were read, rules that were judged, or reports that were written.

    A `total` of 0 is not known. `what` is being worked on; `files` counts members, the one that is read included;
    `places` say on which of several hosts, states and windows rules are judged: a noun, its number, how many there are.
    """

    stage: Literal["read", "judge", "write"]
    done: int = 0
    total: int = 0
    what: str = ""
    files: int = 0
    places: tuple[Place, ...] = ()


Progress = Callable[[Step], None]


def throttle(show: Progress, seconds: float) -> Progress:
    """The first and the last step of each stage, and between them one in so many seconds."""
    last: Step | None = None
    due = 0.0

    def take(step: Step) -> None:
        nonlocal last, due
        before, last = last, step
        is_new = before is None or before.stage != step.stage
        if before and is_new:
            show(before)
        if is_new or monotonic() >= due:
            show(step)
            due = monotonic() + seconds

    return take


@dataclass(frozen=True, slots=True)
class ParsedInput:
    """Everything that was read: readings by member, what became of each member, and what went wrong.

    `texts` are the texts themselves, as far as there was room; `parts` are the parts of a text that was not written in
    the order of its lines.
    """

    readings: Mapping[str, Sequence[TaggedRecord]]
    inputs: Sequence[InputRecord]
    problems: Sequence[Problem]
    texts: TextCache = field(default_factory=TextCache)
    parts: Mapping[str, Sequence[Event]] = field(default_factory=dict)


def read_input(
    paths: Sequence[Path], options: Options, *, stdin: BinaryIO | None = None, progress: Progress | None = None
) -> ParsedInput:
    """Recognise and read every member that may hold evidence."""
    detector = Detector(line_formats(), strict=options.strict)
    builder = _InputBuilder(texts=TextCache(MAX_CACHE_BYTES) if STDIN in paths else TextCache())
    inputs = [*paths, *sibling_files(paths)]
    count = _ReadingCount(progress, Step("read", total=_total_bytes(inputs))) if progress else None
    arriving = members(inputs, is_wanted, options.limits, stdin, count.read if count else None)
    # What a recording that is named here asks for is not read twice; few come out of archives.
    twice = all(is_rereadable(path) for path in paths) and not any(map(is_recording, paths))
    try:
        with SpooledMembers() as spooled, interrupt_when_out_of_time(options.limits.cpu_seconds):
            builder.read(arriving, detector, spooled, twice=twice, count=count)
    except OutOfTimeError:
        text = out_of_cpu_time(options.limits)
        builder.problems.append(Problem(Citation(builder.member), text, ProblemKind.LIMIT, hides=True))
    builder.problems += collector_failures(builder.readings)
    readings: Mapping[str, Sequence[TaggedRecord]] = builder.readings
    if len(readings) > 1:
        readings = drop_link_copies(readings, builder.inputs)
    if any(isinstance(r.record, Profile | SymbolList | SymbolTable) for found in readings.values() for r in found):
        from thpdiag.host.kernel_symbols import symbolize_profiles  # loads numpy

        whole = partial(_reread_lists, builder.inputs, paths, options, detector)
        readings, notices = symbolize_profiles(readings, detector, whole)
        builder.problems += notices
    return ParsedInput(
        {member: readings[member] for member in sorted(readings, key=_folder_order)},
        sorted(builder.inputs, key=lambda i: _folder_order(i.member)),
        sorted(builder.problems, key=lambda p: _folder_order(p.cite.member)),
        builder.texts,
        builder.parts,
    )


class _ReadingCount:
    """Bytes and members that were read, for who watches."""

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
    """How many bytes there are to read, 0 where only reading them tells: folders, pipes."""
    return sum(path.stat().st_size for path in inputs) if all(map(Path.is_file, inputs)) else 0


@dataclass(slots=True)
class _InputBuilder:
    """What was read so far; `member` is what is being read."""

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
        *, twice: bool, count: _ReadingCount | None,
    ) -> None:  # fmt: skip
        """Read the members as they come."""
        later: list[tuple[Member, str]] = []
        for member in arriving:
            if isinstance(member, Problem):
                self.problems.append(member)
                continue
            self.member = member.path
            if count:
                count.begin(member.path)
            begin = _first_line(member)
            self.texts.watch(member)
            found = _read_member(member, detector, spooled, twice=twice)
            member.finish()
            if found is None:
                later.append((member, begin))
            else:
                self.add(member, found, begin)
        for member, begin in later:
            self.add(member, spooled.read(member.path, detector), begin)
        self._refuse_absolute_names()

    def _refuse_absolute_names(self) -> None:
        """Absolute names beside relative ones are no evidence: who packs a host's files names all of them alike."""
        for archive in sorted(self.relative & self.absolute.keys()):
            refused = set(self.absolute[archive])
            for member in refused:
                del self.readings[member]
            self.inputs = [row for row in self.inputs if row.member not in refused]
            self.problems = [one for one in self.problems if one.cite.member not in refused]
            text = "has an absolute name beside relative ones in its archive and is not taken for a file of the host"
            cite, count = Citation(min(refused)), len(refused)
            self.problems.append(Problem(cite, text, ProblemKind.REFUSED, count=count, hides=True))

    def add(self, member: Member, found: Sequence[TaggedRecord], begin: str) -> None:
        """What is in a member; `begin` is how it begins."""
        if member.absolute:
            self.absolute.setdefault(member.archive, []).append(member.path)
        else:
            self.relative.add(member.archive)
        if parts := [r.record for r in found if isinstance(r.record, Event) and r.record.kind == TEXT_PART]:
            self.parts[member.path] = parts
            found = [r for r in found if r.record not in parts]
        self.readings.setdefault(member.path, []).extend(found)
        own = [r.record for r in found if isinstance(r.record, Problem)]
        if member.was_read_as_lines and len(own) < len(found):
            self.texts.add(member)
        self.problems += [*own, *member.problems]
        rows = _input_records(member, found, len(own) + len(member.problems))
        self.inputs += [row if row.reader else row._replace(size=member.length, first_line=begin) for row in rows]


def _reread_lists(
    inputs: Sequence[InputRecord], paths: Sequence[Path], options: Options, detector: Detector, left: set[str]
) -> dict[str, list[TaggedRecord]]:
    """All of the lists that were left in these members."""
    wanted = {member: {row.sha256 for row in inputs if row.member == member} for member in left}
    found: dict[str, list[TaggedRecord]] = {}
    for member in reread(wanted, paths, options.limits):
        listed = _read_member(member, detector, SpooledMembers(), twice=False) or ()
        member.finish()
        if member.sha256 in wanted[member.path]:
            found.setdefault(member.path, []).extend(r for r in listed if isinstance(r.record, SymbolList))
    return found


def _folder_order(member: str) -> list[str]:
    """By folder, as a directory is walked: what an archive says does not depend on the order of its members."""
    return member.split("/")


def _read_member(
    member: Member, detector: Detector, spooled: SpooledMembers, *, twice: bool
) -> list[TaggedRecord] | None:
    """What is in a member, None if it is spooled, to be read with others. `twice`: it can be read a second time."""
    head = member.head()
    paths = [system_path(path) or path for path in (member.path, *member.aliases)]
    claiming = (f.load() for f in bulk_formats() if any(f.claims(path, head, member.size) for path in paths))
    if reader := next(claiming, None):
        if spooled.keeps(member, reader, paths):
            return None
        chunks = member.chunks() if b"\0" in head else member.chunks_of_lines()
        left = twice and reader.on_demand
        if left:
            member.keep(0)
        content = Content(chunks, member.size, member.file, again=left)
        return list(_limit_records(member, detector.bulk(reader, member.path, content)))
    if (text := _unusable(head, member.size, paths)) is not None:
        return [TaggedRecord(Problem(Citation(member.path), text, ProblemKind.UNRECOGNISED), "", ("", ""))]
    lines = islice(member.lines(), 1, None) if is_tail(member.path) else member.lines()  # a tail is cut anywhere
    begin = head.decode(utf16_of(head) or "utf-8", "replace")
    return fold_rows(_limit_records(member, detector.read_listings(member.path, lines, begin, member.aliases)))


def _limit_records(member: Member, readings: Iterable[TaggedRecord]) -> Iterator[TaggedRecord]:
    """The same, until there are more records than bytes they could come from: a reader that does not read on."""
    for number, reading in enumerate(readings):
        if number > max(member.length, member.size or 0) + RECORDS_OF_NOTHING:
            text = f"a bug in thpdiag: parser {reading.reader} does not advance; the rest was not read"
            yield replace(reading, record=Problem(Citation(member.path), text, ProblemKind.BUG, reading.reader))
            return
        yield reading


def _unusable(head: bytes, size: int | None, paths: Iterable[str]) -> str | None:
    """Why a member that begins so cannot be read as text, if it cannot."""
    if size == 0 and any(map(_NEVER_EMPTY.fullmatch, paths)):
        return "empty, as tar copies files of /proc, whose size is 0: copy them with cat or cp -r"
    return "not text" if _is_noise(head) else None


def _is_noise(head: bytes) -> bool:
    """Whether a member that begins so is no text. A short one is looked at all the same: that costs little."""
    if utf16_of(head):
        return False
    if len(head) < CHUNK:
        head = without_padding(head)
    odd = len(head) - len(head.translate(None, NON_TEXT_BYTES)) if len(head) >= CHUNK else head.count(0)
    return odd > MAX_NOISE * len(head)


def _first_line(member: Member) -> str:
    """How the text of a member begins: its first line that is not empty; nothing, if it is no text."""
    head = without_padding(member.head()[:FIRST_BYTES])
    encoding = utf16_of(head)
    if b"\0" in head and not encoding:
        return ""
    lines = (clean(line) for line in head.decode(encoding or "utf-8", "replace").splitlines())
    return next((line.strip()[:FIRST_LINE] for line in lines if line.strip()), "")


def _input_records(member: Member, found: Sequence[TaggedRecord], problems: int) -> list[InputRecord]:
    """One line per reader that found something in the member, or one that says that none did."""
    by_reader: dict[str, list[Record]] = {}
    for reading in found:
        if not isinstance(reading.record, Problem):
            by_reader.setdefault(reading.reader, []).append(reading.record)
    if not by_reader:  # recognised all the same, if a reader says what is wrong with it
        reader = next((reading.reader for reading in found if reading.reader), "")
        return [InputRecord(member.path, reader, 0, sha256=member.sha256, problems=problems)]
    rows = []
    for reader, records in by_reader.items():
        times = [t for record in records for t in (begin_of(record), end_of(record)) if t]
        same = times if len({t.clock for t in times}) == 1 else []
        first, last = (min(same), max(same)) if same else (None, None)
        period, gaps = sampling_interval(records)
        # samples for recordings of stacks (rows where there are only shares); rows, snapshots, facts, events otherwise
        if profiles := [record for record in records if isinstance(record, Profile)]:
            count = sum(profile.ledger.read or len(profile.rows) for profile in profiles)
        else:
            count = sum(len(record) if isinstance(record, Series) else 1 for record in records)
        rows.append(
            InputRecord(member.path, reader, count, first, last, member.sha256, problems, period=period, gaps=gaps)
        )
    return rows


def fold_rows(readings: Iterable[TaggedRecord]) -> list[TaggedRecord]:
    """The same records, rows as columns where they are many.

    Then of what a listing says of a process in the same words each time only the first is kept, and of first lines
    those that say something else of the host than the one before.
    """
    rest = iter(readings)
    held: deque[TaggedRecord] = deque()
    numbers = 0
    for reading in rest:
        held.append(reading)
        numbers += _count_numbers(reading.record)
        if numbers >= MANY_NUMBERS:
            break
    else:
        return [one for reading in held for one in _separate_rows(reading)]
    from thpdiag.parsers._table import SeriesBuilder

    columns: dict[tuple[str, Group], SeriesBuilder] = defaultdict(SeriesBuilder)
    words: dict[tuple[object, ...], object] = {}
    kept: list[TaggedRecord] = []
    for reading in chain((held.popleft() for _ in range(len(held))), rest):
        if isinstance(reading.record, Sample):
            columns[reading.reader, reading.group].add(reading.record)
        elif isinstance(reading.record, Listing):
            columns[reading.reader, reading.group].add_listing(reading.record)
        elif not isinstance(reading.record, Fact) or _is_news(reading.record, reading, words):
            kept.append(reading)
    for (reader, group), rows in columns.items():
        kept += (TaggedRecord(series, reader, group) for series in rows.series())
    return kept


def _count_numbers(record: Record) -> int:
    """How much there is of a record, in numbers."""
    rows = len(record) if isinstance(record, Listing) else 1
    return rows * (ROW_NUMBERS + (len(record.values) if isinstance(record, Sample | Listing) else 0))


def _separate_rows(reading: TaggedRecord) -> Iterator[TaggedRecord]:
    """The rows of a listing one by one, any other record as it is."""
    if isinstance(reading.record, Listing):
        yield from (replace(reading, record=row) for row in reading.record)
    else:
        yield reading


def _is_news(fact: Fact, reading: TaggedRecord, words: dict[tuple[object, ...], object]) -> bool:
    """Whether a fact about a process, or in a first line, was not told before. `words` are what was, by its place."""
    if fact.name.startswith("process."):
        return words.setdefault((fact.name, fact.value, fact.labels, reading.group), fact) is fact
    if fact.name not in BANNER or fact.time is not None:
        return True
    key = (fact.name, reading.reader, reading.group)
    before, words[key] = words.get(key), fact.value
    return before != fact.value
