"""A whole vmstat recording as Series: its rows by run, put together, and what is not of vmstat for other readers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from thpdiag.model import Citation, Clock, Problem, ProblemKind, Record, Series
from thpdiag.reader import Content, Foreign, Source
from thpdiag.readers.elements.typed_command import typed
from thpdiag.readers.elements.whole_member import undecoded_lines
from thpdiag.readers.vmstat.bulk.columns import Rows, freeze, noted, values
from thpdiag.readers.vmstat.bulk.looks import Reading
from thpdiag.readers.vmstat.bulk.numbers import PAD, Floats, Marks
from thpdiag.readers.vmstat.bulk.runs import Run, Scan, filled
from thpdiag.readers.vmstat.bulk.table import Table, table
from thpdiag.readers.vmstat.run import first_is_boot, unit_of

MOST = 256 * 1024 * 1024  # bytes; a month of rows every second


def records(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """The Series of the host, what stands between, and what was odd."""
    text, cut = _text(content)
    lines = table(text, len(text) - PAD)
    reading = Reading(lines)
    command = typed(source.command, "vmstat", with_value="SpT")
    scan = Scan(source, lines, unit_of(command), unit_known=command is not None)
    scan.scan(reading)
    for first, end in filled(scan.foreign, lines):
        yield Foreign(tuple(line for part in _said(lines, first, end) for line in reading.decoded(*part)))
    found = list(_series(source, lines, [run for run in scan.runs if run.rows], boot=first_is_boot(command)))
    yield from found
    if cut:
        yield _beyond(source, len(lines), found, content.size)
    for block in scan.blocks:
        yield from block.problems()
    yield from undecoded_lines(source, reading.undecoded, "vmstat")


def _said(lines: Table, first: int, end: int) -> list[tuple[int, int]]:
    """A stretch without empty lines below empty ones, in parts."""
    keep = np.ones(end - first, np.bool_)
    keep[1:] = ~(lines.blank[first + 1 : end] & lines.blank[first : end - 1])
    edges = np.flatnonzero(np.diff(np.concatenate(([False], keep, [False])).astype(np.int8))) + first
    return [(start, stop) for start, stop in edges.reshape(-1, 2).tolist()]


def _beyond(source: Source, lines: int, found: Sequence[Series], size: int | None) -> Problem:
    """Up to where a recording was read that is too long, and from where on it was not."""
    times = [time.seconds for series in found if (time := series.time(len(series) - 1))]
    until = datetime.fromtimestamp(max(times), UTC).strftime(", up to %Y-%m-%d %H:%M:%S by its clock") if times else ""
    of = f" of {size}" if size else ""
    text = f"only the first {MOST} bytes{of} were read, {lines} lines{until}; what comes from this line on is not known"
    return Problem(Citation(source.member, lines + 1), text, ProblemKind.LIMIT, "vmstat")


def _text(content: Content) -> tuple[bytes, bool]:
    """The bytes up to the end of a line and PAD further ones, and whether there were more than are read."""
    kept, held = [], 0
    for chunk in content.chunks:
        kept.append(chunk)
        held += len(chunk)
        if held > MOST:
            text = b"".join(kept)[:MOST]
            return text[: text.rfind(b"\n") + 1] + b"\n" * PAD, True
    end = b"\n" if kept and not kept[-1].endswith(b"\n") else b""
    return b"".join((*kept, end, b"\n" * PAD)), False


def _series(source: Source, lines: Table, runs: Sequence[Run], *, boot: bool) -> Iterator[Series]:
    """All runs as one Series; those on another clock as a second one."""
    if not runs:
        return
    text, tables = _rows(lines, runs)
    parts = [_columns(rows, text) for rows in tables]
    names = list(dict.fromkeys(name for part in parts for name in part))
    sizes = [len(rows.lines) for rows in tables]
    columns = {name: _joined([part.get(name) for part in parts], sizes) for name in names}
    marks = np.zeros(sum(sizes), np.bool_)
    marks[np.cumsum([0, *sizes[:-1]])] = boot
    resolution = {name: quantum for run in runs for name, quantum in run.layout.resolution.items()}
    seconds = np.concatenate([rows.seconds for rows in tables])
    timed = bool((seconds == seconds).any())
    utc = np.concatenate([rows.utc for rows in tables])
    whole = Series(
        "system",
        columns,
        source.member,
        np.concatenate([rows.lines for rows in tables]) + 1,
        "vmstat",
        seconds=seconds if timed else None,
        clock=None if not timed else Clock.UTC if utc[0] else Clock.LOCAL,
        resolution=resolution,
        since_boot=marks if boot else None,
        text=text,
        starts=np.concatenate([rows.starts for rows in tables]),
        ends=np.concatenate([rows.ends for rows in tables]),
    )
    yield from _by_clock(whole, utc) if timed else (whole,)


def _by_clock(whole: Series, utc: Marks) -> Iterator[Series]:
    if utc.all() or not utc.any():
        yield whole
        return
    for keep, clock in ((utc, Clock.UTC), (~utc, Clock.LOCAL)):
        yield replace(whole.only(keep), clock=clock)


def _joined(parts: Sequence[Floats | None], sizes: Sequence[int]) -> Floats:
    """A column of several runs, NaN for those that do not have it."""
    if len(parts) == 1 and parts[0] is not None:
        return parts[0]
    return np.concatenate(
        [np.full(size, np.nan) if part is None else part for part, size in zip(parts, sizes, strict=True)]
    )


def _columns(rows: Rows, text: bytes) -> dict[str, Floats]:
    """The metrics of a run; what is odd in it is told."""
    found, odd = values(rows.run.layout, rows.columns)
    frozen = freeze(rows, found)
    places = {number for number, _ in odd} | ({0} if frozen else set())
    texts = {n: text[rows.starts[n] : rows.ends[n]].decode("utf-8", "replace") for n in places}
    noted(rows, odd, texts, frozen=frozen)
    return found


def _rows(lines: Table, runs: Sequence[Run]) -> tuple[bytes, list[Rows]]:
    """The rows of each run, and the text that they stand in: that of the lines read one by one is put behind it."""
    marks, utc = np.zeros(len(lines), np.bool_), np.zeros(len(lines), np.bool_)
    for run in runs:
        for first, end, clock in run.spans:
            marks[first:end] = True
            if clock is Clock.UTC:
                utc[first:end] = True
    own = marks[lines.rows]
    plain = lines.rows if own.all() else lines.rows[own]
    numbers = lines.numbers if own.all() else lines.numbers[:, own]
    seconds = lines.seconds if own.all() else lines.seconds[own]  # once: a part of a copy keeps all of the copy
    begins = [run.spans[0][0] if run.spans else len(lines) for run in runs]
    ends = [run.spans[-1][1] if run.spans else len(lines) for run in runs]
    text, further, found = lines.text, bytearray(), []
    for run, (first, end) in zip(runs, np.searchsorted(plain, np.array([begins, ends])).T.tolist(), strict=True):
        at, columns = plain[first:end], numbers[: run.layout.width, first:end]
        rows = Rows(run, at, columns, seconds[first:end], utc[at], lines.starts[at], lines.ends[at])
        found.append(_with_slow(rows, further, len(text)) if run.slow else rows)
    return text + bytes(further) if further else text, found


def _with_slow(rows: Rows, further: bytearray, offset: int) -> Rows:
    """The rows together with those that were read one by one."""
    slow = [(number, *row) for number, given in sorted(rows.run.slow.items()) for row in given]
    starts, ends = [], []
    for _, text, _, _ in slow:
        starts.append(offset + len(further))
        further += text.encode("utf-8", "replace")
        ends.append(offset + len(further))
    lines = np.concatenate((rows.lines, [number for number, _, _, _ in slow])).astype(np.int64)
    order = np.argsort(lines, kind="stable")

    return Rows(
        rows.run,
        lines[order],
        np.concatenate((rows.columns, np.array([row for _, _, row, _ in slow]).T), axis=1)[:, order],
        np.concatenate((rows.seconds, [when.seconds if when else np.nan for _, _, _, when in slow]))[order],
        np.concatenate((rows.utc, [bool(when and when.clock is Clock.UTC) for _, _, _, when in slow]))[order],
        np.concatenate((rows.starts, starts)).astype(np.int64)[order],
        np.concatenate((rows.ends, ends)).astype(np.int64)[order],
    )
