"""Rows of a long recording as columns: one Series per host, entity and set of metrics.

A day of rows as objects of their own takes ten times the memory of the file; here each becomes a few numbers at once.
One recording may hold several hosts, one after the other (files appended) or in turn (rows of a fleet): columns come
behind the last row, each host's behind its name. Needs numpy, so only parsers that read something long import it.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from io import BytesIO
from itertools import count
from operator import itemgetter
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from thpdiag.model import Clock, Entity, Fact, Listing, Moment, Pace, Record, Sample, Series
from thpdiag.model.facts import MAX_CITED_CHARS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Marks = NDArray[np.bool_]
WINDOW_BYTES = 1 << 19
MAX_ROW_BYTES = 256  # of a row of numbers
_LF, _CR, _TAB, _BLANK, _DASH, _COLON, _ZERO = (ord(c) for c in "\n\r\t -:0")
_STAMP = 19  # characters of a time
_STAMP_DIGITS = [0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18]
_STAMP_WEIGHTS = np.zeros((14, 4))  # of the digits in date, hour, minute, second
_STAMP_WEIGHTS[:8, 0] = 10.0 ** np.arange(7, -1, -1)
_STAMP_WEIGHTS[8:] = np.repeat([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], 2, axis=0) * np.array([[10], [1]] * 3)


class GivesSeries(Protocol):
    """What rows are put into."""

    def series(self) -> Iterator[Series]:
        """The columns."""
        ...


_Columns = TypeVar("_Columns", bound=GivesSeries)


class HostSeries(Generic[_Columns]):
    """Columns by host; what follows a host's name is its, and so is what stands before the first."""

    def __init__(self, fresh: Callable[[], _Columns]) -> None:
        self._fresh = fresh
        self._found: dict[str, tuple[Fact, _Columns]] = {}
        self.current: _Columns = fresh()

    def note_host(self, record: Record) -> None:
        """Takes note if a record names a host."""
        if not isinstance(record, Fact) or record.name != "host.name":
            return
        name = str(record.value)
        if name not in self._found:
            self._found[name] = (record, self._fresh() if self._found else self.current)
        self.current = self._found[name][1]

    def series(self) -> Iterator[Record]:
        """The columns of each host behind its name."""
        if len(self._found) < 2:
            yield from self.current.series()
            return
        for name, columns in self._found.values():
            yield name
            yield from columns.series()


NAN = float("nan")
Columns = tuple[str, str, str, tuple[str, ...], Clock | None, Pace | None]  # kind, member, reader, metrics, clock
FRONT = 6  # numbers of a row before its metrics: entity, time, line, mark, begin and end of its text


