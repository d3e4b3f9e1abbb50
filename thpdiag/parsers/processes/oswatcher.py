"""Files of OSWatcher: their head, and recordings of lists whose rows repeat.

The head of a file of OSWatcher: version and host, then settings. The outputs below it have their own parsers.

    Linux OSWbb v8.4.0 node1
    SNAP_INTERVAL 30
    CPU_CORES 8
    VCPUS 16
    OSWBB_ARCHIVE_DEST /opt/oswbb/archive
    zzz ***Fri Nov 20 10:54:16 CET 2026

Files of versions before 4 have no head. It has the host since 8, and only in some of the files.
Source: OSWatcher.sh, 3 to 8.

Hours of lists of ps or top, each below a `zzz` line: most rows are the same from one list to the next, so each text of
a row is parsed once. Its values go into columns every time; facts of a process (its command, the function in which it
waits) are yielded once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from thpdiag.bundle.member import LineDamage
from thpdiag.detect.timestamps import parse_timestamp
from thpdiag.model import Fact, Moment, Record, Sample
from thpdiag.model.facts import MAX_CITED_CHARS
from thpdiag.model.parser import Content, Foreign, Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, any_of, numbered_lines, undecoded_problems

if TYPE_CHECKING:
    from thpdiag.parsers._table import SeriesBuilder

OSWATCHER_HEAD = re.compile(r"Linux OSW(?:bb)? v?\d[\w.]{0,20}(?: (\S{1,255}))?\s*$")
ZZZ = re.compile(r"zzz [*<]")  # the time line above each output
MIN_BULK_BYTES = 1 << 20  # shorter files are searched for blocks
SETTING = re.compile(r"(SNAP_INTERVAL|CPU_CORES|VCPUS|OSWBB_ARCHIVE_DEST)\s+(\S{1,255})\s*$")


def parse_oswatcher(source: Source, lines: Lines) -> Iterator[Record]:
    """Facts: the host, and its CPUs."""
    for line, text in lines:
        cite = source.cite(line, text)
        if head := OSWATCHER_HEAD.match(text):
            if head[1]:
                yield Fact("host.name", head[1], cite)
        elif (setting := SETTING.match(text)) and setting[1] == "VCPUS":
            count = setting[2]
            if count.isdecimal() and len(count) < 6 and int(count):
                yield Fact("cpu.count", int(count), cite)


def first_output(head: bytes, size: int | None) -> list[str]:
    """Return the lines of the first output of a large file that begins with one, as far as `head` has them."""
    if size is None:
        return []
    lines = [line for line in head[:8192].decode("utf-8", "replace").split("\n") if line.strip()]
    rest = [line for line in lines if not (OSWATCHER_HEAD.match(line) or SETTING.match(line))]
    return rest[1:] if rest and ZZZ.match(rest[0]) else []


OSWATCHER = Parser(
    "oswatcher", "head of an OSWatcher file", parse_oswatcher, opens=OSWATCHER_HEAD, continues=SETTING.match
)

MAX_CACHED_TEXTS = 20_000  # a list rarely has more than a few thousand rows


@dataclass(slots=True)
class RepeatedRows:
    """Rows of one file: lists one after another, in each of which a process occurs once."""

    columns: SeriesBuilder
    texts: dict[str, tuple[Record, ...]] = field(default_factory=dict)
    facts: set[tuple[object, ...]] = field(default_factory=set)
    pids: set[str] = field(default_factory=set)

    def begin_list(self) -> None:
        """Begin a list: the same processes come again."""
        self.pids.clear()

    def begin_columns(self) -> None:
        """Begin other columns: the same text now has another meaning."""
        self.texts.clear()

    def row(
        self, number: int, text: str, time: Moment | None, parse_row: Callable[[int, str], Iterable[Record]]
    ) -> Iterator[Fact]:
        """Yield new facts of a row; `parse_row` is called for a new text, and returns nothing for odd ones."""
        records = self.texts.get(text)
        if records is None:
            records = tuple(parse_row(number, text))
            yield from self._new_facts(records, time)
            if len(self.texts) >= MAX_CACHED_TEXTS:
                self.texts.clear()
            if records:  # an odd row is counted each time
                self.texts[text] = records
        for record in records:
            if isinstance(record, Sample):
                pid = record.entity[0][1]
                if pid not in self.pids:  # further rows of a process are its threads
                    self.pids.add(pid)
                    self.columns.add_repeat(record, time, number, text[:MAX_CITED_CHARS])

    def _new_facts(self, records: Sequence[Record], time: Moment | None) -> Iterator[Fact]:
        for record in records:
            if isinstance(record, Fact):
                key = (record.name, record.value, record.labels)
                if key not in self.facts:
                    self.facts.add(key)
                    yield replace(record, time=time)


class Recording(Protocol):
    """The lists of one file, in order."""

    def begin(self, time: Moment) -> Iterator[Record]:
        """Begin the list of this time."""

    def line(self, number: int, text: str) -> Iterator[Record]: ...

    def end(self) -> Iterator[Record]: ...


def parse_recording(
    source: Source, content: Content, reader: str, start: Callable[[ParseErrors, RepeatedRows], Recording]
) -> Iterator[Record | Foreign]:
    """A Series of the host and one per process, facts of each process once."""
    from thpdiag.parsers._table import SeriesBuilder  # imports numpy, so only for long files

    undecoded, odd, columns = LineDamage(), ParseErrors(source, reader), SeriesBuilder()
    recording = start(odd, RepeatedRows(columns))
    for number, text in numbered_lines(content, undecoded):
        if ZZZ.match(text) and (time := parse_timestamp(text)):
            yield from recording.begin(time)
        elif text:
            yield from recording.line(number, text)
    yield from recording.end()
    yield from columns.series()
    yield from odd.problems()
    yield from undecoded_problems(source, undecoded, reader)


is_head = any_of(OSWATCHER_HEAD, SETTING, ZZZ)  # a line of OSWatcher itself
