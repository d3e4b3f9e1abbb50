"""Rows of a long recording as columns: one Series per host, entity and set of metrics.

A day of rows as Python objects takes ten times the memory of the file, so each row is stored as a few numbers at once.
One recording may contain several hosts, one after the other (appended files) or interleaved (rows of a fleet). The
columns follow the last row, those of each host after its name. Needs numpy, so only parsers of long input import it.
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
MAX_ROW_BYTES = 256  # so that the words of a row of numbers can be counted in a byte
_LF, _CR, _TAB, _BLANK, _DASH, _COLON, _ZERO = (ord(c) for c in "\n\r\t -:0")
_STAMP_CHARS = 19  # of `YYYY-MM-DD HH:MM:SS`
_STAMP_DIGITS = [0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18]
_STAMP_WEIGHTS = np.zeros((14, 4))  # weight of each digit in date, hour, minute, second
_STAMP_WEIGHTS[:8, 0] = 10.0 ** np.arange(7, -1, -1)
_STAMP_WEIGHTS[8:] = np.repeat([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], 2, axis=0) * np.array([[10], [1]] * 3)


class HasSeries(Protocol):
    """A collector of rows that returns them as columns."""

    def series(self) -> Iterator[Series]: ...


_Columns = TypeVar("_Columns", bound=HasSeries)


class HostSeries(Generic[_Columns]):
    """Columns by host. Rows belong to the host named last before them; rows before the first name to the first host."""

    def __init__(self, new_columns: Callable[[], _Columns]) -> None:
        self._new_columns = new_columns
        self._hosts: dict[str, tuple[Fact, _Columns]] = {}
        self.current: _Columns = new_columns()

    def note_host(self, record: Record) -> None:
        """Switch to the columns of the host that the record names, if it names one."""
        if not isinstance(record, Fact) or record.name != "host.name":
            return
        name = str(record.value)
        if name not in self._hosts:
            self._hosts[name] = (record, self._new_columns() if self._hosts else self.current)
        self.current = self._hosts[name][1]

    def series(self) -> Iterator[Record]:
        """Yield the columns of each host after its name; of a single host only the columns."""
        if len(self._hosts) < 2:
            yield from self.current.series()
            return
        for name, columns in self._hosts.values():
            yield name
            yield from columns.series()


NAN = float("nan")
Columns = tuple[str, str, str, tuple[str, ...], Clock | None, Pace | None]  # kind, member, reader, metrics, clock, pace
ROW_HEAD_FIELDS = 6  # numbers of a row before its metrics: entity, time, line, since_boot, begin and end of its text


class _EntityRows:
    """Rows of all entities with the same metrics, in the order in which they were read.

    `_numbers` holds all rows in one array, because an array per entity would take more memory than its rows. The rows
    are sorted by entity once, at the end.
    """

    def __init__(self, columns: Columns, new_number: Callable[[], int], text: BytesIO) -> None:
        self._columns = columns
        self._text = text  # the text of all rows of the source
        self._entities: dict[Entity, int] = defaultdict(new_number)
        self._numbers: array[float] = array("d")
        self._resolution: dict[int, dict[str, float]] = {}  # by number of the entity
        self._last_resolution: dict[int, object] = {}  # that of the last row, by number of the entity

    def add(self, row: Sample, seconds: float, line: int, text: str) -> None:
        entity = self._entities[row.entity]
        last = self._last_resolution.get(entity)
        if row.resolution is not last and row.resolution != last:
            self._last_resolution[entity] = row.resolution
            self._widen_resolution(entity, row.resolution)
        begin = self._text.tell()
        end = begin + self._text.write(text.encode("utf-8", "replace"))
        self._numbers.extend((entity, seconds, line, row.since_boot, begin, end, *row.values.values()))

    def add_listing(self, rows: Listing, seconds: float) -> None:
        entities = [self._entities[entity] for entity in rows.entities]
        texts = [text[:MAX_CITED_CHARS].encode("utf-8", "replace") for text in rows.texts]
        ends = self._text.tell() + np.cumsum(list(map(len, texts)))
        self._text.write(b"".join(texts))
        numbers = np.empty((len(rows), ROW_HEAD_FIELDS + len(rows.values)))
        numbers[:, 0], numbers[:, 1], numbers[:, 3] = entities, seconds, rows.since_boot
        numbers[:, 2] = np.arange(rows.first, rows.first + len(rows))
        numbers[:, 4], numbers[1:, 4], numbers[:, 5] = ends[0] - len(texts[0]), ends[:-1], ends
        for index, column in enumerate(rows.values.values(), ROW_HEAD_FIELDS):
            numbers[:, index] = column
        self._numbers.frombytes(numbers.tobytes())
        quanta = zip(*rows.resolution.values(), strict=True)
        for entity, row in zip(entities, quanta, strict=False):
            if row != self._last_resolution.get(entity):
                self._last_resolution[entity] = row
                rounded = {name: quantum for name, quantum in zip(rows.resolution, row, strict=True) if quantum}
                self._widen_resolution(entity, rounded)

    def _widen_resolution(self, entity: int, resolution: Mapping[str, float]) -> None:
        known = self._resolution.setdefault(entity, {})
        for name, quantum in resolution.items():
            known[name] = max(quantum, known.get(name, 0.0))

    def series(self, text: bytes) -> Iterator[tuple[int, Series]]:
        """Yield the number and the columns of each entity. Can be called once: it releases the rows."""
        kind, member, reader, metrics, clock, pace = self._columns
        rows = np.frombuffer(self._numbers).reshape(-1, ROW_HEAD_FIELDS + len(metrics))
        order = np.argsort(rows[:, 0], kind="stable")
        numbers, seconds, lines, marks, starts, ends, *values = (rows[order, index] for index in range(rows.shape[1]))
        del rows, self._numbers
        lines, starts, ends = (column.astype(np.int64) for column in (lines, starts, ends))
        since_boot = marks > 0
        firsts = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
        by_number = {number: entity for entity, number in self._entities.items()}
        for first, end in zip(firsts, [*firsts[1:], len(numbers)], strict=True):
            number, part = int(numbers[first]), slice(first, end)
            columns = {name: column[part] for name, column in zip(metrics, values, strict=True)}
            yield number, Series(
                kind, columns, member, lines[part], reader, by_number[number], seconds[part] if clock else None,
                clock, self._resolution.get(number, {}), since_boot[part] if since_boot[part].any() else None, text,
                starts[part], ends[part], 0.0, pace,
            )  # fmt: skip


class SeriesBuilder:
    """Collects the rows of one source by entity and metrics."""

    def __init__(self) -> None:
        self._rows: dict[Columns, _EntityRows] = {}
        self._new_number = count().__next__
        self._text = BytesIO()

    def add(self, row: Sample) -> None:
        self.add_repeat(row, row.time, row.cite.line or 0, row.cite.text)

    def add_repeat(self, row: Sample, time: Moment | None, line: int, text: str) -> None:
        """Add a row with the values of another one, but with a different time, line and text."""
        self._rows_like(row, row.cite.member, time).add(row, time.seconds if time else NAN, line, text)

    def add_listing(self, rows: Listing) -> None:
        self._rows_like(rows, rows.member, rows.time).add_listing(rows, rows.time.seconds if rows.time else NAN)

    def _rows_like(self, row: Sample | Listing, member: str, time: Moment | None) -> _EntityRows:
        clock, pace = (time.clock, time.pace) if time else (None, None)
        key = (row.kind, member, row.reader, tuple(row.values), clock, pace)
        if key not in self._rows:
            self._rows[key] = _EntityRows(key, self._new_number, self._text)
        return self._rows[key]

    def series(self) -> Iterator[Series]:
        """Return the columns in the order of their first rows. Can be called once."""
        text = self._text.getvalue()
        numbered = [item for rows in self._rows.values() for item in rows.series(text)]
        return (series for _, series in sorted(numbered, key=itemgetter(0)))


def as_series(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records other than samples unchanged, then the samples as columns by host."""
    hosts = HostSeries(SeriesBuilder)
    for record in records:
        if isinstance(record, Sample):
            hosts.current.add(record)
        else:
            hosts.note_host(record)
            yield record
    yield from hosts.series()