class _RowsOfColumns:
    """Rows of many entities that have the same metrics, one after another as they were read.

    `_numbers` are all of them in one array: objects of each entity's own would take more than its rows. They are sorted
    by entity once, at the end.
    """

    def __init__(self, columns: Columns, new_number: Callable[[], int], text: BytesIO) -> None:
        self._columns = columns
        self._text = text  # of all rows of the source
        self._entities: dict[Entity, int] = defaultdict(new_number)
        self._numbers: array[float] = array("d")
        self._resolution: dict[int, dict[str, float]] = {}  # by the number of the entity
        self._seen: dict[int, object] = {}  # the resolution of its last row

    def add(self, row: Sample, seconds: float, line: int, text: str) -> None:
        entity = self._entities[row.entity]
        if row.resolution is not self._seen.get(entity) and row.resolution != self._seen.get(entity):
            self._seen[entity] = row.resolution
            self._round(entity, row.resolution)
        begin = self._text.tell()
        end = begin + self._text.write(text.encode("utf-8", "replace"))
        self._numbers.extend((entity, seconds, line, row.since_boot, begin, end, *row.values.values()))

    def add_listing(self, rows: Listing, seconds: float) -> None:
        entities = [self._entities[entity] for entity in rows.entities]
        texts = [text[:MAX_CITED_CHARS].encode("utf-8", "replace") for text in rows.texts]
        ends = self._text.tell() + np.cumsum(list(map(len, texts)))
        self._text.write(b"".join(texts))
        numbers = np.empty((len(rows), FRONT + len(rows.values)))
        numbers[:, 0], numbers[:, 1], numbers[:, 3] = entities, seconds, rows.since_boot
        numbers[:, 2] = np.arange(rows.first, rows.first + len(rows))
        numbers[:, 4], numbers[1:, 4], numbers[:, 5] = ends[0] - len(texts[0]), ends[:-1], ends
        for place, column in enumerate(rows.values.values(), FRONT):
            numbers[:, place] = column
        self._numbers.frombytes(numbers.tobytes())
        quanta = zip(*rows.resolution.values(), strict=True)
        for entity, row in zip(entities, quanta, strict=False):
            if row != self._seen.get(entity):
                self._seen[entity] = row
                self._round(
                    entity, {name: quantum for name, quantum in zip(rows.resolution, row, strict=True) if quantum}
                )

    def _round(self, entity: int, resolution: Mapping[str, float]) -> None:
        known = self._resolution.setdefault(entity, {})
        for name, quantum in resolution.items():
            known[name] = max(quantum, known.get(name, 0.0))

    def series(self, text: bytes) -> Iterator[tuple[int, Series]]:
        """The number of each entity and its rows as columns; asked once, the rows are given away."""
        kind, member, reader, metrics, clock, pace = self._columns
        rows = np.frombuffer(self._numbers).reshape(-1, FRONT + len(metrics))
        order = np.argsort(rows[:, 0], kind="stable")
        numbers, seconds, lines, marks, starts, ends, *values = (rows[order, place] for place in range(rows.shape[1]))
        del rows, self._numbers
        lines, starts, ends = (column.astype(np.int64) for column in (lines, starts, ends))
        marks = marks > 0
        firsts = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
        by_number = {number: entity for entity, number in self._entities.items()}
        for first, end in zip(firsts, [*firsts[1:], len(numbers)], strict=True):
            number, own = int(numbers[first]), slice(first, end)
            columns = {name: column[own] for name, column in zip(metrics, values, strict=True)}
            yield number, Series(
                kind, columns, member, lines[own], reader, by_number[number], seconds[own] if clock else None,
                clock, self._resolution.get(number, {}), marks[own] if marks[own].any() else None, text, starts[own],
                ends[own], 0.0, pace,
            )  # fmt: skip


class SeriesBuilder:
    """Rows of one source, gathered by entity and metrics."""

    def __init__(self) -> None:
        self._found: dict[Columns, _RowsOfColumns] = {}
        self._new_number = count().__next__
        self._text = BytesIO()

    def add(self, row: Sample) -> None:
        self.add_repeat(row, row.time, row.cite.line or 0, row.cite.text)

    def add_repeat(self, row: Sample, time: Moment | None, line: int, text: str) -> None:
        """A row that says what another one said, at a time and line of its own."""
        self._rows(row, row.cite.member, time).add(row, time.seconds if time else NAN, line, text)

    def add_listing(self, rows: Listing) -> None:
        self._rows(rows, rows.member, rows.time).add_listing(rows, rows.time.seconds if rows.time else NAN)

    def _rows(self, row: Sample | Listing, member: str, time: Moment | None) -> _RowsOfColumns:
        clock, pace = (time.clock, time.pace) if time else (None, None)
        key = (row.kind, member, row.reader, tuple(row.values), clock, pace)
        rows = self._found.get(key)
        if rows is None:
            rows = self._found[key] = _RowsOfColumns(key, self._new_number, self._text)
        return rows

    def series(self) -> Iterator[Series]:
        """The columns, in the order in which the first row of each came; asked once."""
        text = self._text.getvalue()
        found = [numbered for rows in self._found.values() for numbered in rows.series(text)]
        return (series for _, series in sorted(found, key=itemgetter(0)))


