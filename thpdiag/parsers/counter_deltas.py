"""Tables of increments of /proc/vmstat counters that somebody made with a script or by hand, one row per interval.

     #     lat   d_pgmigrate  d_compact_scan  d_stall  (start)
     1   95.9s       825669        13303880     1242   08:51:03  <-- slow
     2    0.1s            0               0        0   08:54:35

The header names at least two counters, spelled as in the kernel or shortened, with an optional prefix `d_`, `delta_` or
`diff_` or suffix `/s`. Without such a mark the table is accepted as one of increments only if a number falls from row
to row, because a total never does. A column `lat`, `took`, `seconds` or similar is the duration of a piece of work, in
seconds unless the cell has the unit `ms`. With a duration or `/s`, the rows are converted to rates. The ratio of the
durations with and without direct compaction is testimony, because the method of measurement is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from thpdiag.model import Fact, Record, Sample
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, with_errors

NAME = "counter_deltas"
_COUNTER = re.compile(
    r"(?P<mark>(?:d|delta|diff)_|Δ)?(?P<name>compact_(?:stall|fail|success|migrate_scanned|free_scanned|isolated|scan(?:ned)?)"
    r"|pgmigrate(?:_success|_fail)?|thp_[a-z_]{4,40}|allocstall[a-z_]{0,12}|pg(?:scan|steal)_[a-z_]{4,20}|stalls?)"
    r"(?P<per>/s(?:ec)?)?"
)
_FULL_NAMES = {
    "pgmigrate": "pgmigrate_success", "compact_scan": "compact_migrate_scanned",
    "compact_scanned": "compact_migrate_scanned", "stall": "compact_stall", "stalls": "compact_stall",
}  # fmt: skip
_DURATION_TITLE = re.compile(r"(?:lat|latency|took|elapsed|seconds|secs?|duration|dur)(?:\(m?s\))?")
_DURATION = re.compile(r"(?P<number>\d{1,7}(?:\.\d{1,6})?)(?P<unit>ms|s|)")
_NUMBER = re.compile(r"\+?\d{1,18}(?:\.\d{1,3})?")
_OPENS = re.compile(r"(?=.{0,200}(?:compact_|pgmigrate))\s{0,12}\S{1,40}(?:\s{1,24}\S{1,40}){1,11}\s*$")
_ROW = re.compile(r"\s{0,12}(?:#?\d|\+\d)")
MIN_STALLS = 10  # compact_stall of a row that counts as one with direct compaction
MIN_ROWS = 2  # rows with, and rows without direct compaction that are needed for a comparison
MAX_ROWS = 100_000


class _Column(NamedTuple):
    position: int
    counter: str
    is_delta: bool
    is_rate: bool


def _columns(header: str) -> tuple[list[_Column], int | None]:
    """Return the columns of counters, and the index of the column of durations."""
    words = header.split()
    matches = [(index, match) for index, word in enumerate(words) if (match := _COUNTER.fullmatch(word))]
    if not any("compact" in match["name"] or "pgmigrate" in match["name"] for _, match in matches):
        return [], None
    columns = [
        _Column(index, _FULL_NAMES.get(match["name"], match["name"]), bool(match["mark"]), bool(match["per"]))
        for index, match in matches
    ]
    return columns, next((index for index, word in enumerate(words) if _DURATION_TITLE.fullmatch(word.lower())), None)


def _values(text: str, columns: Sequence[_Column]) -> dict[str, float] | None:
    words = text.split()
    if len(words) <= columns[-1].position or not all(_NUMBER.fullmatch(words[column.position]) for column in columns):
        return None
    return {column.counter: float(words[column.position]) for column in columns}


def _confirm(lines: list[str]) -> bool:
    columns, _ = _columns(lines[0])
    return len(columns) >= 2 and any(_ROW.match(line) and _values(line, columns) for line in lines[1:3])


class _Table(NamedTuple):
    """The columns of counters, the index of the column of durations, and the rows."""

    columns: list[_Column]
    duration_index: int | None
    rows: list[tuple[int, str, dict[str, float]]]


@with_errors(NAME)
def read(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield a sample for each row with rates, and the ratio of durations with and without direct compaction."""
    table = _Table([], None, [])
    for number, text in lines:
        if len((header := _columns(text))[0]) > 1:
            yield from _records(source, table)
            table = _Table(*header, [])
        elif table.columns and _ROW.match(text) and len(table.rows) < MAX_ROWS:
            if (values := _values(text, table.columns)) is None:
                errors.note(number, text, "a row without a number in each column of a counter")
            else:
                table.rows.append((number, text, values))
    yield from _records(source, table)


def _records(source: Source, table: _Table) -> Iterator[Record]:
    is_marked = any(column.is_delta or column.is_rate for column in table.columns)
    if not table.rows or not (is_marked or _has_decrease([values for _, _, values in table.rows])):
        return
    durations: dict[bool, list[float]] = {True: [], False: []}  # with and without direct compaction
    for number, text, values in table.rows:
        seconds = _seconds(text.split(), table.duration_index)
        if span := 1.0 if all(column.is_rate for column in table.columns) else seconds:
            rates = {f"node_vmstat_{name}:rate": value / span for name, value in values.items()}
            yield Sample("system", rates, source.cite(number, text), NAME)
        stalls = values.get("compact_stall")
        if seconds and stalls is not None and (stalls >= MIN_STALLS or stalls == 0):
            durations[stalls > 0].append(seconds)
    if min(map(len, durations.values())) >= MIN_ROWS:
        ratio = round(median(durations[True]) / median(durations[False]), 1)
        yield Fact("testimony.slower_with_stalls", ratio, source.cite(*table.rows[0][:2]), provenance="prose")


def _has_decrease(rows: Sequence[Mapping[str, float]]) -> bool:
    return any(after[name] < before[name] for before, after in pairwise(rows) for name in before)


def _seconds(words: Sequence[str], index: int | None) -> float | None:
    match = _DURATION.fullmatch(words[index]) if index is not None and index < len(words) else None
    return float(match["number"]) * (0.001 if match["unit"] == "ms" else 1.0) if match else None


PARSER = Parser(
    NAME, "table of what counters of /proc/vmstat rose by", read, opens=_OPENS, continues=_ROW.match, confirm=_confirm,
    priority=-3,
)  # fmt: skip
