"""Files of OSWatcher: their head, and outputs whose rows repeat.

The head of a file of OSWatcher: version and host, then settings. The outputs below have readers of their own.

    Linux OSWbb v8.4.0 node1
    SNAP_INTERVAL 30
    CPU_CORES 8
    VCPUS 16
    OSWBB_ARCHIVE_DEST /opt/oswbb/archive
    zzz ***Fri Nov 20 10:54:16 CET 2026

Files of versions before 4 have no head. The host stands there since 8, and only in some of the files.
Source: OSWatcher.sh, 3 to 8.

Hours of lists, as ps and top print them, below a `zzz` line each: most processes change nothing from one list to the
next, so that each text of a row is read once. What a row says goes into columns each time; the facts of a process (its
command, the function that it waits in) are given once.
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
MIN_BULK_BYTES = 1 << 20  # bytes; shorter files go through the search for blocks
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
    """Of a large file that begins with an output under its time line: the lines of it, as far as `head` goes."""
    if size is None:
        return []
    lines = [line for line in head[:8192].decode("utf-8", "replace").split("\n") if line.strip()]
    rest = [line for line in lines if not (OSWATCHER_HEAD.match(line) or SETTING.match(line))]
    return rest[1:] if rest and ZZZ.match(rest[0]) else []


OSWATCHER = Parser(
    "oswatcher", "head of an OSWatcher file", parse_oswatcher, opens=OSWATCHER_HEAD, continues=SETTING.match
)

MAX_CACHED_TEXTS = 20_000  # a list has seldom more than some thousands of rows


@dataclass(slots=True)
class RepeatedRows:
    """Rows of one file: a list after the other, in each of which a process stands once."""

    columns: SeriesBuilder
    texts: dict[str, tuple[Record, ...]] = field(default_factory=dict)
    facts: set[tuple[object, ...]] = field(default_factory=set)
    pids: set[str] = field(default_factory=set)

    def begin_list(self) -> None:
        """The same processes come again."""
        self.pids.clear()

    def begin_columns(self) -> None:
        """The same text says something else from here on."""
        self.texts.clear()

    def row(
        self, number: int, text: str, time: Moment | None, read: Callable[[int, str], Iterable[Record]]
    ) -> Iterator[Fact]:
        """Facts that are new; `read` is asked for a text that was not there yet, and gives nothing for odd ones."""
        known = self.texts.get(text)
        if known is None:
            known = tuple(read(number, text))
            yield from self._new_facts(known, time)
            if len(self.texts) >= MAX_CACHED_TEXTS:
                self.texts.clear()
            if known:  # an odd row is noted each time
                self.texts[text] = known
        for record in known:
            if isinstance(record, Sample):
                pid = record.entity[0][1]
                if pid not in self.pids:  # a second row of a process is one of its threads
                    self.pids.add(pid)
                    self.columns.add_repeat(record, time, number, text[:MAX_CITED_CHARS])

    def _new_facts(self, records: Sequence[Record], time: Moment | None) -> Iterator[Fact]:
        for record in records:
            if isinstance(record, Fact):
                words = (record.name, record.value, record.labels)
                if words not in self.facts:
                    self.facts.add(words)
                    yield replace(record, time=time)


class Recording(Protocol):
    """The lists of one file, in order."""

    def begin(self, time: Moment) -> Iterator[Record]:
        """A list of this time comes next."""

    def line(self, number: int, text: str) -> Iterator[Record]: ...

    def end(self) -> Iterator[Record]: ...


def parse_recording(
    source: Source, content: Content, reader: str, start: Callable[[ParseErrors, RepeatedRows], Recording]
) -> Iterator[Record | Foreign]:
    """A Series of the host and one per process, facts of each process once."""
    from thpdiag.parsers._table import SeriesBuilder  # numpy: only for what is long

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


is_head = any_of(OSWATCHER_HEAD, SETTING, ZZZ)  # a line that OSWatcher itself writes