def as_series(records: Iterable[Record]) -> Iterator[Record]:
    """The same records: rows as columns, by host, behind the last of them; everything else as it comes."""
    hosts = HostSeries(SeriesBuilder)
    for record in records:
        if isinstance(record, Sample):
            hosts.current.add(record)
        else:
            hosts.note_host(record)
            yield record
    yield from hosts.series()


def join_series(parts: Sequence[Series]) -> Series:
    """Series of one entity, clock and text, one behind the other; NaN where one has no such metric."""
    if len(parts) == 1:
        return parts[0]
    columns = {
        name: np.concatenate([part.values[name] if name in part.values else np.full(len(part), NAN) for part in parts])
        for name in dict.fromkeys(name for part in parts for name in part.values)
    }
    resolution: dict[str, float] = {}
    for name, quantum in (item for part in parts for item in part.resolution.items()):
        resolution[name] = max(quantum, resolution.get(name, 0.0))
    others: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("lines", "seconds", "since_boot", "starts", "ends")
        if getattr(parts[0], name) is not None
    }
    return replace(parts[0], values=columns, resolution=resolution, **others)


@dataclass(frozen=True, slots=True)
class NumberLines:
    """The lines of a text, and the numbers of those that hold nothing else but perhaps a time at their end.

    Line `i` is `text[starts[i]:ends[i]]`. It has `widths[i]` numbers, none if it is no plain row; `rows` are the plain
    ones, `numbers[k]` those of row `k` (zeros behind if others have more), `seconds[k]` its `YYYY-MM-DD HH:MM:SS` as if
    that were UTC, NaN without one.
    """

    text: bytes
    starts: Ints
    ends: Ints
    widths: Ints
    rows: Ints
    numbers: Ints
    seconds: Floats

    @classmethod
    def of_text(cls, text: bytes, widths: range) -> NumberLines:
        """`text` ends with a line feed; rows of other widths are not plain."""
        parts, first = [], 0
        while first < len(text):  # what is made of a window should stay in a processor's cache
            end = text.rfind(b"\n", first, first + WINDOW_BYTES) + 1 or text.find(b"\n", first) + 1
            parts.append(_number_lines(text, first, end, widths))
            first = end
        starts, ends, width, numbers, seconds = (np.concatenate(part) for part in zip(*parts, strict=True))
        rows = np.flatnonzero(width)
        return cls(text, starts, ends, width, rows, _matrix(numbers, width[rows], widths.stop - 1), seconds)

    def __len__(self) -> int:
        return len(self.starts)

    def raw(self, first: int, end: int = 0) -> bytes:
        """A line, or the lines up to another one."""
        return self.text[self.starts[first] : self.ends[(end or first + 1) - 1]]

    def text_of(self, number: int) -> str:
        return self.raw(number).decode("utf-8", "replace")

    def stretches(self) -> Iterator[tuple[int, int, int]]:
        """From, up to, width: plain rows of one width, empty lines (-1), and any other lines (0)."""
        kinds = np.where(self.starts == self.ends, -1, self.widths)
        firsts = [0, *(np.flatnonzero(kinds[1:] != kinds[:-1]) + 1).tolist()]
        yield from zip(firsts, [*firsts[1:], len(self)], kinds[firsts].tolist(), strict=True)

    def places(self, firsts: Ints, ends: Ints) -> Ints | slice:
        """Where the rows of some stretches stand in `numbers`."""
        begins, stops = np.searchsorted(self.rows, firsts), np.searchsorted(self.rows, ends)
        if not len(begins) or (begins[1:] == stops[:-1]).all():
            return slice(int(begins[0]), int(stops[-1])) if len(begins) else slice(0, 0)
        return np.concatenate([np.arange(b, s) for b, s in zip(begins.tolist(), stops.tolist(), strict=True)])