def join_series(parts: Sequence[Series]) -> Series:
    """Concatenate series of one entity, clock and text; NaN where a part lacks a metric."""
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
    """The lines of a text, and the numbers of its plain rows: lines of integers only, with an optional time at the end.

    Line `i` is `text[starts[i]:ends[i]]`, with `widths[i]` numbers, 0 if it is not a plain row. `rows` has the indices
    of the plain rows, `numbers[k]` the numbers of row `k` (padded with zeros to the widest), `seconds[k]` its
    `YYYY-MM-DD HH:MM:SS` read as UTC, NaN without one.
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
        """Parse a text that ends with a line feed; only rows with a number of columns in `widths` are plain."""
        parts, first = [], 0
        while first < len(text):  # in windows, so that the temporary arrays stay in the CPU cache
            end = text.rfind(b"\n", first, first + WINDOW_BYTES) + 1 or text.find(b"\n", first) + 1
            parts.append(_number_lines(text, first, end, widths))
            first = end
        starts, ends, width, numbers, seconds = (np.concatenate(part) for part in zip(*parts, strict=True))
        rows = np.flatnonzero(width)
        return cls(text, starts, ends, width, rows, _matrix(numbers, width[rows], widths.stop - 1), seconds)

    def __len__(self) -> int:
        return len(self.starts)

    def raw(self, first: int, end: int = 0) -> bytes:
        """Return a line, or the lines from `first` up to `end`."""
        return self.text[self.starts[first] : self.ends[(end or first + 1) - 1]]

    def text_of(self, number: int) -> str:
        return self.raw(number).decode("utf-8", "replace")

    def runs(self) -> Iterator[tuple[int, int, int]]:
        """Yield (first, end, width) of each run of plain rows of one width, empty lines (-1) or other lines (0)."""
        kinds = np.where(self.starts == self.ends, -1, self.widths)
        firsts = [0, *(np.flatnonzero(kinds[1:] != kinds[:-1]) + 1).tolist()]
        yield from zip(firsts, [*firsts[1:], len(self)], kinds[firsts].tolist(), strict=True)

    def places(self, firsts: Ints, ends: Ints) -> Ints | slice:
        """Return the indices in `numbers` of the rows in these runs of lines."""
        begins, stops = np.searchsorted(self.rows, firsts), np.searchsorted(self.rows, ends)
        if not len(begins) or (begins[1:] == stops[:-1]).all():
            return slice(int(begins[0]), int(stops[-1])) if len(begins) else slice(0, 0)
        return np.concatenate([np.arange(b, s) for b, s in zip(begins.tolist(), stops.tolist(), strict=True)])


def _number_lines(text: bytes, first: int, end: int, widths: range) -> tuple[NDArray[Any], ...]:
    """Return starts, ends and widths of the lines in a window, and flat numbers and seconds of its plain rows."""
    letters = np.frombuffer(text, np.uint8, end - first, first)
    breaks = np.flatnonzero(letters == _LF)
    starts = np.concatenate(([0], breaks[:-1] + 1))
    short = breaks - starts < MAX_ROW_BYTES
    ends = breaks.copy()
    cut = short | (letters[ends - 1] == _CR)
    while len(trailing := np.flatnonzero(cut & (letters[ends - 1] <= _BLANK) & (ends > starts))):
        ends[trailing] -= 1
    seconds = np.full(len(breaks), np.nan)
    timed = np.flatnonzero(short & (ends - starts > _STAMP_CHARS))
    timed = timed[letters[ends[timed] - 3] == _COLON]
    if len(timed):
        seconds[timed] = _stamp_seconds(letters, ends[timed] - _STAMP_CHARS)
        letters = letters.copy()
        sliding_window_view(letters, _STAMP_CHARS, writeable=True)[ends[seconds == seconds] - _STAMP_CHARS] = _BLANK
    word_starts = letters > _BLANK
    non_digits = ((letters - np.uint8(_ZERO)) > 9) & word_starts
    if np.count_nonzero(letters < _BLANK) > len(breaks):
        non_digits |= (letters < _BLANK) & (letters != _LF) & (letters != _TAB)
        before = breaks[breaks > 0] - 1
        non_digits[before[letters[before] == _CR]] = False
    word_starts[1:] &= ~word_starts[:-1]
    width = np.add.reduceat(word_starts.view(np.uint8), starts, dtype=np.uint8).astype(np.int64)
    short &= np.maximum.reduceat(non_digits.view(np.uint8), starts) == 0
    width[~short | (width < widths.start) | (width >= widths.stop)] = 0
    plain = width > 0
    edges = np.flatnonzero(np.diff(plain, prepend=False, append=False))  # where runs of plain rows begin and end
    places, window = np.append(starts, end - first)[edges].tolist(), letters.tobytes()
    rows = b"".join([window[begin:stop] for begin, stop in zip(places[::2], places[1::2], strict=True)])
    numbers = np.fromstring(rows, np.int64, sep=" ") if rows else np.zeros(0, np.int64)
    return starts + first, ends + first, width, numbers, seconds[plain]


def _matrix(numbers: Ints, width: Ints, columns: int) -> Ints:
    """Reshape flat numbers to rows of these widths, padded with zeros if the widths differ."""
    if len(width) and (width == width[0]).all():
        return numbers.reshape(len(width), int(width[0]))
    matrix = np.zeros((len(width), columns), np.int64)
    matrix[np.arange(columns) < width[:, None]] = numbers
    return matrix


def _stamp_seconds(letters: NDArray[np.uint8], places: Ints) -> Floats:
    """Return the seconds since 1970 of ` YYYY-MM-DD HH:MM:SS` at these places, read as UTC; NaN if it is not a time."""
    if not len(places):
        return np.zeros(0)
    stamps = sliding_window_view(letters, _STAMP_CHARS)[places]
    is_time = (stamps[:, 10] == _BLANK) & (letters[places - 1] <= _BLANK)
    for index, separator in ((4, _DASH), (7, _DASH), (13, _COLON), (16, _COLON)):
        is_time &= stamps[:, index] == separator
    digits = stamps[:, _STAMP_DIGITS] - np.uint8(_ZERO)
    is_time &= digits.max(axis=1) <= 9
    date, hour, minute, second = (digits.astype(np.float64) @ _STAMP_WEIGHTS).T
    is_time &= (hour < 24) & (minute < 60) & (second < 60)
    firsts = np.flatnonzero(np.diff(date, prepend=-1))
    days = np.array([_midnight(stamps[index, :10].tobytes()) for index in firsts.tolist()])
    times = np.repeat(days, np.diff(firsts, append=len(stamps))) + (hour * 3600 + minute * 60 + second)
    return np.where(is_time, times, np.nan)


def _midnight(date: bytes) -> float:
    """Return the seconds since 1970 at midnight of a date, NaN if the date does not exist."""
    try:
        return datetime.fromisoformat(date.decode("ascii")).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return NAN