def _number_lines(text: bytes, first: int, end: int, widths: range) -> tuple[NDArray[Any], ...]:
    """Starts, ends and widths of the lines in a window; numbers one behind the other and seconds of the plain ones."""
    letters = np.frombuffer(text, np.uint8, end - first, first)
    breaks = np.flatnonzero(letters == _LF)
    starts = np.concatenate(([0], breaks[:-1] + 1))
    short = breaks - starts < MAX_ROW_BYTES  # its words can be counted in a byte
    ends = breaks.copy()
    cut = short | (letters[ends - 1] == _CR)
    while len(trailing := np.flatnonzero(cut & (letters[ends - 1] <= _BLANK) & (ends > starts))):
        ends[trailing] -= 1
    seconds = np.full(len(breaks), np.nan)
    timed = np.flatnonzero(short & (ends - starts > _STAMP))
    timed = timed[letters[ends[timed] - 3] == _COLON]
    if len(timed):
        seconds[timed] = _stamp_seconds(letters, ends[timed] - _STAMP)
        letters = letters.copy()
        sliding_window_view(letters, _STAMP, writeable=True)[ends[seconds == seconds] - _STAMP] = _BLANK
    filled = letters > _BLANK
    strange = ((letters - np.uint8(_ZERO)) > 9) & filled
    if np.count_nonzero(letters < _BLANK) > len(breaks):
        strange |= (letters < _BLANK) & (letters != _LF) & (letters != _TAB)
        before = breaks[breaks > 0] - 1
        strange[before[letters[before] == _CR]] = False
    filled[1:] &= ~filled[:-1]
    width = np.add.reduceat(filled.view(np.uint8), starts, dtype=np.uint8).astype(np.int64)
    short &= np.maximum.reduceat(strange.view(np.uint8), starts) == 0
    width[~short | (width < widths.start) | (width >= widths.stop)] = 0
    plain = width > 0
    edges = np.flatnonzero(np.diff(plain, prepend=False, append=False))  # where stretches of plain rows begin and end
    places, window = np.append(starts, end - first)[edges].tolist(), letters.tobytes()
    rows = b"".join([window[begin:stop] for begin, stop in zip(places[::2], places[1::2], strict=True)])
    numbers = np.fromstring(rows, np.int64, sep=" ") if rows else np.zeros(0, np.int64)
    return starts + first, ends + first, width, numbers, seconds[plain]


def _matrix(numbers: Ints, width: Ints, columns: int) -> Ints:
    """The numbers of rows that have so many, with zeros behind them if not all have the same."""
    if len(width) and (width == width[0]).all():
        return numbers.reshape(len(width), int(width[0]))
    matrix = np.zeros((len(width), columns), np.int64)
    matrix[np.arange(columns) < width[:, None]] = numbers
    return matrix


def _stamp_seconds(letters: NDArray[np.uint8], places: Ints) -> Floats:
    """Seconds since 1970 of ` YYYY-MM-DD HH:MM:SS` at these places as if they were UTC; NaN for what is none."""
    if not len(places):
        return np.zeros(0)
    stamps = sliding_window_view(letters, _STAMP)[places]
    good = (stamps[:, 10] == _BLANK) & (letters[places - 1] <= _BLANK)
    for place, sign in ((4, _DASH), (7, _DASH), (13, _COLON), (16, _COLON)):
        good &= stamps[:, place] == sign
    digits = stamps[:, _STAMP_DIGITS] - np.uint8(_ZERO)
    good &= digits.max(axis=1) <= 9
    date, hour, minute, second = (digits.astype(np.float64) @ _STAMP_WEIGHTS).T
    good &= (hour < 24) & (minute < 60) & (second < 60)
    firsts = np.flatnonzero(np.diff(date, prepend=-1))
    days = np.array([_midnight(stamps[at, :10].tobytes()) for at in firsts.tolist()])
    times = np.repeat(days, np.diff(firsts, append=len(stamps))) + (hour * 3600 + minute * 60 + second)
    return np.where(good, times, np.nan)


def _midnight(date: bytes) -> float:
    """Midnight of a date in seconds, NaN if there is no such day."""
    try:
        return datetime.fromisoformat(date.decode("ascii")).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return NAN
